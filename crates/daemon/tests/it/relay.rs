//! A way to a daemon that loses an answer when it is told to.

use dolmen_env::Address;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Hands bytes on between clients and a daemon; its threads end with the test's process.
pub(crate) struct Relay {
    at: PathBuf,
    /// How many answers until one is lost, that one included.
    loses: Arc<AtomicU32>,
    is_closed: Arc<AtomicBool>,
    has_lost: Arc<AtomicBool>,
}

impl Relay {
    /// Listens in `dir`.
    pub(crate) fn start(to: &Address, dir: &Path) -> Self {
        let Address::Unix(to) = to.clone() else { panic!("a relay leads to a socket") };
        let at = dir.join("relay.sock");
        let listener = UnixListener::bind(&at).unwrap();
        let (loses, [has_lost, is_closed]) =
            (Arc::new(AtomicU32::new(0)), [false, false].map(|is| Arc::new(AtomicBool::new(is))));
        let (wanted, done, closed) = (Arc::clone(&loses), Arc::clone(&has_lost), Arc::clone(&is_closed));
        spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                if closed.load(Ordering::SeqCst) {
                    continue;
                }
                // Nobody listens while the daemon is dead: the client finds out, and comes again.
                let Ok(far) = UnixStream::connect(&to) else { continue };
                let (from, to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                spawn(move || hand_on(from, to, || false));
                let (wanted, done) = (Arc::clone(&wanted), Arc::clone(&done));
                spawn(move || {
                    hand_on(far, near, || {
                        let one_less = |left: u32| left.checked_sub(1);
                        let is_lost =
                            wanted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) == Ok(1);
                        done.fetch_or(is_lost, Ordering::SeqCst);
                        is_lost
                    });
                });
            }
        });
        Self { at, loses, is_closed, has_lost }
    }

    pub(crate) fn address(&self) -> Address {
        Address::Unix(self.at.clone())
    }

    /// Lets the next answer be lost, and all of its connection that follow.
    pub(crate) fn lose_an_answer(&self) {
        self.lose_answer_after(0);
    }

    /// The same with an answer to come, after some that arrive.
    pub(crate) fn lose_answer_after(&self, count: u32) {
        self.has_lost.store(false, Ordering::SeqCst);
        self.loses.store(count + 1, Ordering::SeqCst);
    }

    /// Whether it refuses who connects.
    pub(crate) fn close(&self, is_closed: bool) {
        self.is_closed.store(is_closed, Ordering::SeqCst);
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::SeqCst)
    }
}

fn spawn(body: impl FnOnce() + Send + 'static) {
    drop(dolmen_env::spawn("relay", body).unwrap());
}

fn hand_on(mut from: UnixStream, mut to: UnixStream, is_lost: impl Fn() -> bool) {
    let (mut bytes, mut has_lost) = ([0; 4096], false);
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        // What is lost is missed when the connection ends, with the daemon.
        has_lost |= is_lost();
        if !has_lost && to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    // Either may be closed already.
    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
}
