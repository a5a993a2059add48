//! What programs written for DAOS rely on, in one process and with a daemon that stands still where nobody may ask it.

use crate::kit::c_tests;
use crate::later::assert_no_launch_waits;

c_tests!("hazards":
    keys_of_stores_have_no_nul_at_their_end,
    pools_are_found_by_label_and_uuid_of_the_system_that_nobody_names,
    syncing_files_asks_nobody,
    all_properties_of_a_container_are_asked_for_at_once_and_set_on_another,
);

#[test]
fn a_daemon_does_what_programs_of_daos_rely_on() {
    assert_no_launch_waits("hazards");
}
