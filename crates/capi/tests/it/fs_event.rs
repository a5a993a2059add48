//! Reads and writes with events.

use crate::kit::c_tests;
use crate::pool::assert_so_through_a_daemon;

c_tests!("fs_event": many_are_under_way, ends_and_holes_and_several_pieces_are_told, arguments_are_read_before_a_call_returns);

#[test]
fn arguments_are_read_before_a_call_at_a_daemon_returns() {
    assert_so_through_a_daemon("fs_event", "arguments_are_read_before_a_call_returns");
}
