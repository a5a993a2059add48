//! A file system on a pool in this process.

use crate::watched::Watched;
use dolmen_client::{At, ContName, Container, Options, Pool, Transport};
use dolmen_dfs::{Dfs, File, FormatOptions, MountOptions, OpenOptions, Time, layout};
use dolmen_env::{Clock, Rng, Secrets, SimClock};
use dolmen_types::{Credentials, Durability, Epoch, IoBuf, Label, ObjectClass, Oid, PropId, PropValue, Recx};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// 2026-01-01.
pub(crate) const START_NS: u64 = 1_767_225_600_000_000_000;
/// An entry's record.
const WHOLE_RECORD: Recx = Recx { index: 0, count: 88 };

/// A container with a file system in a pool of its own, and the clock of everything.
pub(crate) struct World {
    pub(crate) clock: SimClock,
    pub(crate) container: Container,
}

impl World {
    pub(crate) fn new(targets: u16) -> Self {
        Self::with(targets, &FormatOptions::default())
    }

    pub(crate) fn with(targets: u16, format: &FormatOptions) -> Self {
        let world = Self::bare(targets);
        let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
        Dfs::format(&world.container, &FormatOptions { clock, ..format.clone() }).unwrap();
        world
    }

    /// With a file system on a transport that a test can act on.
    pub(crate) fn watched() -> (Self, Arc<Watched>) {
        Self::watched_by(Watched::new)
    }

    /// The same where locks are kept, as a daemon keeps them.
    pub(crate) fn keeping_locks() -> (Self, Arc<Watched>) {
        Self::watched_by(Watched::keeping_locks)
    }

    /// The same where leases are given, as a daemon gives them.
    pub(crate) fn leasing() -> (Self, Arc<Watched>) {
        Self::watched_by(Watched::leasing)
    }

    /// With a file system on a transport that carries nothing out while `refuses` says why.
    pub(crate) fn refusing(
        refuses: impl Fn() -> Option<dolmen_types::Error> + Send + Sync + 'static,
    ) -> (Self, Arc<Watched>) {
        Self::watched_by(|inner| Watched::refusing(inner, refuses))
    }

    /// With a file system on so many targets of which each goes by a clock of its own.
    pub(crate) fn apart(targets: u16) -> (Self, Arc<Watched>) {
        Self::on(|clock| Watched::new(super::pool_apart(targets, clock)))
    }

    fn watched_by(watched: impl FnOnce(Arc<dyn Transport>) -> Watched) -> (Self, Arc<Watched>) {
        Self::on(|clock| watched(super::pool(1, clock)))
    }

    fn on(watched: impl FnOnce(&Arc<dyn Clock>) -> Watched) -> (Self, Arc<Watched>) {
        let clock = SimClock::new(START_NS);
        let any: Arc<dyn Clock> = Arc::new(clock.clone());
        let watched = Arc::new(watched(&any));
        let transport: Arc<Watched> = Arc::clone(&watched);
        let world = Self { clock, container: container_in(transport, &any) };
        Dfs::format(&world.container, &FormatOptions { clock: any, ..FormatOptions::default() }).unwrap();
        (world, watched)
    }

    /// Without a file system.
    pub(crate) fn bare(targets: u16) -> Self {
        let clock = SimClock::new(START_NS);
        let any: Arc<dyn Clock> = Arc::new(clock.clone());
        let container = container_in(super::pool(targets, &any), &any);
        Self { clock, container }
    }

    pub(crate) fn options(&self) -> MountOptions {
        MountOptions { clock: Arc::new(self.clock.clone()), ..MountOptions::default() }
    }

    pub(crate) fn mount(&self) -> Dfs {
        Dfs::mount(&self.container, &self.options()).unwrap()
    }

    pub(crate) fn mount_shared(&self) -> Dfs {
        Dfs::mount(&self.container, &MountOptions { shared: true, tells_opens: true, ..self.options() })
            .unwrap()
    }

    /// With access times.
    pub(crate) fn mount_atime(&self) -> Dfs {
        Dfs::mount(&self.container, &MountOptions { atime: true, ..self.options() }).unwrap()
    }

    pub(crate) fn mount_relaxed(&self) -> Dfs {
        Dfs::mount(&self.container, &MountOptions { relaxed: true, ..self.options() }).unwrap()
    }

    pub(crate) fn mount_at(&self, epoch: Epoch) -> Dfs {
        Dfs::mount(&self.container.at(epoch), &self.options()).unwrap()
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_unix_ns(self.clock.now_ns())
    }

    /// Objects in the container.
    pub(crate) fn object_count(&self) -> usize {
        let mut walk = self.container.objects(None);
        core::iter::from_fn(|| Some(walk.next_page().unwrap().len()).filter(|&len| len > 0)).sum()
    }
}

/// A new container in a pool.
pub(crate) fn container_in(pool: Arc<dyn Transport>, clock: &Arc<dyn Clock>) -> Container {
    container_with(pool, clock, Durability::Power)
}

/// The same, in which a write survives this when it is answered.
pub(crate) fn container_with(
    pool: Arc<dyn Transport>,
    clock: &Arc<dyn Clock>,
    durability: Durability,
) -> Container {
    let mut props = Dfs::container_props();
    props.insert(PropId::CO_DURABILITY, PropValue::Number(durability as u64));
    let options = Options {
        cred: Credentials::default(),
        job: 0,
        tenant: 0,
        timeout_ns: 0,
        clock: Arc::clone(clock),
        rng: Rng::from_seed(2),
        secrets: Secrets::Repeatable(Rng::from_seed(2)),
    };
    let pool = Pool::connect_with(pool, options).unwrap();
    let label = Label::new("files").unwrap();
    pool.create_container(Some(label.clone()), props).unwrap();
    pool.open_container(&ContName::Label(label)).unwrap()
}

/// Several small chunks make a small file.
pub(crate) fn small_chunks() -> FormatOptions {
    FormatOptions { chunk_bytes: 4096, file_class: ObjectClass::SX, ..FormatOptions::default() }
}

pub(crate) fn put(fs: &Dfs, path: &str, data: &[u8]) -> File {
    let file = fs.open(path, &OpenOptions { truncate: true, ..OpenOptions::CREATE }).unwrap();
    file.write_at(0, data).unwrap();
    file
}

pub(crate) fn cat(fs: &Dfs, path: &str) -> Vec<u8> {
    read_all(&fs.open(path, &OpenOptions::READ).unwrap())
}

pub(crate) fn read_all(file: &File) -> Vec<u8> {
    let mut data = vec![0xaa; usize::try_from(file.size().unwrap()).unwrap() + 7];
    let len = file.read_at(0, &mut data).unwrap();
    data.truncate(len);
    data
}

/// A directory that is removed with the value.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
            "dfs-{}-{name}-{}",
            module_path!().replace("::", "-"),
            std::process::id()
        ));
        if dir.exists() {
            std::fs::remove_dir_all(&dir).unwrap();
        }
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
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

/// Removes everything below `path`, which ends in a slash.
pub(crate) fn remove_all(fs: &Dfs, path: &str) {
    for name in fs.open_dir(path).unwrap().names().unwrap() {
        let child = format!("{path}{}", String::from_utf8(name).unwrap());
        if fs.lstat(&child).unwrap().kind == dolmen_dfs::FileKind::Directory {
            remove_all(fs, &format!("{child}/"));
            fs.rmdir(&child).unwrap();
        } else {
            fs.unlink(&child).unwrap();
        }
    }
}

/// The record of an entry, as it is stored.
pub(crate) fn entry_record(world: &World, dir: Oid, name: &[u8]) -> Vec<u8> {
    let mut buf = IoBuf::default();
    let object = world.container.object(dir).unwrap();
    object.read(At::Latest, name, layout::AKEY_INODE, 1, WHOLE_RECORD, &mut buf).unwrap();
    buf[..88].to_vec()
}

/// Writes an entry past all checks, as a foreign or broken program may.
pub(crate) fn put_entry(world: &World, dir: Oid, name: &[u8], record: &[u8]) {
    let object = world.container.object(dir).unwrap();
    object.write(At::Latest, name, layout::AKEY_INODE, 1, WHOLE_RECORD, record).unwrap();
}

/// Makes the record of an entry one that is none.
pub(crate) fn damage_entry(world: &World, dir: Oid, name: &[u8]) {
    let object = world.container.object(dir).unwrap();
    object.write(At::Latest, name, layout::AKEY_INODE, 1, Recx::new(3, 1), &[0xff]).unwrap();
}
