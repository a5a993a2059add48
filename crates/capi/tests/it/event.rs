//! Events and event queues.

use crate::kit::c_tests;
use crate::pool::assert_so_through_a_daemon;

c_tests!("event":
    many_operations_complete_on_a_queue,
    polls_have_limits,
    waits_on_an_idle_queue_leave_the_processor,
    events_without_a_queue_are_tested,
    the_error_is_the_events,
    a_parent_completes_with_its_last_child,
    callbacks_run_in_their_order,
    callbacks_cannot_wait_for_events,
    callbacks_run_while_the_library_ends,
    abort_does_nothing,
    completed_events_may_end_unseen,
    a_queue_can_be_destroyed_with_events_under_way,
    whoever_waits_hears_that_the_queue_is_gone,
    a_queue_with_children_under_way_is_busy,
    a_parent_ends_with_its_children_unless_one_is_under_way,
    threads_share_a_queue,
    any_number_of_updates_is_launched_before_the_first_poll,
    any_number_of_questions_is_launched_before_the_first_poll,
    everything_takes_an_event,
);

#[test]
fn any_number_of_questions_is_launched_at_a_daemon_before_the_first_poll() {
    assert_so_through_a_daemon("event", "any_number_of_questions_is_launched_before_the_first_poll");
}

#[test]
fn any_number_of_updates_is_launched_at_a_daemon_before_the_first_poll() {
    assert_so_through_a_daemon("event", "any_number_of_updates_is_launched_before_the_first_poll");
}

#[test]
fn whoever_waits_at_a_daemon_hears_that_the_queue_is_gone() {
    assert_so_through_a_daemon("event", "whoever_waits_hears_that_the_queue_is_gone");
}

#[test]
fn a_queue_with_children_under_way_at_a_daemon_is_busy() {
    assert_so_through_a_daemon("event", "a_queue_with_children_under_way_is_busy");
}
