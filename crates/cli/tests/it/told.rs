//! What a new user is told when something is not as he thinks: who, what, where, and what to do.

use crate::common::{Place, Ran};
use crate::served::Daemon;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// A user who owns nothing here.
const ANNA: u32 = 4_200_071;

fn pid_of(daemon: &Daemon) -> Pid {
    Pid::from_raw(i32::try_from(daemon.child.id()).unwrap())
}

/// Runs a command with a variable set.
fn with(place: &Place, variable: (&str, &str), args: &[&str]) -> Ran {
    let output = place.command(args).env(variable.0, variable.1).output().unwrap();
    Ran::of(&args.join(" "), output)
}

#[test]
fn settings_that_mean_nothing_are_named_with_what_they_have_to_be() {
    let place = Place::new("told-settings");
    place.pool_with_files();
    let _daemon = Daemon::start(&place, &[]);
    let pool = format!("unix:{}/p", place.path("dolmen.sock").display());
    let ran = with(&place, ("DOLMEN_TENANT", "abc"), &["cont", "list", &pool]);
    let told = "DOLMEN_TENANT is \"abc\", and has to be a number below 2^32; unset it";
    assert!(ran.code() == 2 && ran.stderr().contains(told), "{ran:?}");
    std::fs::create_dir_all(place.path("config/dolmen")).unwrap();
    std::fs::write(place.path("config/dolmen/client.toml"), "# mine\nsistem = \"x\"\n").unwrap();
    let config = place.path("config");
    let ran = with(&place, ("XDG_CONFIG_HOME", config.to_str().unwrap()), &["daos", "pool", "list"]);
    assert!(ran.code() == 2 && ran.stderr().contains("line 2 of "), "{ran:?}");
    assert!(ran.stderr().contains("is \"sistem = \\\"x\\\"\", and has to be system = "), "{ran:?}");
    // A file that is none of DAOS's, for administrators.
    std::fs::write(place.path("notes"), "buy: milk\n").unwrap();
    let line = place.fails(2, &["dmg", "-o", "notes", "pool", "list"]);
    assert!(line.contains("has neither name, hostlist nor port"), "{line}");
    let ran = with(&place, ("DOLMEN_CERTS", "/nope"), &["dmg", "-G", "tcp://127.0.0.1:1", "pool", "list"]);
    assert!(ran.code() == 3 && ran.stderr().contains("there is no directory /nope"), "{ran:?}");
    let line = place.fails(
        2,
        &["daos", "-G", &pool[..pool.len() - 2], "cont", "overwrite-acl", "p", "c", "-a", "/dev/zero"],
    );
    assert!(line.contains("longer than 1M"), "{line}");
}

#[test]
fn a_daemon_that_stands_still_is_told_with_what_lets_it_go_on() {
    let place = Place::new("told-stopped");
    place.pool_with_files();
    let daemon = Daemon::start(&place, &[]);
    let system = format!("unix:{}", place.path("dolmen.sock").display());
    kill(pid_of(&daemon), Signal::SIGSTOP).unwrap();
    let ran = place.run(&["dmg", "-G", &system, "pool", "list"]);
    let other = place.run(&["fs", "ls", &format!("{system}/p"), "c"]);
    kill(pid_of(&daemon), Signal::SIGCONT).unwrap();
    for ran in [ran, other] {
        let told = format!("process {0} is stopped (T); `kill -CONT {0}` lets it go on", daemon.child.id());
        assert!(ran.code() == 11 && ran.stderr().contains(&told), "{ran:?}");
    }
    place.ok(&["dmg", "-G", &system, "pool", "list"]);
}

#[test]
fn a_command_whose_daemon_dies_says_at_once_whom_it_waits_for_and_then_what_to_do() {
    let place = Place::new("told-dead");
    place.pool_with_files();
    let daemon = Daemon::start(&place, &[]);
    let system = format!("unix:{}", place.path("dolmen.sock").display());
    let pool = format!("{system}/p");
    let mut put = place.command(&["fs", "put", &pool, "c", "-", "/field"]);
    let put = put.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut put = put.spawn().unwrap();
    let mut input = put.stdin.take().unwrap();
    // It has stored some.
    let block = vec![7; 1 << 20];
    for _ in 0..24 {
        std::io::Write::write_all(&mut input, &block).unwrap();
    }
    drop(daemon);
    // Ignored: it may have given up.
    _ = std::io::Write::write_all(&mut input, &block);
    drop(input);
    let ran = Ran::of("put", put.wait_with_output().unwrap());
    assert_eq!(ran.code(), 11, "{ran:?}");
    let waits = format!("engine 0 of pool {pool} ({system}) has not answered for 2 s: waiting for it");
    assert_eq!(ran.stderr().matches(&waits).count(), 1, "{ran:?}");
    let remedy = format!("it was reached at {system}: `dolmen serve {}` starts it", place.path("").display());
    assert!(ran.stderr().contains(remedy.trim_end_matches("/` starts it")), "{ran:?}");
}

#[test]
fn names_that_lead_nowhere_are_told_with_where_they_were_looked_for() {
    let place = Place::new("told-names");
    place.pool_with_files();
    let line = place.fails(3, &["pool", "query", "nolabel"]);
    assert!(line.contains("no pool in . has the label or UUID nolabel"), "{line}");
    let daemon = Daemon::start(&place, &[]);
    let system = format!("unix:{}", place.path("dolmen.sock").display());
    let line = place.fails(3, &["pool", "query", &format!("{system}/none")]);
    assert!(line.contains(&format!("see `dmg -G {system} pool list`")), "{line}");
    let line = place.fails(2, &["pool", "list", &system]);
    assert!(line.contains(&format!("`dmg -G {system} pool list` lists its pools")), "{line}");
    let line = place.fails(2, &["pool", "create", &format!("{system}/made")]);
    assert!(line.contains(&format!("`dmg -G {system} pool create made` makes a pool there")), "{line}");
    let daos = |code, args: &[&str]| place.fails(code, &[&["daos", "-G", &system], args].concat());
    let line = place.fails(3, &["dmg", "-G", &system, "pool", "query", "nope"]);
    assert!(line.contains(&format!("see `dmg -G {system} pool list`")), "{line}");
    let line = daos(3, &["pool", "query", "nope"]);
    assert!(line.contains(&format!("see `daos -G {system} pool list`")), "{line}");
    let line = daos(3, &["cont", "destroy", "p", "c1"]);
    let list = format!("see `daos -G {system} cont list p`");
    assert!(line.contains("container c1 of pool p") && line.contains(&list), "{line}");
    let line = daos(2, &["cont", "set-prop", "p", "c", "foo:bar"]);
    assert!(!line.contains("dolmen cont get-prop"), "{line}");
    let line = daos(3, &["fs", "get-attr", "p", "c", "--dfs-path", "/nope"]);
    let list = format!("there is no /nope in the container; see `dolmen fs ls {system}/p c`");
    assert!(line.contains(&list), "{line}");
    let line = daos(2, &["obj", "query", "p", "c", "1.1"]);
    assert!(line.contains("1.1 is the id of no object") && line.contains("daos cont list-objects"), "{line}");
    // Both forms of what older scripts write.
    place.ok(&["daos", "-G", &system, "cont", "create", "p", "--label", "c5", "--type", "POSIX"]);
    place.ok(&["daos", "-G", &system, "fs", "chmod", "p", "c5", "0700", "--dfs-path", "/"]);
    daemon.end();
    for (address, told) in [("localhost", "it has no port"), ("127.0.0.1:99999", "\"99999\" is no port")] {
        let ran = place.run(&["serve", ".", "--insecure-tcp", "--tcp", address]);
        assert!(ran.code() == 2 && ran.stderr().contains(told), "{ran:?}");
    }
    let _daemon = Daemon::start(&place, &["--insecure-tcp", "--tcp", "localhost:0"]);
    let ran = place.run(&["pool", "create", "q", "--capacity", "-5"]);
    assert!(ran.code() == 2 && !ran.stderr().contains("-- -5"), "{ran:?}");
}

#[test]
fn another_user_is_told_what_he_may_not_do_and_who_gives_it() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("another user can be root's alone");
    }
    let root = std::env::temp_dir().join(format!("dolmen-told-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&root));
    std::fs::create_dir_all(root.join("closed")).unwrap();
    for (dir, mode) in [(&root, 0o755), (&root.join("closed"), 0o700)] {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    std::fs::copy(env!("CARGO_BIN_EXE_dolmen"), root.join("dolmen")).unwrap();
    let run = |uid: u32, args: &[&str]| {
        let mut command = std::process::Command::new(root.join("dolmen"));
        command.args(args).current_dir(&root).uid(uid).gid(uid).stdin(Stdio::null());
        command.env("HOME", &root).env_remove("XDG_CONFIG_HOME");
        Ran::of(&args.join(" "), command.output().unwrap())
    };
    for args in [
        &["pool", "create", "p", "--targets", "1", "--capacity", "64M", "--volatile"][..],
        &["cont", "create", "p", "c"],
    ] {
        let ran = run(0, args);
        assert_eq!(ran.code(), 0, "{ran:?}");
    }
    let ran = run(0, &["serve", ".", "--socket-mode", "0666", "--detach"]);
    assert_eq!(ran.code(), 0, "{ran:?}");
    let pool = format!("unix:{}/p", root.join("dolmen.sock").display());
    let listed = run(ANNA, &["fs", "ls", &pool, "c"]);
    let (closed, stopped) = (run(ANNA, &["pool", "list"]), run(ANNA, &["stop", "closed"]));
    assert_eq!(run(0, &["stop"]).code(), 0);
    std::fs::remove_dir_all(&root).unwrap();
    assert!(listed.code() == 8 && listed.stderr().contains("has no permission r on pool p"), "{listed:?}");
    let gives = format!("`dmg -G {} pool update-acl p -e", pool.trim_end_matches("/p"));
    assert!(listed.stderr().contains(&gives), "{listed:?}");
    assert!(closed.code() == 8 && closed.stderr().contains("may not look into"), "{closed:?}");
    assert!(stopped.code() == 8 && stopped.stderr().contains("may not look into"), "{stopped:?}");
}

#[test]
fn what_is_no_socket_is_not_taken_for_one() {
    let place = Place::new("told-socket");
    std::fs::write(place.path("dolmen.sock"), b"mine").unwrap();
    let line = place.fails(4, &["serve", "."]);
    assert!(line.contains("it is no socket: remove it, or name another with --socket"), "{line}");
    let line = place.fails(4, &["serve", ".", "--detach"]);
    assert!(line.contains("it is no socket"), "{line}");
    assert_eq!(std::fs::read(place.path("dolmen.sock")).unwrap(), b"mine");
}

#[test]
fn a_daemon_whose_terminal_is_gone_ends_in_order() {
    let place = Place::new("told-hangup");
    place.pool_with_files();
    let mut daemon = Daemon::start(&place, &[]);
    kill(pid_of(&daemon), Signal::SIGHUP).unwrap();
    assert!(daemon.child.wait().unwrap().success());
    assert!(!place.path("dolmen.sock").exists());
}

#[test]
fn a_daemon_whose_directory_was_renamed_leaves_no_socket() {
    let place = Place::new("told-renamed");
    std::fs::create_dir(place.path("sg")).unwrap();
    let mut daemon = Daemon::start_in(&place, "sg", &[]);
    std::fs::rename(place.path("sg"), place.path("sg2")).unwrap();
    place.ok(&["stop", "sg2"]);
    daemon.child.wait().unwrap();
    assert!(!place.path("sg2/dolmen.sock").exists());
}

#[test]
fn the_told_name_of_a_system_leads_to_it() {
    let place = Place::new("told-name");
    let data = place.path("data");
    let daos = |args: &[&str]| {
        let mut command = place.command(&[&["daos"], args].concat());
        command.env("XDG_DATA_HOME", &data).env_remove("DOLMEN_SYSTEM");
        Ran::of(&args.join(" "), command.env("XDG_CONFIG_HOME", &data).output().unwrap())
    };
    let told = daos(&["system", "query"]);
    assert_eq!(told.code(), 0, "{told:?}");
    let name = told.stdout().trim().to_owned();
    assert_eq!(name, "default");
    let again = daos(&["-G", &name, "pool", "list"]);
    assert!(again.code() == 0 && again.stdout().contains("no pools"), "{again:?}");
    place.ok(&["stop", data.join("dolmen/default").to_str().unwrap()]);
}

#[test]
fn the_store_of_a_measurement_that_was_killed_goes() {
    let place = Place::new("told-bench");
    let mut dead = std::process::Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let (left, alive) =
        (format!("dolmen-bench-{}", dead.id()), format!("dolmen-bench-{}", std::process::id()));
    // Its daemon removes it at its end, and nothing that is called otherwise.
    for (dir, is_left) in [(left.as_str(), false), ("mine", true)] {
        std::fs::create_dir(place.path(dir)).unwrap();
        let mut daemon = Daemon::start_in(&place, dir, &["--scratch", "--idle-end", "1"]);
        assert!(daemon.child.wait().unwrap().success());
        assert_eq!(place.path(dir).exists(), is_left);
    }
    // What no daemon removes, the next measurement does.
    for dir in [&left, &alive] {
        std::fs::create_dir_all(place.path(dir).join("pool")).unwrap();
    }
    let here = place.path("");
    place.ok(&[
        "bench",
        "object",
        "-n",
        "10",
        "-i",
        "1",
        "--capacity",
        "64M",
        "--dir",
        here.to_str().unwrap(),
    ]);
    assert!(!place.path(&left).exists() && place.path(&alive).exists());
    let line = place.fails(3, &["bench", "object", "--dir", place.path("none").to_str().unwrap()]);
    assert!(line.contains("there is no directory"), "{line}");
    assert!(!place.path("none").exists());
}

/// The last command between backticks in a line that a program has printed, if there is one.
fn command_in(line: &str) -> Option<&str> {
    line.rsplit('`').nth(1)
}

#[test]
fn commands_that_are_told_as_a_remedy_work_as_they_are_printed() {
    let place = Place::new("told-commands");
    std::fs::create_dir(place.path("my sys")).unwrap();
    place.pool(&["my sys/p", "--targets", "1", "--label", "p"]);
    place.ok(&["cont", "create", "my sys/p", "c"]);
    let daemon = Daemon::start_in(&place, "my sys", &[]);
    // As an installation has them.
    for name in ["dolmen", "daos", "dmg"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dolmen"), place.path(name)).unwrap();
    }
    let path = format!("{}:{}", place.path("").display(), std::env::var("PATH").unwrap());
    let socket = place.path("my sys/dolmen.sock");
    let system = format!("unix:{}", socket.display());
    let served = format!("{system}/p");
    let dmg = |args: &[&'static str]| [&["dmg", "-G", &system], args].concat();
    let daos = |args: &[&'static str]| [&["daos", "-G", &system], args].concat();
    for wrong in [
        vec!["cont", "query", "my sys/p", "none"],
        vec!["cont", "query", &served, "none"],
        vec!["cont", "destroy", "my sys/p", "none"],
        vec!["cont", "list", "my sys/none"],
        vec!["cont", "list", "my sys"],
        vec!["fs", "ls", "my sys/p", "c", "--snapshot", "none"],
        vec!["fs", "cat", "my sys/p", "c", "/"],
        vec!["cont", "snapshot", "destroy", &served, "c", "none"],
        dmg(&["pool", "query", "none"]),
        dmg(&["pool", "evict", "none"]),
        dmg(&["pool", "query-targets", "p", "--rank", "7"]),
        dmg(&["pool", "delete-acl", "p", "-p", "u:nobodyatall@"]),
        dmg(&["pool", "get-prop", "p", "none"]),
        daos(&["pool", "get-prop", "p", "none"]),
        daos(&["pool", "get-attr", "p", "none"]),
        daos(&["cont", "get-attr", "p", "c", "none"]),
        daos(&["cont", "del-attr", "p", "c", "none"]),
        daos(&["cont", "get-prop", "p", "c", "none"]),
        daos(&["cont", "delete-acl", "p", "c", "--principal", "u:nobodyatall@"]),
        daos(&["pool", "query", "none"]),
        daos(&["cont", "query", "p", "none"]),
        daos(&["cont", "destroy", "p", "none"]),
        daos(&["cont", "rollback", "p", "c", "--snap", "none"]),
        daos(&["fs", "get-attr", "p", "c", "--dfs-path", "/none"]),
    ] {
        let ran = place.run(&wrong);
        assert_ne!(ran.code(), 0, "{ran:?}");
        let said = ran.stderr();
        // Of a system with one pool that is named, and no command.
        let Some(command) = command_in(&said) else {
            assert!(said.contains("name that, 'my sys/p'"), "{said}");
            continue;
        };
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", command]).current_dir(place.path("")).env("PATH", &path);
        let output = shell.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    }
    daemon.end();
}
