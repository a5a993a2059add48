//! The cases that every store passes, on the engine: mapped and block media, both durabilities.

use crate::rig::{Rig, small_config};
use dolmen_codec::TargetStore;
use dolmen_engine::TargetConfig;
use dolmen_env::sim::CrashPlan;
use dolmen_env::{Media, SimClock};
use dolmen_sim::{Subject, conformance};
use dolmen_types::TargetNo;

/// An engine on a simulated drive whose crashes lose everything that was not made durable.
pub(crate) struct EngineSubject(pub(crate) Rig);

impl Subject for EngineSubject {
    fn store(&mut self) -> &mut dyn TargetStore {
        self.0.target.as_mut().unwrap()
    }

    fn target(&self) -> TargetNo {
        self.0.config.target
    }

    fn clock(&self) -> SimClock {
        self.0.clock.clone()
    }

    fn restart(&mut self) {
        self.0.close_and_reopen();
    }

    fn crash(&mut self) {
        self.0.crash(CrashPlan::None);
    }

    fn is_tight(&self) -> bool {
        self.0.config.capacity_bytes < 16 << 20
    }
}

#[test]
fn every_case_passes_on_the_engine() {
    for media in [Media::Mapped, Media::Block] {
        conformance::run_all(|name| {
            println!("{name} on {media:?}");
            let config = TargetConfig {
                log_segment_bytes: 1 << 20,
                bulk_segment_bytes: 64 << 20,
                capacity_bytes: 256 << 20,
                ..small_config()
            };
            EngineSubject(Rig::bare(media, config))
        });
    }
}
