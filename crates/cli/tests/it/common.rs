//! The program, a directory for it to work in, and trees of files to feed it.

use dolmen_env::{Clock, RealClock};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// An empty directory, named after the test that uses it.
pub(crate) struct Place {
    dir: PathBuf,
    /// Variables that commands have.
    variables: Vec<(String, String)>,
}

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&dir));
        fs::create_dir_all(&dir).unwrap();
        Self { dir, variables: Vec::new() }
    }

    /// Has all commands from now on have a variable.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A command line of the program, in this directory.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dolmen"));
        command.current_dir(&self.dir).args(args).stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran { args: args.join(" "), output: self.command(args).output().unwrap() }
    }

    /// Runs a command on a pool with any name, with arguments behind it.
    pub(crate) fn run_on(&self, command: &[&str], pool: &OsStr, args: &[&str]) -> Ran {
        let output = self.command(command).arg(pool).args(args).output().unwrap();
        Ran { args: format!("{} {} {}", command.join(" "), pool.display(), args.join(" ")), output }
    }

    /// Runs what must succeed; its text.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code(), 0, "{ran:?}");
        ran.stdout()
    }

    /// Runs what must succeed, with `--json`; what stands under `response`.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat());
        assert_eq!(ran.code(), 0, "{ran:?}");
        let mut answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
        assert_eq!((&answer["error"], &answer["status"]), (&Value::Null, &Value::from(0)));
        answer["response"].take()
    }

    /// Runs what must fail with `code`, as text and as JSON; the one line.
    pub(crate) fn fails(&self, code: i32, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code(), code, "{ran:?}");
        assert_eq!(ran.stdout(), "", "{ran:?}");
        let line = ran.stderr();
        assert_eq!(line.lines().count(), 1, "{ran:?}");
        let ran = self.run(&[args, &["--json"]].concat());
        let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
        assert_eq!(answer["detail"]["exit"], code, "{ran:?}");
        assert!(answer["status"].as_i64().unwrap() < 0, "{ran:?}");
        line
    }

    /// A pool `p` with two small targets and a container `c` of files.
    pub(crate) fn pool_with_files(&self) {
        self.pool(&["p", "--targets", "2"]);
        self.ok(&["cont", "create", "p", "c"]);
    }

    /// A pool of small segments.
    pub(crate) fn pool(&self, args: &[&str]) {
        self.make_pool(&[args, &["--log-segment", "1M", "--bulk-segment", "1M"]].concat());
    }

    /// A pool; where the directory is in memory, one that says so.
    pub(crate) fn make_pool(&self, args: &[&str]) {
        let args = [&["pool", "create"], args].concat();
        let ran = self.run(&args);
        if ran.code() == 8 {
            self.ok(&[&args[..], &["--volatile"]].concat());
        } else {
            assert_eq!(ran.code(), 0, "{ran:?}");
        }
    }

    /// Runs a command, with SIGKILL after so much time.
    pub(crate) fn run_for(&self, args: &[&str], limit: Duration) -> Ran {
        let [out, err] = ["stdout", "stderr"].map(|name| fs::File::create(self.path(name)).unwrap());
        let mut child = self.command(args).stdout(out).stderr(err).spawn().unwrap();
        let end_ns = u128::from(RealClock.monotonic_ns()) + limit.as_nanos();
        while child.try_wait().unwrap().is_none() && u128::from(RealClock.monotonic_ns()) < end_ns {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        // It may have ended meanwhile.
        drop(child.kill());
        let status = child.wait().unwrap();
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| fs::read(self.path(name)).unwrap());
        Ran { args: args.join(" "), output: Output { status, stdout, stderr } }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.dir));
    }
}

/// What a command left behind.
pub(crate) struct Ran {
    pub(crate) args: String,
    pub(crate) output: Output,
}

impl Ran {
    pub(crate) fn of(args: &str, output: Output) -> Self {
        Self { args: args.to_owned(), output }
    }

    pub(crate) fn code(&self) -> i32 {
        self.output.status.code().unwrap_or(-1)
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

impl core::fmt::Debug for Ran {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "dolmen {}: {}\n{}{}", self.args, self.output.status, self.stdout(), self.stderr())
    }
}

/// How much of something a run is to do, unless a variable says otherwise.
pub(crate) fn amount(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect("a soak run sets a number"))
}

/// The same command, which hears signals that whoever runs the tests may ignore, as nohup does.
pub(crate) fn hearing(command: &Command) -> Command {
    let mut heard = Command::new("env");
    heard.arg("--default-signal=INT,TERM,HUP").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => heard.env(name, value),
            None => heard.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        heard.current_dir(dir);
    }
    heard
}

/// Bytes that differ from place to place and from file to file.
pub(crate) fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}

/// A tree with everything that is kept: sizes from nothing to some MiB, a sparse file, links, modes.
pub(crate) fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    for n in 0..30 {
        fs::write(root.join(format!("sub/f{n}")), bytes(n * 700, n as u64)).unwrap();
    }
    fs::write(root.join("large"), bytes(3_000_001, 99)).unwrap();
    fs::write(root.join("sub/deep/name with space\nand line"), b"odd").unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.write_all_at(b"in the middle", 3 << 20).unwrap();
    sparse.set_len(5 << 20).unwrap();
    fs::hard_link(root.join("sub/f7"), root.join("same-as-f7")).unwrap();
    std::os::unix::fs::symlink("sub/f1", root.join("link")).unwrap();
    fs::set_permissions(root.join("sub/f3"), fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(root.join("empty"), fs::Permissions::from_mode(0o711)).unwrap();
}
