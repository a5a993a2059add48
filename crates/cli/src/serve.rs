//! `dolmen serve`: the node daemon.

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::interrupt;
use crate::output::Answer;
use crate::path::{shown_outside, word};
use crate::place;
use core::time::Duration;
use dolmen_daemon::{Daemon, Roster, Settings};
use dolmen_env::{Address, DirLock, Socket};
use dolmen_local::PoolEntry;
use dolmen_net::client::reach::{self, ServedFrom};
use dolmen_net::tls::{Certs, Role};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A hundred years.
const KEEP_SECONDS_MAX: u64 = 100 * 365 * 86_400;

/// A week.
const IDLE_SECONDS_MAX: u64 = 7 * 86_400;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Directory that holds the pools
    #[arg(value_name = "SYSTEM", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// Unix socket to listen at [default: dolmen.sock in SYSTEM]
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    socket: Option<PathBuf>,
    /// Mode of the socket, such as 0666 for all users of the machine, who then may do what access control lists allow
    /// [default: what the mask leaves, which is its user alone]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    socket_mode: Option<u32>,
    /// Group of the socket: its name or number [default: that of the process]
    #[arg(long, value_name = "GROUP", requires = "socket_mode")]
    socket_group: Option<String>,
    /// Listen at this address of the network as well; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", value_parser = tcp)]
    tcp: Vec<SocketAddr>,
    /// Directory with the engines' certificate, as `dolmen system certs` makes it: over TCP, whoever connects shows one of the
    /// same authority, which says who he is [default: that of the list, if it has one]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    certs: Option<PathBuf>,
    /// Believe whoever connects over TCP: no certificates, no encryption, no proof of identity
    #[arg(long, conflicts_with = "certs")]
    insecure_tcp: bool,
    /// The system's name, by which commands of the same user find it [default: dolmen, which nobody finds]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The engine's number in its system [default: 0, where there is no list]
    #[arg(long)]
    rank: Option<u32>,
    /// TOML list of the system's engines, one [[engine]] each with rank and addresses; pools are made at the first and
    /// have targets at all
    #[arg(long, value_name = "FILE", requires = "rank", conflicts_with_all = ["name", "socket", "tcp"], value_hint = clap::ValueHint::FilePath)]
    system: Option<PathBuf>,
    /// Threads that serve connections [default: one for every two processors]
    #[arg(long, value_name = "COUNT", value_parser = crate::size::count::<u16>(1, 64))]
    threads: Option<u16>,
    /// Resident memory of each pool for metadata, instead of the pool's own budget
    #[arg(long, value_name = "SIZE", value_parser = place::memory())]
    memory: Option<u64>,
    /// At rest, free what was overwritten or removed longer ago than this, unless a snapshot shows it
    #[arg(long, value_name = "SECONDS", default_value_t = Settings::KEEP_PAST_DEFAULT.as_secs(), value_parser = crate::size::count::<u64>(1, KEEP_SECONDS_MAX))]
    keep_past: u64,
    /// Free nothing of the past until somebody asks for it, or room is needed
    #[arg(long, conflicts_with = "keep_past")]
    keep_all: bool,
    /// Go on in the background once it can be reached; what it says goes to dolmen.log in SYSTEM
    #[arg(long)]
    detach: bool,
    /// This is the process in the background
    #[arg(long, hide = true)]
    detached: bool,
    /// At the end, remove SYSTEM: of a measurement, whose name it has
    #[arg(long, hide = true)]
    scratch: bool,
    /// End after so long without a connection
    #[arg(long, value_name = "SECONDS", value_parser = crate::size::count::<u64>(1, IDLE_SECONDS_MAX))]
    idle_end: Option<u64>,
}

/// Serves until a signal or a client ends it.
pub(crate) fn run(args: &Args, as_json: bool) -> Outcome<Answer> {
    // Before anything else ends it: whoever has a copy of that has the lock until then. Ignored: told below, if it matters.
    let starting = args.detach.then(|| reach::take_over_start(&args.dir).ok().flatten()).flatten();
    let settings = settings(args)?;
    let doing = || format!("serve {}", shown_outside(&settings.dir));
    // Before anything is written there.
    settings.check_dir().map_err(|error| of_daemon(&error)).doing(doing)?;
    refuse_pool(&settings.dir).doing(doing)?;
    refuse_other_engine(&settings).doing(doing)?;
    tell_held(&settings.dir);
    if args.detach {
        let answer = detach(&settings, starting.is_some());
        // Until there is a daemon, or none.
        drop(starting);
        return answer;
    }
    if args.detached {
        // Ignored: then it ends with the terminal, as it would in the foreground.
        let _alone = nix::unistd::setsid();
    }
    // Ignored: then it takes fewer connections, and says so.
    let _raised = dolmen_env::raise_descriptor_limit();
    let stop = interrupt::stop();
    let daemon = Daemon::start(&settings, |note| dolmen_env::say(&format!("dolmen serve: {note}")))
        .map_err(|error| of_daemon(&error))
        .doing(doing)?;
    let addresses: Vec<String> = daemon.addresses().iter().map(ToString::to_string).collect();
    // Whoever reads that it serves finds it by its name.
    mark(&settings);
    record(args, &settings);
    if args.detached {
        // Who has started it waits for this, and reads no more.
        crate::output::print(format!("{READY}{}\n", addresses.join(SEPARATED)).as_bytes())?;
        dolmen_env::close_standard_output().doing(doing)?;
    } else if !as_json {
        crate::output::print(format!("{READY}{}\n", addresses.join(SEPARATED)).as_bytes())?;
    }
    if args.system.is_none() && settings.rank != 0 {
        dolmen_env::say(&format!(
            "dolmen serve: engine {} is a system of its own; those of one list are one (--system)",
            settings.rank
        ));
    }
    dolmen_env::notify_ready();
    daemon.wait(|| stop.load(core::sync::atomic::Ordering::Relaxed));
    daemon.stop().doing(doing)?;
    if args.scratch && crate::bench::is_scratch(&settings.dir) {
        // Ignored: whoever has started it may remove it at the same time.
        let _removed = std::fs::remove_dir_all(&settings.dir);
    }
    Ok(Answer::new("", json!({ "addresses": addresses })))
}

/// Leaves word that the machine has this system, if it does: who asks for it when it was ended is told so, and is not led to an
/// empty one of his own.
fn mark(settings: &Settings) {
    if settings.addresses.iter().any(|address| is_of_machine(settings, address))
        && let Err(error) = dolmen_env::mark_machine_system(&settings.name)
    {
        let name = &settings.name;
        dolmen_env::say(&format!(
            "dolmen serve: who asks for system {name} when it was ended is not told whose it is: {error}"
        ));
    }
}

/// Whether this is where all users of the machine look for the system.
fn is_of_machine(settings: &Settings, address: &Address) -> bool {
    match address {
        Address::Unix(path) => *path == dolmen_env::machine_socket(&settings.name),
        Address::Tcp(_) => false,
    }
}

/// Keeps on record where a system is that was given a name, for who asks for it by that.
fn record(args: &Args, settings: &Settings) {
    if args.name.is_none() && args.system.is_none() {
        return;
    }
    let data = dolmen_env::data_directory().map_err(dolmen_net::Error::Env);
    if data.is_err() && settings.addresses.iter().any(|address| is_of_machine(settings, address)) {
        // A service of the machine has no home, and all users are led to it.
        return;
    }
    let place = ServedFrom { dir: settings.dir.clone(), words: said_again(args) };
    let beside = |other: &ServedFrom| is_other_engine(args, other);
    if let Err(error) = data.and_then(|data| reach::record(&data, &settings.name, &place, beside)) {
        let name = &settings.name;
        dolmen_env::say(&format!(
            "dolmen serve: who asks for system {name} by its name is not led here: {error}"
        ));
    }
}

/// The arguments behind the directory that serve it so again, from wherever that is said.
fn said_again(args: &Args) -> Vec<String> {
    let whole = |path: &Path| {
        let whole = std::path::absolute(path).unwrap_or_else(|_nowhere| path.to_owned());
        whole.to_string_lossy().into_owned()
    };
    let paths = [("--system", &args.system), ("--socket", &args.socket), ("--certs", &args.certs)];
    let others = [
        ("--rank", args.rank.map(|rank| rank.to_string())),
        ("--name", args.name.clone()),
        ("--socket-mode", args.socket_mode.map(|mode| format!("{mode:04o}"))),
        ("--socket-group", args.socket_group.clone()),
    ];
    let paths = paths.into_iter().filter_map(|(flag, path)| Some((flag, whole(path.as_deref()?))));
    let others = others.into_iter().filter_map(|(flag, value)| Some((flag, value?)));
    let tcp = args.tcp.iter().map(|address| ("--tcp", address.to_string()));
    let pairs = paths.chain(others).chain(tcp);
    let mut words: Vec<String> = pairs.flat_map(|(flag, value)| [flag.to_owned(), value]).collect();
    if args.insecure_tcp {
        words.push("--insecure-tcp".to_owned());
    }
    words
}

/// Whether what is on record is another engine of the system whose list this one was given.
fn is_other_engine(args: &Args, other: &ServedFrom) -> bool {
    let said = |flag: &str| other.words.iter().skip_while(|word| *word != flag).nth(1);
    let (Some(list), Some(other_list)) = (&args.system, said("--system")) else { return false };
    if said("--rank").is_some_and(|rank| args.rank.is_some_and(|own| own.to_string() == *rank)) {
        return false;
    }
    // Each may have its copy of the list.
    match (std::fs::read(list), std::fs::read(other_list)) {
        (Ok(own), Ok(other)) => own == other,
        _ => false,
    }
}

fn settings(args: &Args) -> Outcome<Settings> {
    let dir = place::directory(&args.dir);
    let mut settings = Settings::new(dir);
    let name = args.name.as_deref().unwrap_or("dolmen");
    if !reach::is_system_name(name) {
        const WHY: &str =
            "a system's name has 1 to 127 of the characters A-Z a-z 0-9 . _ -, the first no dot";
        let failure = Failure::new(Exit::Usage, WHY).hint("choose another --name");
        return Err(failure).doing(|| format!("call a system {name:?}"));
    }
    if let Some(socket) = &args.socket {
        settings.addresses = vec![Address::Unix(socket.clone())];
    }
    if let Some(mode) = args.socket_mode {
        settings.open_to = Some((mode, args.socket_group.as_deref().map(group).transpose()?));
    }
    settings.addresses.extend(args.tcp.iter().copied().map(Address::Tcp));
    settings.rank = args.rank.unwrap_or(0);
    name.clone_into(&mut settings.name);
    let mut certs = args.certs.clone();
    if let Some(file) = &args.system {
        let listed = join_system(&mut settings, file)?;
        certs = certs.or(listed.filter(|_| !args.insecure_tcp));
    }
    let on_network = settings.addresses.iter().find(|address| matches!(address, Address::Tcp(_)));
    match (certs, on_network) {
        (Some(dir), _) => {
            let doing = || format!("use the certificates in {}", shown_outside(&dir));
            let certs = Certs::load(&dir, Role::Engine);
            settings.certs = Some(certs.map_err(|error| place::unreachable(&error)).doing(doing)?);
        }
        (None, Some(address)) if !args.insecure_tcp => {
            let failure = Failure::new(Exit::Usage, "there are no certificates, and anybody could connect");
            let hint = "make them with `dolmen system certs` and add --certs DIR; on a network where everybody may do \
                        everything, add --insecure-tcp";
            return Err(failure.hint(hint)).doing(|| format!("listen at {address}"));
        }
        (None, _) => {}
    }
    settings.threads = usize::from(args.threads.unwrap_or(0));
    settings.memory_budget_bytes = args.memory;
    settings.keep_past = (!args.keep_all).then(|| Duration::from_secs(args.keep_past));
    settings.idle_end = args.idle_end.map(Duration::from_secs);
    Ok(settings)
}

/// An address of the network to listen at; a host's name is looked up.
fn tcp(text: &str) -> Result<SocketAddr, String> {
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err("it has no port: give it as HOST:PORT, such as 0.0.0.0:7400".to_owned());
    };
    if port.parse::<u16>().is_err() {
        return Err(format!("{port:?} is no port, which is a number up to 65535"));
    }
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| format!("this machine finds no host {host:?}: see `getent hosts HOST`"))
}

fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode & !0o777 == 0 && mode & 0o600 == 0o600 => Ok(mode),
        _ => Err("give it as chmod takes it, such as 0660 or 0666".to_owned()),
    }
}

/// The number of a group by its name.
fn group(text: &str) -> Outcome<u32> {
    let number = text.parse().ok().or_else(|| dolmen_env::group_named(text));
    number.ok_or_else(|| {
        Failure::new(Exit::Missing, format!("this machine knows no group {text:?}"))
            .hint("see `getent group`")
    })
}

/// Takes over what the list of the system's engines says of this one; where their certificate is.
fn join_system(settings: &mut Settings, file: &Path) -> Outcome<Option<PathBuf>> {
    let doing = || format!("read {}", shown_outside(file));
    let text = std::fs::read_to_string(file).map_err(|error| Failure::on_file(file, &error)).doing(doing)?;
    let roster = Roster::parse(&text).map_err(|error| of_daemon(&error)).doing(doing)?;
    for address in roster.addresses(settings.rank).map_err(|error| of_daemon(&error)).doing(doing)? {
        let is_same = |known: &Address| match (known, &address) {
            (Address::Unix(known), Address::Unix(other)) => {
                std::path::absolute(known).is_ok_and(|known| known == *other)
            }
            (known, other) => known == other,
        };
        if !settings.addresses.iter().any(is_same) {
            settings.addresses.push(address);
        }
    }
    (settings.name, settings.engines) = (roster.name, roster.engines);
    Ok(roster.certs)
}

/// Refuses the directory of a pool: a daemon serves the one around it.
fn refuse_pool(dir: &Path) -> Outcome<()> {
    let Some(system) = place::system_of_pool(dir) else { return Ok(()) };
    let why = "it is the directory of one pool, and a daemon serves the one around that, with all its pools";
    let hint = format!("name {} in its place", word(&system));
    Err(Failure::new(Exit::Usage, why).hint(hint))
}

/// Says which pools nobody gets from this daemon yet, since processes have them by themselves, and how these end.
fn tell_held(dir: &Path) {
    // What cannot be listed is told to whoever asks for it.
    let Ok(pools) = dolmen_local::list(dir) else { return };
    for pool in pools {
        if let Some(pid) = place::holder(&dir.join(&pool.name)) {
            let (called, ends) = (called(&pool), place::ends(pid));
            dolmen_env::say(&format!(
                "dolmen serve: {called} cannot be opened from here while process {pid} uses it without this daemon; {ends}"
            ));
        }
    }
}

/// Refuses to serve what is another engine's, or with a list that is not that of the pools that are there: no client would find
/// them.
fn refuse_other_engine(settings: &Settings) -> Outcome<()> {
    // What cannot be listed is told to whoever asks for it.
    let Ok(pools) = dolmen_local::list(&settings.dir) else { return Ok(()) };
    let listed: Vec<u32> = settings.engines.iter().map(|engine| engine.rank).collect();
    for pool in &pools {
        let Some(spread) = &pool.spread else { continue };
        let why = if spread.rank != settings.rank {
            format!(
                "{} has its part at engine {}, and this is engine {}",
                called(pool),
                spread.rank,
                settings.rank
            )
        } else if listed.first() != spread.ranks.first()
            || spread.ranks.iter().any(|rank| !listed.contains(rank))
        {
            let others = if listed.is_empty() {
                "no list is given".to_owned()
            } else {
                format!("the list has {listed:?}")
            };
            format!("{} lies on engines {:?}, and {others}", called(pool), spread.ranks)
        } else {
            continue;
        };
        let hint = "start each engine with the directory, the --rank and the --system that it had";
        return Err(Failure::new(Exit::Usage, why).hint(hint));
    }
    Ok(())
}

fn called(pool: &PoolEntry) -> String {
    match &pool.label {
        Some(label) => format!("pool {label}"),
        None => format!("pool {}", pool.uuid),
    }
}

/// Starts the same command in the background, and waits until it can be reached, also by its name. One that is started on demand, for
/// all who come, has no limits of who was the first.
fn detach(settings: &Settings, is_on_demand: bool) -> Outcome<Answer> {
    let doing = || format!("serve {} in the background", shown_outside(&settings.dir));
    let taken = DirLock::acquire(&settings.dir);
    if let Err(dolmen_env::Error::Owned { pid }) = taken {
        // Before a line of this one stands in the log of that one.
        return Err(of_daemon(&dolmen_daemon::Error::Served { pid })).doing(doing);
    }
    drop(taken);
    let log_path = settings.dir.join(LOG_NAME);
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&log_path);
    let mut log = log.map_err(|error| Failure::on_file(&log_path, &error)).doing(doing)?;
    let left = if is_on_demand { interrupt::begin_afresh() } else { Vec::new() };
    for limit in left {
        // Ignored: nobody reads it, then.
        let _told = writeln!(log, "dolmen serve: who has started this leaves it his limit on {limit}");
    }
    let said_before = log.metadata().map_or(0, |log| log.len());
    let said =
        std::env::args_os().skip(1).map(|word| if word == "--detach" { "--detached".into() } else { word });
    let of_program = |error: std::io::Error| Failure::on_file(Path::new("dolmen"), &error);
    let program = std::env::current_exe().map_err(of_program).doing(doing)?;
    // Ignored: then whoever has started this waits for the daemon, too.
    let _kept = dolmen_env::keep_descriptors_to_itself();
    let mut child = Command::new(program)
        .args(said)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(of_program)
        .doing(doing)?;
    let address = settings.addresses.first().expect("there is always one");
    loop {
        let answers = Socket::connect(address, REST).ok().and_then(|socket| socket.peer().ok().flatten());
        if let Some(other) = answers.filter(|peer| peer.pid != child.id()) {
            // It finds that out, too, and ends.
            let failure = Failure::new(Exit::InUse, format!("process {} serves there already", other.pid));
            return Err(failure.hint("stop it first")).doing(doing);
        }
        if let Some(addresses) = answers.and_then(|_| ready(&mut child)) {
            let pid = child.id();
            let text = format!("process {pid} serves at {}", addresses.join(SEPARATED));
            return Ok(Answer::new(text, json!({ "pid": pid, "addresses": addresses })));
        }
        if let Some(status) = child.try_wait().map_err(of_program).doing(doing)? {
            return Err(has_ended(&log_path, said_before, status.code())).doing(doing);
        }
        std::thread::park_timeout(REST);
    }
}

/// Waits for what a daemon that listens does before others are told of it; where it serves, unless it has ended instead.
fn ready(child: &mut Child) -> Option<Vec<String>> {
    let mut told = String::new();
    // Ignored: what cannot be read was not said.
    let _read = child.stdout.take().map(|said| BufReader::new(said).read_line(&mut told));
    let addresses = told.strip_prefix(READY)?.strip_suffix('\n')?;
    Some(addresses.split(SEPARATED).map(str::to_owned).collect())
}

/// Why a daemon in the background has ended, as it has told its log behind what stood there before.
fn has_ended(log_path: &Path, said_before: u64, code: Option<i32>) -> Failure {
    let exit = code.and_then(Exit::from_number).unwrap_or(Exit::Other);
    let hint = format!("{} has what it said", shown_outside(log_path));
    let mut said = Vec::new();
    let read = File::open(log_path).and_then(|mut log| {
        log.seek(SeekFrom::Start(said_before))?;
        log.read_to_end(&mut said)
    });
    if let Err(error) = read {
        return Failure::on_file(log_path, &error);
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    let last = said.lines().rev().find_map(|line| line.strip_prefix("dolmen: "));
    match last {
        // What it could not do is told already.
        Some(line) => {
            let why = line.strip_prefix("cannot ").and_then(|line| line.split_once(": "));
            Failure::new(exit, why.map_or(line, |(_, why)| why)).hint(hint)
        }
        None => Failure::new(exit, "it has ended again").hint(hint),
    }
}

/// What the line begins with by which a daemon says that it serves, and that its name leads to it; its addresses follow, which have
/// this between them.
const READY: &str = "serving at ";
const SEPARATED: &str = ", ";

/// Where a daemon in the background says what it has to say.
const LOG_NAME: &str = "dolmen.log";

/// Between two looks at a daemon that is starting.
const REST: Duration = Duration::from_millis(10);

pub(crate) fn of_daemon(error: &dolmen_daemon::Error) -> Failure {
    use dolmen_daemon::Error as Daemon;
    let exit = match error {
        Daemon::Served { .. } | Daemon::Answered { .. } => Exit::InUse,
        Daemon::NoDirectory { .. } => Exit::Missing,
        Daemon::Roster(_) | Daemon::Unnamed { .. } => Exit::Usage,
        Daemon::NoAuthority | Daemon::Newer { .. } => Exit::Damaged,
        Daemon::Env(error) => return of_system(error),
        Daemon::Net(_) => Exit::Device,
    };
    Failure::new(exit, format!("{error}"))
}

/// Why the system has refused a daemon something, with what helps.
fn of_system(error: &dolmen_env::Error) -> Failure {
    use dolmen_env::{Errno, Error, Op};
    let why = error.to_string();
    match error {
        error if error.is_in_use() => Failure::new(Exit::InUse, why)
            .hint("another process has it: `ss -ltnp` names it, and port 0 takes a free one"),
        Error::Exists { .. } => {
            Failure::new(Exit::Taken, why).hint("it is no socket: remove it, or name another with --socket")
        }
        Error::NotFound { name } | Error::Io { op: Op::Listen, name, errno: Errno::NOENT, .. } => {
            let above = Path::new(name.strip_prefix("unix:").unwrap_or(name)).parent();
            let failure = Failure::new(Exit::Missing, why);
            match above.filter(|above| !above.exists()) {
                Some(above) => failure.hint(format!("make {} first", shown_outside(above))),
                None => failure,
            }
        }
        Error::Io { errno: Errno::ACCESS | Errno::PERM, .. } => {
            Failure::new(Exit::Refused, why).hint("run it as the owner of that directory")
        }
        Error::Io { errno: Errno::ROFS, .. } => Failure::new(Exit::Refused, why)
            .hint("mount its file system to be written, or serve a directory on another one"),
        Error::NoSpace { .. } => Failure::new(Exit::Full, why).hint("free some space on its file system"),
        _ => Failure::new(Exit::Device, why),
    }
}
