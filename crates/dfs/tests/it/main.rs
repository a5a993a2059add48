//! What the file system promises, case by case, on the reference model and on the engine; each row of the
//! crate's documentation has its test here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use dolmen_cluster::{Hlc, PoolIdentity, Service, Targets};
use dolmen_env::Rng;
use dolmen_types::{PoolMap, TargetInfo, TargetState, Uuid};

fn identity(targets: u16) -> PoolIdentity {
    let info = TargetInfo { rank: 0, state: TargetState::UpIn };
    let map = PoolMap { version: 1, pool: Uuid::from_u128(5), targets: vec![info; usize::from(targets)] };
    PoolIdentity { map, label: None }
}

/// A pool of targets made by `$store`.
macro_rules! pool_of {
    ($store:expr) => {
        pub(crate) fn pool(targets: u16, clock: &Arc<dyn Clock>) -> Arc<dyn dolmen_client::Transport> {
            let stores = crate::Targets::new((0..targets).map(|no| $store(no, clock)).collect()).unwrap();
            crate::Service::create(&stores).unwrap();
            let (hlc, rng) = (crate::Hlc::new(Arc::clone(clock)), crate::Rng::from_seed(1));
            let service = crate::Service::open(&stores, hlc, crate::identity(targets), rng).unwrap();
            Arc::new(dolmen_cluster::Pool::new(stores, service))
        }
    };
}

#[expect(clippy::duplicate_mod, reason = "the same cases run on both stores")]
#[path = "cases"]
mod on_model {
    use dolmen_env::Clock;
    use dolmen_types::TargetNo;
    use std::sync::Arc;

    fn store(no: u16, clock: &Arc<dyn Clock>) -> dolmen_sim::Model {
        dolmen_sim::Model::new(TargetNo(no), Arc::clone(clock))
    }

    pool_of!(store);

    mod access;
    mod attrs;
    mod common;
    mod files;
    mod layout;
    mod links;
    mod listing;
    mod model;
    mod names;
    mod orphans;
    mod random;
    mod renames;
    mod shared;
    mod snapshots;
    mod threads;
    mod trees;
}

#[expect(clippy::duplicate_mod, reason = "the same cases run on both stores")]
#[path = "cases"]
mod on_engine {
    use dolmen_env::Clock;
    use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
    use dolmen_types::TargetNo;
    use std::sync::Arc;

    fn store(no: u16, clock: &Arc<dyn Clock>) -> dolmen_engine::Target {
        let meta = Box::new(SimDisk::new(&SimDrive::new(SimConfig::default())));
        let devices = dolmen_engine::Devices { meta, bulk: None };
        let config = dolmen_engine::TargetConfig {
            target: TargetNo(no),
            capacity_bytes: 64 << 20,
            log_segment_bytes: 1 << 20,
            bulk_segment_bytes: 1 << 20,
            ..Default::default()
        };
        dolmen_engine::Target::create(devices, Arc::clone(clock), u128::from(no), &config).unwrap()
    }

    pool_of!(store);

    mod access;
    mod attrs;
    mod common;
    mod files;
    mod layout;
    mod links;
    mod listing;
    mod model;
    mod names;
    mod orphans;
    mod random;
    mod renames;
    mod shared;
    mod snapshots;
    mod threads;
    mod trees;
}
