//! A directory of its own for each test, and short ways to ask a pool.

use dolmen_codec::pool::{ContHandle, ContName, OpenFor, PoolReply, PoolVerb};
use dolmen_codec::verb::{Fetch, FetchIod, NewValue, Payload, ReadAt, Reply, Update, UpdateIod, Verb, Want};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_local::PoolOptions;
use dolmen_types::{
    Cond, Epoch, Error, Head, IoBuf, Key, Label, ObjectClass, ObjectType, Oid, Props, TargetNo, Uuid,
};
use smallvec::smallvec;
use std::path::{Path, PathBuf};

/// A directory that is removed with the value.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new(name: &str) -> Self {
        Self::below(Path::new(env!("CARGO_TARGET_TMPDIR")), name)
    }

    /// Where every user of the machine gets to.
    pub(crate) fn for_all(name: &str) -> Self {
        Self::below(&std::env::temp_dir(), &format!("dolmen-{name}"))
    }

    fn below(above: &Path, name: &str) -> Self {
        let dir = above.join(format!("{name}-{}", std::process::id()));
        if dir.exists() {
            std::fs::remove_dir_all(&dir).unwrap();
        }
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // Ignored: a test that fails while removing leaves its directory for inspection.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn small(targets: u16) -> PoolOptions {
    PoolOptions {
        targets,
        capacity_bytes: 1 << 30,
        log_segment_bytes: 1 << 20,
        bulk_segment_bytes: 1 << 20,
        volatile: true,
        ..PoolOptions::default()
    }
}

pub(crate) fn ask(pool: &dyn Transport, verb: PoolVerb<'_>) -> Result<PoolReply, Error> {
    let answer = pool.call(Request { token: 1, head: Head::default(), ask: Ask::Pool(verb) }).result?;
    match answer {
        Answer::Pool(reply) => Ok(reply),
        Answer::Target(_) => panic!("the service answers"),
    }
}

pub(crate) fn make_cont(pool: &dyn Transport, label: &str) -> ContHandle {
    let uuid = Uuid::from_u128(label.bytes().fold(1, |n, b| n * 131 + u128::from(b)));
    let verb = PoolVerb::ContCreate { uuid, label: Some(Label::new(label).unwrap()), props: Props::new() };
    match ask(pool, verb).unwrap() {
        PoolReply::Cont(handle) => handle,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn open_cont(pool: &dyn Transport, label: &str) -> ContHandle {
    match ask(pool, PoolVerb::ContOpen(ContName::Label(Label::new(label).unwrap()), OpenFor::Any)).unwrap() {
        PoolReply::Cont(handle) => handle,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn oid() -> Oid {
    Oid::new(ObjectType::DkeyUint64, ObjectClass::S1, 0, 77)
}

pub(crate) fn put(dkey: u64, value: &[u8]) -> Verb<'_> {
    Verb::Update(Update {
        oid: oid(),
        dkey: Key::from_slice(&dkey.to_le_bytes()),
        cond: Cond::NONE,
        iods: smallvec![UpdateIod {
            akey: Key::from_slice(b"a"),
            cond: Cond::NONE,
            value: NewValue::Single(Payload::Ref(value)),
        }],
        charged: None,
    })
}

pub(crate) fn fetch(dkey: u64, room_bytes: usize) -> Verb<'static> {
    Verb::Fetch(Fetch {
        oid: oid(),
        dkey: Key::from_slice(&dkey.to_le_bytes()),
        cond: Cond::NONE,
        at: ReadAt::Latest,
        iods: smallvec![FetchIod { akey: Key::from_slice(b"a"), want: Want::Single { room_bytes } }],
        buf: IoBuf::zeroed(room_bytes),
    })
}

pub(crate) fn write(pool: &dyn Transport, target: u16, cont: &ContHandle, dkey: u64, value: &[u8]) -> Epoch {
    let ask = Ask::Target(TargetNo(target), cont.no, put(dkey, value));
    match pool.call(Request { token: 2, head: Head::default(), ask }).result.unwrap() {
        Answer::Target(Reply::Written(epoch)) => epoch,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn read(pool: &dyn Transport, target: u16, cont: &ContHandle, dkey: u64) -> Vec<u8> {
    let ask = Ask::Target(TargetNo(target), cont.no, fetch(dkey, 1 << 20));
    let outcome = pool.call(Request { token: 3, head: Head::default(), ask });
    match outcome.result.unwrap() {
        Answer::Target(Reply::Fetched(found)) => {
            let len = usize::try_from(found[0].size_bytes).unwrap();
            outcome.buf.unwrap()[..len].to_vec()
        }
        other => panic!("{other:?}"),
    }
}
