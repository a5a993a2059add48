//! Handles as bytes.

use crate::kit::c_tests;

c_tests!("global":
    pools_and_containers_travel,
    arrays_travel,
);
