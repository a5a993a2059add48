//! The thread that waits for the socket, and those that take in beside it what would have woken it.
//!
//! The system wakes who waits for a socket when something comes, and puts him to sleep again if others have emptied it by then.
//! A ring calls who sleeps once: by a byte in the socket, which who waits for room takes as well.
//!
//! Invariants: whoever takes in an answer of others, or a call, while a thread waits for the socket, wakes that.

use super::{Guard, Inner, State};
use core::time::Duration;
use dolmen_env::Bell;
use std::sync::{Arc, PoisonError};

impl Inner {
    /// Waits for the socket, or for the thread that does.
    pub(super) fn sleep<'s>(&'s self, mut state: Guard<'s>, timeout: Duration) -> Guard<'s> {
        if state.is_driven {
            dolmen_env::look();
            state.sleepers += 1;
            let (again, _) = self.woken.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.sleepers -= 1;
            return state;
        }
        // Who writes into a ring is called through the socket, which itself has room.
        let is_socket = state.session.as_ref().is_some_and(|session| !session.stream.is_ring());
        let for_room = is_socket && state.waits_for_room();
        let Some(socket) = state.rest() else { return state };
        let bell = state.bell();
        state.is_driven = true;
        drop(state);
        let mut driving = Driving { inner: self, is_over: false };
        // Ignored: a socket that cannot be waited for is found broken by the next look.
        let _ready = socket.wait_beside(true, for_room, bell.as_deref(), Some(timeout));
        let mut state = driving.end();
        state.wake();
        if state.sleepers > 0 {
            self.woken.notify_all();
        }
        state
    }
}

/// A thread waits at the socket for all: also one that panics leaves that to the next.
struct Driving<'s> {
    inner: &'s Inner,
    is_over: bool,
}

impl<'s> Driving<'s> {
    fn end(&mut self) -> Guard<'s> {
        self.is_over = true;
        let mut state = self.inner.lock();
        state.is_driven = false;
        state.still();
        state
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.end());
            self.inner.woken.notify_all();
        }
    }
}

impl State {
    /// Something was taken in that may be for the thread that waits for the socket. Through a ring it was called for that.
    #[inline]
    pub(super) fn tell_driver(&mut self, is_for_others: bool) {
        let is_called = self.session.as_ref().is_none_or(|session| session.stream.is_ring());
        if is_for_others && !is_called {
            self.ring();
        }
    }

    /// Wakes the thread that waits for the socket, if one does: once.
    pub(super) fn ring(&mut self) {
        if self.is_driven
            && !self.is_rung
            && let Some(bell) = &self.bell
        {
            bell.ring();
            self.is_rung = true;
        }
    }

    /// That thread is awake.
    fn still(&mut self) {
        if core::mem::take(&mut self.is_rung)
            && let Some(bell) = &self.bell
        {
            bell.still();
        }
    }

    /// What wakes a thread that is about to wait for the socket. `None` if the process can have no more descriptors: then it may
    /// wake late.
    fn bell(&mut self) -> Option<Arc<Bell>> {
        if self.bell.is_none() {
            self.bell = Bell::new().ok().map(Arc::new);
        }
        self.bell.clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::client::link::{Guard, Link};
    use crate::client::{LinkOptions, session::deadline_after};
    use crate::ring::{RING_BYTES_MIN, memory_bytes};
    use crate::stream::Stream;
    use core::time::Duration;
    use dolmen_codec::wire::{
        HELLO_BYTES, Hello, REQUEST_HEADER_BYTES, ReplyTo, RequestHeader, SystemReply, SystemVerb, Version,
        Welcome, encode_system_reply,
    };
    use dolmen_env::{Address, Clock, Listener, Moved, RealClock, SharedMemory, Socket};
    use dolmen_types::{Head, Uuid};
    use std::io::IoSlice;

    const LIMIT: Duration = Duration::from_secs(20);

    /// A client, and what it has connected to, through rings or the socket alone.
    fn connected(ring_bytes: usize) -> (Link, Stream) {
        let name = format!("dolmen-net-bell-{ring_bytes}-{}", std::process::id());
        let listener = Listener::bind(&Address::Unix(std::env::temp_dir().join(name))).unwrap();
        let options = LinkOptions { ring_bytes, patience: LIMIT, ..LinkOptions::default() };
        dolmen_env::scope(|threads| {
            let peer = threads.spawn(|| greeted(accepted(&listener), ring_bytes));
            let link = Link::connect(listener.address(), &options).unwrap();
            (link, peer.join().unwrap())
        })
    }

    fn accepted(listener: &Listener) -> Socket {
        loop {
            if let Some(socket) = listener.accept().unwrap() {
                return socket;
            }
            std::thread::yield_now();
        }
    }

    fn greeted(socket: Socket, ring_bytes: usize) -> Stream {
        let mut hello = [0; HELLO_BYTES];
        fill(|bytes| socket.read(bytes).unwrap(), &mut hello);
        assert_eq!(Hello::decode(&hello).unwrap().agreed(), Some(Version::NEWEST));
        let welcome = Welcome {
            version: Version::NEWEST,
            rank: 0,
            engine: Uuid::nil(),
            instance: 1,
            features: 0,
            ring_bytes: ring_bytes as u64,
            body_bytes_max: 1 << 20,
            payload_bytes_max: 1 << 20,
            requests_max: 16,
            system: "double".to_owned(),
        };
        let welcome = welcome.encode();
        if ring_bytes == 0 {
            socket.write(&[IoSlice::new(&welcome)]).unwrap();
            return Stream::over_socket(socket);
        }
        let memory = SharedMemory::create(memory_bytes(ring_bytes)).unwrap();
        socket.write_with(&[IoSlice::new(&welcome)], memory.fd()).unwrap();
        let mut stream = Stream::over_socket(socket);
        stream.go_over_to_rings(memory, ring_bytes, true).unwrap();
        stream
    }

    fn fill(mut read: impl FnMut(&mut [u8]) -> Moved, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            match read(&mut bytes[at..]) {
                Moved::Bytes(len) => at += len,
                Moved::Later => std::thread::yield_now(),
                Moved::End => panic!("it has gone"),
            }
        }
    }

    /// Takes a question, and answers it.
    fn answer(stream: &mut Stream) {
        let mut bytes = [0; REQUEST_HEADER_BYTES];
        let moved = |len| if len == 0 { Moved::Later } else { Moved::Bytes(len) };
        fill(|bytes| moved(stream.read(bytes).unwrap()), &mut bytes);
        let header = RequestHeader::decode(&bytes, Version::NEWEST).unwrap();
        fill(|bytes| moved(stream.read(bytes).unwrap()), &mut vec![0; header.body_bytes as usize]);
        let (version, token) = (Version::NEWEST, header.token);
        let to = ReplyTo { version, token, map_version: 1, push_seq: 0, lease: (0, 0), plan: None };
        let mut frame = Vec::new();
        encode_system_reply(&mut frame, &to, &Ok(SystemReply::Done));
        assert_eq!(stream.write(&frame).unwrap(), frame.len());
        stream.flush().unwrap();
    }

    /// The state, once a thread waits for the socket.
    fn driven(link: &Link) -> Guard<'_> {
        let end_ns = deadline_after(LIMIT);
        loop {
            let state = link.inner.lock();
            if state.is_driven {
                return state;
            }
            drop(state);
            assert!(RealClock.monotonic_ns() < end_ns, "nobody waits");
            std::thread::yield_now();
        }
    }

    fn ping(link: &Link) {
        assert_eq!(link.ask_system(&Head::default(), &SystemVerb::Ping), Ok(SystemReply::Done));
    }

    #[test]
    fn who_takes_in_the_answer_of_the_thread_that_waits_for_the_socket_wakes_it() {
        let (link, mut peer) = connected(0);
        dolmen_env::scope(|threads| {
            let waiting = threads.spawn(|| ping(&link));
            let mut state = driven(&link);
            state.pump();
            assert!(!state.is_rung, "nothing has come");
            answer(&mut peer);
            while state.take_in() == 0 {
                std::thread::yield_now();
            }
            state.tell_driver(false);
            assert!(!state.is_rung, "it is that of who has taken it in");
            state.tell_driver(true);
            assert!(state.is_rung);
            drop(state);
            waiting.join().unwrap();
            assert!(!link.inner.lock().is_rung, "the next one who waits is not woken for that");
        });
    }

    #[test]
    fn who_waits_for_room_in_a_ring_wakes_the_thread_that_waits_for_the_socket() {
        let (link, mut peer) = connected(RING_BYTES_MIN);
        dolmen_env::scope(|threads| {
            let waiting = threads.spawn(|| ping(&link));
            let mut state = driven(&link);
            // Its call comes, and is taken by who waits for room; its answer may have come before he has said that he reads.
            answer(&mut peer);
            state.spin.moved();
            let mut end_ns = 0;
            while end_ns == 0 {
                state.make_room(&mut end_ns);
            }
            assert!(state.is_rung);
            drop(state);
            waiting.join().unwrap();
            assert!(!link.inner.lock().is_rung);
        });
    }
}
