//! The calls of programs that store their data by DAOS, in one process and through a daemon.

use crate::kit::{self, c_tests};
use crate::pool::assert_so_through_a_daemon;

c_tests!("clients":
    root_writes_and_reads_its_cages,
    mpifileutils_copies_a_container,
    fdb_archives_and_retrieves_fields,
    pydaos_keeps_dictionaries,
);

#[test]
fn clients_of_a_daemon_are_served_as_well() {
    for test in kit::names("clients") {
        assert_so_through_a_daemon("clients", &test);
    }
}
