use super::*;
use crate::abi::reply::{self, Attrs, OpenAs, Out};
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

/// An engine with files in its root, by name: each has an inode's number. A session ends when it is said.
#[derive(Default)]
struct Engine {
    session: u64,
    files: BTreeMap<Vec<u8>, u64>,
    /// The session's numbers.
    nodes: BTreeMap<u64, u64>,
    handles: BTreeMap<u64, u64>,
    last: u64,
    asked: Vec<u32>,
    made: usize,
    /// After so many requests more it ends once one is carried out, unheard.
    ends_after: Option<usize>,
    /// So much is known in a session at most.
    room: Option<usize>,
}

impl Engine {
    fn end(&mut self) {
        self.session += 1;
        // Numbers mean something else in the next one.
        self.last += 1000;
        self.nodes.clear();
        self.handles.clear();
    }

    fn ask(&mut self, ask: FilesAsk) -> dolmen_types::Result<FilesReply> {
        match ask {
            FilesAsk::Begin => Ok(FilesReply::Begun(self.session)),
            FilesAsk::End(_) => Ok(FilesReply::Ended),
            FilesAsk::Ask { session, .. } if session != self.session => Err(Failure::NotFound),
            FilesAsk::Ask { request, .. } => {
                let told = self.serve(&request);
                match &mut self.ends_after {
                    Some(0) => {
                        self.ends_after = None;
                        self.end();
                        return Err(Failure::NotFound);
                    }
                    Some(left) => *left -= 1,
                    None => {}
                }
                Ok(FilesReply::Told(told))
            }
        }
    }

    fn serve(&mut self, bytes: &[u8]) -> Vec<u8> {
        let request = Request::parse(bytes).unwrap();
        self.asked.push(word(bytes, 4).unwrap());
        let mut out = Out::default();
        let done = self.done(&request, &mut out);
        let own = if done.is_ok() { out.as_slice() } else { &[] };
        let mut told = reply::head(request.unique, done.err().unwrap_or(0), own.len()).to_vec();
        told.extend_from_slice(own);
        told
    }

    fn done(&mut self, request: &Request<'_>, out: &mut Out) -> Done {
        let node_is_known = request.node == ROOT || self.nodes.contains_key(&request.node);
        // Who asks while another makes room has a number that was good a moment ago.
        if !node_is_known && self.room.is_some() {
            return Err(number::ESTALE);
        }
        assert!(node_is_known, "{request:?}: a number of another session");
        let timeouts = Timeouts { names: Duration::ZERO, attrs: Duration::ZERO };
        match request.op {
            Op::Lookup { .. } if self.room.is_some_and(|room| self.nodes.len() >= room) => {
                return Err(errno::ENFILE);
            }
            Op::Lookup { name } => {
                let ino = *self.files.get(name).ok_or(number::ENOENT)?;
                self.last += 1;
                self.nodes.insert(self.last, ino);
                let attrs = Attrs { ino, mode: 0o100_644, ..Attrs::default() };
                reply::entry(out, self.last, &attrs, timeouts);
            }
            Op::Unlink { name } => {
                self.made += 1;
                self.files.remove(name).ok_or(number::ENOENT)?;
            }
            Op::Open { .. } => {
                self.last += 1;
                self.handles.insert(self.last, self.nodes[&request.node]);
                reply::open(out, self.last, OpenAs::Direct);
            }
            Op::Read(range) => {
                let ino = self.handles.get(&range.handle).ok_or(number::EBADF)?;
                out.u64(*ino);
            }
            Op::GetAttr { .. } => {
                let ino = self.nodes.get(&request.node).copied().unwrap_or(1);
                reply::attrs(out, &Attrs { ino, ..Attrs::default() }, timeouts);
            }
            Op::Release { handle, .. } => drop(self.handles.remove(&handle)),
            Op::Forget(ref forgotten) => {
                for (node, lookups) in forgotten {
                    assert_eq!((self.nodes.remove(node).is_some(), *lookups), (true, 1));
                }
            }
            ref other => panic!("{other:?}"),
        }
        Ok(())
    }
}

/// What happens before the next question comes to the engine.
type Before = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

struct Relayed {
    engine: Arc<Mutex<Engine>>,
    before: Before,
    relay: Arc<Relay>,
}

impl Relayed {
    fn new() -> Self {
        let engine = Engine { session: 1, last: 100, ..Engine::default() };
        let engine = Arc::new(Mutex::new(engine));
        let before = Before::default();
        let (asked, happens) = (Arc::clone(&engine), Arc::clone(&before));
        let ask = move |ask| {
            let next = happens.lock().unwrap().take();
            next.into_iter().for_each(|next| next());
            asked.lock().unwrap().ask(ask)
        };
        let relay = Arc::new(Relay::new(ask, Options::default(), "about", |_note| {}).unwrap());
        for (name, ino) in [("a", 11), ("b", 12)] {
            engine.lock().unwrap().files.insert(name.into(), ino);
        }
        Self { engine, before, relay }
    }

    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap()
    }

    fn ask(&self, code: u32, node: u64, own: &[u8]) -> Result<Vec<u8>, i32> {
        let bytes = known::request(code, node, own);
        let mut reply = Reply::default();
        let request = Request::parse(&bytes).unwrap();
        self.relay.serve(&bytes, &request, &mut reply).map(|()| reply.bytes().to_vec())
    }

    fn lookup(&self, name: &[u8]) -> u64 {
        let told = self.ask(code::LOOKUP, ROOT, &[name, &[0]].concat()).unwrap();
        long(&told, 0).unwrap()
    }

    fn open(&self, node: u64) -> u64 {
        long(&self.ask(code::OPEN, node, &[0; 8]).unwrap(), 0).unwrap()
    }

    fn read(&self, node: u64, handle: u64) -> Result<u64, i32> {
        let own = [&handle.to_le_bytes()[..], &[0; 32]].concat();
        self.ask(code::READ, node, &own).map(|told| long(&told, 0).unwrap())
    }
}

#[test]
fn what_the_kernel_knows_is_found_again_in_the_next_session() {
    let relayed = Relayed::new();
    let (a, b) = (relayed.lookup(b"a"), relayed.lookup(b"b"));
    assert_eq!(relayed.lookup(b"a"), a, "one file has one number");
    let (open_a, open_b) = (relayed.open(a), relayed.open(b));
    assert_eq!((relayed.read(a, open_a), relayed.read(b, open_b)), (Ok(11), Ok(12)));
    relayed.engine().end();
    assert_eq!(relayed.read(a, open_a), Ok(11));
    // Another file has its name now.
    relayed.engine().files.insert(b"b".to_vec(), 13);
    assert_eq!(relayed.read(b, open_b), Err(number::ESTALE));
    assert_ne!(relayed.lookup(b"b"), b);
    assert_eq!(relayed.read(a, 999), Err(number::EBADF));
    // Once more, and what is closed and forgotten by then is asked for nowhere.
    relayed.engine().end();
    let asked = relayed.engine().asked.len();
    assert!(relayed.ask(code::RELEASE, a, &[&open_a.to_le_bytes()[..], &[0; 16]].concat()).is_ok());
    assert!(relayed.ask(code::FORGET, a, &2_u64.to_le_bytes()).is_ok());
    assert_eq!(relayed.engine().asked.len(), asked);
    assert_eq!(relayed.ask(code::GETATTR, a, &[0; 16]), Err(number::ESTALE));
}

#[test]
fn what_a_session_has_no_room_for_is_found_again_by_name() {
    let relayed = Relayed::new();
    relayed.engine().room = Some(3);
    let names: Vec<Vec<u8>> = (0..10).map(|number| format!("f{number}").into_bytes()).collect();
    for (name, ino) in names.iter().zip(20..) {
        relayed.engine().files.insert(name.clone(), ino);
    }
    let open = relayed.lookup(b"a");
    let handle = relayed.open(open);
    let known: Vec<u64> = names.iter().map(|name| relayed.lookup(name)).collect();
    assert_eq!(known.iter().collect::<std::collections::BTreeSet<_>>().len(), 10);
    assert!(relayed.engine().nodes.len() <= 3);
    for _ in 0..2 {
        for (node, ino) in known.iter().zip(20..) {
            let told = relayed.ask(code::GETATTR, *node, &[0; 16]).unwrap();
            assert_eq!(long(&told, 16), Some(ino));
        }
    }
    assert_eq!(relayed.read(open, handle), Ok(11));
    assert!(relayed.engine().nodes.values().any(|ino| *ino == 11), "what is open is not forgotten");
    // Another file has its name now.
    relayed.engine().files.insert(names[0].clone(), 99);
    assert_eq!(relayed.ask(code::GETATTR, known[0], &[0; 16]), Err(number::ESTALE));
    // Nothing is left to be forgotten.
    let opens: Vec<u64> = known[1..]
        .iter()
        .take_while(|node| relayed.ask(code::OPEN, **node, &[0; 8]).is_ok())
        .copied()
        .collect();
    assert_eq!(opens.len(), 2);
    assert_eq!(relayed.ask(code::LOOKUP, ROOT, b"f9\0"), Err(errno::ENFILE));
}

#[test]
fn what_was_forgotten_to_make_room_is_not_stale_for_who_asks_meanwhile() {
    let relayed = Relayed::new();
    relayed.engine().room = Some(3);
    let a = relayed.lookup(b"a");
    // Another thread makes room when this one has just looked what the number is.
    let relay = Arc::clone(&relayed.relay);
    *relayed.before.lock().unwrap() = Some(Box::new(move || assert!(relay.make_room(1))));
    assert!(relayed.ask(code::GETATTR, a, &[0; 16]).is_ok());
    let asked = [code::LOOKUP, code::BATCH_FORGET, code::GETATTR, code::LOOKUP, code::GETATTR];
    assert_eq!(relayed.engine().asked, asked);
}

#[test]
fn a_change_is_made_once_at_most_and_what_only_looks_is_asked_for_again() {
    let relayed = Relayed::new();
    let a = relayed.lookup(b"a");
    // It was carried out, and nobody has heard of it.
    relayed.engine().ends_after = Some(0);
    assert_eq!(relayed.ask(code::UNLINK, ROOT, b"a\0"), Err(number::EIO));
    assert_eq!(relayed.engine().made, 1);
    relayed.engine().ends_after = Some(0);
    assert!(relayed.ask(code::GETATTR, ROOT, &[0; 16]).is_ok());
    assert_eq!(relayed.ask(code::GETATTR, a, &[0; 16]), Err(number::ESTALE));
    // A session that has ended long ago is found out before a change is asked for in it.
    relayed.engine().end();
    relayed.relay.answered_ns.store(0, Ordering::Relaxed);
    assert!(relayed.ask(code::UNLINK, ROOT, b"b\0").is_ok());
    assert_eq!(relayed.engine().made, 2);
}

#[test]
fn a_renamed_node_is_found_by_its_new_name() {
    let known = Known::default();
    let found = |node, ino| known::Found { node, ino, kind: 8 };
    let a = known.remember(1, Some((ROOT, b"a")), &found(5, 11));
    let b = known.remember(1, Some((ROOT, b"b")), &found(6, 12));
    known.renamed((ROOT, b"a"), (a, b"c"), false);
    let name = |node| known.node_in(2, node).unwrap_err().map(|lookup| (lookup.parent, lookup.name.to_vec()));
    assert_eq!(name(a), Some((a, b"c".to_vec())));
    known.renamed((ROOT, b"b"), (a, b"c"), true);
    assert_eq!((name(a), name(b)), (Some((ROOT, b"b".to_vec())), Some((a, b"c".to_vec()))));
    known.unnamed(a, b"c");
    assert_eq!(name(b), None);
    assert_eq!(known.forget(b, 1), Some((1, 6, 1)));
    assert_eq!(known.node_in(1, b), Err(None));
}
