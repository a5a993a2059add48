//! Handles as bytes.

use crate::kit::c_tests;

c_tests!("global":
    pools_and_containers_travel,
    a_pool_that_is_had_alone_is_shared_by_its_bytes,
    arrays_travel,
);
