//! A daemon that is started when nobody serves: under a program that runs, too, and only where it was started so before.

use crate::double::connect;
use crate::gone::{CONT, Fading, Serving, answers, fetch};
use dolmen_codec::pool::{ContName, OpenFor, PoolVerb};
use dolmen_codec::verb::ReadAt;
use dolmen_codec::wire::{PoolAccess, PoolName};
use dolmen_codec::{Answer, Ask, Way, step};
use dolmen_codec::{Request, Transport};
use dolmen_env::{Address, Clock, DirLock, Listener, RealClock, spawn};
use dolmen_net::client::reach::{self, ServedFrom};
use dolmen_net::client::{Door, Link, LinkOptions};
use dolmen_net::server::{Options, Server, System};
use dolmen_types::{Error, Head, Uuid};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);
/// How long a client waits that waits in vain.
const SHORT: Duration = Duration::from_millis(1500);
const NAME: &str = "own";

/// A user's data, and a program that starts the daemon of his own system.
struct Site {
    data: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Guards the daemon; taken alone.
    server: Mutex<Option<Server>>,
    /// Whether the program fails.
    fails: AtomicBool,
    /// How often it has.
    failed: AtomicUsize,
    /// Whether nobody is told of that, as where a program waits for no children.
    is_quiet: AtomicBool,
    /// Whether it takes its time.
    is_slow: AtomicBool,
    /// Guards the pool of the last one; taken alone.
    pool: Mutex<Arc<Fading>>,
}

impl Site {
    fn new(name: &str) -> Self {
        let data = std::env::temp_dir().join(format!("dolmen-net-{name}-{}", std::process::id()));
        fs::create_dir_all(data.join("dolmen").join(NAME)).unwrap();
        let site = Self { data, shared: Arc::default() };
        for fifo in ["begun", "ended"] {
            let made = std::process::Command::new("mkfifo").arg(site.data.join(fifo)).status().unwrap();
            assert!(made.success());
        }
        // It has this process serve, and waits until it does, or is gone.
        let text = format!(
            "#!/bin/sh\npwd > {0}/directory\ncd {0}\necho \"$*\" >> asked\ntimeout 20 sh -c 'echo > begun; read answer < ended; [ \"$answer\" = serves ]'\n",
            site.data.display()
        );
        fs::write(site.program(), text).unwrap();
        fs::set_permissions(site.program(), fs::Permissions::from_mode(0o700)).unwrap();
        let (data, socket, shared) = (site.data.clone(), site.socket(), Arc::clone(&site.shared));
        // It ends with the test's process.
        drop(spawn("starter", move || {
            while fs::read(data.join("begun")).is_ok() {
                while shared.is_slow.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                let fails = shared.fails.load(Ordering::Relaxed);
                shared.failed.fetch_add(usize::from(fails), Ordering::Relaxed);
                if !fails {
                    *shared.server.lock().unwrap() = Some(serve(&socket, &shared.pool));
                }
                // Nobody may be there any more.
                let is_told = fails && !shared.is_quiet.load(Ordering::Relaxed);
                _ = fs::write(data.join("ended"), if is_told { "fails\n" } else { "serves\n" });
            }
        }));
        site
    }

    fn program(&self) -> PathBuf {
        self.data.join("program")
    }

    fn dir(&self) -> PathBuf {
        self.data.join("dolmen").join(NAME)
    }

    fn socket(&self) -> PathBuf {
        self.dir().join(reach::SOCKET_NAME)
    }

    fn named(&self, options: &LinkOptions) -> dolmen_net::Result<Link> {
        reach::named(&self.data, NAME, &self.program(), options)
    }

    /// Reaches a daemon by its address, which answers.
    fn reached(&self, options: &LinkOptions) -> (Link, Door) {
        *self.shared.server.lock().unwrap() = Some(serve(&self.socket(), &self.shared.pool));
        let link = reach::link(&Address::Unix(self.socket()), options).unwrap();
        let door = opened(&link);
        assert_answers(&door);
        (link, door)
    }

    /// Ends the daemon: nobody listens.
    fn end(&self) {
        self.shared.server.lock().unwrap().take().unwrap().stop();
    }

    /// How often the program was run.
    fn started(&self) -> usize {
        fs::read_to_string(self.data.join("asked")).map_or(0, |asked| asked.lines().count())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.data));
    }
}

fn serve(socket: &Path, pool: &Mutex<Arc<Fading>>) -> Server {
    let fading = Arc::new(Fading::default());
    fading.parts.store(u64::MAX, Ordering::Relaxed);
    *pool.lock().unwrap() = Arc::clone(&fading);
    let system: Arc<dyn System> = Arc::new(Serving(fading));
    // The last one has left its socket, as one that was killed does.
    drop(fs::remove_file(socket));
    let listener = Listener::bind(&Address::Unix(socket.to_owned())).unwrap();
    Server::start(&system, vec![listener], &Options::default()).unwrap()
}

fn opened(link: &Link) -> Door {
    let name = PoolName::Uuid(Uuid::nil());
    Door::open(link, &Head::default(), connect(name, PoolAccess::ReadWrite)).unwrap().0
}

fn assert_answers(door: &Door) {
    for outcome in answers(door, ReadAt::Latest) {
        assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    }
}

/// Asks on a queue, and never waits; the answer.
fn polled(door: &Door) -> Option<Error> {
    let queue = door.open_queue().unwrap();
    let end_ns = RealClock.monotonic_ns() + u64::try_from(LIMIT.as_nanos()).unwrap();
    let mut outcomes = Vec::new();
    door.submit(queue, fetch(ReadAt::Latest));
    while outcomes.is_empty() {
        assert!(RealClock.monotonic_ns() < end_ns, "no answer");
        door.poll(queue, false, &mut outcomes);
        std::thread::yield_now();
    }
    door.close_queue(queue);
    outcomes.pop().unwrap().result.err()
}

#[test]
fn a_system_that_was_named_has_its_daemon_started_again_under_a_program_that_runs() {
    let site = Site::new("started");
    let options = LinkOptions { patience: LIMIT, ..LinkOptions::default() };
    let link = site.named(&options).unwrap();
    let door = opened(&link);
    assert_answers(&door);
    assert_eq!(site.started(), 1);
    let directory = fs::read_to_string(site.data.join("directory")).unwrap();
    assert_eq!(Path::new(directory.trim()), fs::canonicalize(site.dir()).unwrap(), "it keeps no other busy");
    // Who waits in the call, and who never waits.
    site.end();
    assert_answers(&door);
    assert_eq!(site.started(), 2);
    site.end();
    assert_eq!((polled(&door), site.started()), (None, 3));
    // Who asks for the system once more in this process goes by the same connection.
    site.end();
    let again = site.named(&options).unwrap();
    let other = opened(&again);
    assert_eq!(site.started(), 4);
    [&door, &other].iter().for_each(|door| assert_answers(door));
    // So does who has found out before that nobody is there, and was told so.
    site.shared.fails.store(true, Ordering::Relaxed);
    site.end();
    let short = Head { deadline_ns: RealClock.now_ns() + 100_000_000, ..Head::default() };
    let ask = fetch(ReadAt::Latest).ask;
    let refused = door.call(Request { token: 3, head: short, ask }).result;
    assert_eq!(refused.err(), Some(Error::Unreachable { rank: 0 }));
    site.shared.fails.store(false, Ordering::Relaxed);
    let before = site.started();
    let again = site.named(&options).unwrap();
    assert_eq!(site.started(), before + 1);
    assert_answers(&opened(&again));
    assert_answers(&door);
    assert_eq!(site.started(), before + 1, "there is one daemon");
    // One that was meanwhile started by others is taken.
    site.end();
    *site.shared.server.lock().unwrap() = Some(serve(&site.socket(), &site.shared.pool));
    assert_answers(&door);
    assert_eq!(site.started(), before + 1);
    site.end();
}

#[test]
fn a_system_that_is_reached_by_its_address_has_no_daemon_started() {
    let site = Site::new("not-started");
    let options = LinkOptions { patience: SHORT, ..LinkOptions::default() };
    let (_link, door) = site.reached(&options);
    site.end();
    let unreachable = Some(Error::Unreachable { rank: 0 });
    assert_eq!(polled(&door), unreachable);
    assert_eq!(door.call(fetch(ReadAt::Latest)).result.err(), unreachable);
    assert_eq!(site.started(), 0);
}

#[test]
fn a_daemon_that_cannot_be_started_again_is_told_of_once_and_tried_again_in_turn() {
    // Guards what was said; taken alone.
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let site = Site::new("not-again");
    let note = |said: &str| SAID.lock().unwrap().push(said.to_owned());
    let options = LinkOptions { patience: SHORT, note, ..LinkOptions::default() };
    let link = site.named(&options).unwrap();
    let door = opened(&link);
    site.shared.fails.store(true, Ordering::Relaxed);
    site.end();
    assert_eq!(door.call(fetch(ReadAt::Latest)).result.err(), Some(Error::Unreachable { rank: 0 }));
    let said = SAID.lock().unwrap().clone();
    assert!(said.len() == 1 && said[0].contains("a daemon cannot be started there"), "{said:?}");
    // Not with every attempt to connect, of which there are a hundred a second.
    assert!((2..=4).contains(&site.started()), "{}", site.started());
    assert!(matches!(site.named(&options), Err(dolmen_net::Error::Env(_))));
    site.shared.fails.store(false, Ordering::Relaxed);
    assert!(site.named(&options).is_ok());
    assert_answers(&door);
    site.end();
}

#[test]
fn who_panics_where_it_is_told_that_nobody_serves_keeps_nobody_from_connecting_again() {
    static PANICS: AtomicBool = AtomicBool::new(true);
    let site = Site::new("panics");
    let note = |said: &str| assert!(!PANICS.load(Ordering::Relaxed), "{said}");
    let options = LinkOptions { patience: SHORT, note, ..LinkOptions::default() };
    for is_polled in [false, true] {
        let link = site.named(&options).unwrap();
        let door = opened(&link);
        assert_answers(&door);
        site.shared.fails.store(true, Ordering::Relaxed);
        PANICS.store(true, Ordering::Relaxed);
        site.end();
        let told = dolmen_env::scope(|threads| {
            let ask =
                || if is_polled { polled(&door) } else { door.call(fetch(ReadAt::Latest)).result.err() };
            threads.spawn(ask).join()
        });
        assert!(told.is_err(), "it was told");
        PANICS.store(false, Ordering::Relaxed);
        site.shared.fails.store(false, Ordering::Relaxed);
        let before = site.started();
        assert_eq!(
            if is_polled { door.call(fetch(ReadAt::Latest)).result.err() } else { polled(&door) },
            None
        );
        assert_answers(&door);
        assert_eq!(site.started(), before + 1);
        site.end();
    }
}

/// Looks until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end_ns = RealClock.monotonic_ns() + u64::try_from(LIMIT.as_nanos()).unwrap();
    while !is_so() {
        assert!(RealClock.monotonic_ns() < end_ns, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn who_starts_a_daemon_by_polling_and_then_computes_keeps_nobody_from_starting_the_next() {
    let site = Site::new("computes");
    let options = LinkOptions { patience: LIMIT, ..LinkOptions::default() };
    let (data, program) = (site.data.clone(), site.program());
    site.shared.is_slow.store(true, Ordering::Relaxed);
    let mut computes = pin!(reach::named_by(Way::Later, &data, NAME, &program, &options));
    until("it was started", || {
        assert!(step(&mut computes).is_pending());
        site.started() == 1
    });
    site.shared.is_slow.store(false, Ordering::Relaxed);
    until("it serves", || site.shared.server.lock().unwrap().is_some());
    site.end();
    // Whoever comes next, while nobody polls.
    let link = site.named(&options).unwrap();
    assert_answers(&opened(&link));
    assert_eq!(site.started(), 2);
    site.end();
}

#[test]
fn a_daemon_that_is_being_started_is_waited_for_by_who_comes_after_one_without_patience() {
    let site = Site::new("slow");
    site.shared.is_slow.store(true, Ordering::Relaxed);
    let short = LinkOptions { patience: Duration::from_millis(50), ..LinkOptions::default() };
    for _ in 0..3 {
        assert!(matches!(site.named(&short), Err(dolmen_net::Error::TimedOut)));
    }
    until("it was started", || site.started() == 1);
    let options = LinkOptions { patience: LIMIT, ..LinkOptions::default() };
    let link = dolmen_env::scope(|threads| {
        let comes = threads.spawn(|| site.named(&options).unwrap());
        site.shared.is_slow.store(false, Ordering::Relaxed);
        comes.join().unwrap()
    });
    assert_answers(&opened(&link));
    assert_eq!(site.started(), 1, "nobody has started another");
    // Nor is anything left of the program: whoever names the system looks after it.
    let own = std::process::id();
    let is_left = |entry: &fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        stat.contains(&format!("(program) Z {own} "))
    };
    until("its program is waited for", || {
        drop(site.named(&options).unwrap());
        !fs::read_dir("/proc").unwrap().any(|entry| entry.is_ok_and(|entry| is_left(&entry)))
    });
    site.end();
}

#[test]
fn a_daemon_that_is_about_to_end_is_waited_for_by_who_has_the_next_one_started() {
    let site = Site::new("ending");
    let options = LinkOptions { patience: LIMIT, ..LinkOptions::default() };
    for is_quiet in [false, true] {
        // It listens no more, and has the directory until its pools are closed.
        let ending = DirLock::acquire(&site.dir()).unwrap();
        let before = site.started();
        site.shared.is_quiet.store(is_quiet, Ordering::Relaxed);
        site.shared.failed.store(0, Ordering::Relaxed);
        site.shared.fails.store(true, Ordering::Relaxed);
        let link = dolmen_env::scope(|threads| {
            let comes = threads.spawn(|| site.named(&options).unwrap());
            until("it was refused", || site.shared.failed.load(Ordering::Relaxed) == 1);
            let end_ns = RealClock.monotonic_ns() + 300_000_000;
            until("a while is over", || RealClock.monotonic_ns() >= end_ns);
            assert_eq!(site.shared.failed.load(Ordering::Relaxed), 1, "the directory is not free");
            site.shared.fails.store(false, Ordering::Relaxed);
            drop(ending);
            comes.join().unwrap()
        });
        assert_answers(&opened(&link));
        assert_eq!(site.started(), before + 2);
        site.end();
    }
    site.shared.is_quiet.store(false, Ordering::Relaxed);
    // One that does not end is told of when patience is over.
    let _stays = DirLock::acquire(&site.dir()).unwrap();
    site.shared.fails.store(true, Ordering::Relaxed);
    let short = LinkOptions { patience: SHORT, ..LinkOptions::default() };
    assert!(matches!(site.named(&short), Err(dolmen_net::Error::Env(_))));
    assert_eq!(site.started(), 5, "it is not tried over and over");
}

#[test]
fn a_start_that_fails_is_told_at_once_where_the_number_of_an_owner_was_left_that_is_anothers_now() {
    let site = Site::new("left");
    fs::write(site.dir().join(".owner"), format!("{:<15}\n", std::process::id())).unwrap();
    site.shared.fails.store(true, Ordering::Relaxed);
    let options = LinkOptions { patience: LIMIT, ..LinkOptions::default() };
    let begun_ns = RealClock.monotonic_ns();
    assert!(matches!(site.named(&options), Err(dolmen_net::Error::Env(_))));
    let took = Duration::from_nanos(RealClock.monotonic_ns() - begun_ns);
    assert!(took < LIMIT / 2, "{took:?}");
    assert_eq!(site.started(), 1);
}

#[test]
fn no_system_is_made_under_the_name_of_one_that_was_moved_and_none_in_its_place_is_served() {
    let site = Site::new("not-anew");
    let options = LinkOptions { patience: SHORT, ..LinkOptions::default() };
    let link = site.named(&options).unwrap();
    let door = opened(&link);
    assert_answers(&door);
    site.end();
    let (dir, elsewhere) = (site.dir(), site.data.join("elsewhere"));
    fs::rename(&dir, &elsewhere).unwrap();
    for is_anothers in [false, true] {
        if is_anothers {
            fs::create_dir(&dir).unwrap();
        }
        // A start is tried once a second.
        let end_ns = RealClock.monotonic_ns() + 1_500_000_000;
        while RealClock.monotonic_ns() < end_ns {
            assert_eq!(door.call(fetch(ReadAt::Latest)).result.err(), Some(Error::Unreachable { rank: 0 }));
        }
        assert_eq!(close(&door), Ok(()), "it has ended");
        assert_eq!(dir.exists(), is_anothers);
        assert!(!is_anothers || fs::read_dir(&dir).unwrap().next().is_none());
    }
    assert_eq!(site.started(), 1);
    fs::remove_dir(&dir).unwrap();
    fs::rename(&elsewhere, &dir).unwrap();
    // Who has found none is told so for a second.
    until("it is there again", || polled(&door).is_none());
    assert_answers(&door);
    assert_eq!(site.started(), 2);
    site.end();
}

fn close(door: &Door) -> dolmen_types::Result<()> {
    let ask = Ask::Pool(PoolVerb::ContClose(CONT));
    door.call(Request { token: 1, head: Head::default(), ask })
        .result
        .map(|answer| assert!(matches!(answer, Answer::Pool(_))))
}

#[test]
fn who_gives_something_up_waits_a_second_for_who_does_not_answer_also_while_others_connect() {
    let site = Site::new("mute");
    let options = LinkOptions { patience: LIMIT, ..LinkOptions::default() };
    let (_link, door) = site.reached(&options);
    site.end();
    drop(fs::remove_file(site.socket()));
    // It takes connections, and says nothing.
    let _mute = UnixListener::bind(site.socket()).unwrap();
    let queue = door.open_queue().unwrap();
    door.submit(queue, fetch(ReadAt::Latest));
    let mut outcomes = Vec::new();
    for _ in 0..20 {
        door.poll(queue, false, &mut outcomes);
        assert!(outcomes.is_empty());
    }
    let begun_ns = RealClock.monotonic_ns();
    assert_eq!(close(&door), Ok(()));
    let took = Duration::from_nanos(RealClock.monotonic_ns() - begun_ns);
    // An attempt to connect takes five seconds, and the client waits for longer.
    assert!(took < Duration::from_secs(4), "{took:?}");
    door.close_queue(queue);
}

#[test]
fn what_is_given_up_while_another_has_a_daemon_started_is_given_back_to_that() {
    let site = Site::new("gives");
    let options = LinkOptions { patience: LIMIT, ..LinkOptions::default() };
    let link = site.named(&options).unwrap();
    let door = opened(&link);
    let ask = Ask::Pool(PoolVerb::ContOpen(ContName::Uuid(Uuid::from_u128(7)), OpenFor::Any));
    assert!(door.call(Request { token: 1, head: Head::default(), ask }).result.is_ok());
    let others: Vec<Door> = (0..8).map(|_| opened(&link)).collect();
    site.shared.is_slow.store(true, Ordering::Relaxed);
    site.end();
    let queue = door.open_queue().unwrap();
    door.submit(queue, fetch(ReadAt::Latest));
    let mut outcomes = Vec::new();
    until("it is being started", || {
        door.poll(queue, false, &mut outcomes);
        site.started() == 2
    });
    assert!(outcomes.is_empty());
    let begun_ns = RealClock.monotonic_ns();
    assert_eq!(close(&door), Ok(()));
    drop(others);
    let took = Duration::from_nanos(RealClock.monotonic_ns() - begun_ns);
    assert!(took < Duration::from_secs(4), "he waits once, not for each: {took:?}");
    site.shared.is_slow.store(false, Ordering::Relaxed);
    until("it goes on", || {
        door.poll(queue, false, &mut outcomes);
        outcomes.len() == 1
    });
    assert!(outcomes[0].result.is_ok());
    let pool = Arc::clone(&site.shared.pool.lock().unwrap());
    until("it was given back", || pool.handles.load(Ordering::Relaxed) == 0);
    assert_eq!(pool.opened.load(Ordering::Relaxed), 1, "it was opened again before");
    assert_eq!(site.started(), 2);
    door.close_queue(queue);
    site.end();
}

#[test]
fn a_system_that_was_reached_by_its_name_is_followed_to_where_it_is_served_under_that_and_no_other_is() {
    let site = Site::new("followed");
    let socket_in = |dir: &str| site.data.join(dir).join(reach::SOCKET_NAME);
    let serve_in = |dir: &str| serve(&socket_in(dir), &site.shared.pool);
    let record = |dir: &str| {
        let place = ServedFrom { dir: site.data.join(dir), words: Vec::new() };
        reach::record(&site.data, NAME, &place, |_| false).unwrap();
    };
    let mv = |from: &str, to: &str| fs::rename(site.data.join(from), site.data.join(to)).unwrap();
    ["first", "other"].iter().for_each(|dir| fs::create_dir(site.data.join(dir)).unwrap());
    record("first");
    let server = serve_in("first");
    let options = LinkOptions { patience: LIMIT, ..LinkOptions::default() };
    let link = site.named(&options).unwrap();
    let door = opened(&link);
    assert_answers(&door);
    // Who waits in the call, and who never waits.
    server.stop();
    mv("first", "second");
    record("second");
    let server = serve_in("second");
    assert_answers(&door);
    server.stop();
    mv("second", "third");
    record("third");
    let server = serve_in("third");
    assert_eq!(polled(&door), None);
    // Who names the system, or where it is, goes by the same connection; who names where it was, by none to it.
    for link in
        [site.named(&options).unwrap(), reach::link(&Address::Unix(socket_in("third")), &options).unwrap()]
    {
        assert_answers(&opened(&link));
    }
    assert!(matches!(
        reach::link(&Address::Unix(socket_in("first")), &options),
        Err(dolmen_net::Error::Env(_))
    ));
    server.stop();
    // Another system is served under the name: nothing is asked there.
    record("other");
    let other = serve_in("other");
    let short = Head { deadline_ns: RealClock.now_ns() + 300_000_000, ..Head::default() };
    let refused = door.call(Request { token: 3, head: short, ask: fetch(ReadAt::Latest).ask }).result;
    assert_eq!(refused.err(), Some(Error::Unreachable { rank: 0 }));
    other.stop();
    let server = serve_in("third");
    assert_answers(&door);
    // What was reached by its address stays there.
    drop((link, door));
    let options = LinkOptions { patience: SHORT, ..LinkOptions::default() };
    let door = opened(&reach::link(&Address::Unix(socket_in("third")), &options).unwrap());
    server.stop();
    mv("third", "fourth");
    record("fourth");
    let server = serve_in("fourth");
    assert_eq!(door.call(fetch(ReadAt::Latest)).result.err(), Some(Error::Unreachable { rank: 0 }));
    server.stop();
    assert_eq!(site.started(), 0);
}
