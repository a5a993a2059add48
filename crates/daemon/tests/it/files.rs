//! Files by way of the daemon: what their modes allow to whom the kernel names, and to nobody whom a request does.

use crate::access::{OTHER_GID, UID, allow, connect, stranger};
use crate::bystander::Bystander;
use crate::child::until;
use crate::common::{Served, Way};
use dolmen_client::quota::Limits;
use dolmen_client::{Container, FilesAsk, FilesReply, Pool};
use dolmen_codec::pool::ContName;
use dolmen_codec::wire::PoolAccess;
use dolmen_dfs::{Dfs, Follow, FormatOptions, MountOptions, OpenOptions, SetAttrs};
use dolmen_env::{Rng, user_id};
use dolmen_types::{Epoch, Error, Label, PropId, PropValue};

pub(crate) const ROOT: u64 = 1;
pub(crate) const EPERM: i32 = 1;
pub(crate) const ENOENT: i32 = 2;
pub(crate) const EBADF: i32 = 9;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const EACCES: i32 = 13;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const ESTALE: i32 = 116;

/// A pool with a container of files that lets in everybody.
pub(crate) struct Shared {
    // In the order in which they go.
    pub(crate) cont: Container,
    pub(crate) operator: Bystander,
    pub(crate) served: Served,
}

pub(crate) fn name() -> ContName {
    ContName::Label(Label::new("files").unwrap())
}

pub(crate) fn lets_in(cont: &Container, is_everybody: bool) {
    let number = PropValue::Number(u64::from(is_everybody));
    cont.set_props(&[(PropId::CO_FILES, number)].into()).unwrap();
}

impl Shared {
    /// `None` where this process cannot act as several users.
    pub(crate) fn new() -> Option<Self> {
        if user_id() != 0 {
            eprintln!("only root can be several users");
            return None;
        }
        let served = Served::start();
        let operator = Bystander::first(served.link(Way::Socket));
        allow(&operator.pool, &["A::EVERYONE@:r"]);
        let label = Label::new("files").unwrap();
        operator.pool.create_container(Some(label), Dfs::container_props()).unwrap();
        let cont = operator.pool.open_container(&name()).unwrap();
        Dfs::format(&cont, &FormatOptions::default()).unwrap();
        lets_in(&cont, true);
        let dfs = Dfs::mount(&cont, &MountOptions { shared: true, ..MountOptions::default() }).unwrap();
        for (path, mode) in [("own", 0o600), ("all", 0o644), ("group", 0o640)] {
            let file = dfs.open(path, &OpenOptions { mode, ..OpenOptions::CREATE }).unwrap();
            file.write_at(0, b"bytes").unwrap();
        }
        let group = SetAttrs { gid: Some(OTHER_GID), ..SetAttrs::KEEP };
        dfs.set_attrs("group", &group, Follow::Yes).unwrap();
        dfs.mkdir("tmp", 0o1777).unwrap();
        dfs.open("tmp/roots", &OpenOptions { mode: 0o666, ..OpenOptions::CREATE }).unwrap();
        drop(dfs);
        Some(Self { cont, operator, served })
    }

    pub(crate) fn pool_of_stranger(&self) -> Pool {
        let (link, cred) = stranger(&self.served);
        connect(&link, cred, PoolAccess::ReadWrite).unwrap()
    }

    pub(crate) fn guest(&self) -> Guest {
        Guest::of(self.pool_of_stranger().open_container(&name()).unwrap()).unwrap()
    }
}

/// A session of somebody who may not reach the objects.
pub(crate) struct Guest {
    pub(crate) cont: Container,
    pub(crate) session: u64,
}

pub(crate) type Told = Result<Vec<u8>, i32>;

impl Guest {
    pub(crate) fn of(cont: Container) -> dolmen_types::Result<Self> {
        match cont.files(&FilesAsk::Begin)? {
            FilesReply::Begun(session) => Ok(Self { cont, session }),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn send(&self, request: Vec<u8>) -> dolmen_types::Result<Vec<u8>> {
        match self.cont.files(&FilesAsk::Ask { session: self.session, request })? {
            FilesReply::Told(told) => Ok(told),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn ask(&self, code: u32, node: u64, own: &[u8]) -> Told {
        let told = self.send(request(code, node, own)).unwrap();
        let errno = i32::from_le_bytes(told[4..8].try_into().unwrap());
        if errno == 0 { Ok(told[16..].to_vec()) } else { Err(-errno) }
    }

    pub(crate) fn lookup(&self, dir: u64, name: &str) -> Result<u64, i32> {
        self.ask(1, dir, &text(name)).map(|told| long(&told, 0))
    }

    pub(crate) fn open(&self, node: u64, flags: u32) -> Result<u64, i32> {
        self.ask(14, node, &words(&[flags, 0])).map(|told| long(&told, 0))
    }

    pub(crate) fn create(&self, dir: u64, name: &str) -> Told {
        // For reading and writing, with the bits of this mode and none taken away.
        let own = [words(&[0o102, 0o100_644, 0, 0]), text(name)].concat();
        self.ask(35, dir, &own)
    }

    pub(crate) fn write(&self, node: u64, handle: u64, data: &[u8]) -> Told {
        let head =
            [longs(&[handle, 0]), words(&[data.len() as u32, 0]), longs(&[0]), words(&[2, 0])].concat();
        self.ask(16, node, &[&head[..], data].concat())
    }

    pub(crate) fn read(&self, node: u64, handle: u64) -> Told {
        self.ask(15, node, &[longs(&[handle, 0]), words(&[100, 0]), longs(&[0]), words(&[0, 0])].concat())
    }

    /// Sets owner or group.
    pub(crate) fn give(&self, node: u64, valid: u32, (uid, gid): (u32, u32)) -> Told {
        let mut own = [words(&[valid, 0]), vec![0; 48], vec![0; 12]].concat();
        own.extend(words(&[0, 0, uid, gid, 0]));
        self.ask(4, node, &own)
    }

    pub(crate) fn lock(&self, node: u64, handle: u64, kind: u32, waits: bool) -> Told {
        let own = [longs(&[handle, 7, 0, u64::MAX >> 1]), words(&[kind, 1, 0, 0])].concat();
        self.ask(if waits { 33 } else { 32 }, node, &own)
    }
}

/// A request that says it is root's.
pub(crate) fn request(code: u32, node: u64, own: &[u8]) -> Vec<u8> {
    let head = [words(&[40 + own.len() as u32, code]), longs(&[9, node]), words(&[0, 0, 1, 0])].concat();
    [&head[..], own].concat()
}

pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_le_bytes()).collect()
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn modes_decide_by_whom_the_kernel_names_whatever_a_request_says() {
    let Some(shared) = Shared::new() else { return };
    let guest = shared.guest();
    let node = |name| guest.lookup(ROOT, name).unwrap();
    let (own, all, group, tmp) = (node("own"), node("all"), node("group"), node("tmp"));
    assert_eq!(guest.lookup(ROOT, "none"), Err(ENOENT));
    let handle = guest.open(all, 0).unwrap();
    assert_eq!(guest.read(all, handle), Ok(b"bytes".to_vec()));
    assert_eq!(guest.write(all, handle, b"x"), Err(EBADF), "it is open to be read");
    assert_eq!(guest.lock(all, handle, 1, false), Err(EBADF));
    assert_eq!(guest.open(all, 2), Err(EACCES));
    assert_eq!(guest.open(own, 0), Err(EACCES));
    assert!(guest.open(group, 0).is_ok(), "his groups are what the kernel says");
    assert_eq!(guest.create(ROOT, "new"), Err(EACCES));
    let made = guest.create(tmp, "mine").unwrap();
    let (mine, handle) = (long(&made, 0), long(&made, 128));
    assert_eq!(word(&made, 40 + 68), UID, "it is his who has made it");
    assert_eq!(guest.write(mine, handle, b"stone").map(|told| word(&told, 0)), Ok(5));
    assert_eq!(guest.read(mine, handle), Ok(b"stone".to_vec()));
    // Owner and group.
    assert_eq!(guest.give(mine, 2, (0, 0)), Err(EPERM));
    assert_eq!(guest.give(mine, 4, (0, 0)), Err(EPERM));
    assert!(guest.give(mine, 4, (0, OTHER_GID)).is_ok());
    assert_eq!(guest.give(all, 4, (0, OTHER_GID)), Err(EPERM));
    // In a sticky directory others' files stay.
    assert_eq!(guest.ask(10, tmp, &text("roots")), Err(EPERM));
    assert_eq!(guest.ask(10, tmp, &text("mine")).map(drop), Ok(()));
    // A set-user-id file loses it when somebody else writes to it, though nobody has said so.
    let dfs = Dfs::mount(&shared.cont, &MountOptions { shared: true, ..MountOptions::default() }).unwrap();
    dfs.set_attrs("tmp/roots", &SetAttrs { mode: Some(0o4777), ..SetAttrs::KEEP }, Follow::Yes).unwrap();
    let roots = guest.lookup(tmp, "roots").unwrap();
    let handle = guest.open(roots, 2).unwrap();
    guest.write(roots, handle, b"x").unwrap();
    assert_eq!(dfs.stat("tmp/roots").unwrap().mode() & 0o7777, 0o777);
    // What is root's of attributes.
    let set = |name: &str| guest.ask(21, roots, &[words(&[1, 0]), text(name), vec![b'v']].concat());
    assert_eq!(set("user.a").map(drop), Ok(()));
    assert_eq!([set("trusted.a"), set("security.a")], [Err(EPERM), Err(EPERM)]);
}

#[test]
fn what_a_guest_writes_is_charged_to_the_owner_of_the_file() {
    const EDQUOT: i32 = 122;
    let Some(shared) = Shared::new() else { return };
    let guest = shared.guest();
    let limits = Limits { bytes: 100_000, files: 2 };
    shared.cont.set_quota(Some(UID), limits).unwrap();
    let bytes_of = |uid| {
        shared.cont.aggregate(Epoch::ZERO).unwrap();
        let users = shared.cont.quota().unwrap().users;
        users.iter().find(|user| user.uid == uid).map_or((0, 0), |user| (user.used.bytes, user.used.files))
    };
    let of_root = bytes_of(0);
    let tmp = guest.lookup(ROOT, "tmp").unwrap();
    let made = guest.create(tmp, "mine").unwrap();
    let (mine, handle) = (long(&made, 0), long(&made, 128));
    guest.write(mine, handle, &[1; 60_000]).unwrap();
    assert_eq!((bytes_of(UID), bytes_of(0)), ((60_000, 1), of_root));
    // Into a file of root's, which anybody may write to.
    let dfs = Dfs::mount(&shared.cont, &MountOptions { shared: true, ..MountOptions::default() }).unwrap();
    dfs.set_attrs("tmp/roots", &SetAttrs { mode: Some(0o666), ..SetAttrs::KEEP }, Follow::Yes).unwrap();
    let roots = guest.lookup(tmp, "roots").unwrap();
    let open = guest.open(roots, 2).unwrap();
    guest.write(roots, open, &[2; 70_000]).unwrap();
    assert_eq!((bytes_of(UID), bytes_of(0)), ((60_000, 1), (of_root.0 + 70_000, of_root.1)));
    let made = guest.create(tmp, "second").unwrap();
    let (second, handle) = (long(&made, 0), long(&made, 128));
    assert_eq!(guest.write(second, handle, &[3; 50_000]), Err(EDQUOT));
    assert_eq!(guest.create(tmp, "third"), Err(EDQUOT));
    assert_eq!(guest.write(roots, open, &[2; 80_000]).map(drop), Ok(()), "he is not the one who is charged");
    // Of his own, root writes on his account.
    let his = dfs.open("tmp/second", &OpenOptions::WRITE).unwrap();
    assert_eq!(his.write_at(0, &[4; 50_000]).unwrap_err().errno(), EDQUOT);
    his.write_at(0, &[4; 40_000]).unwrap();
    assert_eq!(bytes_of(UID), (100_000, 2));
}

#[test]
fn who_may_use_files_reaches_no_objects() {
    let Some(shared) = Shared::new() else { return };
    let pool = shared.pool_of_stranger();
    let cont = pool.open_container(&name()).unwrap();
    let mounted = Dfs::mount(&cont, &MountOptions { shared: true, ..MountOptions::default() });
    assert!(matches!(mounted, Err(dolmen_dfs::Error::Store(error)) if *error == Error::NoPermission));
    assert_eq!(cont.snapshots().map(drop), Err(Error::NoPermission));
    assert_eq!(cont.create_snapshot(None).map(drop), Err(Error::NoPermission));
    assert_eq!(cont.props(&[]).map(drop), Err(Error::NoPermission));
    assert_eq!(cont.query().map(drop), Err(Error::NoPermission));
    let wish = PropValue::Number(0);
    assert_eq!(cont.set_props(&[(PropId::CO_FILES, wish)].into()), Err(Error::NoPermission));
    let guest = Guest::of(cont).unwrap();
    assert!(guest.lookup(ROOT, "all").is_ok());
    // Nobody is let in any more; who has it open goes on.
    lets_in(&shared.cont, false);
    assert_eq!(pool.open_container(&name()).map(drop), Err(Error::NoPermission));
    assert!(guest.lookup(ROOT, "all").is_ok());
    // Who only says who he is.
    lets_in(&shared.cont, true);
    let believed =
        connect(&shared.served.link(Way::Tcp), crate::common::CRED, PoolAccess::ReadWrite).unwrap();
    let cont = believed.open_container(&name()).unwrap();
    assert_eq!(Guest::of(cont).map(drop).unwrap_err(), Error::NoPermission);
}

#[test]
fn a_session_is_its_connections_and_there_are_not_many() {
    let Some(shared) = Shared::new() else { return };
    let guest = shared.guest();
    let other = shared.pool_of_stranger().open_container(&name()).unwrap();
    let theirs = Guest { cont: other, session: guest.session };
    assert_eq!(theirs.send(request(1, ROOT, &text("all"))), Err(Error::NotFound));
    assert_eq!(theirs.cont.files(&FilesAsk::End(guest.session)), Err(Error::NotFound));
    let more: Vec<_> = (1..8).map(|_| Guest::of(theirs.cont.clone()).unwrap()).collect();
    assert_eq!(Guest::of(theirs.cont.clone()).map(drop).unwrap_err(), Error::Busy);
    let ended = more.last().unwrap();
    assert_eq!(ended.cont.files(&FilesAsk::End(ended.session)), Ok(FilesReply::Ended));
    assert_eq!(ended.cont.files(&FilesAsk::End(ended.session)), Err(Error::NotFound));
    assert!(Guest::of(theirs.cont.clone()).is_ok());
    // Root has his own.
    assert!(Guest::of(shared.operator.pool.open_container(&name()).unwrap()).is_ok());
}

#[test]
fn locks_end_with_their_session_and_none_is_waited_for() {
    const LATER: i32 = 115;
    let Some(shared) = Shared::new() else { return };
    let (first, second) = (shared.guest(), shared.guest());
    let opened = |guest: &Guest| {
        let tmp = guest.lookup(ROOT, "tmp").unwrap();
        let node = guest.lookup(tmp, "roots").unwrap();
        (node, guest.open(node, 2).unwrap())
    };
    let (node, handle) = opened(&first);
    assert_eq!(first.lock(node, handle, 1, false).map(drop), Ok(()));
    let (node, handle) = opened(&second);
    assert_eq!(second.lock(node, handle, 1, false), Err(EAGAIN));
    assert_eq!(second.lock(node, handle, 1, true), Err(LATER), "it is told, and asks again");
    drop(first);
    until("the lock is free", || second.lock(node, handle, 1, false).is_ok());
}

#[test]
fn no_bytes_harm_a_session_and_numbers_of_others_mean_nothing() {
    let Some(shared) = Shared::new() else { return };
    let guest = shared.guest();
    let seed = Rng::from_entropy().unwrap().next_u64();
    println!("seed {seed}");
    let mut rng = Rng::from_seed(seed);
    assert_eq!(guest.lookup(77, "all"), Err(ESTALE));
    assert_eq!(guest.read(ROOT, 77), Err(EBADF));
    let long_one = guest.send(vec![0xff; 4 << 20]).unwrap();
    assert_eq!(i32::from_le_bytes(long_one[4..8].try_into().unwrap()), -EINVAL);
    for _ in 0..2000 {
        let len = rng.below(200) as usize;
        let mut own: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        for _ in 0..rng.below(4) {
            // Counts and lengths that lie.
            let at = rng.below(len as u64 + 1) as usize / 8 * 8;
            let lie = [0, 1, 16, u64::from(u32::MAX), u64::MAX][rng.below(5) as usize];
            own.get_mut(at..at + 8).into_iter().for_each(|place| place.copy_from_slice(&lie.to_le_bytes()));
        }
        let mut bytes = request(rng.below(60) as u32, 1 + rng.below(4), &own);
        if rng.below(8) == 0 {
            bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
        }
        let told = guest.send(bytes).unwrap();
        assert!(told.is_empty() || told.len() >= 16);
    }
    assert!(guest.lookup(ROOT, "all").is_ok());
    assert!(shared.served.notes.lock().unwrap().iter().all(|note| !note.contains("panic")));
}
