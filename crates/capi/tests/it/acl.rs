//! Access control lists.

use crate::kit::c_tests;

c_tests!("acl":
    lists_are_read_and_written_as_text,
    entries_are_walked_found_added_and_removed,
    entries_are_made_one_by_one,
    principals_are_users_and_groups,
    lists_are_printed,
);
