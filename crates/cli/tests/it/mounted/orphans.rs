//! Files without a name that are open in mounts which live and which die.

use super::script::Script;
use super::{Mounted, unmounted, wait_until};
use crate::served::Daemon;
use nix::sys::signal::Signal;
use std::path::Path;

/// Makes the file that it is given, removes its name, and says for each line how much it reads of it.
const PROGRAM: &str = r#"
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
os.write(fd, b"stone" * 100000)
os.unlink(sys.argv[1])
print("there", flush=True)
for line in sys.stdin:
    try:
        print(os.pread(fd, 1 << 20, 0).count(b"stone"), flush=True)
    except OSError as error:
        print(os.strerror(error.errno), flush=True)
"#;

/// A process that has a file open that has no name.
fn keeper_of(file: &Path) -> Script {
    Script::on(file, PROGRAM)
}

/// Files of the container that are open without a name, as a check through the daemon counts them.
pub(super) fn unnamed(mounted: &Mounted) -> u64 {
    let pools = mounted.place.json(&["pool", "list", "sys"]);
    let pool = pools[0]["uuid"].as_str().unwrap();
    let system = format!("unix:{}", mounted.place.path("sys/dolmen.sock").display());
    let report = mounted.place.json(&["daos", "-G", &system, "fs", "check", pool, "c"]);
    assert_eq!((report["bad_entries"].as_u64(), report["bad_links"].as_u64()), (Some(0), Some(0)));
    report["orphans"].as_u64().unwrap()
}

#[test]
fn what_a_killed_mount_had_open_is_freed_by_the_next_and_what_a_living_one_has_is_not() {
    let Some(mut mounted) = Mounted::served("orphans", &[]) else { return };
    mounted.mount("mnt2", &[]);
    let mut of_dead = keeper_of(&mounted.path("a"));
    let mut of_living = keeper_of(&mounted.place.path("mnt2").join("b"));
    assert_eq!(unnamed(&mounted), 2);
    mounted.first().signal(Signal::SIGKILL);
    mounted.first().ends();
    let said = of_dead.does("read");
    assert!(
        ["Transport endpoint is not connected", "Software caused connection abort"].contains(&&*said),
        "{said}"
    );
    of_dead.running.kill();
    unmounted(&mounted.place, "mnt");
    drop(mounted.mounts.remove(0));
    mounted.mount("mnt", &[]);
    wait_until("what the dead had open is freed", || unnamed(&mounted) == 1);
    assert_eq!(of_living.does("read"), "100000");
    of_living.running.kill();
    wait_until("what the living had open is freed at its last close", || unnamed(&mounted) == 0);
    mounted.finish();
}

#[test]
fn a_command_between_two_daemons_spares_what_a_mount_that_waits_has_open() {
    let Some(mut mounted) = Mounted::served("orphans-spared", &["--deadline", "120"]) else { return };
    let mut keeper = keeper_of(&mounted.path("a"));
    mounted.daemon.take().unwrap().end();
    let said = mounted.place.ok(&["check", "sys/p", "--repair"]);
    assert!(said.contains("clean"), "{said}");
    std::fs::write(mounted.place.path("menhir"), b"stone").unwrap();
    mounted.place.ok(&["fs", "put", "sys/p", "c", "menhir", "/menhir"]);
    mounted.daemon = Some(Daemon::start_in(&mounted.place, "sys", &[]));
    assert_eq!(keeper.does("read"), "100000");
    mounted.mount("mnt2", &[]);
    assert_eq!(
        (unnamed(&mounted), keeper.does("read").as_str()),
        (1, "100000"),
        "nor does the next mount take it"
    );
    keeper.running.kill();
    wait_until("it is freed at its last close", || unnamed(&mounted) == 0);
    mounted.finish();
}

#[test]
fn a_daemon_that_is_killed_costs_no_file_that_is_open() {
    let Some(mut mounted) = Mounted::served("orphans-daemon", &["--deadline", "120"]) else { return };
    let mut keeper = keeper_of(&mounted.path("a"));
    for _ in 0..2 {
        drop(mounted.daemon.take());
        mounted.daemon = Some(Daemon::start_in(&mounted.place, "sys", &[]));
        mounted.mount("mnt2", &[]);
        assert_eq!((unnamed(&mounted), keeper.does("read").as_str()), (1, "100000"));
        let mut other = mounted.mounts.pop().unwrap();
        unmounted(&mounted.place, "mnt2");
        other.ends();
    }
    keeper.running.kill();
    wait_until("it is freed at its last close", || unnamed(&mounted) == 0);
    mounted.finish();
}
