//! One-dimensional arrays.

use crate::kit::c_tests;

c_tests!("array":
    records_come_back_over_chunks,
    the_size_is_that_of_the_last_record,
    sizes_are_kept_in_the_array,
    programs_may_keep_the_sizes,
    punched_ranges_read_as_zeros,
    ranges_as_long_as_numbers_go_are_punched,
    wrong_requests_are_refused,
);
