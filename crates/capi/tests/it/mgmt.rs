//! Systems, classes, clocks.

use crate::kit::c_tests;

c_tests!("mgmt":
    systems_are_described,
    pools_are_listed,
    classes_have_names,
    epochs_have_a_time,
    ranks_are_read_from_text,
);
