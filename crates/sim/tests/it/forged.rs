//! Records above the targets that somebody has forged: the pool's, the service's, those of a file system, and anchors
//! of enumerations. Whatever they say, opening and using what they belong to may fail in any way but a panic, also not
//! in a store, which would stop its target.

use crate::engine::{EngineSubject, START_NS};
use dolmen_client::{At, Container, Options, Pool, Props};
use dolmen_cluster::{Hlc, PoolIdentity, Service, Targets};
use dolmen_codec::order::HashKey;
use dolmen_codec::pool::ContName;
use dolmen_codec::verb::{
    ContSpec, ContVerb, List, ListWhat, Listed, NewValue, Payload, ReadAt, Reply, Update, UpdateIod, Verb,
};
use dolmen_codec::{Op, TargetStore, Transport};
use dolmen_dfs::{
    Cred, DeviceNo, Dfs, Follow, FormatOptions, MountOptions, New, RenameMode, Rights, XattrCond, layout,
};
use dolmen_env::{Clock, Media, Rng, Secrets, SimClock};
use dolmen_sim::{Model, Subject, fuzz};
use dolmen_types::{
    Anchor, Cond, ContNo, Credentials, Durability, Epoch, Error, Head, IoBuf, Key, ObjectClass, ObjectType,
    Oid, PoolMap, Recx, TargetInfo, TargetNo, TargetState, Uuid, crc32c,
};
use smallvec::smallvec;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Each kind of record, by the name of its fuzz target and of the folder with its corpus.
pub(crate) const FORGERIES: [(&str, fuzz::Target); 4] = [
    ("pool_record", pool_record),
    ("service_record", service_record),
    ("dfs_record", dfs_record),
    ("anchor", anchor),
];

const CONT: ContNo = ContNo(1);
const POOL_MAGIC_BYTES: usize = 16;
const SERVICE_MAGIC: u32 = 0x5350_4c44;

/// A record with the checksum that its content has.
fn summed(mut content: Vec<u8>) -> Vec<u8> {
    let sum = crc32c(&content);
    content.extend_from_slice(&sum.to_le_bytes());
    content
}

/// A directory of its own, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let number = Rng::from_entropy().unwrap().next_u64();
        let path = std::env::temp_dir().join(format!("dolmen-forged-{number:x}"));
        std::fs::create_dir_all(path.join("pool")).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Ignored: what cannot be removed lies in the system's folder for such things.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

/// The record of a pool: as it comes, and with magic, format and checksum put right; listed, opened and destroyed.
pub(crate) fn pool_record(bytes: &[u8]) {
    let folder = Folder::new();
    let pool = folder.0.join("pool");
    let mut right = vec![0; POOL_MAGIC_BYTES];
    right[..8].copy_from_slice(&0x4c4f_4f50_4d4c_4f44_u64.to_le_bytes());
    right[8..12].copy_from_slice(&1_u32.to_le_bytes());
    right.extend_from_slice(bytes);
    for record in [bytes.to_vec(), summed(right)] {
        std::fs::write(pool.join("pool"), &record).unwrap();
        use_pool(&folder.0, &pool);
    }
}

fn use_pool(system: &Path, pool: &Path) {
    drop(dolmen_local::list(system));
    let options = dolmen_local::OpenOptions { read_only: true, ..Default::default() };
    assert!(dolmen_local::open(pool, &options).is_err(), "a pool without its targets was opened");
}

fn targets() -> (Targets<Model>, SimClock) {
    let clock = SimClock::new(START_NS);
    let model = |no| Model::new(TargetNo(no), Arc::new(clock.clone()));
    (Targets::new((0..2).map(model).collect()).unwrap(), clock)
}

fn serve(
    targets: Targets<Model>,
    clock: &SimClock,
) -> dolmen_types::Result<Arc<dolmen_cluster::Pool<Model>>> {
    let info = TargetInfo { rank: 0, state: TargetState::UpIn };
    let map = PoolMap { version: 1, pool: Uuid::from_u128(5), targets: vec![info; targets.count()] };
    let identity = PoolIdentity { map, label: None };
    let service = Service::open(
        &targets,
        Hlc::new(Arc::new(clock.clone())),
        identity,
        Secrets::Repeatable(Rng::from_seed(1)),
    )?;
    Ok(Arc::new(dolmen_cluster::Pool::new(targets, service)))
}

fn connect(pool: Arc<dyn Transport>, clock: &SimClock) -> Pool {
    let mut options = Options::new(Credentials::default()).unwrap();
    options.clock = Arc::new(clock.clone());
    options.rng = Rng::from_seed(7);
    options.secrets = Secrets::Repeatable(Rng::from_seed(7));
    Pool::connect_with(pool, options).unwrap()
}

/// A record of the service under any of its names, also one that nothing has: as it comes, and with head and checksum
/// put right. The first byte says which.
pub(crate) fn service_record(bytes: &[u8]) {
    let Some((which, body)) = bytes.split_first() else { return };
    let (targets, clock) = targets();
    Service::create(&targets).unwrap();
    let pool = serve(targets, &clock).unwrap();
    let client = connect(Arc::<dolmen_cluster::Pool<Model>>::clone(&pool), &clock);
    let uuid = Uuid::from_u128(9);
    client.create_container_as(uuid, None, Props::new()).unwrap();
    let cont = client.open_container(&ContName::Uuid(uuid)).unwrap();
    cont.set_attrs(&[("a".to_owned(), vec![1])]).unwrap();
    let snapshot = cont.create_snapshot(Some("s")).unwrap();
    cont.close().unwrap();
    drop(client);
    let stores = Arc::into_inner(pool).expect("its client has gone").into_stores();
    let targets = Targets::new(stores).unwrap();
    let snap_name = [&b"snap:"[..], &snapshot.0.to_le_bytes()].concat();
    let (no, akey, kind): (u64, &[u8], u8) = match which % 8 {
        0 => (0, b"meta", 1),
        1 => (1, b"meta", 2),
        2 => (1, b"intent", 3),
        3 => (1, &snap_name, 4),
        4 => (1, b"attr:a", 5),
        5 => (7, b"meta", 2),
        6 => (7, b"intent", 3),
        _ => (1, body.get(..9).unwrap_or(b"snap:"), 4),
    };
    let record = if which & 0x80 == 0 {
        let head = [&SERVICE_MAGIC.to_le_bytes()[..], &[kind, 1]].concat();
        summed([&head[..], body].concat())
    } else {
        body.to_vec()
    };
    put_record(&targets, no, akey, record);
    let Ok(pool) = serve(targets, &clock) else { return };
    use_service(&connect(pool, &clock), uuid, snapshot);
}

fn put_record(targets: &Targets<Model>, no: u64, akey: &[u8], record: Vec<u8>) {
    if record.is_empty() {
        return;
    }
    let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(&record)));
    let iods = smallvec![UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }];
    let oid = Oid::new(ObjectType::DkeyUint64, ObjectClass::S1, 0, 1);
    let update =
        Update { oid, dkey: Key::from_slice(&no.to_le_bytes()), cond: Cond::NONE, iods, charged: None };
    let op = Op { token: 0, head: Head::default(), cont: ContNo::SYSTEM, verb: Verb::Update(update) };
    targets.call(TargetNo(0), op).result.unwrap();
}

/// Fails if a store has panicked over what it was asked: its target answers this from then on.
fn assert_well<T>(result: Result<T, Error>) -> Option<T> {
    assert!(!matches!(result, Err(Error::Io { errno: 5, .. })), "a store has panicked");
    result.ok()
}

/// Everything that the service can be asked about its containers.
fn use_service(client: &Pool, uuid: Uuid, snapshot: Epoch) {
    let mut names = vec![ContName::Uuid(uuid)];
    let listed = assert_well(client.containers()).unwrap_or_default();
    names.extend(listed.into_iter().map(|handle| ContName::Uuid(handle.uuid)));
    for name in names {
        let Some(cont) = assert_well(client.open_container(&name)) else { continue };
        assert_well(cont.query());
        assert_well(cont.props(&[]));
        assert_well(cont.attr("a"));
        assert_well(cont.attr_names());
        let snapshots = assert_well(cont.snapshots()).unwrap_or_default();
        assert_well(cont.create_snapshot(None));
        assert_well(cont.alloc_oid(ObjectType::MultiHashed, ObjectClass::S1));
        for epoch in snapshots.into_iter().map(|kept| kept.epoch).chain([snapshot]) {
            assert_well(cont.diff(epoch, snapshot).next_page());
            assert_well(cont.rollback(epoch));
            assert_well(cont.destroy_snapshot(epoch));
        }
        assert_well(cont.aggregate(Epoch::MAX));
        assert_well(cont.close());
        assert_well(client.destroy_container(&name, true));
    }
    assert_well(client.create_container(None, Props::new()));
}

/// A record of a file system: an entry, the root, the target of a symbolic link, a number of links, an extended
/// attribute, the superblock, or a companion. The first byte says
/// which, the second how long a name of an entry is that
/// goes before the record.
pub(crate) fn dfs_record(bytes: &[u8]) {
    let [which, name_bytes, rest @ ..] = bytes else { return };
    let (targets, clock) = targets();
    Service::create(&targets).unwrap();
    let client = connect(serve(targets, &clock).unwrap(), &clock);
    let handle = client.create_container(None, Dfs::container_props()).unwrap();
    let cont = client.open_container(&ContName::Uuid(handle.uuid)).unwrap();
    let any: Arc<dyn Clock> = Arc::new(clock);
    let format = FormatOptions { clock: Arc::clone(&any), ..FormatOptions::default() };
    Dfs::format(&cont, &format).unwrap();
    let options =
        MountOptions { clock: any, atime: true, acls: true, exact_blocks: true, ..MountOptions::default() };
    let fs = Dfs::mount(&cont, &options).unwrap();
    build(&fs);
    let root = fs.oid();
    drop(fs);
    let (name, record) = rest.split_at(usize::from(*name_bytes).min(rest.len()));
    forge(&cont, root, *which, name, record);
    if let Ok(fs) = Dfs::mount(&cont, &options) {
        use_files(&fs, name);
    }
}

fn build(fs: &Dfs) {
    fs.mkdir("/d", 0o755).unwrap();
    for path in ["/f", "/d/g"] {
        fs.put_whole(path, b"contents", &dolmen_dfs::SetAttrs::KEEP).unwrap();
    }
    fs.link("/d/g", fs, "/h").unwrap();
    fs.symlink("d/g", "/l").unwrap();
    fs.make("c", New::CharDevice(DeviceNo::default()), 0o644).unwrap();
    fs.set_xattr("/f", "user.x", b"value", XattrCond::Any, Follow::Yes).unwrap();
}

fn forge(cont: &Container, root: Oid, which: u8, name: &[u8], record: &[u8]) {
    let put = |oid: Oid, dkey: &[u8], akey: &[u8]| {
        let Ok(object) = cont.object(oid) else { return };
        // What cannot be written cannot be forged: a value of no bytes, a name of none.
        drop(object.put(At::Latest, dkey, akey, record));
    };
    let write = |oid: Oid, dkey: &[u8]| {
        let object = cont.object(oid).unwrap();
        let recx = Recx::new(0, record.len() as u64);
        drop(object.write(At::Latest, dkey, layout::AKEY_INODE, 1, recx, record));
    };
    let companion = layout::companion_oid(file_of(cont, root, b"h"));
    let superblock = layout::superblock_oid(ObjectClass::S1);
    // What lies beside the records.
    match which {
        246 => return put(root, b"f", layout::AKEY_ATIME),
        247 => return put(root, b"f", layout::AKEY_ACL_ACCESS),
        248 => return put(root, b"d", layout::AKEY_ACL_ACCESS),
        249 => return put(root, b"d", layout::AKEY_ACL_DEFAULT),
        250 => return put(root, b"c", layout::AKEY_RDEV),
        251 => return write(root, b"c"),
        _ => {}
    }
    match which % 10 {
        0 => write(root, b"f"),
        1 => write(root, b"d"),
        2 => write(root, b"l"),
        3 => write(root, name),
        4 => put(root, b"l", layout::AKEY_SLINK),
        5 => put(companion, layout::DKEY_COMPANION, layout::AKEY_LINKS),
        6 => write(companion, layout::DKEY_COMPANION),
        7 => put(root, b"f", &[layout::AKEY_XATTR_PREFIX, name].concat()),
        8 => {
            let field =
                layout::superblock::FIELDS[usize::from(which / 10) % layout::superblock::FIELDS.len()].0;
            put(superblock, layout::superblock::DKEY, field);
        }
        _ => write(superblock, layout::DKEY_ROOT),
    }
}

/// The object of an entry, as its record says.
fn file_of(cont: &Container, dir: Oid, name: &[u8]) -> Oid {
    let mut buf = IoBuf::zeroed(layout::inode::BYTES);
    let whole = Recx::new(0, layout::inode::BYTES as u64);
    let object = cont.object(dir).unwrap();
    object.read(At::Latest, name, layout::AKEY_INODE, 1, whole, &mut buf).unwrap();
    layout::inode::Inode::from_bytes(buf.first_chunk().unwrap()).unwrap().oid
}

/// Everything that a file system can be asked, of every name in it; then what changes it.
fn use_files(fs: &Dfs, name: &[u8]) {
    drop((fs.statfs(), fs.check(false), fs.names()));
    let mut paths = vec![b"/f".to_vec(), b"/d".to_vec(), b"/d/g".to_vec(), b"/h".to_vec(), b"/l".to_vec()];
    paths.push([b"/", name].concat());
    paths.push([b"/d/", name].concat());
    let mut bytes = [0; 64];
    for path in &paths {
        drop((fs.stat(path), fs.lstat(path), fs.readlink(path), fs.xattr_names(path, Follow::No)));
        drop(fs.xattr(path, "user.x", Follow::Yes));
        if let Ok(dir) = fs.open_dir(path) {
            drop((dir.names(), dir.list_plus(&mut dolmen_dfs::Cookie::default(), 100)));
        }
        let options = dolmen_dfs::OpenOptions { write: true, ..dolmen_dfs::OpenOptions::READ };
        if let Ok(file) = fs.open(path, &options) {
            drop((file.read_at(0, &mut bytes), file.stat(), file.write_at(5, b"more"), file.set_len(3)));
            drop(file.close());
        }
    }
    let user = Arc::new(Cred { uid: 7, gid: 7, groups: vec![8], umask: 0 });
    for name in [&b"f"[..], b"d", b"l", b"c", name] {
        let Ok((obj, _)) = fs.lookup(name) else { continue };
        drop((obj.note_read(), obj.stat(), obj.readlink(), obj.xattr("system.posix_acl_access")));
        drop(obj.as_user(&user).check_access(Rights::READ));
        if let Ok(dir) = obj.as_dir() {
            let dir = dir.as_user(&user);
            drop((dir.make("made", New::Directory, 0o755), dir.lookup("g"), fs.link_to(&obj, "of-a-dir")));
        }
    }
    for path in &paths {
        drop(fs.chmod(path, 0o600));
        drop(fs.set_xattr(path, "user.x", b"", XattrCond::Any, Follow::No));
        drop(fs.link(path, fs, "/linked"));
        drop(fs.rename(path, fs, "/moved", RenameMode::Replace));
        drop((fs.unlink(path), fs.rmdir(path), fs.unlink("/moved"), fs.unlink("/linked")));
    }
    drop((fs.check(true), fs.check(false)));
}

/// The position of an enumeration, of whatever kind: the first byte says of which, the second of which page size. The
/// engine goes on from it as the model does, or both refuse it. What a client or a file system is given is only survived.
pub(crate) fn anchor(bytes: &[u8]) {
    let [kind, page, position @ ..] = bytes else { return };
    drop(dolmen_dfs::Cookie::from_bytes(position));
    let Some(start) = Anchor::after(position) else { return };
    let clock = SimClock::new(START_NS);
    let mut model = Model::new(TargetNo(0), Arc::new(clock.clone()));
    let mut engine = EngineSubject::new(1, Media::Mapped, 0, &clock);
    let types = [ObjectType::MultiHashed, ObjectType::MultiUint64, ObjectType::MultiLexical];
    let oid = Oid::new(types[usize::from(kind / 5) % 3], ObjectClass::S1, 0, 1);
    let dkey = Key::from_slice(&2_u64.to_le_bytes());
    let what = match kind % 5 {
        0 => ListWhat::Objects,
        1 => ListWhat::Dkeys(oid),
        2 => ListWhat::Akeys(oid, dkey),
        3 => ListWhat::Extents(oid, dkey.clone(), dkey),
        _ => ListWhat::Changes { from: Epoch(1), to: Epoch::from_unix_ns(START_NS) },
    };
    let items_max = u32::from(page % 8) + 1;
    let (ours, theirs) = (
        listed_from(engine.store(), oid, &what, start, items_max),
        listed_from(&mut model, oid, &what, start, items_max),
    );
    // Objects and changes are in an order of the store's own.
    if (1..4).contains(&(kind % 5)) {
        assert_eq!(ours, theirs, "{what:?} after {position:?}");
    }
}

/// Fills a store, and lists from an anchor to the end; `None` if that is refused.
fn listed_from(
    store: &mut dyn TargetStore,
    oid: Oid,
    what: &ListWhat,
    start: Anchor,
    items_max: u32,
) -> Option<Vec<String>> {
    let mut ask = |verb: Verb<'_>| {
        store.submit(&mut vec![Op { token: 1, head: Head::default(), cont: CONT, verb }]);
        let mut done = Vec::new();
        while done.is_empty() {
            store.poll(true, &mut done);
        }
        done.remove(0).result
    };
    let spec = ContSpec { hash_key: HashKey([5; 16]), durability: Durability::Power };
    ask(Verb::Cont(ContVerb::Create(spec))).unwrap();
    for number in 0..12_u64 {
        let [dkey, akey] = [number % 4, number].map(|number| Key::from_slice(&number.to_le_bytes()));
        let data = Payload::Owned(IoBuf::copy_of(&[7; 5]));
        let value = NewValue::Array { record_bytes: 1, extents: smallvec![Recx::new(number * 9, 5)], data };
        let mut iods = smallvec![UpdateIod { akey: dkey.clone(), cond: Cond::NONE, value }];
        if akey != dkey {
            let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(b"x")));
            iods.push(UpdateIod { akey, cond: Cond::NONE, value });
        }
        ask(Verb::Update(Update { oid, dkey, cond: Cond::NONE, iods, charged: None })).unwrap();
    }
    let (mut items, mut anchor) = (Vec::new(), start);
    while !anchor.is_eof() {
        let (what, at) = (what.clone(), ReadAt::Latest);
        let list = List { what, anchor, items_max, bytes_max: 4096, at };
        let Ok(Reply::Listed(listed, next)) = ask(Verb::List(list)) else { return None };
        assert!(next != anchor, "an enumeration does not move");
        match listed {
            Listed::Keys(keys) => items.extend(keys.iter().map(|key| format!("{key:?}"))),
            Listed::Extents(all) => items.extend(all.iter().map(|extent| format!("{:?}", extent.recx))),
            Listed::Objects(all) => items.extend(all.iter().map(|oid| format!("{oid:?}"))),
            Listed::Changes(all) => items.extend(all.iter().map(|change| format!("{change:?}"))),
        }
        anchor = next;
    }
    Some(items)
}
