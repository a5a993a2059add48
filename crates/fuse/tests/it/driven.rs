//! A session for files, driven by bytes: they choose what is asked for next, on which of the things that are there, with which
//! numbers and names. Whatever they are, it answers, and a user gets nothing that owners, modes and lists do not give him, and
//! changes nothing that they do not let him change.

use dolmen_client::{ContName, Container, Options, Pool};
use dolmen_cluster::{Hlc, PoolIdentity, Service, Targets};
use dolmen_codec::TargetStore;
use dolmen_dfs::{Cred, Dfs, Follow, FormatOptions, MountOptions, OpenOptions, XattrCond};
use dolmen_env::{Clock, Rng, Secrets, SimClock};
use dolmen_fuse::Hosted;
use dolmen_sim::Model;
use dolmen_types::{Credentials, Label, PoolMap, TargetInfo, TargetNo, TargetState, Uuid};
use std::sync::{Arc, Mutex};

/// 2026-01-01.
const START_NS: u64 = 1_767_225_600_000_000_000;

const USER: u32 = 7;
const GROUP: u32 = 50;

/// What he may not read is full of it.
const MARK: &[u8] = b"\xe5nobody's but root's\xe5";

/// The number of the directory `tmp`, behind that of `closed`; the root's is 1.
const TMP: u64 = 4;

/// Names in requests: of what is there, and of what is not.
const NAMES: [&[u8]; 16] = [
    b"secret",
    b"closed",
    b"f",
    b"tmp",
    b"roots",
    b"link",
    b"mine",
    b"listed",
    b"all",
    b".snapshots",
    b"then",
    b"new",
    b"x",
    b"program",
    b"shared",
    b"..",
];
const XATTRS: [&[u8]; 6] = [
    b"user.a",
    b"trusted.a",
    b"security.a",
    b"system.posix_acl_access",
    b"system.posix_acl_default",
    b"user.dolmen.mount",
];

/// Numbers at which something changes.
const EDGES: [u64; 12] =
    [0, 1, 4095, 4096, 1 << 20, 1 << 31, u32::MAX as u64, 1 << 32, 1 << 52, (1 << 63) - 1, 1 << 63, u64::MAX];

/// Modes and flags: kinds, rights, and ways to open.
const BITS: [u32; 16] = [
    0, 1, 2, 0o644, 0o777, 0o4777, 0o6777, 0o1777, 0o1001, 0o1002, 0o2001, 0o102, 0o100_666, 0o010_666,
    0o020_666, 0o301,
];

/// What each request has after its head: `d` a word, `q` a number of two, `m` bits, `n` a name, `x` that of an attribute, `b` bytes,
/// `l` the length of these, `o` a directory, `e` one of few words.
const FORMS: [(u32, &str); 64] = [
    (1, "n"),
    (2, "q"),
    (3, "ddq"),
    (4, "ddqqqqqqdddmdddd"),
    (5, ""),
    (6, "nn"),
    (8, "mddd n"),
    (9, "mdn"),
    (10, "n"),
    (11, "n"),
    (12, "onn"),
    (13, "qn"),
    (14, "md"),
    (15, "qqddqdd"),
    (16, "qqlmqmdb"),
    (17, ""),
    (18, "qddq"),
    (20, "qdd"),
    (21, "lmxb"),
    (22, "ddx"),
    (23, "dd"),
    (24, "x"),
    (25, "qddq"),
    (26, "dddd"),
    (27, "dd"),
    (28, "qqddqdd"),
    (29, "qddq"),
    (30, "qdd"),
    (31, "qqqqdddd"),
    (32, "qqqqdddd"),
    (33, "qqqqdddd"),
    (34, "dd"),
    (35, "mmddn"),
    (42, "ddqq"),
    (43, "qqqdd"),
    (44, "qqddqdd"),
    (45, "oednn"),
    (46, "qqdd"),
    (50, "q"),
    (51, "mmdd"),
    // What leads on, more often.
    (1, "n"),
    (1, "n"),
    (4, "ddqqqqqqdddmdddd"),
    (4, "ddqqqqqqdddmdddd"),
    (9, "mdn"),
    (10, "n"),
    (13, "qn"),
    (13, "qn"),
    (14, "md"),
    (14, "md"),
    (14, "md"),
    (14, "md"),
    (15, "qqddqdd"),
    (15, "qqddqdd"),
    (15, "qqddqdd"),
    (15, "qqddqdd"),
    (16, "qqlmqmdb"),
    (16, "qqlmqmdb"),
    (21, "lmxb"),
    (35, "mmddn"),
    (43, "qqqdd"),
    (44, "qqddqdd"),
    (45, "oednn"),
    (45, "oednn"),
];

/// Some that change or read something, by number.
pub(crate) const CHANGES_AND_READS: [(usize, &str); 14] = [
    (1, "lookup"),
    (4, "change of attributes"),
    (9, "directory"),
    (10, "unlink"),
    (13, "link"),
    (14, "open"),
    (15, "read"),
    (16, "write"),
    (21, "extended attribute"),
    (28, "listing"),
    (35, "file"),
    (43, "hole"),
    (44, "listing with attributes"),
    (45, "rename"),
];

/// The input, byte by byte.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte().unwrap_or(0)) % limit
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }

    /// Mostly one of few: numbers of nodes and of what is open begin at one.
    fn number(&mut self) -> u64 {
        match self.byte().unwrap_or(0) {
            small @ 0..192 => u64::from(small % 24),
            192..240 => EDGES[self.below(EDGES.len())],
            _ => (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte().unwrap_or(0))),
        }
    }

    /// The number of something, mostly of a directory if names in it are asked for.
    fn node(&mut self, of_names: bool) -> u64 {
        match self.below(if of_names { 8 } else { 16 }) {
            0..4 => TMP,
            4 => 1,
            5 => TMP - 1,
            _ => self.number(),
        }
    }

    fn field(&mut self, kind: char, data: &[u8], own: &mut Vec<u8>) {
        let word = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap();
        match kind {
            'd' => own.extend_from_slice(&word(self.number()).to_le_bytes()),
            'q' => own.extend_from_slice(&self.number().to_le_bytes()),
            'o' => own.extend_from_slice(&self.node(true).to_le_bytes()),
            'e' => own.extend_from_slice(&word(self.below(4) as u64).to_le_bytes()),
            'm' => own.extend_from_slice(&BITS[self.below(BITS.len())].to_le_bytes()),
            'n' => own.extend_from_slice(&[NAMES[self.below(NAMES.len())], &[0]].concat()),
            'x' => own.extend_from_slice(&[XATTRS[self.below(XATTRS.len())], &[0]].concat()),
            'l' => own.extend_from_slice(&word(data.len() as u64).to_le_bytes()),
            'b' => own.extend_from_slice(data),
            _ => {}
        }
    }

    /// The next request, and its number; `None` at the end.
    fn request(&mut self) -> Option<(u32, Vec<u8>)> {
        let (code, form) = FORMS[usize::from(self.byte()?) % FORMS.len()];
        let node = self.node(form.contains('n'));
        let len = self.below(64);
        let data = self.bytes(if form.contains('b') { len } else { 0 });
        let mut own = Vec::new();
        form.chars().for_each(|kind| self.field(kind, &data, &mut own));
        if self.below(16) == 0 {
            let len = self.below(own.len() + 1);
            own.truncate(len);
        }
        Some((code, request(code, node, &own)))
    }
}

/// The pool on this target, new or as it was left.
pub(crate) fn pool_on<T>(target: T, clock: &Arc<dyn Clock>, is_new: bool) -> Pool
where
    T: TargetStore + 'static,
{
    let stores = Targets::new(vec![target]).unwrap();
    if is_new {
        Service::create(&stores).unwrap();
    }
    let targets = vec![TargetInfo { rank: 0, state: TargetState::UpIn }];
    let map = PoolMap { version: 1, pool: Uuid::from_u128(5), targets };
    let (hlc, secrets) = (Hlc::new(Arc::clone(clock)), Secrets::Repeatable(Rng::from_seed(1)));
    let service = Service::open(&stores, hlc, PoolIdentity { map, label: None }, secrets).unwrap();
    let options = Options {
        cred: Credentials::default(),
        job: 0,
        tenant: 0,
        timeout_ns: 0,
        clock: Arc::clone(clock),
        rng: Rng::from_seed(2),
        secrets: Secrets::Repeatable(Rng::from_seed(2)),
    };
    Pool::connect_with(Arc::new(dolmen_cluster::Pool::new(stores, service)), options).unwrap()
}

pub(crate) fn label() -> Label {
    Label::new("files").unwrap()
}

/// A container in a pool of its own.
fn container(clock: &Arc<dyn Clock>) -> Container {
    let pool = pool_on(Model::new(TargetNo(0), Arc::clone(clock)), clock, true);
    pool.create_container(Some(label()), Dfs::container_props()).unwrap();
    pool.open_container(&ContName::Label(label())).unwrap()
}

/// User 9 reads and writes; the file's group does not, though its bits of the mode, which are the mask's, look so.
fn list() -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let mut bytes = vec![2, 0, 0, 0];
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, NOBODY), (2, 6, 9), (4, 0, NOBODY), (16, 6, NOBODY), (32, 0, NOBODY)];
    for (tag, rights, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&rights.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

/// What is root's: he may read none of these, nor change any. And what everybody may read.
const CLOSED: [&str; 3] = ["/secret", "/closed/f", "/listed"];
const READABLE: [&str; 2] = ["/all", "/tmp/roots"];

fn fill(fs: &Dfs) {
    fs.mkdir("/closed", 0o700).unwrap();
    fs.mkdir("/tmp", 0o1777).unwrap();
    let put = |path: &str, mode, data: &[u8]| {
        let file = fs.open(path, &OpenOptions { mode, ..OpenOptions::CREATE }).unwrap();
        file.write_at(0, data).unwrap();
        file.close().unwrap();
    };
    put("/secret", 0o600, &MARK.repeat(3));
    put("/closed/f", 0o666, &MARK.repeat(3));
    put("/listed", 0o640, &MARK.repeat(3));
    put("/all", 0o644, b"all");
    put("/tmp/roots", 0o644, b"roots");
    put("/tmp/mine", 0o644, b"mine");
    put("/tmp/shared", 0o666, b"shared");
    put("/tmp/program", 0o6777, PROGRAM);
    fs.symlink("../secret", "/tmp/link").unwrap();
    fs.chown("/tmp/mine", Some(USER), Some(USER), Follow::Yes).unwrap();
    fs.chown("/listed", None, Some(GROUP), Follow::Yes).unwrap();
    fs.set_xattr("/listed", "system.posix_acl_access", list(), XattrCond::Any, Follow::Yes).unwrap();
}

/// What everybody may write to; whoever does takes rights from it.
const PROGRAM: &[u8] = b"program";

/// Attributes, and contents if it is a file, of what he may not change.
type Kept = (Vec<u8>, u32, u32, u32, Vec<Vec<u8>>);

fn kept(fs: &Dfs) -> Vec<Kept> {
    let other = |path: &&str| {
        let stat = fs.lstat(path).unwrap();
        let names = fs.xattr_names(path, Follow::No).unwrap();
        (fs.readlink(path).unwrap_or_default(), stat.permissions, stat.uid, stat.gid, names)
    };
    let one = |path: &&str| {
        let file = fs.open(path, &OpenOptions::READ).unwrap();
        let mut data = vec![0; 4096];
        let len = file.read_at(0, &mut data).unwrap();
        data.truncate(len);
        let stat = fs.stat(path).unwrap();
        (data, stat.permissions, stat.uid, stat.gid, fs.xattr_names(path, Follow::Yes).unwrap())
    };
    CLOSED.iter().chain(&READABLE).map(one).chain(["/", "/tmp", "/tmp/link"].iter().map(other)).collect()
}

/// Whether the program that everybody may write to is as it was, or has lost its rights.
fn is_harmless(fs: &Dfs) -> bool {
    let Ok(file) = fs.open("/tmp/program", &OpenOptions::READ) else { return true };
    let mut data = [0; 64];
    let len = file.read_at(0, &mut data).unwrap();
    &data[..len] == PROGRAM || file.stat().unwrap().permissions & 0o6000 == 0
}

/// A request with this after its head, which says that it is root's.
fn request(code: u32, node: u64, own: &[u8]) -> Vec<u8> {
    let mut request = Vec::new();
    for word in [40 + u32::try_from(own.len()).unwrap(), code, 1, 0] {
        request.extend_from_slice(&word.to_le_bytes());
    }
    request.extend_from_slice(&node.to_le_bytes());
    request.extend_from_slice(&[0; 16]);
    request.extend_from_slice(own);
    request
}

/// Looks up what is there, now and in the snapshot. That it is there everybody may know, but of what is in `closed`.
fn learn(session: &Hosted) {
    let lookup = |dir: u64, name: &[u8]| {
        let told = session.ask(&request(1, dir, &[name, &[0]].concat()));
        told.get(16..24).map(|node| u64::from_le_bytes(node.try_into().unwrap()))
    };
    // Not all of them are in each.
    let all = |dir: u64| NAMES.iter().filter_map(|name| lookup(dir, name)).count();
    assert_eq!(all(1), 6);
    assert_eq!(lookup(1, b"tmp"), Some(TMP));
    assert_eq!(all(TMP), 5);
    assert_eq!(lookup(TMP - 1, b"f"), None, "it is closed");
    let then = lookup(1, b".snapshots").and_then(|snapshots| lookup(snapshots, b"then")).unwrap();
    assert_eq!(all(then), 5);
}

/// Runs the session that the bytes choose; how often each operation was done, by its number.
///
/// # Panics
/// If anything goes wrong: that is the find.
pub(crate) fn files_session(bytes: &[u8]) -> [usize; 64] {
    let mut done = [0; 64];
    if bytes.windows(MARK.len()).any(|window| window == MARK) {
        return done;
    }
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new(START_NS));
    let cont = container(&clock);
    Dfs::format(&cont, &FormatOptions { clock: Arc::clone(&clock), ..FormatOptions::default() }).unwrap();
    let options =
        MountOptions { shared: true, acls: true, clock: Arc::clone(&clock), ..MountOptions::default() };
    let root = Dfs::mount(&cont, &options).unwrap();
    fill(&root);
    cont.create_snapshot(Some("then")).unwrap();
    let before = kept(&root);
    let options = MountOptions { atime: true, exact_blocks: true, tells_opens: true, ..options };
    let user = Cred { uid: USER, gid: USER, groups: vec![GROUP], umask: 0 };
    let notes = Arc::<Mutex<Vec<String>>>::default();
    let told = Arc::clone(&notes);
    let tell = move |text: &str| told.lock().unwrap().push(text.to_owned());
    let session = Hosted::new(Dfs::mount(&cont, &options).unwrap(), user, Uuid::from_u128(9), tell).unwrap();
    let mut input = Input(bytes);
    learn(&session);
    while let Some((code, request)) = input.request() {
        let told = session.ask(&request);
        assert!(told.is_empty() || told.len() >= 16, "{request:?}");
        let Some(head) = told.first_chunk::<16>() else { continue };
        assert_eq!(u32::from_le_bytes(head[..4].try_into().unwrap()) as usize, told.len(), "{request:?}");
        assert!(
            !told.windows(MARK.len()).any(|window| window == MARK),
            "he reads what is not his: {request:?}"
        );
        let errno = i32::from_le_bytes(head[4..8].try_into().unwrap());
        assert!((-4095..=0).contains(&errno), "{request:?}");
        done[code as usize] += usize::from(errno == 0);
    }
    session.end();
    drop(session);
    assert_eq!(kept(&root), before, "he has changed what he may not");
    assert!(is_harmless(&root), "others run what he has written with the rights of its owner");
    assert!(root.check(false).unwrap().is_clean());
    let notes = notes.lock().unwrap();
    assert!(notes.iter().all(|note| !note.contains("panic")), "{notes:?}");
    done
}
