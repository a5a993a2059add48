//! The cluster on stores that are watched, stopped and made to fail from outside: every case on the reference
//! model and on the engine.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod clock;
mod stage;

#[expect(clippy::duplicate_mod, reason = "the same cases run on both stores")]
#[path = "cases"]
mod on_model {
    use dolmen_env::SimClock;
    use dolmen_types::TargetNo;
    use std::sync::Arc;

    pub(crate) type Inner = dolmen_sim::Model;

    pub(crate) fn inner(no: u16, clock: &SimClock) -> Inner {
        Inner::new(TargetNo(no), Arc::new(clock.clone()))
    }

    mod commit;
    mod common;
    mod dispatch;
    mod parts;
    mod quota;
    mod service;
    mod service_crash;
    mod service_repeats;
    mod whose;
}

#[path = "cases"]
mod on_engine {
    use dolmen_env::SimClock;
    use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
    use dolmen_types::TargetNo;
    use std::sync::Arc;

    pub(crate) type Inner = dolmen_engine::Target;

    pub(crate) fn inner(no: u16, clock: &SimClock) -> Inner {
        let meta = Box::new(SimDisk::new(&SimDrive::new(SimConfig::default())));
        let devices = dolmen_engine::Devices { meta, bulk: None };
        let config = dolmen_engine::TargetConfig {
            target: TargetNo(no),
            capacity_bytes: 64 << 20,
            log_segment_bytes: 1 << 20,
            bulk_segment_bytes: 1 << 20,
            ..Default::default()
        };
        Inner::create(devices, Arc::new(clock.clone()), u128::from(no), &config).unwrap()
    }

    mod commit;
    mod common;
    mod dispatch;
    mod parts;
    mod quota;
    mod service;
    mod service_crash;
    mod service_repeats;
    mod shares;
    mod whose;
}
