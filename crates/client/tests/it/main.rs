//! What the client promises, case by case, on the reference model and on the engine.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise, also in what tests share")]

mod conformance;
mod through;
mod watched;

use dolmen_cluster::{Hlc, PoolIdentity, Service, Targets};
use dolmen_codec::{TargetStore, Transport};
use dolmen_env::{Clock, Rng, Secrets};
use dolmen_types::{PoolMap, TargetInfo, TargetState, Uuid};
use std::sync::Arc;

/// A pool of these targets.
fn pool_of<T: TargetStore + 'static>(stores: Vec<T>, clock: Arc<dyn Clock>) -> Arc<dyn Transport> {
    let info = TargetInfo { rank: 0, state: TargetState::UpIn };
    let map = PoolMap { version: 1, pool: Uuid::from_u128(5), targets: vec![info; stores.len()] };
    let targets = Targets::new(stores).unwrap();
    Service::create(&targets).unwrap();
    let identity = PoolIdentity { map, label: None };
    let service =
        Service::open(&targets, Hlc::new(clock), identity, Secrets::Repeatable(Rng::from_seed(1))).unwrap();
    Arc::new(dolmen_cluster::Pool::new(targets, service))
}

#[expect(clippy::duplicate_mod, reason = "the same cases run on both stores")]
#[path = "cases"]
mod on_model {
    use dolmen_env::Clock;
    use dolmen_types::TargetNo;
    use std::sync::Arc;

    pub(crate) type Store = dolmen_sim::Model;

    pub(crate) fn store(no: u16, clock: &Arc<dyn Clock>) -> Store {
        Store::new(TargetNo(no), Arc::clone(clock))
    }

    mod arrays;
    mod batches;
    mod common;
    mod conts;
    mod doubts;
    mod events;
    mod kvs;
    mod objects;
    mod overlay;
    mod reads;
    mod repeats;
    mod rollbacks;
    mod threads;
    mod txs;
}

#[expect(clippy::duplicate_mod, reason = "the same cases run on both stores")]
#[path = "cases"]
mod on_engine {
    use dolmen_env::Clock;
    use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
    use dolmen_types::TargetNo;
    use std::sync::Arc;

    pub(crate) type Store = dolmen_engine::Target;

    pub(crate) fn store(no: u16, clock: &Arc<dyn Clock>) -> Store {
        let meta = Box::new(SimDisk::new(&SimDrive::new(SimConfig::default())));
        let devices = dolmen_engine::Devices { meta, bulk: None };
        let config = dolmen_engine::TargetConfig {
            target: TargetNo(no),
            capacity_bytes: 128 << 20,
            log_segment_bytes: 1 << 20,
            bulk_segment_bytes: 16 << 20,
            ..Default::default()
        };
        Store::create(devices, Arc::clone(clock), u128::from(no), &config).unwrap()
    }

    mod arrays;
    mod batches;
    mod common;
    mod conts;
    mod doubts;
    mod events;
    mod kvs;
    mod objects;
    mod overlay;
    mod reads;
    mod repeats;
    mod rollbacks;
    mod threads;
    mod txs;
}
