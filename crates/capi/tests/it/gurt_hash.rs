//! The hash table of libgurt.

use crate::kit::c_tests;

c_tests!("gurt_hash": records_are_found_and_freed, ephemeral_records_leave_with_their_last_reference, tables_can_be_members, threads_share_a_table, hashes_are_numbers_of_their_keys);
