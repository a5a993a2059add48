//! Clients that fork: the child has no part in the connection, and does not keep it alive.

use crate::bystander::Bystander;
use crate::child::{ChildDaemon, until};
use crate::common::{Scratch, WAYS, Way};
use dolmen_client::{At, EventQueue, Output, Wait};
use dolmen_codec::wire::SystemVerb;
use dolmen_net::client::{Link, LinkOptions};
use dolmen_types::{Error, Head};
use rustix::process::Signal;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// What a forked child reports if it finds everything as it should.
const ALL_RIGHT: i32 = 123;

/// Runs `body` in a forked child, which then ends without running anything else.
fn in_forked_child(body: impl Fn() -> bool + Send + Sync + 'static) -> bool {
    let mut command = Command::new("true");
    let told = move || {
        let errno = if body() { ALL_RIGHT } else { 1 };
        Err(std::io::Error::from_raw_os_error(errno))
    };
    // SAFETY: the child of this process calls nothing that waits for threads which only the parent has: that is what is
    // tested.
    unsafe { command.pre_exec(told) };
    command.spawn().unwrap_err().raw_os_error() == Some(ALL_RIGHT)
}

#[test]
fn a_forked_child_is_refused_at_once_and_its_parent_goes_on() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let link = daemon.link(way);
        let mut bystander = Bystander::first(link.clone());
        let (object, cont) = (bystander.object.clone(), bystander.cont.clone());
        let queue = EventQueue::new(&bystander.pool).unwrap();
        let theirs = (link, queue);
        bystander.goes_on();
        let refused = in_forked_child(move || {
            let (link, queue) = &theirs;
            let gone = Error::Unreachable { rank: 0 };
            let mut done = Vec::new();
            let Ok(mut event) = queue.event() else { return false };
            let launched = cont.query_on(&mut event).is_ok();
            link.is_forked()
                && link.ask_system(&Head::default(), &SystemVerb::Ping) == Err(gone.clone())
                && object.put(At::Latest, b"k", b"a", b"v") == Err(gone.clone())
                && launched
                && queue.poll(Wait::Forever, 1, &mut done) == Ok(1)
                && matches!(event.take_result(), Some(Err(error)) if error == gone)
        });
        assert!(refused, "{way:?}");
        for _ in 0..3 {
            bystander.goes_on();
        }
        assert_eq!(bystander.handle_count(), 1);
        daemon.assert_sound();
    }
}

/// The child hears that it has no part in what is under way, and says nothing on the connection, on which its parent goes on.
#[test]
fn a_forked_child_gives_up_what_is_under_way_without_a_word_to_the_daemon() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let link = daemon.link(way);
        let mut bystander = Bystander::first(link.clone());
        let queue = EventQueue::new(&bystander.pool).unwrap();
        bystander.goes_on();
        let mut event = queue.event().unwrap();
        daemon.stop();
        bystander.cont.query_on(&mut event).unwrap();
        let (heard, event) = (link.heard(), Arc::new(Mutex::new(event)));
        let theirs = (queue.clone(), Arc::clone(&event));
        let refused = in_forked_child(move || {
            let (queue, event) = &theirs;
            let (mut done, Ok(mut event)) = (Vec::new(), event.lock()) else { return false };
            queue.poll(Wait::Forever, 1, &mut done) == Ok(1)
                && matches!(event.take_result(), Some(Err(Error::Unreachable { .. })))
        });
        daemon.signal(Signal::CONT);
        assert!(refused, "{way:?}");
        let mut done = Vec::new();
        assert_eq!(queue.poll(Wait::Forever, 1, &mut done), Ok(1), "{way:?}");
        let result = event.lock().unwrap().take_result();
        assert!(matches!(result, Some(Ok(Output::Info(_)))), "{way:?}: {result:?}");
        link.ask_system(&Head::default(), &SystemVerb::Ping).unwrap();
        assert_eq!(link.heard(), heard + 2, "{way:?}: its answer, and that of one question");
        bystander.goes_on();
        daemon.assert_sound();
    }
}

#[test]
fn a_program_that_a_client_starts_inherits_nothing_of_its_connections() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let links = WAYS.map(|way| daemon.link(way));
    let listed = Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("->"), "{listed}");
    for kind in ["socket:", "memfd:", "anon_inode:"] {
        assert!(!listed.contains(kind), "{listed}");
    }
    assert!(links.iter().all(|link| !link.is_forked()));
}

const NAME: &str = "forks::a_child_that_lives_on_keeps_nothing_of_its_dead_parent";
/// Set for the client: the directory of the daemon.
const DIRECTORY: &str = "FORKING_CLIENT_DIRECTORY";

/// The client: opens a container, and forks a child that waits for the end of its input, as the client itself.
fn fork_and_wait(dir: &Path) {
    let address = dolmen_env::Address::Unix(dir.join(dolmen_daemon::Settings::SOCKET_NAME));
    let mut bystander = Bystander::of(&Link::connect(&address, &LinkOptions::default()).unwrap());
    bystander.goes_on();
    let waits = || {
        eprintln!("forked");
        // Ignored: whatever comes, it is over then.
        let _read = std::io::stdin().read(&mut [0; 1]);
    };
    let waited = in_forked_child(move || {
        waits();
        true
    });
    assert!(waited);
}

#[test]
fn a_child_that_lives_on_keeps_nothing_of_its_dead_parent() {
    if let Some(dir) = std::env::var_os(DIRECTORY) {
        return fork_and_wait(Path::new(&dir));
    }
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let mut bystander = Bystander::first(daemon.link(Way::Rings));
    bystander.goes_on();
    let (descriptors, rings) = (daemon.descriptor_count(), daemon.ring_count());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([NAME, "--exact", "--nocapture"]).env(DIRECTORY, dir.path());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut client = command.spawn().unwrap();
    let mut said = [0; 6];
    client.stderr.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"forked");
    assert_eq!(bystander.handle_count(), 2);
    client.kill().unwrap();
    // Its child has the socket still.
    until("the handle is given back", || bystander.handle_count() == 1);
    until("the connection is gone", || daemon.descriptor_count() == descriptors);
    until("the memory is gone", || daemon.ring_count() == rings);
    bystander.goes_on();
    drop(client.stdin.take());
    assert!(!client.wait().unwrap().success());
    daemon.assert_sound();
}
