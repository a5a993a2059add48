//! What is refused of objects, containers and lists.

use crate::kit::c_tests;

c_tests!("refused":
    objects_of_no_handle_are_refused,
    containers_of_no_handle_are_refused,
    nothing_is_refused_where_something_is_needed,
    what_is_kept_in_memory_is_checked_too,
);
