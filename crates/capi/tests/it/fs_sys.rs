//! Files by paths.

use crate::kit::c_tests;

c_tests!("fs_sys": files_are_written_and_read_by_paths, links_are_followed_unless_not, attributes_are_set_by_paths, directories_are_read_name_by_name, entries_are_removed_by_paths, kept_directories_are_looked_for_again, paths_follow_what_other_calls_move, mounts_by_paths_travel);
