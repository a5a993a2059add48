//! What is refused of files.

use crate::kit::c_tests;

c_tests!("fs_refused":
    mounts_of_no_handle_are_refused,
    nothing_is_refused_where_files_need_something,
    paths_of_no_mount_are_refused,
    paths_that_lead_nowhere_are_refused,
    variables_that_say_nothing_are_refused,
);
