//! Reads and writes of files that are under way until somebody polls, in one process and with a daemon that stands still meanwhile.

use crate::kit::c_tests;
use crate::later::assert_no_launch_waits;

c_tests!("fs_later":
    many_chunks_and_buffers_go_on_when_somebody_polls,
    holes_and_ends_take_another_look_when_somebody_polls,
    long_reads_ask_for_the_size_first,
    a_file_that_is_gone_is_told_by_its_event,
    a_file_that_is_cut_while_it_is_read_has_no_zeros,
    writes_that_look_first_go_on_when_somebody_polls,
    file_systems_are_destroyed_when_somebody_polls,
    files_are_what_a_model_says,
);

#[test]
fn no_launch_and_no_poll_waits_for_files() {
    assert_no_launch_waits("fs_later");
}
