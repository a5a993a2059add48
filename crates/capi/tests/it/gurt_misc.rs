//! Settings, memory, lists and messages of libgurt.

use crate::kit::c_tests;

c_tests!("gurt_misc": variables_are_read, memory_comes_and_goes, lists_have_links_inside, messages_name_errors);
