//! Snapshots and object id tables.

use crate::kit::c_tests;

c_tests!("snap":
    snapshots_keep_the_past,
    rollback_returns_to_a_snapshot,
    snapshots_have_names_and_are_listed,
    tables_list_the_objects_of_a_snapshot,
    marks_are_kept,
);
