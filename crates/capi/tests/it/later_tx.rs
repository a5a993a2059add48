//! Reads in transactions and pipelines are under way until somebody polls, in one process and with a daemon that stands still
//! meanwhile.

use crate::kit::c_tests;
use crate::later::assert_no_launch_waits;

c_tests!("later_tx":
    reads_in_transactions_go_on_when_somebody_polls,
    reads_see_what_was_written_before_they_were_called,
    arrays_are_made_and_opened_in_transactions_when_somebody_polls,
    pipelines_go_on_when_somebody_polls,
    reads_in_transactions_are_given_up_with_their_queue,
);

#[test]
fn no_launch_and_no_poll_waits_for_reads_in_transactions_and_pipelines() {
    assert_no_launch_waits("later_tx");
}
