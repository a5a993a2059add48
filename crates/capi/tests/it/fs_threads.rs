//! Threads that use one mount.

use crate::kit::c_tests;

c_tests!("fs_threads": threads_share_a_mount);
