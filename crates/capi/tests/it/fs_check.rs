//! Checks of whole file systems.

use crate::kit::c_tests;

c_tests!("fs_check": what_is_lost_is_removed_or_named, mounts_are_taken_from_this_process, containers_are_counted_and_owned);
