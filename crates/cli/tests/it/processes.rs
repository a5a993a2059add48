//! Programs of several processes on the C libraries as they are installed, without a daemon and without a system's name:
//! MPI ranks, forks of a program with threads, programs started by programs, Python's multiprocessing.
//!
//! Each program ends by its own alarm, and its whole group is killed when its time is over.

#[path = "../../../../xtask/src/capi/link.rs"]
mod link;

use crate::common::Place;
use dolmen_env::{Clock, RealClock};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a program may take, beyond its own alarm (100 s).
const LIMIT: Duration = Duration::from_secs(120);
/// What a daemon may take to end.
const END: Duration = Duration::from_secs(30);

/// An installation of its own for a user of his own, with a pool that nobody serves yet.
struct Site {
    place: Place,
}

impl Site {
    fn new(name: &str) -> Self {
        let place = Place::new(name);
        let built = std::env::current_exe().unwrap().with_file_name("libdolmen_capi.so");
        let capi = crates().join("capi");
        let installed = place.path("installed");
        link::install(&built, &capi, &installed, &installed).unwrap();
        fs::create_dir(place.path("installed/bin")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dolmen"), place.path("installed/bin/dolmen")).unwrap();
        fs::create_dir_all(place.path("data/dolmen/default")).unwrap();
        place.make_pool(&["data/dolmen/default/pool", "--targets", "2", "--capacity", "256M"]);
        Self { place }
    }

    fn lib(&self) -> PathBuf {
        self.place.path("installed/lib64")
    }

    /// Compiles a program against what is installed.
    fn compile(&self, compiler: &str, name: &str) -> PathBuf {
        let out = self.place.path(name);
        let mut cc = Command::new(compiler);
        cc.args(["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
        cc.arg(self.place.path("installed/include")).arg("-I").arg(crates().join("capi/tests/c"));
        cc.arg("-o").arg(&out).arg(crates().join("cli/tests/c").join(format!("{name}.c")));
        cc.arg("-L").arg(self.lib()).arg(format!("-Wl,-rpath,{}", self.lib().display())).arg("-ldaos");
        self.ends_well(&mut cc);
        out
    }

    /// Runs a command of this user to its end, for so long at most; what it printed.
    fn ends_well(&self, command: &mut Command) -> String {
        let [out, err] = ["out", "err"].map(|name| fs::File::create(self.place.path(name)).unwrap());
        command.current_dir(self.place.path("")).stdin(Stdio::null()).stdout(out).stderr(err);
        command.env_remove("DOLMEN_SYSTEM").env_remove("DOLMEN_PROGRAM").env("HOME", self.place.path(""));
        command
            .env("XDG_DATA_HOME", self.place.path("data"))
            .env("XDG_CONFIG_HOME", self.place.path("config"));
        let mut child = match command.process_group(0).spawn() {
            Ok(child) => child,
            Err(error) => panic!("{command:?}: {error}; `cargo xtask tools` installs what tests need"),
        };
        let ended = within(LIMIT, || child.try_wait().unwrap().is_some());
        // Ignored: there may be nothing left of it.
        _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
        let status = child.wait().unwrap();
        let [out, err] = ["out", "err"].map(|name| fs::read_to_string(self.place.path(name)).unwrap());
        assert!(ended, "{command:?} does not end\n{out}{err}");
        assert!(status.success(), "{command:?}: {status}\n{out}{err}");
        out
    }

    /// The process that serves the user's own system; 0 if none does.
    fn daemon(&self) -> i32 {
        let owner = fs::read(self.place.path("data/dolmen/default/.owner")).unwrap_or_default();
        let pid = String::from_utf8_lossy(&owner).trim_matches(['\0', ' ', '\n']).parse().unwrap_or(0);
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_here = String::from_utf8_lossy(&words).contains(&*self.place.path("data").to_string_lossy());
        if is_here { pid } else { 0 }
    }

    /// Claims that a daemon was started on demand, that it ends when it is told to, and leaves a sound pool.
    fn assert_served(&self) {
        let pid = self.daemon();
        assert_ne!(pid, 0, "nobody has started a daemon");
        kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
        assert!(within(END, || self.daemon() == 0), "the daemon does not end");
        let audit = self.place.ok(&["check", "data/dolmen/default/pool"]);
        assert!(audit.contains("clean"), "{audit}");
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        match self.daemon() {
            0 => {}
            // Ignored: it may have ended meanwhile.
            pid => _ = kill(Pid::from_raw(pid), Signal::SIGKILL),
        }
    }
}

fn crates() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Looks again and again whether something is so; `false` if it is not in time.
fn within(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end_ns = RealClock.monotonic_ns() + u64::try_from(limit.as_nanos()).unwrap();
    while !is_so() {
        if RealClock.monotonic_ns() >= end_ns {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    true
}

#[test]
fn ranks_of_an_mpi_job_start_one_daemon_and_share_what_one_of_them_opens() {
    let site = Site::new("processes-mpi");
    let program = site.compile("mpicc", "ranks");
    let mut job = Command::new("mpirun");
    job.args(["--oversubscribe", "--timeout", "110", "-n", "2"]).arg(program);
    // Also as root and in a container.
    job.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    job.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    let said = site.ends_well(&mut job);
    assert!(said.contains("ok 2 ranks"), "{said}");
    site.assert_served();
}

#[test]
fn a_program_whose_threads_write_forks_and_its_children_start_others() {
    let site = Site::new("processes-forked");
    let program = site.compile("cc", "forked");
    let said = site.ends_well(&mut Command::new(program));
    assert!(said.contains("ok forked"), "{said}");
    site.assert_served();
}

#[test]
fn a_program_whose_daemon_is_killed_has_the_next_one_started_and_goes_on() {
    let site = Site::new("processes-again");
    let program = site.compile("cc", "again");
    let said = site.ends_well(&mut Command::new(program));
    assert!(said.contains("ok again"), "{said}");
    println!("{said}");
    site.assert_served();
}

/// Python's way to make workers.
fn workers(method: &str) {
    let site = Site::new(&["processes-", method].concat());
    let mut python = Command::new("python3");
    // The site's own libraries, without any search.
    let words = [site.lib().join("libdaos.so.2").into_os_string(), method.into()];
    python.arg("-B").arg(crates().join("cli/tests/python/workers.py")).args(words.iter().map(OsStr::new));
    let said = site.ends_well(&mut python);
    assert!(said.contains(&["ok ", method].concat()), "{said}");
    site.assert_served();
}

#[test]
fn workers_that_python_forks_share_an_object() {
    workers("fork");
}

#[test]
fn workers_that_python_forks_from_a_server_share_an_object() {
    workers("forkserver");
}

#[test]
fn workers_that_python_starts_anew_share_an_object() {
    workers("spawn");
}
