//! What the file system promises, case by case, on the reference model and on the engine; each row of the
//! crate's documentation has its test here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[expect(clippy::duplicate_mod, reason = "the same cases run on both stores")]
#[path = "cases"]
mod on_model {
    use dolmen_env::Clock;
    use dolmen_types::TargetNo;
    use std::sync::Arc;

    fn store(no: u16, clock: &Arc<dyn Clock>) -> dolmen_sim::Model {
        dolmen_sim::Model::new(TargetNo(no), Arc::clone(clock))
    }

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
