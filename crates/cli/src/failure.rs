//! Why a command failed: one line that says what, on which object, and what to do; and the exit code.

use crate::path::shown_outside;
use core::fmt;
use dolmen_types::{Error as StoreError, Invalid, Place};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Exit codes. Documented in `--help`; scripts rely on them: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Done, and something is wrong: differences, damage, broken rules.
    Found = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Something named does not exist.
    Missing = 3,
    /// Something named exists already, or is not empty.
    Taken = 4,
    /// Another process or client uses it.
    InUse = 5,
    /// No space left.
    Full = 6,
    /// Stored bytes are damaged.
    Damaged = 7,
    /// Not allowed, or read-only.
    Refused = 8,
    /// The device or file system failed.
    Device = 9,
    /// Anything else.
    Other = 10,
    /// Nobody is there to be asked: no daemon serves the system.
    Nobody = 11,
    /// Ended by SIGHUP; what a shell makes of it.
    HungUp = 129,
    /// Ended by SIGINT.
    Interrupted = 130,
    /// Ended by SIGTERM.
    Terminated = 143,
}

impl Exit {
    /// The number for the shell.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// Why another command of this program failed, by its number.
    pub(crate) fn from_number(number: i32) -> Option<Self> {
        let all = [
            Self::Usage,
            Self::Missing,
            Self::Taken,
            Self::InUse,
            Self::Full,
            Self::Damaged,
            Self::Refused,
            Self::Device,
            Self::Nobody,
        ];
        all.into_iter().find(|exit| i32::from(exit.number()) == number)
    }

    /// Whether a signal has ended the command.
    pub(crate) fn is_signal(self) -> bool {
        matches!(self, Self::HungUp | Self::Interrupted | Self::Terminated)
    }
}

/// Why a command failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// What could not be done, with its object; set by whoever knows both.
    doing: Option<String>,
    why: String,
    /// What to do about it.
    hint: Option<String>,
    /// DAOS's number, negative, where there is one.
    der: Option<i32>,
    /// The system's number, where there is one.
    errno: Option<i32>,
    /// What is damaged, or full.
    place: Option<Box<Value>>,
    /// The file or directory that it is about, inside or outside, where it is one of several.
    path: Option<Box<[u8]>>,
}

/// The result of a part of a command.
pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, why: impl Into<String>) -> Self {
        Self {
            exit,
            doing: None,
            why: why.into(),
            hint: None,
            der: None,
            errno: None,
            place: None,
            path: None,
        }
    }

    /// A verb of DAOS that means nothing here, with what there is instead.
    //= daos:src/include/daos_errno.h DER_NOSYS
    pub(crate) fn absent(what: &str, instead: &str) -> Self {
        let failure = Self::new(Exit::Other, format!("{what} is not available"));
        Self { der: Some(-1010), ..failure }.hint(instead)
    }

    /// A certificate that is missing, or wrong; the error says what to do.
    //= daos:src/include/daos_errno.h DER_NO_CERT DER_BAD_CERT
    pub(crate) fn of_certificate(der: i32, error: &dolmen_net::Error) -> Self {
        Self { der: Some(der), ..Self::new(Exit::Refused, error.to_string()) }
    }

    /// Adds what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says which file or directory it is about, unless it does so already.
    pub(crate) fn about(mut self, path: &[u8]) -> Self {
        self.path.get_or_insert_with(|| path.into());
        self
    }

    /// Adds to what is wrong.
    pub(crate) fn adding(mut self, more: &str) -> Self {
        self.why.push_str(more);
        self
    }

    /// The same, with another reason in words.
    pub(crate) fn because(self, why: impl Into<String>) -> Self {
        Self { why: why.into(), ..self }
    }

    /// Why a pool or container was not destroyed; one that is open, with whom to ask and what takes it from them.
    pub(crate) fn of_destroy(error: StoreError, force: bool) -> Self {
        let is_open = error == StoreError::Busy && !force;
        let failure = Self::from(error);
        match is_open {
            true => failure.because("somebody has it open").hint(WHEN_OPEN),
            false => failure,
        }
    }

    /// The same, in the words of whoever finds the file in `dir`, a pool's directory, that keeps it from being opened.
    pub(crate) fn by_file_in(self, dir: &Path) -> Self {
        let of_store = matches!(self.exit, Exit::Damaged | Exit::Device) && self.der.is_some();
        let found = if of_store { crate::inspect::findings(dir) } else { Vec::new() };
        match found.into_iter().next() {
            Some(why) => self
                .because(why)
                .hint("put it back, or restore the whole pool from one copy; `dolmen inspect` shows more"),
            None => self,
        }
    }

    /// Whether a list of who may do what has refused it.
    pub(crate) fn is_of_lists(&self) -> bool {
        self.exit == Exit::Refused && self.der == Some(StoreError::NoPermission.der())
    }

    /// The same, and nothing is said yet of what to do.
    pub(crate) fn is_for_want_of_permission(&self) -> bool {
        self.is_of_lists() && self.hint.is_none()
    }

    /// The target that is full, if that is what is wrong.
    pub(crate) fn full_target(&self) -> Option<u64> {
        if self.exit == Exit::Full { self.place.as_ref()?.get("target")?.as_u64() } else { None }
    }

    /// An error of the system on a file outside the store.
    pub(crate) fn on_file(path: &Path, error: &std::io::Error) -> Self {
        let errno = error.raw_os_error();
        let too_long = errno == Some(dolmen_dfs::errno::ENAMETOOLONG);
        let system = match errno {
            Some(dolmen_dfs::errno::EMFILE) => too_many_files(),
            _ if too_long => dolmen_dfs::Error::NameTooLong.to_string(),
            Some(number) => system_text(number),
            None => error.kind().to_string(),
        };
        let mut failure =
            Self::new(exit_of_errno(errno.unwrap_or(0)), format!("{}: {system}", shown_outside(path)));
        failure.errno = errno;
        let failure = failure.about(path.as_os_str().as_bytes());
        match errno {
            Some(dolmen_dfs::errno::EMFILE) => failure.hint(WHEN_FILES),
            Some(dolmen_dfs::errno::ENAMETOOLONG) => failure.hint(WHEN_DEEP),
            _ => failure,
        }
    }

    /// As JSON, in the frame that every answer has.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "response": null,
            "error": self.to_string(),
            "status": self.status(),
            "detail": self.detail(),
        })
    }

    /// What another process of this program has told with `to_json`.
    pub(crate) fn from_json(told: &Value) -> Option<Self> {
        let detail = &told["detail"];
        let text = |key: &str| detail[key].as_str().map(str::to_owned);
        let number = |key: &str| detail[key].as_i64().and_then(|number| i32::try_from(number).ok());
        let exit = number("exit").and_then(Exit::from_number).unwrap_or(Exit::Other);
        let failure = Self::new(exit, text("why")?);
        let (doing, hint) = (text("doing"), text("hint"));
        Some(Self { doing, hint, der: number("der"), errno: number("errno"), ..failure })
    }

    /// The number of the error; one that goes with the exit code where the store gave none.
    fn status(&self) -> i32 {
        self.der.unwrap_or_else(|| der_of_exit(self.exit))
    }

    /// Its parts, for programs.
    pub(crate) fn detail(&self) -> Value {
        let mut detail = json!({
            "exit": self.exit.number(),
            "doing": self.doing,
            "why": self.why,
            "hint": self.hint,
            "der": self.status(),
            "errno": self.errno,
            "place": self.place,
        });
        if let Some(path) = &self.path {
            crate::path::say(&mut detail, "path", path);
        }
        detail
    }
}

/// The exit code of what was done but for these: whether anything is damaged says more than how many they are.
pub(crate) fn exit_of(failures: &[Failure]) -> Exit {
    match failures {
        [] => Exit::Done,
        some if some.iter().any(|failure| failure.exit == Exit::Damaged) => Exit::Damaged,
        _ => Exit::Found,
    }
}

/// The line for one of several that failed.
pub(crate) fn failed_line(failure: &Failure) -> String {
    format!("FAILED {failure}\n")
}

/// The text of a system error by its number.
pub(crate) fn system_text(errno: i32) -> String {
    rustix_text(&std::io::Error::from_raw_os_error(errno))
}

/// The text of a system error without its number.
fn rustix_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

impl fmt::Display for Failure {
    /// One line, whatever the names in it are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(doing) = &self.doing {
            write!(f, "cannot {}: ", one_line(doing))?;
        }
        f.write_str(&one_line(&self.why))?;
        match &self.hint {
            Some(hint) => write!(f, "; {}", one_line(hint)),
            None => Ok(()),
        }
    }
}

/// A text in which names may have controls of a terminal, with these written out.
fn one_line(text: &str) -> Cow<'_, str> {
    if text.chars().any(char::is_control) {
        Cow::Owned(dolmen_types::shown(text.as_bytes()))
    } else {
        text.into()
    }
}

/// The number that `status` has where no store error gave one.
//= daos:src/include/daos_errno.h DER_*
pub(crate) fn der_of_exit(exit: Exit) -> i32 {
    -match exit {
        Exit::Done | Exit::Found | Exit::Other => 1025,
        Exit::Usage => 1003,
        Exit::Missing => 1005,
        Exit::Taken => 1004,
        Exit::InUse => 1012,
        Exit::Full => 1007,
        Exit::Damaged => 2021,
        Exit::Refused => 1001,
        Exit::Device => 2001,
        Exit::Nobody => 1006,
        Exit::HungUp | Exit::Interrupted | Exit::Terminated => 1018,
    }
}

// One implementor: a method of results keeps the path of success readable from left to right.
/// Says what could not be done.
pub(crate) trait Doing<T> {
    /// `doing` completes "cannot …".
    fn doing(self, doing: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T, E: Into<Failure>> Doing<T> for Result<T, E> {
    fn doing(self, doing: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| {
            let mut failure: Failure = error.into();
            failure.doing.get_or_insert_with(doing);
            failure
        })
    }
}

//= daos:src/include/daos_errno.h errno(3) numbers behind the exit codes
fn exit_of_errno(errno: i32) -> Exit {
    use dolmen_dfs::errno;
    match errno {
        errno::ENOENT => Exit::Missing,
        errno::EISDIR | errno::ENOTDIR | errno::ENAMETOOLONG => Exit::Usage,
        errno::EEXIST | errno::ENOTEMPTY => Exit::Taken,
        errno::EBUSY => Exit::InUse,
        errno::ENOSPC | errno::EDQUOT | errno::EFBIG => Exit::Full,
        errno::EPERM | errno::EACCES | errno::EROFS => Exit::Refused,
        errno::EIO | errno::ENXIO => Exit::Device,
        _ => Exit::Other,
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let (exit, hint) = match &error {
            StoreError::NotFound | StoreError::NoContainer => (Exit::Missing, None),
            StoreError::Exists => (Exit::Taken, Some("choose another name, or remove the old one first")),
            StoreError::NotEmpty => {
                (Exit::Taken, Some("empty it first, or say so with the command's option"))
            }
            StoreError::Busy | StoreError::InDoubt { .. } | StoreError::TxRestart { .. } => {
                (Exit::InUse, Some("run the command again"))
            }
            StoreError::NoSpace { .. } => (Exit::Full, Some(WHEN_FULL)),
            StoreError::QuotaLimit => (Exit::Full, Some(WHEN_LIMITED)),
            StoreError::Corrupt { .. } => {
                (Exit::Damaged, Some("`dolmen check --scrub` and `dolmen inspect` show more"))
            }
            StoreError::NoPermission => (Exit::Refused, None),
            // What to do is part of it.
            StoreError::Unreachable { .. } => (Exit::Nobody, None),
            StoreError::ReadOnly { .. } => (Exit::Device, None),
            StoreError::Io { errno, .. } => {
                let hint = match *errno {
                    dolmen_dfs::errno::EIO => Some(WHEN_UNREADABLE),
                    dolmen_dfs::errno::EMFILE => Some(WHEN_FILES),
                    _ if is_moved(&error) => Some(WHEN_MOVED),
                    _ => None,
                };
                let exit = match exit_of_errno(*errno) {
                    Exit::Refused => Exit::Refused,
                    _ if *errno == dolmen_dfs::errno::EMFILE => Exit::Other,
                    _ => Exit::Device,
                };
                (exit, hint)
            }
            StoreError::EpochGone { .. } => (Exit::Missing, Some("read at a snapshot that still exists")),
            StoreError::Invalid(Invalid::Layout) => (Exit::Other, None),
            StoreError::Invalid(what) => (Exit::Usage, hint_of_invalid(*what)),
            _ => (Exit::Other, None),
        };
        let der = Some(error.der());
        let place = match &error {
            StoreError::Corrupt { target, place } => {
                let mut fields = crate::output::place_json(place);
                fields["target"] = json!(target.0);
                Some(Box::new(fields))
            }
            StoreError::NoSpace { target, .. } => Some(Box::new(json!({ "target": target.0 }))),
            _ => None,
        };
        let why = match &error {
            // What to do is another thing for who has a shell than for who calls the store.
            StoreError::NoSpace { target, needed_bytes } => {
                let needed = crate::size::exact(*needed_bytes);
                format!("target {} is full: {needed} more needed at once", target.0)
            }
            StoreError::Io { errno: dolmen_dfs::errno::EMFILE, .. } => too_many_files(),
            error if is_moved(error) => "its directory was moved since its daemon was started".to_owned(),
            StoreError::Corrupt { target, place } => {
                format!("damaged data on target {}: {}", target.0, crate::output::place_text(place))
            }
            error => error.to_string(),
        };
        let is_silent = matches!(error, StoreError::Unreachable { .. });
        let hint = hint.map(str::to_owned).or_else(|| is_silent.then(crate::reached::remedy).flatten());
        Self { exit, doing: None, why, hint, der, errno: None, place, path: None }
    }
}

/// What to name in place of a directory that is no pool.
pub(crate) fn which_pool(dir: &Path) -> String {
    // What cannot be listed has none to be named.
    let pools = |dir: &Path| dolmen_local::list(dir).unwrap_or_else(|_unlisted| Vec::new());
    let word = crate::path::word;
    match &pools(dir)[..] {
        [] => {}
        [only] => return format!("it holds one: name that, {}", word(&dir.join(&only.name))),
        [first, ..] => {
            let (first, dir) = (word(&dir.join(&first.name)), word(dir));
            return format!(
                "it holds several: name one, such as {first}; `dolmen pool list {dir}` lists them"
            );
        }
    }
    match dir.parent().filter(|above| !pools(above_or_here(above)).is_empty()).map(above_or_here) {
        Some(above) => {
            format!("make one with `dolmen pool create`, or see `dolmen pool list {}`", word(above))
        }
        None => "make one with `dolmen pool create`".to_owned(),
    }
}

fn above_or_here(above: &Path) -> &Path {
    if above.as_os_str().is_empty() { Path::new(".") } else { above }
}

/// What to do at a limit.
const WHEN_LIMITED: &str =
    "remove something, or have the limit raised; `dolmen cont quota POOL CONT` shows who uses what";

/// Whether a daemon says that its directory is not where it was: no target is meant by that.
fn is_moved(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { errno: dolmen_dfs::errno::ESTALE, .. }) && crate::reached::is_daemon()
}

/// What to do about a system whose directory was moved under its daemon.
const WHEN_MOVED: &str = "end that (`dolmen stop SYSTEM`, with the directory where it is now), and start one there as that one was \
                          started (`dolmen serve SYSTEM`)";

/// What to do about those who have open what is to be destroyed.
const WHEN_OPEN: &str = "ask whoever uses it to end, or add --force, which takes it from them";

/// What shortens a path outside.
const WHEN_DEEP: &str = "go into a directory on the way (`cd`), and name it from there";

/// What to look at when the device gives no data.
const WHEN_UNREADABLE: &str =
    "look into the system's log; `dolmen inspect` names files of the pool that are missing or short";

/// What lets a process have more files.
const WHEN_FILES: &str = "raise that with `ulimit -n`, or close what has them";

/// Why no more files are opened. Never the device's fault.
fn too_many_files() -> String {
    match rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        Some(limit) => format!("too many open files: this process may have {limit}"),
        None => "too many open files".to_owned(),
    }
}

/// What gives space back, from a shell.
const WHEN_FULL: &str = "remove files (`dolmen fs rm`) or a snapshot (`dolmen cont snapshot destroy`); \
                         `dolmen cont aggregate POOL CONT` gives back what nobody sees any more";

fn hint_of_invalid(what: Invalid) -> Option<&'static str> {
    let is_compat = crate::compat::called().is_some();
    match what {
        Invalid::Label => Some("a label has 1 to 127 of the characters A-Z a-z 0-9 . _ : -"),
        Invalid::Property if is_compat => Some("`daos cont get-prop POOL CONT` shows those that there are"),
        Invalid::Property => Some("`dolmen cont get-prop POOL CONT` shows those that there are"),
        Invalid::ObjectId => Some(
            "give it as `dolmen obj list POOL CONT` prints it; classes with more than one copy are not available yet",
        ),
        Invalid::Epoch => Some("give an epoch in the past, as `snapshot list` prints it"),
        _ => None,
    }
}

impl From<dolmen_local::Error> for Failure {
    fn from(error: dolmen_local::Error) -> Self {
        use dolmen_local::{Error, RecordFault};
        let why = error.to_string();
        match error {
            Error::Device(error) => error.into(),
            Error::Store(error) => error.into(),
            Error::Record { fault: RecordFault::Missing, ref dir } => {
                Self::new(Exit::Missing, why).hint(which_pool(dir))
            }
            Error::Record { fault: RecordFault::TooNew { .. }, .. } => Self::new(Exit::Other, why),
            Error::Record { fault: RecordFault::Foreign, .. } => Self::new(Exit::Damaged, why)
                .hint("put back the directory for bulk data that belongs to this pool"),
            Error::Record { .. } => {
                Self::new(Exit::Damaged, why).hint("or remove the pool with `dolmen pool destroy --force`")
            }
            Error::MissingTarget { .. } | Error::ForeignTarget { .. } | Error::OtherLife { .. } => {
                Self::new(Exit::Damaged, why)
            }
            Error::OtherPlace { ref place, .. } => {
                let place = shown_outside(place);
                Self::new(Exit::Refused, why).hint(format!(
                    "use that one; or remove its directory {place} without `dolmen`, or rename it, and this one has the bulk data"
                ))
            }
            Error::UuidTaken { .. } => Self::new(Exit::Taken, why).hint("choose another UUID, or none"),
            Error::IsPool { .. } => Self::new(Exit::Taken, why)
                .hint("choose another directory, or remove that pool with `dolmen pool destroy`"),
            Error::NoParent { .. } => Self::new(Exit::Missing, why).hint("make it first"),
            Error::NoDirectory { ref path } => {
                let exit = if path.exists() { Exit::Taken } else { Exit::Refused };
                Self::new(exit, why).hint("choose another directory")
            }
            Error::NoRoom { .. } => {
                Self::new(Exit::Full, why).hint("take fewer --targets, or a smaller --log-segment")
            }
            Error::TooLarge { capacity_bytes, device_bytes } => {
                let [wanted, there] = [capacity_bytes, device_bytes].map(crate::size::short);
                let why = format!("it is to have {wanted}, and its devices have {there}");
                Self::from(StoreError::NoSpace {
                    target: dolmen_types::TargetNo(0),
                    needed_bytes: capacity_bytes,
                })
                .because(why)
                .hint("choose a smaller --capacity, or none: it then may use what the device has")
            }
            Error::LabelTaken { .. } => Self::new(Exit::Taken, why).hint("choose another label"),
            Error::OwnBulk { .. } => Self::new(Exit::Usage, why)
                .hint("leave out --bulk-dir, or name a directory on another device"),
            Error::Spread { .. } => Self::new(Exit::Refused, why)
                .hint("start them with `dolmen serve --system`, and name one of them"),
            Error::Inside { .. } => Self::new(Exit::Refused, why).hint("choose a directory outside"),
            Error::Foreign { .. } => Self::new(Exit::Taken, why).hint("move it elsewhere first"),
            Error::Volatile { .. } => Self::new(Exit::Refused, why).hint("add --volatile"),
            Error::Option { name, value, low, high } => {
                Self::new(Exit::Usage, outside(name, value, low, high))
            }
            Error::Panicked { .. } => {
                Self::new(Exit::Other, why).hint("please report it, with what `dolmen inspect` prints")
            }
        }
    }
}

/// Why a pool cannot be opened; what its own user alone may read is told with the directory.
pub(crate) fn of_open(pool: &Path, to_read: bool, error: dolmen_local::Error) -> Failure {
    match error {
        dolmen_local::Error::Device(dolmen_env::Error::Io { op: dolmen_env::Op::Lock, errno, .. })
            if to_read && exit_of_errno(errno.raw_os_error()) == Exit::Refused =>
        {
            let number = errno.raw_os_error();
            let why =
                format!("the pool in {} may not be opened: {}", shown_outside(pool), system_text(number));
            Failure { errno: Some(number), ..Failure::new(Exit::Refused, why) }
                .hint("run it as the owner of that directory")
        }
        // `check` opens it, too.
        dolmen_local::Error::Store(error @ StoreError::Corrupt { .. }) if matches!(&error, StoreError::Corrupt { place, .. } if matches!(**place, Place::Record { .. })) => {
            Failure::from(error).hint("`dolmen inspect` shows more")
        }
        dolmen_local::Error::Store(StoreError::Io { target, errno })
            if exit_of_errno(errno) == Exit::Refused =>
        {
            let cause = system_text(errno);
            let (pool, target) = (shown_outside(pool), target.0);
            let why = format!("files of target {target} of the pool in {pool} may not be used: {cause}");
            Failure { errno: Some(errno), ..Failure::new(Exit::Refused, why) }.hint(who_may(errno))
        }
        error => error.into(),
    }
}

/// What lets a command write that may not.
fn who_may(errno: i32) -> &'static str {
    if errno == dolmen_dfs::errno::EROFS {
        "mount its file system to be written, or go to another one"
    } else {
        "run it as the owner of that directory"
    }
}

/// An option outside its range, by the flag that it has here.
fn outside(name: &str, value: u64, low: u64, high: u64) -> String {
    let (flag, of) = match name {
        "capacity_bytes" => ("--capacity", " (four log segments for each target)"),
        "log_segment_bytes" => ("--log-segment", ""),
        "bulk_segment_bytes" => ("--bulk-segment", ""),
        "small_value_bytes_max" => ("--small-values", " (a quarter of a log segment)"),
        "memory_budget_bytes" => ("--memory", ""),
        other => return format!("{other} is {value}, and has to be from {low} to {high}"),
    };
    let size = crate::size::exact;
    if high == u64::MAX {
        format!("{flag} is {}, and has to be at least {}{of}", size(value), size(low))
    } else {
        format!("{flag} is {}, and has to be from {} to {}{of}", size(value), size(low), size(high))
    }
}

impl From<dolmen_env::Error> for Failure {
    fn from(error: dolmen_env::Error) -> Self {
        use dolmen_env::{Error, Op};
        let why = error.to_string();
        match error {
            Error::NotFound { .. } => Self::new(Exit::Missing, why),
            Error::Exists { .. } => {
                Self::new(Exit::Taken, why).hint("choose another directory, or empty this one")
            }
            Error::Owned { pid } => {
                let known = (pid != 0).then(|| Box::new(json!({ "pid": pid })));
                let failure = Self { place: known, ..Self::new(Exit::InUse, why) };
                match crate::mount::shown_by(pid) {
                    Some(dir) => {
                        let dir = crate::path::word(&dir);
                        failure.hint(format!("it shows the files in {dir}: `dolmen unmount {dir}` ends it"))
                    }
                    None => failure.hint("or wait for it with --wait SECONDS"),
                }
            }
            Error::Busy { .. } => Self::new(Exit::InUse, why),
            Error::Setting { .. } => Self::new(Exit::Usage, why),
            Error::NoSpace { .. } => Self::new(Exit::Full, why).hint("free some space on its file system"),
            Error::Io { op: Op::Lock, ref name, errno, .. }
                if exit_of_errno(errno.raw_os_error()) == Exit::Refused =>
            {
                let number = errno.raw_os_error();
                let cause = rustix_text(&std::io::Error::from_raw_os_error(number));
                let pool = Path::new(name).parent().unwrap_or(Path::new(name));
                let why = format!("the pool in {} may not be written: {cause}", shown_outside(pool));
                Self { errno: Some(number), ..Self::new(Exit::Refused, why) }
                    .hint(format!("{}; what only reads is in docs/operating.md", who_may(number)))
            }
            Error::Io { op, ref name, errno, .. } if exit_of_errno(errno.raw_os_error()) == Exit::Refused => {
                let (number, path) = (errno.raw_os_error(), Path::new(name));
                let why = format!("{}: {op}: {}", shown_outside(path), system_text(number));
                let hint = match (op, path.parent()) {
                    _ if number == dolmen_dfs::errno::EROFS => who_may(number).to_owned(),
                    (Op::Create, Some(above)) => {
                        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
                        format!(
                            "run it as a user who may write in {}, or choose another directory",
                            shown_outside(above)
                        )
                    }
                    _ => "run it as the owner of that file or directory".to_owned(),
                };
                Self { errno: Some(number), ..Self::new(Exit::Refused, why) }.hint(hint)
            }
            Error::Io { errno, ref name, .. }
                if [dolmen_dfs::errno::EMFILE, dolmen_dfs::errno::ENAMETOOLONG]
                    .contains(&errno.raw_os_error()) =>
            {
                Self::on_file(Path::new(name), &std::io::Error::from_raw_os_error(errno.raw_os_error()))
            }
            Error::Io { errno, .. } => {
                let number = errno.raw_os_error();
                Self { errno: Some(number), ..Self::new(exit_of_errno(number), why) }
            }
            _ => Self::new(Exit::Other, why),
        }
    }
}

/// What mends a file, and what a damaged directory.
const MEND: &str = "put a good copy with `fs put --no-resume`, of a directory after `fs rm -r`, and free the damaged \
                    version with `dolmen cont aggregate`; `dolmen check --scrub` shows more";

impl From<dolmen_dfs::Error> for Failure {
    fn from(error: dolmen_dfs::Error) -> Self {
        use dolmen_dfs::Error;
        let errno = error.errno();
        match error {
            Error::Store(error) => {
                let failure = Self { errno: Some(errno), ..(*error).into() };
                match failure.exit {
                    Exit::Damaged => failure.hint(MEND),
                    _ => failure,
                }
            }
            Error::Canceled => Self { errno: Some(errno), ..crate::interrupt::failure() },
            Error::InTree { path, source } => {
                let failure = Self::from(*source);
                let failure = Self { why: format!("{}: {}", shown_outside(&path), failure.why), ..failure };
                failure.about(path.as_os_str().as_bytes())
            }
            Error::Local { path, errno } => Self::on_file(&path, &std::io::Error::from_raw_os_error(errno)),
            Error::BadRecord { .. } => {
                Self { errno: Some(errno), ..Self::new(Exit::Damaged, error.to_string()) }.hint(MEND)
            }
            Error::Superblock(_) => {
                Self { errno: Some(errno), ..Self::new(Exit::Damaged, error.to_string()) }
            }
            Error::NotFormatted => Self::new(Exit::Missing, "the container holds no file system")
                .hint("make containers for files with `dolmen cont create --type posix`"),
            Error::Special { .. } => {
                Self { errno: Some(errno), ..Self::new(Exit::Refused, error.to_string()) }
            }
            Error::Changed { ref path } => {
                let failure = Self { errno: Some(errno), ..Self::new(Exit::InUse, error.to_string()) };
                failure.about(path.as_os_str().as_bytes()).hint("put it again when nobody writes it")
            }
            Error::OtherKind { .. } => {
                Self { errno: Some(errno), ..Self::new(Exit::Taken, error.to_string()) }
            }
            error @ (Error::NameTooLong | Error::SymlinkLoop | Error::Invalid(_)) => {
                Self { errno: Some(errno), ..Self::new(Exit::Usage, error.to_string()) }
            }
            error => Self { errno: Some(errno), ..Self::new(exit_of_errno(errno), error.to_string()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_types::TargetNo;

    #[test]
    fn a_failure_is_one_line_with_object_cause_and_remedy() {
        let full = StoreError::NoSpace { target: TargetNo(2), needed_bytes: 4096 };
        let failure = Err::<(), _>(full).doing(|| "put /a".to_owned()).unwrap_err();
        assert_eq!(
            failure.to_string(),
            format!("cannot put /a: target 2 is full: 4K more needed at once; {WHEN_FULL}")
        );
        assert_eq!(failure.exit, Exit::Full);
        let json = failure.to_json();
        assert_eq!(json["status"], -1007);
        assert_eq!((&json["detail"]["exit"], &json["detail"]["hint"]), (&json!(6), &json!(WHEN_FULL)));
    }

    #[test]
    fn the_innermost_object_is_the_one_named() {
        let inner = Err::<(), _>(StoreError::NotFound).doing(|| "read /a/b".to_owned());
        assert_eq!(
            inner.doing(|| "copy /a".to_owned()).unwrap_err().to_string(),
            "cannot read /a/b: not found"
        );
    }

    #[test]
    fn a_pool_that_may_not_be_written_is_named_with_the_reason_and_the_remedy() {
        let refused = |number| {
            let errno = dolmen_env::Errno::from_raw_os_error(number);
            let name = "pools/p/.owner".to_owned();
            Failure::from(dolmen_env::Error::Io { op: dolmen_env::Op::Lock, name, offset: 0, errno })
        };
        for (number, why, remedy) in
            [(13, "permission denied", "run it as the owner"), (30, "read-only file system", "mount its")]
        {
            let failure = refused(number);
            assert_eq!(failure.exit, Exit::Refused);
            let text = failure.to_string();
            assert!(
                text.starts_with(&format!("the pool in pools/p may not be written: {why}; {remedy}")),
                "{text}"
            );
        }
    }

    #[test]
    fn the_number_of_an_error_is_the_same_wherever_it_stands() {
        for failure in [Failure::new(Exit::Missing, "x"), Failure::from(StoreError::Busy)] {
            let told = failure.to_json();
            assert_eq!(told["detail"]["der"], told["status"]);
            assert!(told["status"].as_i64().unwrap() < 0);
        }
    }

    #[test]
    fn who_has_a_directory_is_named_by_his_number_if_that_is_known() {
        let told = |pid| crate::serve::of_daemon(&dolmen_daemon::Error::Served { pid }).to_string();
        assert_eq!(told(7), "process 7 serves this directory; stop it first");
        assert_eq!(told(0), "another process serves this directory; stop it first");
    }

    #[test]
    fn what_another_user_may_not_do_is_told_with_path_and_remedy() {
        let unreadable = StoreError::Io { target: TargetNo(1), errno: 13 };
        let failure = of_open(Path::new("pools/p"), false, unreadable.into());
        assert_eq!(failure.exit, Exit::Refused);
        assert_eq!(
            failure.to_string(),
            "files of target 1 of the pool in pools/p may not be used: permission denied; \
             run it as the owner of that directory"
        );
        let errno = dolmen_env::Errno::ACCESS;
        let name = "pools/p/.owner".to_owned();
        let locked = dolmen_env::Error::Io { op: dolmen_env::Op::Lock, name, offset: 0, errno };
        assert_eq!(
            of_open(Path::new("pools/p"), true, locked.into()).to_string(),
            "the pool in pools/p may not be opened: permission denied; run it as the owner of that directory"
        );
        let refused = |op, name: &str| {
            let errno = dolmen_env::Errno::ACCESS;
            Failure::from(dolmen_env::Error::Io { op, name: name.to_owned(), offset: 0, errno })
        };
        let failure = refused(dolmen_env::Op::Create, "x");
        assert_eq!(failure.exit, Exit::Refused);
        assert_eq!(
            failure.to_string(),
            "x: create: permission denied; run it as a user who may write in ., or choose another directory"
        );
        let failure = refused(dolmen_env::Op::List, "/root");
        assert_eq!(
            failure.to_string(),
            "/root: list: permission denied; run it as the owner of that file or directory"
        );
    }
}
