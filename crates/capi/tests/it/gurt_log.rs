//! Messages and faults of libgurt.

use crate::kit::c_tests;

c_tests!("gurt_log": no_log_is_open_and_no_fault_is_made, messages_go_to_the_error_stream);
