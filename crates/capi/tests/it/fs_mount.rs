//! Making, mounting, connecting.

use crate::kit::c_tests;
use crate::pool::assert_so_through_a_daemon;

c_tests!("fs_mount": chunks_of_files_have_sizes_within_limits, a_file_system_is_made_mounted_and_told, a_mount_ends_and_its_pointer_with_it, a_container_without_files_is_not_mounted, a_mount_for_reading_refuses_changes, connecting_makes_what_is_missing, a_prefix_is_no_part_of_the_file_system, hints_suggest_classes, handles_of_the_library_end_with_it, a_forked_child_has_no_handles);

#[test]
fn chunks_of_files_at_a_daemon_have_sizes_within_limits() {
    assert_so_through_a_daemon("fs_mount", "chunks_of_files_have_sizes_within_limits");
}
