//! Flat key-value stores.

use crate::kit::c_tests;

c_tests!("kv":
    values_come_back,
    large_values_come_back_and_are_one,
    missing_keys_have_no_size,
    conditions_are_checked,
    keys_are_listed_and_removed,
    handles_close_as_objects_too,
);
