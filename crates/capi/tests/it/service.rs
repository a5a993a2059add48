//! Questions to pools, containers and systems are under way until somebody polls, in one process and with a daemon that stands
//! still meanwhile.

use crate::kit::c_tests;
use crate::later::assert_no_launch_waits;

c_tests!("service":
    pools_are_asked_when_somebody_polls,
    containers_are_made_opened_and_ended_when_somebody_polls,
    what_a_container_is_said_to_be_changes_when_somebody_polls,
    snapshots_are_made_listed_and_ended_when_somebody_polls,
    arrays_are_made_and_opened_when_somebody_polls,
    pools_are_connected_to_and_left_when_somebody_polls,
    questions_have_parents_callbacks_and_an_end,
    names_are_removed_although_another_removes_one_of_them,
    a_forked_child_leaves_questions_to_its_parent,
);

#[test]
fn no_question_waits_for_a_daemon_that_stands_still() {
    assert_no_launch_waits("service");
}
