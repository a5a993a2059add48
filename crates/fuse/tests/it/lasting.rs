//! What has been synchronised survives the loss of power, also where a write is answered before it does.

use crate::driven::{label, pool_on};
use dolmen_client::{ContName, Container};
use dolmen_dfs::{Cred, Dfs, FormatOptions, MountOptions, OpenOptions};
use dolmen_engine::{Devices, Target, TargetConfig};
use dolmen_env::sim::{CrashPlan, SimConfig, SimDisk, SimDrive};
use dolmen_env::{Clock, SimClock};
use dolmen_fuse::Hosted;
use dolmen_types::{Durability, PropId, PropValue, TargetNo, Uuid};
use std::sync::Arc;

/// 2026-01-01.
const START_NS: u64 = 1_767_225_600_000_000_000;

const MKDIR: u32 = 9;
const WRITE: u32 = 16;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const FSYNC_DIR: u32 = 30;
const CREATE: u32 = 35;
const SYNC_FS: u32 = 50;
const ROOT: u64 = 1;
const O_DSYNC: u32 = 0o10000;
const O_SYNC: u32 = 0o4_010_000;

struct World {
    clock: Arc<dyn Clock>,
    drive: SimDrive,
    session: Hosted,
}

fn devices(drive: &SimDrive) -> Devices {
    Devices { meta: Box::new(SimDisk::new(drive)), bulk: None }
}

fn config() -> TargetConfig {
    TargetConfig {
        target: TargetNo(0),
        capacity_bytes: 64 << 20,
        log_segment_bytes: 1 << 20,
        bulk_segment_bytes: 1 << 20,
        ..Default::default()
    }
}

fn mounted(cont: &Container, clock: &Arc<dyn Clock>) -> Dfs {
    Dfs::mount(cont, &MountOptions { clock: Arc::clone(clock), ..MountOptions::default() }).unwrap()
}

impl World {
    fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SimClock::new(START_NS));
        let drive = SimDrive::new(SimConfig::default());
        let target = Target::create(devices(&drive), Arc::clone(&clock), 1, &config()).unwrap();
        let pool = pool_on(target, &clock, true);
        let mut props = Dfs::container_props();
        props.insert(PropId::CO_DURABILITY, PropValue::Number(Durability::Process as u64));
        pool.create_container(Some(label()), props).unwrap();
        let cont = pool.open_container(&ContName::Label(label())).unwrap();
        assert_eq!(cont.durability(), Durability::Process);
        let options = FormatOptions { clock: Arc::clone(&clock), ..FormatOptions::default() };
        Dfs::format(&cont, &options).unwrap();
        cont.flush().unwrap();
        let session =
            Hosted::new(mounted(&cont, &clock), Cred::default(), Uuid::from_u128(9), |_| {}).unwrap();
        Self { clock, drive, session }
    }

    /// Asks what must be done; what was found.
    fn ask(&self, code: u32, node: u64, own: &[u8]) -> Vec<u8> {
        let mut request = words(&[40 + u32::try_from(own.len()).unwrap(), code, 1, 0]);
        request.extend(longs(&[node, 0, 0]));
        request.extend_from_slice(own);
        let told = self.session.ask(&request);
        assert_eq!(told[4..8], [0; 4], "{code}");
        told[16..].to_vec()
    }

    /// Makes a file; its number, and that by which it is open.
    fn create(&self, name: &str) -> (u64, u64) {
        let own = [&words(&[0o101, 0o100_644, 0, 0])[..], name.as_bytes(), b"\0"].concat();
        let told = self.ask(CREATE, ROOT, &own);
        let long = |at: usize| u64::from_le_bytes(told[at..at + 8].try_into().unwrap());
        (long(0), long(128))
    }

    fn write(&self, (node, handle): (u64, u64), data: &[u8], flags: u32) {
        let len = u32::try_from(data.len()).unwrap();
        let head = [longs(&[handle, 0]), words(&[len, 0]), longs(&[0]), words(&[flags, 0])].concat();
        self.ask(WRITE, node, &[&head[..], data].concat());
    }

    /// What would be there after a power cut now that takes all that it may: names in the root, and what is in them.
    fn left(&self) -> Vec<(String, Vec<u8>)> {
        let drive = self.drive.crash(CrashPlan::None);
        let target = Target::open(devices(&drive), Arc::clone(&self.clock), &config()).unwrap().0;
        let cont = pool_on(target, &self.clock, false).open_container(&ContName::Label(label())).unwrap();
        let dfs = mounted(&cont, &self.clock);
        let mut names = dfs.names().unwrap();
        names.sort_unstable();
        let read = |name: Vec<u8>| {
            let mut data = vec![0; 100];
            let file = dfs.open(&name, &OpenOptions::READ);
            let len = file.map_or(0, |file| file.read_at(0, &mut data).unwrap());
            data.truncate(len);
            (String::from_utf8(name).unwrap(), data)
        };
        names.into_iter().map(read).collect()
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_le_bytes()).collect()
}

fn had(all: &[(&str, &[u8])]) -> Vec<(String, Vec<u8>)> {
    all.iter().map(|(name, data)| ((*name).to_owned(), data.to_vec())).collect()
}

#[test]
fn what_is_synchronised_survives_a_power_cut_where_a_write_is_answered_before_it_does() {
    let world = World::new();
    let a = world.create("a");
    world.write(a, b"first", 1);
    // A close is no barrier.
    world.ask(FLUSH, a.0, &longs(&[a.1, 0, 0]));
    assert_eq!(world.left(), had(&[]));
    world.ask(FSYNC, a.0, &[longs(&[a.1]), words(&[1, 0])].concat());
    assert_eq!(world.left(), had(&[("a", b"first")]));
    world.ask(MKDIR, ROOT, &[&words(&[0o755, 0])[..], b"b\0"].concat());
    assert_eq!(world.left().len(), 1);
    world.ask(FSYNC_DIR, ROOT, &[longs(&[0]), words(&[0, 0])].concat());
    assert_eq!(world.left(), had(&[("a", b"first"), ("b", b"")]));
    world.write(a, b"again", 1);
    assert_eq!(world.left(), had(&[("a", b"first"), ("b", b"")]));
    world.ask(SYNC_FS, ROOT, &longs(&[0]));
    assert_eq!(world.left(), had(&[("a", b"again"), ("b", b"")]));
    for (flags, data) in [(O_DSYNC, b"third"), (O_SYNC, b"forth")] {
        world.write(a, data, 1 | flags);
        assert_eq!(world.left(), had(&[("a", data), ("b", b"")]));
    }
    world.write(a, b"fifth", 1);
    world.session.end();
    assert_eq!(world.left(), had(&[("a", b"fifth"), ("b", b"")]));
}
