//! `dolmen mount` and `dolmen unmount`: the files of a container as a directory of the system.

mod files;
mod held;

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::heard::Listeners;
use crate::interrupt;
use crate::output::{self, Answer};
use crate::path::{shown_outside, word};
use crate::place::{self, ContArg, Session as Pool};
use crate::stop::{Process, deadline_ns};
use clap::{Args, ValueEnum};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_client::Container;
use dolmen_dfs::{Dfs, MountOptions};
use dolmen_env::{
    Clock, Errno, InUse, KernelDevice, MOUNT_HELPER, MOUNT_TYPE, MountRequest, Mounted, RealClock,
};
use dolmen_fuse::{Caching, Fs, Options, Session};
use dolmen_types::{Epoch, Uuid};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// An hour.
const DEADLINE_SECONDS_MAX: u64 = 3600;
/// A day.
const CACHE_SECONDS_MAX: u64 = 86_400;
/// Between two looks at whether anything waits for the store still when a mount was taken away.
const REST: Duration = Duration::from_millis(20);
/// How long requests that still wait for the store keep the process of a mount that is taken away.
const LINGER_SECONDS: u64 = 5;
/// How long something is waited for without a word.
const SILENT_SECONDS: u64 = 2;
/// How long to wait for the process of a mount that was taken away: it closes its pool.
const CLOSE_SECONDS: u64 = 60;
/// What the process in the background says when the directory shows the files.
const READY: &str = "ready";

#[derive(Args, Debug)]
#[command(
    after_help = "Who uses the mount sees what he uses of the container and may, and what all do, in an attribute of whatever is in it: \
                        getfattr -n dolmen.quota PATH"
)]
pub(crate) struct Mount {
    #[command(flatten)]
    cont: ContArg,
    /// Directory that shows the files; it must exist
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// Also in a directory with something in it, which nobody sees until the mount is taken away
    #[arg(long)]
    nonempty: bool,
    /// Refuse every change
    #[arg(long)]
    read_only: bool,
    /// Show the files as they were at this snapshot, read-only
    #[arg(long, value_name = "SNAP")]
    snapshot: Option<String>,
    /// Use the files by way of the engine, which checks what this user may do with each: for who may not reach the objects of
    /// the container, and is let in by its property `files`; not with --snapshot
    #[arg(long, conflicts_with = "snapshot")]
    files: bool,
    /// Let in other users of this machine; who is not root needs `user_allow_other` in /etc/fuse.conf for it
    #[arg(long)]
    allow_other: bool,
    /// What the kernel may remember
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Cache::Metadata)]
    cache: Cache,
    /// For how long it may remember names and attributes
    #[arg(long, value_name = "SECONDS", default_value_t = Options::TIMEOUT_DEFAULT.as_secs(), value_parser = crate::size::count::<u64>(0, CACHE_SECONDS_MAX))]
    cache_timeout: u64,
    /// How long an operation waits for an engine that does not answer, before it fails with EIO
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = crate::size::count::<u64>(1, DEADLINE_SECONDS_MAX))]
    deadline: u64,
    /// Threads that serve: as many operations can wait at once
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = crate::size::count::<u16>(2, 256))]
    threads: u16,
    /// Take the kernel's requests over io_uring where it offers that, and contents are not remembered
    #[arg(long)]
    io_uring: bool,
    /// Stay in the foreground, and say there what there is to say, so not with --log; Ctrl-C takes the mount away
    #[arg(long)]
    foreground: bool,
    /// What the process in the background has to say [default: dolmen/mounts.log in the user's data directory]
    #[arg(long, value_name = "FILE", conflicts_with = "foreground", value_hint = clap::ValueHint::FilePath)]
    log: Option<PathBuf>,
    /// This is the process in the background
    #[arg(long, hide = true)]
    detached: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Cache {
    /// Nothing: who looks sees what others have just done
    Off,
    /// Names and attributes
    Metadata,
    /// Contents as well, from one open to the next
    Data,
}

#[derive(Args, Debug)]
pub(crate) struct Unmount {
    /// The directory
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// Take its name away at once, also if it is in use or its store does not answer; the rest goes when nobody uses it
    #[arg(long)]
    lazy: bool,
    /// The same, and whoever waits for it, or uses it later, is told an error: also where its process was killed (root only)
    #[arg(long, conflicts_with = "lazy")]
    force: bool,
    /// Wait so long at most for its process to close the pool and end; with --lazy nobody waits
    #[arg(long, value_name = "SECONDS", default_value_t = CLOSE_SECONDS, value_parser = crate::size::count::<u64>(0, 86_400))]
    wait: u64,
}

/// Mounts a container.
pub(crate) fn mount(args: &Mount, as_json: bool) -> Outcome<Answer> {
    let mounted = if args.foreground || args.detached { serve(args, as_json) } else { detach(args) };
    let mounted = mounted.doing(|| doing(args));
    if let (true, Err(failure)) = (args.detached, &mounted) {
        // Whoever has started this one tells it.
        output::print(format!("{}\n", failure.to_json()).as_bytes())?;
    }
    mounted
}

fn doing(args: &Mount) -> String {
    format!("mount container {} in {}", args.cont.cont, shown_outside(&args.dir))
}

/// A directory by its path without links, of which only its last part need not be looked at: a mount may be dead.
fn resolved(dir: &Path) -> Outcome<PathBuf> {
    let failed = |error| Failure::on_file(dir, &error);
    let absolute = std::path::absolute(dir).map_err(failed)?;
    match (absolute.parent(), absolute.file_name()) {
        // Of what is mounted there nothing is asked: it may not answer.
        (Some(parent), Some(name)) if absolute.read_link().is_err() => {
            Ok(parent.canonicalize().map_err(failed)?.join(name))
        }
        _ => absolute.canonicalize().map_err(failed),
    }
}

/// The directory to be mounted on.
fn mount_point(args: &Mount) -> Outcome<PathBuf> {
    let missing = |failure: Failure| match failure.exit {
        Exit::Missing => failure.hint("make it first"),
        _ => failure,
    };
    let dir = resolved(&args.dir).map_err(missing)?;
    refuse_mounted(args, &dir)?;
    let found = std::fs::metadata(&dir).map_err(|error| missing(Failure::on_file(&args.dir, &error)))?;
    if !found.is_dir() {
        return Err(
            Failure::new(Exit::Usage, "it is no directory").hint("name one that is to show the files")
        );
    }
    refuse_of_system(&dir)?;
    refuse_around_pool(&args.cont.pool.pool, &dir)?;
    if !args.nonempty {
        refuse_covering(&dir)?;
    }
    Ok(dir)
}

/// Refuses a directory in which a container is shown.
fn refuse_mounted(args: &Mount, dir: &Path) -> Outcome<()> {
    let Some(there) = dolmen_env::mounted_at(dir)?.filter(|there| there.kind == MOUNT_TYPE) else {
        return Ok(());
    };
    let failure = Failure::new(Exit::InUse, format!("{} is mounted there already", there.source));
    let hint = format!("take it away with `dolmen unmount {}`", word(&args.dir));
    Err(failure.hint(hint))
}

/// So many, the newest, are asked who serves them, for a hint.
const MOUNTS_ASKED_MAX: usize = 64;

/// How long they have to say it, together.
const ASKED_PATIENCE: Duration = Duration::from_secs(2);

/// Directories without which the machine does not go on.
const OF_SYSTEM: [&str; 16] = [
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin",
    "/sys", "/tmp", "/usr", "/var",
];

/// Refuses directories of the system, and those in which the kernel shows something of itself.
fn refuse_of_system(dir: &Path) -> Outcome<()> {
    let of_kernel = ["/proc", "/sys"].iter().any(|above| dir.starts_with(above));
    if !of_kernel && OF_SYSTEM.iter().all(|one| dir != Path::new(one)) {
        return Ok(());
    }
    let failure = Failure::new(Exit::Usage, "it is a directory of the system, which needs what is there");
    Err(failure.hint("make a directory of your own, and mount there"))
}

/// Refuses a directory with something in it.
fn refuse_covering(dir: &Path) -> Outcome<()> {
    // Who may not look into it may not mount on it either, which the system says.
    let Ok(mut entries) = std::fs::read_dir(dir) else { return Ok(()) };
    let Some(Ok(first)) = entries.next() else { return Ok(()) };
    let why = format!("the directory is not empty: it has {}", shown_outside(Path::new(&first.file_name())));
    Err(Failure::new(Exit::Taken, why).hint(
        "choose an empty one, or add --nonempty: what is in it is seen again when the mount is taken away",
    ))
}

/// A process that serves a pool looks into its directory, and must not have to wait for itself there.
fn refuse_around_pool(pool: &Path, dir: &Path) -> Outcome<()> {
    let text = pool.to_str().unwrap_or("");
    let own = match text.strip_prefix("unix:").and_then(|rest| rest.rsplit_once('/')) {
        // The socket is in the directory of the pools, under this name, or a link to one elsewhere is.
        Some((socket, _)) => {
            let has_socket = |dir: &&Path| dir.join("dolmen.sock").symlink_metadata().is_ok();
            Path::new(socket).parent().filter(has_socket).map(Path::to_owned)
        }
        None => place::pool_directory(pool).ok(),
    };
    let Some(own) = own.and_then(|own| own.canonicalize().ok()) else { return Ok(()) };
    let is_socket_dir = text.starts_with("unix:");
    let served = own.parent().filter(|system| !is_socket_dir && system.join("dolmen.sock").exists());
    let is_listed = |system: &Path| dir.parent() == Some(system);
    if dir.starts_with(&own) || own.starts_with(dir) || served.is_some_and(is_listed) {
        let why = "the directory of the pools is there, and who serves them would wait for itself";
        return Err(Failure::new(Exit::Usage, why).hint("choose a directory elsewhere"));
    }
    Ok(())
}

/// A container that is shown, and all that keeps it open; in the order in which it is taken down.
struct Shown<S = Fs> {
    session: Arc<Session<S>>,
    cont: Container,
    pool: Pool,
}

fn show(args: &Mount, dir: &Path) -> Outcome<Shown> {
    let is_read_only = args.read_only || args.snapshot.is_some();
    let pool = place::open_to_last(&args.cont.pool, is_read_only, Duration::from_secs(args.deadline))?;
    let cont = pool.container(&args.cont.cont)?;
    let view = place::view(&cont, &args.cont, args.snapshot.as_deref())?;
    let dfs = mounted(&view, args, &pool.mount_options(is_read_only));
    let dfs = dfs.map_err(|failure| files::hinted(failure, &cont))?;
    let caching = args.cache.caching();
    let timeout = Duration::from_secs(args.cache_timeout);
    let locks = if pool.local().is_some() { None } else { Some(place::random_uuid()?) };
    let leases = args.snapshot.is_none() && pool.remote().is_some_and(|remote| remote.link().has_leases());
    let threads = usize::from(args.threads);
    let options = Options { caching, timeout, leases, locks, threads, ring: args.io_uring };
    let about = format!("pid {}\n{}\n{}", std::process::id(), source(args), reachable(args, &pool, &view)?);
    let fs = Fs::new(dfs, options, &about, teller(args))?;
    let session = Session::start(device(args, dir, is_read_only)?, fs)?;
    Ok(Shown { session, cont, pool })
}

/// The kernel's side of the mount.
fn device(args: &Mount, dir: &Path, is_read_only: bool) -> Outcome<KernelDevice> {
    let request = MountRequest {
        dir: dir.to_owned(),
        source: source(args),
        read_only: is_read_only,
        allow_other: args.allow_other,
    };
    // Whoever else mounts there at the same time has his turn before, and is seen, or after, and sees this mount. Who may not
    // read the directory goes without.
    let turn = std::fs::File::open(dir).ok();
    let _taken = turn.as_ref().map(std::fs::File::lock);
    refuse_mounted(args, dir)?;
    KernelDevice::mount(&request).map_err(|error| of_mount(&error))
}

/// What the mount says of itself that the kernel has no words for.
fn teller(args: &Mount) -> impl Fn(&str) + Send + Sync + 'static {
    let shown = shown_outside(&args.dir);
    move |note| dolmen_env::say(&format!("dolmen mount: {shown}: {note}"))
}

impl Cache {
    fn caching(self) -> Caching {
        match self {
            Self::Off => Caching::Off,
            Self::Metadata => Caching::Metadata,
            Self::Data => Caching::Data,
        }
    }
}

/// The files of a container, with all that the kernel asks about.
fn mounted(view: &Container, args: &Mount, options: &MountOptions) -> Outcome<Dfs> {
    let tends = options.shared && !options.read_only;
    let exact_times = args.cache == Cache::Off && options.shared;
    let keeps = MountOptions { atime: true, acls: true, exact_blocks: true, ..options.clone() };
    let options = MountOptions { exact_times, tends, tells_opens: true, ..keeps };
    Dfs::mount(view, &options).doing(|| format!("use container {} as a file system", args.cont.cont))
}

/// Where other programs of this user reach the same files without the mount, as its root tells them, nothing of what only this
/// process has; or which snapshot they are.
fn reachable(args: &Mount, pool: &Pool, view: &Container) -> Outcome<String> {
    let named = &args.cont.pool.pool;
    let address = named.to_str().and_then(|text| text.rsplit_once('/')).map(|(system, _)| system);
    let system = match address {
        Some(address) if place::addresses(address)?.is_some() => Some(match address.strip_prefix("unix:") {
            Some(socket) => at_socket(Path::new(socket)),
            None => Some(address.to_owned()),
        }),
        _ => Some(pool.dir().canonicalize().ok().and_then(|dir| {
            let socket = dir.parent()?.join("dolmen.sock");
            socket.exists().then(|| at_socket(&socket)).flatten()
        })),
    };
    let uuid = pool.pool.query().doing(|| doing(args))?.map.pool;
    if let Some(epoch) = view.view_epoch() {
        return Ok(about_snapshot(uuid, view.uuid(), epoch) + "\n");
    }
    let system = system.flatten().filter(|_| pool.local().is_none());
    let Some(system) = system else { return Ok(String::new()) };
    let access = if args.read_only { "r" } else { "rw" };
    Ok(format!("system {system}\npool {uuid}\ncont {}\naccess {access}\n", view.uuid()))
}

/// A socket as others find it: a link to it may lie where they may not look.
fn at_socket(socket: &Path) -> Option<String> {
    let socket = socket.canonicalize().or_else(|_gone| std::path::absolute(socket)).ok()?;
    Some(format!("unix:{}", socket.display()))
}

/// What `df` shows.
fn source(args: &Mount) -> String {
    let source = format!("{}/{}", shown_outside(&args.cont.pool.pool), args.cont.cont);
    match &args.snapshot {
        Some(snapshot) => format!("{source}@{snapshot}"),
        None => source,
    }
}

fn of_mount(error: &dolmen_env::Error) -> Failure {
    match error {
        dolmen_env::Error::NotFound { name } if name == MOUNT_HELPER && is_root() => {
            let failure = Failure::new(Exit::Refused, "root may not mount here");
            failure.hint(NOT_PERMITTED)
        }
        dolmen_env::Error::NotFound { name } if name == MOUNT_HELPER => no_helper("run it as root"),
        dolmen_env::Error::Io { op: dolmen_env::Op::Run, name, .. } if name == MOUNT_HELPER => {
            let failure = Failure::new(Exit::Refused, error.to_string());
            failure.hint("see that users may run it: its package fuse3 makes it root's, with mode 4755")
        }
        dolmen_env::Error::Declined { said, .. } => {
            Failure::new(Exit::Refused, error.to_string()).hint(when_declined(said))
        }
        dolmen_env::Error::NotFound { name } if name == "/dev/fuse" => no_device(),
        dolmen_env::Error::Io { name, errno: Errno::NXIO | Errno::NODEV, .. } if name == "/dev/fuse" => {
            no_device()
        }
        dolmen_env::Error::Io { errno: Errno::BUSY, .. } => {
            Failure::new(Exit::InUse, "the directory is in use").hint("see with `fuser -v` who uses it")
        }
        dolmen_env::Error::Io { name, errno: Errno::PERM | Errno::ACCESS, .. } => {
            let (why, hint) = match &**name {
                "/dev/fuse" => (
                    "you may not use /dev/fuse",
                    "its administrator lets users in with `chmod 666 /dev/fuse`",
                ),
                _ => ("the system does not permit it", NOT_PERMITTED),
            };
            Failure::new(Exit::Refused, why).hint(hint)
        }
        other => Failure::new(Exit::Device, other.to_string()),
    }
}

/// What lets somebody mount whom the system does not permit that.
const NOT_PERMITTED: &str = "see that fusermount3 is root's, with mode 4755 (its package fuse3 makes it so); in a container, give that \
                             the right to mount (--cap-add SYS_ADMIN)";

/// What helps against what `fusermount3` has said: it speaks English everywhere.
fn when_declined(said: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&["user_allow_other"]) {
        "have the line user_allow_other put into /etc/fuse.conf, or leave out --allow-other".to_owned()
    } else if has(&["username", "user name"]) {
        let uid = rustix::process::getuid().as_raw();
        format!(
            "it asks for the name of user {uid}: add a line for him to /etc/passwd, or have root mount it"
        )
    } else if has(&["too many FUSE filesystems"]) {
        "take another one away (`findmnt -t fuse.dolmen` lists them), or have mount_max raised in /etc/fuse.conf"
            .to_owned()
    } else if has(&["/etc/fuse.conf", "unknown parameter", "unknown option"]) {
        "have /etc/fuse.conf corrected: `man fusermount3` says what it may have".to_owned()
    } else if has(&["mounting over"]) {
        "choose a directory of another file system, such as one in your home".to_owned()
    } else if has(&["write access", "not owned", "mountpoint", "mount point"]) {
        "see that the directory is yours to write".to_owned()
    } else {
        NOT_PERMITTED.to_owned()
    }
}

/// Why somebody cannot mount, or unmount, who is not root; what to do instead.
fn no_helper(instead: &str) -> Failure {
    let failure = Failure::new(Exit::Missing, format!("there is no program {MOUNT_HELPER}"));
    failure.hint(format!("install the package fuse3, or {instead}"))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn no_device() -> Failure {
    let failure = Failure::new(Exit::Missing, "this system has no /dev/fuse");
    failure.hint("load the kernel's module fuse, or give the container the device (--device /dev/fuse)")
}

/// How lines in a log begin: when, and by which process.
fn stamp() -> String {
    let seconds = i64::try_from(RealClock.now_ns() / 1_000_000_000).unwrap_or(i64::MAX);
    format!("{} {}: ", output::date(seconds).replacen(' ', "T", 1) + "Z", std::process::id())
}

/// Shows the files until the mount is taken away.
fn serve(args: &Mount, as_json: bool) -> Outcome<Answer> {
    let dir = mount_point(args)?;
    if args.detached {
        dolmen_env::say_after(stamp);
        // Ignored: then it ends with the terminal, as it would in the foreground.
        let _alone = nix::unistd::setsid();
    }
    // Ignored: then it can have fewer files open at once, and says so.
    let _raised = dolmen_env::raise_descriptor_limit();
    let stop = interrupt::stop();
    if args.files {
        let shown = files::show(args, &dir)?;
        announce(args, as_json)?;
        attend(&shown.session, (&dir, stop), || Ok(()))?;
        files::finish(shown)?;
    } else {
        let shown = show(args, &dir)?;
        announce(args, as_json)?;
        let remote = shown.pool.remote();
        let mut listeners = remote.map(|remote| Listeners::new(remote, &shown.session, waker()));
        attend(&shown.session, (&dir, stop), || match &mut listeners {
            Some(listeners) => listeners.look().map_err(Failure::from),
            None => Ok(()),
        })?;
        drop(listeners);
        finish(shown)?;
    }
    Ok(Answer::new("", json!({ "pid": std::process::id() })))
}

/// Takes down what was shown, when nobody uses it any more.
fn finish(shown: Shown) -> Outcome<()> {
    let Shown { session, cont, pool } = shown;
    let Some(fs) = session.finish() else { return Ok(()) };
    let synced = fs.sync();
    drop(fs);
    drop(cont);
    pool.close()?;
    Ok(synced?)
}

/// Says that the directory shows the files.
fn announce(args: &Mount, as_json: bool) -> Outcome<()> {
    if args.detached {
        output::print(format!("{READY}\n").as_bytes())?;
        dolmen_env::close_standard_output()?;
    } else if !as_json {
        output::print(format!("{}\n", at(&args.dir, std::process::id())).as_bytes())?;
    }
    dolmen_env::notify_ready();
    Ok(())
}

/// Wakes this thread.
fn waker() -> impl Fn() + Send + Sync + 'static {
    let thread = std::thread::current();
    move || thread.unpark()
}

/// Attends to a mount until it is taken away, and for a while until nothing waits for the store any more. `look` is called when this
/// thread is woken.
fn attend<S>(
    session: &Session<S>,
    (dir, stop): (&Path, &AtomicBool),
    mut look: impl FnMut() -> Outcome<()>,
) -> Outcome<()> {
    session.when_ended(waker());
    interrupt::when_stopped(waker());
    let own = dolmen_env::mounted_at(dir)?.map(|mounted| mounted.minor);
    let mut is_told = false;
    while !session.is_ended() {
        look()?;
        if stop.load(Ordering::Relaxed) && !is_told {
            is_told = true;
            if dolmen_env::mounted_at(dir)?.map(|mounted| mounted.minor) != own {
                // It was taken away here, and copies in other mount namespaces cannot be.
                return Ok(());
            }
            // Whoever uses it goes on; nobody else comes in.
            dolmen_env::unmount(dir, InUse::Later)?;
        }
        std::thread::park();
    }
    let end_ns = deadline_ns(LINGER_SECONDS);
    while !session.is_over() && RealClock.monotonic_ns() < end_ns {
        std::thread::park_timeout(REST);
    }
    Ok(())
}

fn at(dir: &Path, pid: u32) -> String {
    format!("process {pid} shows the files in {}", shown_outside(dir))
}

/// Starts the same command in the background, and waits until the directory shows the files.
fn detach(args: &Mount) -> Outcome<Answer> {
    // What can be seen from here is told before anything is started.
    mount_point(args)?;
    let log_path = log_path(args)?;
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&log_path);
    let log = log.map_err(|error| of_log(&log_path, &error))?;
    let of_program = |error: std::io::Error| Failure::on_file(Path::new("dolmen"), &error);
    // Ignored: then whoever has started this waits for the mount, too.
    let _kept = dolmen_env::keep_descriptors_to_itself();
    let mut child = Command::new(std::env::current_exe().map_err(of_program)?)
        .args(std::env::args_os().skip(1))
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(of_program)?;
    let mut told = String::new();
    if let Some(said) = child.stdout.take() {
        BufReader::new(said).read_line(&mut told).map_err(of_program)?;
    }
    if told.trim_end() == READY {
        let json = json!({ "pid": child.id(), "log": log_path.to_string_lossy() });
        return Ok(Answer::new(at(&args.dir, child.id()), json));
    }
    child.wait().map_err(of_program)?;
    let failure = serde_json::from_str::<Value>(&told).ok().as_ref().and_then(Failure::from_json);
    Err(failure.unwrap_or_else(|| {
        Failure::new(Exit::Other, "it has ended again").hint(format!("see {}", shown_outside(&log_path)))
    }))
}

/// Why a log cannot be written, and what helps.
fn of_log(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::on_file(path, error);
    match (error.kind(), path.parent()) {
        (ErrorKind::NotFound, Some(dir)) => {
            failure.hint(format!("make {} first, or name another file with --log", shown_outside(dir)))
        }
        _ => failure.hint("name a file that this user may write with --log"),
    }
}

fn log_path(args: &Mount) -> Outcome<PathBuf> {
    if let Some(named) = &args.log {
        return Ok(named.clone());
    }
    let data = dolmen_env::data_directory().map_err(|_unset| {
        let why = format!("there is no place for its log: {}", place::NO_DATA_DIRECTORY);
        Failure::new(Exit::Missing, why).hint("add --log FILE, or --foreground")
    })?;
    let dir = data.join("dolmen");
    dolmen_env::create_own_dir(&dir)?;
    Ok(dir.join("mounts.log"))
}

/// Takes a mount away.
pub(crate) fn unmount(args: &Unmount) -> Outcome<Answer> {
    let doing = || format!("unmount {}", shown_outside(&args.dir));
    let dir = resolved(&args.dir).doing(doing)?;
    let there = dolmen_env::mounted_at(&dir).doing(doing)?;
    let there = there.ok_or_else(|| nothing_there(&args.dir)).doing(doing)?;
    if there.kind != MOUNT_TYPE {
        let failure =
            Failure::new(Exit::Usage, format!("a file system of type {} is mounted there", there.kind));
        return Err(failure.hint("take it away with umount")).doing(doing);
    }
    let in_use = match (args.lazy, args.force) {
        (_, true) => InUse::Failed,
        (true, false) => InUse::Later,
        (false, false) => InUse::Kept,
    };
    // Who takes it away lazily waits for nobody.
    let served = if in_use == InUse::Later { None } else { server_of(&there) };
    dolmen_env::unmount(&dir, in_use).map_err(|error| of_unmount(&error, args)).doing(doing)?;
    let pid = served.as_ref().and_then(|served| served.as_ref().map_or(None, |process| Some(process.pid)));
    let mut text = format!("{} is mounted no more", shown_outside(&args.dir));
    match served {
        Some(Ok(process)) => wait_for(&process, there.minor, args.wait)
            .doing(|| format!("end the mount of {} everywhere", shown_outside(&args.dir)))?,
        Some(Err(Errno::NOTCONN | Errno::CONNABORTED)) => {
            text.push_str("; the process that served it had ended before, as one does that is killed")
        }
        _ if in_use == InUse::Later => {}
        _ => text.push_str("; nobody has said who served it: if a process of it is left, it ends by itself"),
    }
    Ok(Answer::new(text, json!({ "pid": pid })))
}

/// Waits for the process of a mount that was taken away; for more than a moment only after a word.
fn wait_for(process: &Process, minor: u32, seconds: u64) -> Outcome<()> {
    let end_ns = deadline_ns(seconds);
    if process.ends_by(end_ns.min(deadline_ns(SILENT_SECONDS))) {
        return Ok(());
    }
    let pid = process.pid;
    if seconds > SILENT_SECONDS {
        let (why, _) = held::why_kept(minor, pid);
        dolmen_env::say(&format!(
            "dolmen: it is gone from here; waiting for up to {seconds} s for process {pid}: {why}"
        ));
    }
    if process.ends_by(end_ns) {
        return Ok(());
    }
    let (why, hint) = held::why_kept(minor, pid);
    let why = format!("it is gone from here, but process {pid} keeps its pool after {seconds} s: {why}");
    Err(Failure::new(Exit::InUse, why).hint(hint))
}

fn nothing_there(dir: &Path) -> Failure {
    let failure = match dir.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Failure::on_file(dir, &error),
        _ => Failure::new(Exit::Missing, "nothing is mounted there"),
    };
    failure.hint("`findmnt -t fuse.dolmen` lists what is mounted")
}

fn of_unmount(error: &dolmen_env::Error, args: &Unmount) -> Failure {
    match error {
        dolmen_env::Error::Io { errno: Errno::BUSY, .. } => {
            let failure = Failure::new(Exit::InUse, "somebody uses it");
            let dir = word(&args.dir);
            failure.hint(format!("`fuser -vm {dir}` names them; --lazy takes it away when they are done"))
        }
        dolmen_env::Error::Io { errno: Errno::PERM, .. } if args.force => {
            let failure = Failure::new(Exit::Refused, "only root may have others' calls fail");
            failure.hint(
                "--lazy takes it away when they are done; a mount fails by itself when its process is killed",
            )
        }
        dolmen_env::Error::Io { op: dolmen_env::Op::Run, .. } | dolmen_env::Error::Declined { .. } => {
            let failure = Failure::new(Exit::Refused, error.to_string());
            failure.hint("see that fusermount3 is root's, with mode 4755, or have root take it away")
        }
        dolmen_env::Error::NotFound { name } if name == MOUNT_HELPER => no_helper("have root take it away"),
        dolmen_env::Error::Io { errno: Errno::PERM | Errno::ACCESS, .. } => {
            Failure::new(Exit::Refused, "it is another user's").hint("its user takes it away, or root")
        }
        other => Failure::new(Exit::Device, other.to_string()),
    }
}

/// Where a process shows the files of a container, if it does.
pub(crate) fn shown_by(pid: u32) -> Option<PathBuf> {
    let mut mounts = dolmen_env::mounts_of(MOUNT_TYPE).ok()?;
    let asked = mounts.split_off(mounts.len().saturating_sub(MOUNTS_ASKED_MAX));
    let is_its =
        |_: &Mounted, said: Result<&str, Errno>| said.is_ok_and(|about| about_pid(about) == Some(pid));
    who_serves(asked, is_its).map(|mounted| mounted.dir)
}

/// How the root of a mount tells that it shows a snapshot.
fn about_snapshot(pool: Uuid, cont: Uuid, epoch: Epoch) -> String {
    format!("snapshot {pool} {cont} {epoch}")
}

/// Where a snapshot is mounted on this machine, and the process that serves it there, as far as this user can see that.
pub(crate) fn snapshot_shown(pool: Uuid, cont: Uuid, epoch: Epoch) -> Option<(PathBuf, u32)> {
    let mut mounts = dolmen_env::mounts_of(MOUNT_TYPE).ok()?;
    mounts.retain(|mounted| mounted.source.contains('@'));
    let (line, mut pid) = (about_snapshot(pool, cont, epoch), None);
    let asked = mounts.split_off(mounts.len().saturating_sub(MOUNTS_ASKED_MAX));
    let shown = who_serves(asked, |_, said| {
        let about = said.ok().filter(|about| about.lines().any(|said| said == line));
        pid = about.and_then(about_pid);
        about.is_some()
    });
    Some((shown?.dir, pid?))
}

/// Who serves a mount, or what the kernel says of one that nobody serves; `None` if nobody says so in time.
fn server_of(mounted: &Mounted) -> Option<Result<Process, Errno>> {
    if let Some(process) = held::server_of(mounted.minor).and_then(Process::of) {
        return Some(Ok(process));
    }
    let mut server = None;
    who_serves(vec![mounted.clone()], |_, said| {
        server = said.map(|about| about_pid(about).and_then(Process::of)).transpose();
        server.is_some()
    });
    server
}

/// Asks all of these at once what they say of themselves: the first of which `is_wanted` says so.
fn who_serves(
    mounts: Vec<Mounted>,
    mut is_wanted: impl FnMut(&Mounted, Result<&str, Errno>) -> bool,
) -> Option<Mounted> {
    let (told, answers) = std::sync::mpsc::sync_channel(MOUNTS_ASKED_MAX);
    for mounted in mounts {
        let told = told.clone();
        // Ignored: then nobody is waited for.
        let _asking = dolmen_env::spawn("asking", move || {
            let mut about = [0; 4096];
            let said = rustix::fs::getxattr(&mounted.dir, "user.dolmen.mount", &mut about);
            // Ignored: who asked has stopped waiting.
            let _heard = told.send((mounted, said.map(|len| about[..len].to_vec())));
        });
    }
    drop(told);
    let end_ns = RealClock.monotonic_ns() + u64::try_from(ASKED_PATIENCE.as_nanos()).unwrap_or(u64::MAX);
    loop {
        let left = Duration::from_nanos(end_ns.saturating_sub(RealClock.monotonic_ns()));
        let (mounted, said) = answers.recv_timeout(left).ok()?;
        let said = said.map(|about| String::from_utf8_lossy(&about).into_owned());
        if is_wanted(&mounted, said.as_deref().map_err(|errno| *errno)) {
            return Some(mounted);
        }
    }
}

fn about_pid(about: &str) -> Option<u32> {
    about.lines().next()?.strip_prefix("pid ")?.parse().ok()
}
