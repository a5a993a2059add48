//! Programs of objects under valgrind: no wrong access, nothing lost.

use crate::kit;

#[test]
fn objects_touch_no_memory_that_is_not_theirs_and_lose_none() {
    let tests = [
        ("obj", "array_values_have_extents_and_holes"),
        ("array", "records_come_back_over_chunks"),
        ("event", "many_operations_complete_on_a_queue"),
        ("event", "everything_takes_an_event"),
        ("cont", "properties_are_kept"),
        ("cont", "owners_and_access_are_changed"),
        ("snap", "marks_are_kept"),
        ("prop", "lists_are_made_and_freed"),
        ("acl", "entries_are_made_one_by_one"),
        ("acl", "entries_are_walked_found_added_and_removed"),
        ("mgmt", "systems_are_described"),
        ("pipeline", "filters_are_put_together_and_checked"),
        ("pipeline", "records_come_back_with_their_dkeys"),
        ("pipeline", "akeys_of_one_dkey_are_filtered"),
        ("pipeline", "runs_end_when_somebody_polls"),
        ("service", "containers_are_made_opened_and_ended_when_somebody_polls"),
        ("service", "what_a_container_is_said_to_be_changes_when_somebody_polls"),
    ];
    for (program, test) in tests {
        kit::run_watched(program, test);
    }
    assert_eq!(tests.len(), 17);
}
