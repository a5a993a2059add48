//! What the file system promises, case by case, on the reference model and on the engine; each row of the
//! crate's documentation has its test here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod apart;
mod watched;

use dolmen_cluster::{Hlc, PoolIdentity, Service, Targets};
use dolmen_env::{Clock, Rng, Secrets};
use dolmen_types::{PoolMap, TargetInfo, TargetState, Uuid};
use std::sync::Arc;

/// A pool of these targets, new or as it was left.
fn pool_on<T: dolmen_codec::TargetStore + 'static>(
    stores: Vec<T>,
    clock: &Arc<dyn Clock>,
    new: bool,
) -> Arc<dolmen_cluster::Pool<T>> {
    let targets = vec![TargetInfo { rank: 0, state: TargetState::UpIn }; stores.len()];
    let map = PoolMap { version: 1, pool: Uuid::from_u128(5), targets };
    let stores = Targets::new(stores).unwrap();
    if new {
        Service::create(&stores).unwrap();
    }
    let identity = PoolIdentity { map, label: None };
    let service =
        Service::open(&stores, Hlc::new(Arc::clone(clock)), identity, Secrets::Repeatable(Rng::from_seed(1)))
            .unwrap();
    Arc::new(dolmen_cluster::Pool::new(stores, service))
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

    fn pool(targets: u16, clock: &Arc<dyn Clock>) -> Arc<dyn dolmen_client::Transport> {
        crate::pool_on((0..targets).map(|no| store(no, clock)).collect(), clock, true)
    }

    fn pool_apart(targets: u16, clock: &Arc<dyn Clock>) -> Arc<dyn dolmen_client::Transport> {
        crate::pool_on((0..targets).map(|no| crate::apart::Apart(store(no, clock))).collect(), clock, true)
    }

    mod access;
    mod acls;
    mod attrs;
    mod checks;
    mod common;
    mod damage;
    mod files;
    mod layout;
    mod links;
    mod listing;
    mod model;
    mod names;
    mod objs;
    mod opens;
    mod orphans;
    mod quota;
    mod random;
    mod renames;
    mod replaced;
    mod shared;
    mod sharing;
    mod snapshots;
    mod space;
    mod threads;
    mod times;
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

    fn pool(targets: u16, clock: &Arc<dyn Clock>) -> Arc<dyn dolmen_client::Transport> {
        crate::pool_on((0..targets).map(|no| store(no, clock)).collect(), clock, true)
    }

    fn pool_apart(targets: u16, clock: &Arc<dyn Clock>) -> Arc<dyn dolmen_client::Transport> {
        crate::pool_on((0..targets).map(|no| crate::apart::Apart(store(no, clock))).collect(), clock, true)
    }

    mod access;
    mod acls;
    mod attrs;
    mod checks;
    mod common;
    mod crash;
    mod cuts;
    mod damage;
    mod files;
    mod layout;
    mod links;
    mod listing;
    mod model;
    mod names;
    mod objs;
    mod opens;
    mod orphans;
    mod quota;
    mod random;
    mod renames;
    mod replaced;
    mod rest;
    mod shared;
    mod sharing;
    mod snapshots;
    mod space;
    mod threads;
    mod times;
    mod trees;
}
