//! Systems, classes, clocks.

use crate::kit::c_tests;
use crate::pool::assert_so_through_a_daemon;

c_tests!("mgmt":
    systems_are_described,
    a_served_system_tells_its_name_and_its_engines,
    pools_are_listed,
    classes_have_names,
    epochs_have_a_time,
    ranks_are_read_from_text,
);

#[test]
fn a_daemon_tells_its_name_and_its_engines() {
    assert_so_through_a_daemon("mgmt", "a_served_system_tells_its_name_and_its_engines");
}
