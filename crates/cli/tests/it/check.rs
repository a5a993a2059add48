//! A check of a file system, and the death of its daemon in the middle of it.

use crate::compat::System;
use dolmen_client::{ContName, Credentials, OpenFor, Pool};
use dolmen_codec::verb::Verb;
use dolmen_codec::wire::PoolAccess;
use dolmen_codec::{Ask, Outcome, QueueId, Request, Transport};
use dolmen_dfs::{Dfs, MountOptions, OpenOptions, RenameMode};
use dolmen_env::Address;
use dolmen_net::client::{Link, LinkOptions, Remote, reach};
use dolmen_types::{Head, Label};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Looks of a check at most: it lists a few directories.
const LOOKS_MAX: u32 = 100;

fn name() -> ContName {
    ContName::Label(Label::new("home").unwrap())
}

fn remote(socket: &Path) -> Remote {
    let link = Link::connect(&Address::Unix(socket.to_owned()), &LinkOptions::default()).unwrap();
    let name = reach::pool_name("tank").unwrap();
    reach::pool(&link, &Head::default(), name, PoolAccess::ReadWrite).unwrap()
}

fn pool(transport: impl Transport + 'static) -> Pool {
    Pool::connect(Arc::new(transport), Credentials::default()).unwrap()
}

/// How often the check has looked.
static LOOKS: AtomicU32 = AtomicU32::new(0);

/// A client's way to its pool, on which something happens at one look.
struct Hooked<F> {
    remote: Remote,
    at: u32,
    hook: F,
}

impl<F: Fn() + Send + Sync> Transport for Hooked<F> {
    fn call(&self, request: Request<'_>) -> Outcome {
        if matches!(request.ask, Ask::Target(_, _, Verb::List(_)))
            && LOOKS.fetch_add(1, Ordering::SeqCst) == self.at
        {
            (self.hook)();
        }
        self.remote.call(request)
    }

    fn open_queue(&self) -> dolmen_types::Result<QueueId> {
        self.remote.open_queue()
    }

    fn close_queue(&self, queue: QueueId) {
        self.remote.close_queue(queue);
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        self.remote.submit(queue, request);
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        self.remote.poll(queue, wait, out);
    }
}

/// Moves what there is from directory to directory, if the file system can be had to change it.
fn move_all(socket: &Path) {
    let stranger = pool(remote(socket));
    let Ok(cont) = stranger.open_container_for(&name(), OpenFor::Change) else { return };
    let fs = Dfs::mount(&cont, &MountOptions::default()).unwrap();
    for (from, to) in [("/a/f", "/b/g"), ("/b/f", "/a/g")] {
        fs.rename(from, &fs, to, RenameMode::Replace).unwrap();
    }
}

#[test]
fn a_check_that_repairs_empties_no_file_whatever_comes_between_at_the_death_of_the_daemon() {
    let system = Arc::new(System::new("check-cut"));
    system.json("dmg", &["pool", "create", "tank", "--size", "256MiB", "--targets", "1"]);
    system.json("daos", &["cont", "create", "tank", "home", "--type", "POSIX"]);
    let socket = system.data.join("dolmen/lab/dolmen.sock");
    let fs =
        |pool: &Pool| Dfs::mount(&pool.open_container(&name()).unwrap(), &MountOptions::default()).unwrap();
    let own = pool(remote(&socket));
    for at in ["/a", "/b"] {
        let fs = fs(&own);
        fs.mkdir(at, 0o755).unwrap();
        let file = fs.open(format!("{at}/f"), &OpenOptions::CREATE).unwrap();
        file.write_at(0, &[5; 6000]).unwrap();
    }
    drop(own);
    let mut at = 0;
    loop {
        assert!(at < LOOKS_MAX);
        let (dies, place) = (Arc::clone(&system), socket.clone());
        let hook = move || {
            dies.kill();
            // Whoever asks next starts another one.
            dies.json("daos", &["cont", "list", "tank"]);
            move_all(&place);
        };
        let checker = pool(Hooked { remote: remote(&socket), at, hook });
        let alone = checker.open_container_for(&name(), OpenFor::Alone(7)).unwrap();
        let checked = Dfs::mount(&alone, &MountOptions::default()).unwrap();
        LOOKS.store(0, Ordering::SeqCst);
        let report = checked.check(true).unwrap();
        assert!(report.leaked.is_empty(), "look {at}: {report:?}");
        assert_eq!((report.files, report.repaired), (2, true), "look {at}");
        drop((checked, alone, checker));
        let reader = pool(remote(&socket));
        for path in ["/a/f", "/b/f"] {
            assert_eq!(fs(&reader).stat(path).unwrap().size_bytes, 6000, "look {at}: {path}");
        }
        if LOOKS.load(Ordering::SeqCst) <= at {
            break;
        }
        at += 1;
    }
    assert!(at > 3, "it looks at objects and three directories: {at}");
}
