//! Files that are nowhere, served over HTTP to whoever asks for parts of them: ROOT, uproot, a browser.
//!
//! What is understood is what such readers send: GET and HEAD, one range or several (`multipart/byteranges`), `If-Range`, `If-Match`, `If-None-Match`
//! and connections that stay. Everything else is answered by its status.
//!
//! Invariants: at most [`CONNECTIONS_MAX`] connections, each with a thread and [`PART_BYTES`] of memory; the head of a request
//! has at most [`HEAD_BYTES_MAX`]. Nobody keeps others out: where all places are taken and somebody waits for one, who has been
//! silent for [`Patience::crowded`] gives his to the next, and who has been served for longer than that does after his next answer.

#[doc(hidden)]
pub mod fuzz;
mod request;

use crate::error::{Error, Result};
use dolmen_env::{Address, Bell, Clock as _, Listener, Moved, RealClock, Socket, Waiter, spawn};
use request::{Ask, Asked, Method, Part};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Connections at once; more wait until one of these ends.
const CONNECTIONS_MAX: usize = 128;

/// Bytes of a head: what a reader with thousands of ranges sends.
const HEAD_BYTES_MAX: usize = 256 << 10;

/// Bytes that are made and sent at once.
const PART_BYTES: usize = 1 << 20;

/// How long a connection may take to ask, or not take what it asked for.
#[derive(Clone, Copy)]
struct Patience {
    /// While there is room for others.
    quiet: Duration,
    /// While there is none, and somebody waits for some.
    crowded: Duration,
    /// How often it is looked whether there is, and whether more is taken.
    look: Duration,
}

const PATIENCE: Patience = Patience {
    quiet: Duration::from_secs(60),
    crowded: Duration::from_secs(5),
    look: Duration::from_secs(1),
};

/// Who takes fewer bytes at a time does not take what he asked for.
const TAKEN_BYTES: usize = 64 << 10;

/// How long to wait for room for one more connection before looking again.
const FULL_WAIT: Duration = Duration::from_millis(50);

/// Bytes from an offset on, as [`VirtualFile::read_at`](crate::rootfile::VirtualFile::read_at) fills them.
pub type ReadAt = Box<dyn Fn(u64, &mut [u8]) -> Result<usize> + Send + Sync>;

/// A file that is shown.
pub struct Shown {
    /// Its path without the slash before it, with all characters as they are: see [`Served::url`].
    pub name: Box<str>,
    /// Its length.
    pub length_bytes: u64,
    /// Its bytes.
    pub read: ReadAt,
}

struct State {
    files: Vec<Shown>,
    /// What tags of files are of, here and in no other serving: what was served before may have been another version, of the same name and length.
    tag: u64,
    /// Rung when all are to end, which `is_over` then says.
    stop: Bell,
    is_over: AtomicBool,
    connection_count: AtomicUsize,
    /// Whether a connection waits for a place, while all are taken.
    is_awaited: AtomicBool,
    patience: Patience,
}

impl State {
    fn new(files: Vec<Shown>, patience: Patience) -> dolmen_env::Result<Self> {
        let (stop, is_over, is_awaited) = (Bell::new()?, AtomicBool::new(false), AtomicBool::new(false));
        let tag = dolmen_env::entropy_u64()?;
        Ok(Self { files, tag, stop, is_over, connection_count: AtomicUsize::new(0), is_awaited, patience })
    }

    fn is_full(&self) -> bool {
        self.connection_count.load(Ordering::Acquire) >= CONNECTIONS_MAX
    }

    fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.stop.ring();
    }
}

/// Files that are served until this is dropped.
pub struct Served {
    address: Address,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Serves the files at an address of the network or a Unix socket; port 0 takes a free one. Whoever reaches the address reads all of
    /// them.
    ///
    /// # Errors
    /// [`Error::Io`] if the address is taken or is not this machine's.
    pub fn start(address: &Address, files: Vec<Shown>) -> Result<Self> {
        let listener = Listener::bind(address).map_err(io)?;
        let address = listener.address().clone();
        let state = Arc::new(State::new(files, PATIENCE).map_err(io)?);
        let of_thread = state.clone();
        let thread = spawn("dolmen-web", move || {
            if let Err(error) = listen(&listener, &of_thread, || listener.accept()) {
                dolmen_env::say(&format!("files are served no longer: {error}"));
            }
        });
        Ok(Self { address, state, thread: Some(thread.map_err(io)?) })
    }

    /// Where it is served, with the port that was taken.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The URL of a file of this name, or of what else is there; none at a Unix socket.
    #[must_use]
    pub fn url(&self, name: &str) -> Option<String> {
        let Address::Tcp(at) = &self.address else { return None };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        let written = name.bytes().map(|byte| match is_plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        });
        Some(format!("http://{at}/{}", written.collect::<String>()))
    }

    /// Waits until the serving ends, which it does only when the system does not say any more when connections arrive.
    pub fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            // Ignored: a panic of the thread was told when it happened.
            drop(thread.join());
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.state.end();
        if let Some(thread) = self.thread.take() {
            // Ignored: as above.
            drop(thread.join());
        }
    }
}

fn io(error: dolmen_env::Error) -> Error {
    Error::Io { offset: 0, source: std::io::Error::other(error) }
}

/// A connection, as long as it counts.
struct Counted {
    state: Arc<State>,
    has_place: bool,
}

impl Counted {
    fn new(state: &Arc<State>) -> Self {
        state.connection_count.fetch_add(1, Ordering::AcqRel);
        Self { state: Arc::clone(state), has_place: true }
    }

    /// Gives its place to another one that waits, if all are taken: of several that would, one.
    fn gives_place(&mut self) -> bool {
        if !self.state.is_awaited() {
            return false;
        }
        let (all, fewer) = (CONNECTIONS_MAX, CONNECTIONS_MAX - 1);
        let count = &self.state.connection_count;
        let gives = count.compare_exchange(all, fewer, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        self.has_place &= !gives;
        gives
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.has_place {
            self.state.connection_count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A connection and its place.
struct Place {
    socket: Socket,
    counted: Counted,
    /// When it came.
    came_ns: u64,
    /// Since when it has not done what it is waited for: asked, or taken as much as counts.
    began_ns: u64,
    /// What it has taken since.
    taken: usize,
}

/// Which way a connection is to move.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

impl Place {
    fn new(socket: Socket, state: &Arc<State>) -> Self {
        let now_ns = RealClock.monotonic_ns();
        Self { socket, counted: Counted::new(state), came_ns: now_ns, began_ns: now_ns, taken: 0 }
    }

    fn state(&self) -> &State {
        &self.counted.state
    }

    /// From now on it is waited for anew.
    fn begin(&mut self) {
        (self.began_ns, self.taken) = (RealClock.monotonic_ns(), 0);
    }

    /// Whether it has been served for long enough while others wait.
    fn is_to_end(&self) -> bool {
        let state = self.state();
        state.is_full() && state.is_awaited() && since(self.came_ns) >= state.patience.crowded
    }

    /// Waits until it can be moved that way, or is to be tried again, if it may be waited for any longer.
    fn wait(&mut self, way: Way) -> Spoken {
        let (patience, waited) = (self.state().patience, since(self.began_ns));
        let is_over = self.state().is_over.load(Ordering::Acquire) || waited >= patience.quiet;
        if is_over || (waited >= patience.crowded && self.counted.gives_place()) {
            return Err(Over::Gone);
        }
        // Where several wait for a place those that can give one look as often as one is given.
        let is_near = waited >= patience.crowded && (self.state().is_awaited() || self.state().is_full());
        let look = if is_near { patience.look.min(FULL_WAIT) } else { patience.look };
        let (beside, look) = (Some(&self.state().stop), Some(look));
        // Whether there is room is told only when much of what was sent has been taken: who takes little by little is seen by trying.
        self.socket.wait_beside(way == Way::In, way == Way::Out, beside, look)?;
        Ok(())
    }
}

fn since(began_ns: u64) -> Duration {
    Duration::from_nanos(RealClock.monotonic_ns().saturating_sub(began_ns))
}

/// Takes connections until it is told to end: where the system has no room for one more, it is asked again after a while.
fn listen(
    listener: &Listener,
    state: &Arc<State>,
    mut accept: impl FnMut() -> dolmen_env::Result<Option<Socket>>,
) -> dolmen_env::Result<()> {
    const NEW: u64 = 1;
    const STOP: u64 = 2;
    let waiter = Waiter::new()?;
    waiter.add(listener, NEW, false)?;
    waiter.add(&state.stop, STOP, false)?;
    let waiting = Waiter::new()?;
    waiting.add(listener, NEW, false)?;
    let (mut ready, mut was_refused, mut is_deaf) = (Vec::new(), false, false);
    loop {
        ready.clear();
        let is_full = was_refused || state.is_full();
        if is_full {
            waiting.wait(Some(Duration::ZERO), &mut ready)?;
        }
        state.is_awaited.store(!ready.is_empty(), Ordering::Release);
        ready.clear();
        if is_full != is_deaf {
            // Of what cannot be taken it would hear without end.
            waiter.change(listener, NEW, !is_full, false)?;
            is_deaf = is_full;
        }
        waiter.wait(is_full.then_some(FULL_WAIT), &mut ready)?;
        if ready.iter().any(|ready| ready.token == STOP) {
            return Ok(());
        }
        if is_full && !was_refused {
            continue;
        }
        let accepted = accept();
        if let (Err(error), false) = (&accepted, was_refused) {
            dolmen_env::say(&format!("no more connections for now: {error}"));
        }
        was_refused = accepted.is_err();
        let Ok(Some(socket)) = accepted else { continue };
        let mut place = Place::new(socket, state);
        let started = spawn("dolmen-web-one", move || {
            // Ignored: who has gone away, or is silent for too long, is told nothing.
            let _ended = converse(&mut place);
        });
        if let Err(error) = started {
            dolmen_env::say(&format!("a connection was refused: {error}"));
        }
    }
}

/// Why a conversation is over.
enum Over {
    /// The other end is gone or silent, or all are to end.
    Gone,
    /// The system says no.
    System,
    /// A part of a file could not be made.
    File,
}

type Spoken = core::result::Result<(), Over>;

impl From<dolmen_env::Error> for Over {
    fn from(_error: dolmen_env::Error) -> Self {
        Self::System
    }
}

/// Answers one request after the other.
fn converse(place: &mut Place) -> Spoken {
    let mut received = Vec::new();
    loop {
        place.begin();
        let (head_bytes, mut ask) = loop {
            match request::parse(&received, HEAD_BYTES_MAX) {
                Ok(Some(found)) => break found,
                Ok(None) => receive(place, &mut received)?,
                Err(status) => return send(place, plain(status, "close", "", true).as_bytes()),
            }
        };
        received.drain(..head_bytes);
        ask.is_last |= place.is_to_end();
        place.begin();
        answer(place, &ask)?;
        if ask.is_last {
            return Ok(());
        }
    }
}

/// Some bytes of a request.
fn receive(place: &mut Place, received: &mut Vec<u8>) -> Spoken {
    let mut part = [0; 16 << 10];
    loop {
        match place.socket.read(&mut part)? {
            Moved::Bytes(count) => {
                received.extend_from_slice(&part[..count]);
                return Ok(());
            }
            Moved::End => return Err(Over::Gone),
            Moved::Later => place.wait(Way::In)?,
        }
    }
}

fn send(place: &mut Place, mut bytes: &[u8]) -> Spoken {
    while !bytes.is_empty() {
        match place.socket.write(&[IoSlice::new(bytes)])? {
            Moved::Bytes(count) => {
                bytes = &bytes[count..];
                place.taken += count;
                if place.taken >= TAKEN_BYTES {
                    place.begin();
                }
            }
            Moved::End => return Err(Over::Gone),
            Moved::Later => place.wait(Way::Out)?,
        }
    }
    Ok(())
}

/// An answer without a file.
fn plain(status: &str, connection: &str, more: &str, has_body: bool) -> String {
    let body = if has_body { format!("{status}\n") } else { String::new() };
    let length = status.len() + 1;
    format!(
        "HTTP/1.1 {status}\r\nServer: dolmen\r\nConnection: {connection}\r\nContent-Type: text/plain\r\n{more}\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

fn answer(place: &mut Place, ask: &Ask) -> Spoken {
    let state = &Arc::clone(&place.counted.state);
    let has_body = ask.method == Method::Get;
    let connection = if ask.is_last { "close" } else { "keep-alive" };
    let mut refused = |status: &str, more: &str| {
        send(place, plain(status, connection, more, ask.method != Method::Head).as_bytes())
    };
    if ask.method == Method::Other {
        return refused("405 Method Not Allowed", "Allow: GET, HEAD\r\n");
    }
    // Who writes more slashes than one before a name is understood, too, where none is called so.
    let called = |name: &str| (0_u64..).zip(&state.files).find(|(_, file)| *file.name == *name);
    let bare = ask.path.trim_start_matches('/');
    let found = called(&ask.path).or_else(|| called(bare));
    if found.is_none() && bare.is_empty() {
        let names: String = state.files.iter().map(|file| format!("{}\n", file.name)).collect();
        let head = format!(
            "HTTP/1.1 200 OK\r\nServer: dolmen\r\nConnection: {connection}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {}\r\n\r\n",
            names.len()
        );
        return send(place, (head + if has_body { &names } else { "" }).as_bytes());
    }
    let Some((number, file)) = found else {
        return refused("404 Not Found", "");
    };
    let tag = format!("\"{:016x}\"", state.tag ^ number);
    let asked = request::asked(ask, &tag, file.length_bytes);
    let common = format!(
        "Server: dolmen\r\nConnection: {connection}\r\nAccept-Ranges: bytes\r\nETag: {tag}\r\nCache-Control: no-cache\r\n"
    );
    let parts = match asked {
        Asked::OfAnother => return refused("412 Precondition Failed", &format!("ETag: {tag}\r\n")),
        Asked::Nothing => {
            let length = file.length_bytes;
            let head = format!("HTTP/1.1 304 Not Modified\r\n{common}Content-Length: {length}\r\n\r\n");
            return send(place, head.as_bytes());
        }
        Asked::Unsatisfiable => {
            let more = format!("Content-Range: bytes */{}\r\n", file.length_bytes);
            return refused("416 Range Not Satisfiable", &more);
        }
        Asked::Whole => {
            let head = format!(
                "HTTP/1.1 200 OK\r\n{common}Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
                file.length_bytes
            );
            vec![(head.into_bytes(), Part { first: 0, end: file.length_bytes })]
        }
        Asked::One(part) => {
            let head = format!(
                "HTTP/1.1 206 Partial Content\r\n{common}Content-Type: application/octet-stream\r\n{}Content-Length: {}\r\n\r\n",
                content_range(part, file),
                part.end - part.first
            );
            vec![(head.into_bytes(), part)]
        }
        Asked::Several(parts) => several(place, file, &common, &parts)?,
    };
    let is_several = parts.len() > 1;
    if !has_body {
        return if is_several { Ok(()) } else { send(place, &parts[0].0) };
    }
    for (before, part) in parts {
        send_part(place, file, (&before, !is_several), part)?;
    }
    if is_several { send(place, closing().as_bytes()) } else { Ok(()) }
}

fn content_range(part: Part, file: &Shown) -> String {
    format!("Content-Range: bytes {}-{}/{}\r\n", part.first, part.end - 1, file.length_bytes)
}

/// What is between parts of an answer; in no file of ROOT by chance.
const BOUNDARY: &str = "dolmen-part-5f1c9a7e03b24d68";

fn closing() -> String {
    format!("\r\n--{BOUNDARY}--\r\n")
}

/// Sends the head of an answer in several parts; each part with what goes before it.
fn several(
    place: &mut Place,
    file: &Shown,
    common: &str,
    parts: &[Part],
) -> core::result::Result<Vec<(Vec<u8>, Part)>, Over> {
    let with_heads: Vec<_> = parts
        .iter()
        .map(|&part| {
            let range = content_range(part, file);
            let head = format!("\r\n--{BOUNDARY}\r\nContent-Type: application/octet-stream\r\n{range}\r\n");
            (head.into_bytes(), part)
        })
        .collect();
    let of_parts = with_heads.iter().map(|(head, part)| head.len() as u64 + (part.end - part.first));
    let length = of_parts.sum::<u64>() + closing().len() as u64;
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\n{common}Content-Type: multipart/byteranges; boundary={BOUNDARY}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    send(place, head.as_bytes())?;
    Ok(with_heads)
}

/// Sends a part behind what goes before it; if that is the head of the answer, another one where the first bytes are not to be had.
fn send_part(place: &mut Place, file: &Shown, (before, is_head): (&[u8], bool), part: Part) -> Spoken {
    let mut before = Some(before);
    let mut at = part.first;
    let length = usize::try_from(part.end - part.first).unwrap_or(usize::MAX);
    let mut bytes = vec![0; PART_BYTES.min(length)];
    while at < part.end {
        let room = usize::try_from(part.end - at).unwrap_or(usize::MAX).min(PART_BYTES);
        let reads_ns = RealClock.monotonic_ns();
        let found = (file.read)(at, &mut bytes[..room]);
        // The other end waits meanwhile, and not we for it.
        place.began_ns += RealClock.monotonic_ns().saturating_sub(reads_ns);
        match found {
            Ok(count) if count == room => {
                before.take().map_or(Ok(()), |before| send(place, before))?;
                send(place, &bytes[..room])?;
            }
            // What the head has promised is not to be had: the connection ends before it, and the reader knows.
            found => {
                let why = found.map_or_else(|error| error.to_string(), |_| "the file is shorter".to_owned());
                dolmen_env::say(&format!("{}: {why}", file.name));
                if is_head && before.is_some() {
                    send(place, plain("500 Internal Server Error", "close", "", true).as_bytes())?;
                }
                return Err(Over::File);
            }
        }
        at += room as u64;
    }
    before.map_or(Ok(()), |before| send(place, before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_env::{Errno, Op};

    fn shown(name: &str, read: ReadAt) -> Shown {
        Shown { name: name.into(), length_bytes: 3, read }
    }

    const SHORT: Duration = Duration::from_millis(5);

    fn state(files: Vec<Shown>) -> Arc<State> {
        state_of(files, SHORT)
    }

    fn state_of(files: Vec<Shown>, crowded: Duration) -> Arc<State> {
        Arc::new(State::new(files, Patience { crowded, look: SHORT, ..PATIENCE }).unwrap())
    }

    /// Ends the serving, also when an assertion fails.
    struct Ending<'a>(&'a State);

    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.end();
        }
    }

    /// Calls with the address at which all places but one are taken.
    fn nearly_full(state: &Arc<State>, body: impl FnOnce(&Address)) {
        state.connection_count.store(CONNECTIONS_MAX - 1, Ordering::Release);
        serving(state, |listener| listener.accept(), body);
    }

    /// Calls with the address at which connections are taken so.
    fn serving(
        state: &Arc<State>,
        mut accept: impl FnMut(&Listener) -> dolmen_env::Result<Option<Socket>> + Send,
        body: impl FnOnce(&Address),
    ) {
        let listener = Listener::bind(&Address::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = listener.address().clone();
        dolmen_env::scope(|threads| {
            let listening = threads.spawn(|| listen(&listener, state, || accept(&listener)));
            let ending = Ending(state);
            body(&address);
            drop(ending);
            assert!(listening.join().unwrap().is_ok());
        });
    }

    fn ask(address: &Address, request: &str) -> Socket {
        let socket = Socket::connect(address, Duration::from_secs(60)).unwrap();
        let asked = request.is_empty()
            || matches!(socket.write(&[IoSlice::new(request.as_bytes())]), Ok(Moved::Bytes(_)));
        assert!(asked);
        socket
    }

    /// The next bytes; none at the end.
    fn more(socket: &Socket, part: &mut [u8]) -> usize {
        loop {
            match socket.read(part).unwrap() {
                Moved::Bytes(count) => return count,
                Moved::End => return 0,
                Moved::Later => {
                    assert!(socket.wait(true, false, Some(Duration::from_secs(60))).unwrap().readable);
                }
            }
        }
    }

    fn good() -> Shown {
        let read: ReadAt = Box::new(|_, bytes| {
            bytes.fill(b'x');
            Ok(bytes.len())
        });
        shown("good", read)
    }

    /// What is answered to a request for a file, until the connection ends.
    fn answer_to(address: &Address, name: &str) -> String {
        let socket = ask(address, &format!("GET /{name} HTTP/1.1\r\nConnection: close\r\n\r\n"));
        let (mut answer, mut part) = (Vec::new(), [0; 1024]);
        loop {
            match more(&socket, &mut part) {
                0 => return String::from_utf8(answer).unwrap(),
                count => answer.extend_from_slice(&part[..count]),
            }
        }
    }

    #[test]
    fn serving_goes_on_when_the_system_had_no_room_for_a_connection_and_when_a_file_panics() {
        let state = state(vec![good(), shown("bad", Box::new(|_, _| panic!("as it is meant")))]);
        // There is room for one more.
        state.connection_count.store(CONNECTIONS_MAX - 1, Ordering::Release);
        let mut refusals = 3;
        let accept = |listener: &Listener| {
            if refusals > 0 {
                refusals -= 1;
                let (name, errno) = ("full".to_owned(), Errno::MFILE);
                return Err(dolmen_env::Error::Io { op: Op::Listen, name, offset: 0, errno });
            }
            listener.accept()
        };
        serving(&state, accept, |address| {
            assert!(answer_to(address, "good").ends_with("\r\n\r\nxxx"));
            assert_eq!(answer_to(address, "bad"), "", "no head of what is not to be had");
            assert!(answer_to(address, "good").ends_with("\r\n\r\nxxx"), "it has left its place");
        });
        assert_eq!(refusals, 0);
    }

    #[test]
    fn who_is_silent_or_does_not_take_what_he_asked_for_keeps_nobody_out() {
        let endless = Shown { length_bytes: u64::MAX, ..good() };
        let state = state(vec![Shown { name: "endless".into(), ..endless }, good()]);
        nearly_full(&state, |address| {
            for begun in ["", "GET /good", "GET /endless HTTP/1.1\r\n\r\n"] {
                let silent = ask(address, begun);
                assert!(answer_to(address, "good").ends_with("\r\n\r\nxxx"), "beside {begun:?}");
                drop(silent);
            }
            // One that says a little now and then.
            let slow = ask(address, "");
            dolmen_env::scope(|threads| {
                threads.spawn(move || {
                    while matches!(slow.write(&[IoSlice::new(b"G")]), Ok(Moved::Bytes(_))) {
                        // Ignored: it says more at once if there is anything to read, which is that it is over.
                        let _ready = slow.wait(true, false, Some(SHORT / 10));
                    }
                });
                assert!(answer_to(address, "good").ends_with("\r\n\r\nxxx"), "beside one that is slow");
            });
        });
    }

    #[test]
    fn who_is_silent_stays_where_there_is_room() {
        let state = state(vec![good()]);
        serving(
            &state,
            |listener| listener.accept(),
            |address| {
                let silent = ask(address, "");
                for _ in 0..8 {
                    assert!(answer_to(address, "good").ends_with("\r\n\r\nxxx"));
                }
                assert!(!silent.wait(true, false, Some(10 * SHORT)).unwrap().readable, "nobody has ended it");
            },
        );
    }

    #[test]
    fn who_takes_slowly_and_steadily_what_he_asked_for_keeps_his_place_and_gets_all_of_it() {
        const BYTES: usize = 12 << 20;
        // A third of what the system keeps for a connection takes longer at this pace.
        const STEP: (usize, Duration) = (32 << 10, Duration::from_millis(30));
        let large = Shown { name: "large".into(), length_bytes: BYTES as u64, ..good() };
        let state = state_of(vec![large, good()], Duration::from_millis(500));
        nearly_full(&state, |address| {
            let slow = ask(address, "GET /large HTTP/1.1\r\nConnection: close\r\n\r\n");
            let mut part = vec![0; STEP.0];
            let mut got = more(&slow, &mut part);
            let next = ask(address, "GET /good HTTP/1.1\r\nConnection: close\r\n\r\n");
            let pace = Waiter::new().unwrap();
            for _ in 0..80 {
                pace.wait(Some(STEP.1), &mut Vec::new()).unwrap();
                got += more(&slow, &mut part);
            }
            assert!(!next.wait(true, false, Some(Duration::ZERO)).unwrap().readable, "there is no place");
            loop {
                match more(&slow, &mut part) {
                    0 => break,
                    count => got += count,
                }
            }
            assert!(got > BYTES, "{got} bytes");
            assert!(more(&next, &mut part) > 0);
        });
    }

    #[test]
    fn who_asks_now_and_then_makes_room_after_an_answer_that_says_so() {
        let state = state_of(vec![good()], Duration::from_millis(200));
        nearly_full(&state, |address| {
            let request = "GET /good HTTP/1.1\r\n\r\n";
            let often = ask(address, request);
            let (mut answer, mut part) = (String::new(), [0; 4096]);
            let (mut next, began_ns) = (None, RealClock.monotonic_ns());
            while !answer.contains("Connection: close") {
                assert!(since(began_ns) < Duration::from_secs(30), "it goes on and on");
                answer.clear();
                while !answer.ends_with("xxx") {
                    let count = more(&often, &mut part);
                    assert!(count > 0, "it is not ended before an answer");
                    answer += str::from_utf8(&part[..count]).unwrap();
                }
                next.get_or_insert_with(|| ask(address, "GET /good HTTP/1.1\r\nConnection: close\r\n\r\n"));
                // Ignored: it may be over.
                let _asked = often.write(&[IoSlice::new(request.as_bytes())]);
            }
            assert!(more(&next.unwrap(), &mut part) > 0);
        });
    }

    #[test]
    fn who_is_silent_stays_where_nobody_waits_for_his_place() {
        let state = state(vec![good()]);
        nearly_full(&state, |address| {
            let silent = ask(address, "GET /good HTTP/1.1\r\n");
            assert!(!silent.wait(true, false, Some(50 * SHORT)).unwrap().readable, "nobody has ended it");
            assert!(answer_to(address, "good").ends_with("\r\n\r\nxxx"), "it gives its place to who comes");
        });
    }
}
