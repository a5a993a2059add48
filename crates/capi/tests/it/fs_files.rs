//! Opening, reading, writing.

use crate::kit::c_tests;

c_tests!("fs_files": what_is_written_is_read, several_buffers_are_one_range, ranges_are_written_and_read_together, nothing_is_read_and_written, punching_makes_holes_and_sizes, flags_of_open_mean_what_they_say, names_have_their_length, directories_and_links_are_opened_too, looking_up_tells_what_is_there, objects_tell_what_they_are);
