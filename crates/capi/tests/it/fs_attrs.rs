//! Attributes and extended attributes.

use crate::kit::c_tests;

c_tests!("fs_attrs": attributes_are_told_and_set, modes_and_owners_are_set_by_name, access_is_what_the_mode_says, extended_attributes_are_kept, a_handle_follows_what_it_is_told);
