//! Programs of files under valgrind: no wrong access, nothing lost.

use crate::kit;

#[test]
fn files_touch_no_memory_that_is_not_theirs_and_lose_none() {
    let tests = [
        ("fs_files", "what_is_written_is_read"),
        ("fs_attrs", "extended_attributes_are_kept"),
        ("fs_names", "a_filter_lets_through_what_it_says"),
        ("fs_sys", "directories_are_read_name_by_name"),
        ("fs_event", "ends_and_holes_and_several_pieces_are_told"),
        ("fs_uns", "paths_are_made_resolved_and_destroyed"),
        ("gurt_hash", "records_are_found_and_freed"),
        ("gurt_misc", "memory_comes_and_goes"),
    ];
    for (program, test) in tests {
        kit::run_watched(program, test);
    }
    assert_eq!(tests.len(), 8);
}
