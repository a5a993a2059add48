//! What comes back by itself once nobody sees it any more.

use super::common::{container_in, put, small_chunks};
use core::time::Duration;
use dolmen_client::Container;
use dolmen_dfs::{Dfs, FormatOptions, MountOptions, RenameMode};
use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
use dolmen_env::{Clock, SimClock};
use dolmen_types::TargetNo;
use std::sync::Arc;

/// What a daemon keeps of the past.
const KEPT: Duration = Duration::from_secs(10);
/// A round comes twice that after the last one, if that left something.
const PATIENCE: Duration = Duration::from_secs(40);

const TARGETS: u16 = 8;
const BYTES: usize = 4 << 20;

/// A pool whose targets free what is older than `KEPT` when they are at rest.
struct Served {
    clock: SimClock,
    pool: Arc<dolmen_cluster::Pool<dolmen_engine::Target>>,
    container: Container,
}

impl Served {
    fn new() -> Self {
        let clock = SimClock::new(super::common::START_NS);
        let any: Arc<dyn Clock> = Arc::new(clock.clone());
        let store = |no| {
            let meta = Box::new(SimDisk::new(&SimDrive::new(SimConfig::default())));
            let config = dolmen_engine::TargetConfig {
                target: TargetNo(no),
                capacity_bytes: 64 << 20,
                log_segment_bytes: 1 << 20,
                bulk_segment_bytes: 1 << 20,
                scrub_bytes_per_s: 0,
                keep_past: Some(KEPT),
                ..Default::default()
            };
            let devices = dolmen_engine::Devices { meta, bulk: None };
            dolmen_engine::Target::create(devices, Arc::clone(&any), u128::from(no), &config).unwrap()
        };
        let pool = crate::pool_on((0..TARGETS).map(store).collect(), &any, true);
        pool.targets().set_callers_step(false);
        let container = container_in(Arc::<dolmen_cluster::Pool<_>>::clone(&pool), &any);
        Dfs::format(&container, &FormatOptions { clock: any, chunk_bytes: 64 << 10, ..small_chunks() })
            .unwrap();
        Self { clock, pool, container }
    }

    fn mount(&self, shared: bool) -> Dfs {
        let clock = Arc::new(self.clock.clone());
        Dfs::mount(&self.container, &MountOptions { clock, shared, ..MountOptions::default() }).unwrap()
    }

    /// So much time passes while nobody asks for anything.
    fn rest(&self, time: Duration) {
        for _ in 0..200 {
            self.clock.advance(u64::try_from(time.as_nanos() / 200).unwrap());
            for _ in 0..20 * TARGETS {
                self.pool.step();
            }
        }
    }

    fn used_bytes(&self) -> u64 {
        self.container.query_pool().unwrap().space.iter().map(|space| space.bulk_bytes).sum()
    }
}

#[test]
fn what_a_removed_file_took_comes_back_once_its_past_is_not_kept_any_more() {
    for shared in [false, true] {
        let served = Served::new();
        let fs = served.mount(shared);
        served.rest(PATIENCE);
        let before = served.used_bytes();
        drop(put(&fs, "large", &vec![7; BYTES]));
        assert!(served.used_bytes() >= before + BYTES as u64);
        fs.unlink("large").unwrap();
        served.rest(PATIENCE);
        let after = served.used_bytes();
        assert!(after <= before, "{before} bytes became {after}, shared: {shared}");
    }
}

#[test]
fn what_was_tried_in_vain_holds_nothing_either() {
    let served = Served::new();
    let (fs, other) = (served.mount(true), served.mount(true));
    served.rest(PATIENCE);
    let before = served.used_bytes();
    drop(put(&other, "large", &vec![7; BYTES]));
    fs.mkdir("dir", 0o755).unwrap();
    for _ in 0..4 {
        fs.mkdir("dir", 0o755).unwrap_err();
        fs.unlink("dir").unwrap_err();
        fs.rename("none", &fs, "dir/none", RenameMode::Replace).unwrap_err();
    }
    other.unlink("large").unwrap();
    served.rest(PATIENCE);
    let after = served.used_bytes();
    assert!(after <= before, "{before} bytes became {after}");
}
