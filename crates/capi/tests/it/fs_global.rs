//! Handles that travel to other processes. In process, the pool is open once, so they travel within one.

use crate::kit::c_tests;

c_tests!("fs_global": mounts_and_files_travel, files_travel_whatever_becomes_of_their_names, connections_travel);
