//! Reads and writes with events.

use crate::kit::c_tests;

c_tests!("fs_event": many_are_under_way, ends_and_holes_and_several_pieces_are_told);
