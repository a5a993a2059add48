//! Engines as subjects: targets on simulated drives, which lose at a crash what was not made durable.

use dolmen_codec::TargetStore;
use dolmen_engine::{Devices, Target, TargetConfig};
use dolmen_env::sim::{CrashPlan, SimConfig, SimDisk, SimDrive};
use dolmen_env::{Media, SimClock};
use dolmen_sim::Subject;
use dolmen_types::TargetNo;
use std::sync::Arc;

/// 2026-01-01.
pub(crate) const START_NS: u64 = 1_767_225_600_000_000_000;

pub(crate) struct EngineSubject {
    drive: SimDrive,
    clock: SimClock,
    config: TargetConfig,
    target: Option<Target>,
    crashes: u64,
    /// Its crashes are deaths of the process.
    is_killed: bool,
}

impl EngineSubject {
    /// A target of parts so small that a history passes new segments, checkpoints and merges.
    pub(crate) fn new(seed: u64, media: Media, no: u16, clock: &SimClock) -> Self {
        let config = tiny(TargetNo(no));
        let drive = SimDrive::new(SimConfig { seed: seed ^ u64::from(no), media, ..SimConfig::default() });
        let target =
            Target::create(devices(&drive), Arc::new(clock.clone()), u128::from(no), &config).unwrap();
        Self { drive, clock: clock.clone(), config, target: Some(target), crashes: 0, is_killed: false }
    }

    /// The same, where nothing but the process dies.
    pub(crate) fn killed(self) -> Self {
        Self { is_killed: true, ..self }
    }

    fn reopen(&mut self) {
        let (target, _) =
            Target::open(devices(&self.drive), Arc::new(self.clock.clone()), &self.config).unwrap();
        self.target = Some(target);
    }
}

/// Parts so small that a short history passes every kind of file.
pub(crate) fn tiny(target: TargetNo) -> TargetConfig {
    TargetConfig {
        target,
        capacity_bytes: 16 << 20,
        log_segment_bytes: 16 << 10,
        // The largest value of the histories has 360,000 bytes.
        bulk_segment_bytes: 512 << 10,
        // One write in two of the histories goes to bulk.
        small_value_bytes_max: 64,
        memory_budget_bytes: 1 << 20,
        checkpoint_log_bytes: 8 << 10,
        ..TargetConfig::default()
    }
}

pub(crate) fn devices(drive: &SimDrive) -> Devices {
    Devices { meta: Box::new(SimDisk::new(drive)), bulk: None }
}

impl Subject for EngineSubject {
    fn store(&mut self) -> &mut dyn TargetStore {
        self.target.as_mut().unwrap()
    }

    fn target(&self) -> TargetNo {
        self.config.target
    }

    fn clock(&self) -> SimClock {
        self.clock.clone()
    }

    fn restart(&mut self) {
        self.target.take().unwrap().close().unwrap();
        self.reopen();
    }

    /// What was not flushed is lost, kept or torn, in turn, unless only the process dies.
    fn crash(&mut self) {
        self.crashes += 1;
        let plan = match self.crashes % 4 {
            _ if self.is_killed => CrashPlan::Process,
            0 => CrashPlan::All,
            1 => CrashPlan::None,
            _ => CrashPlan::Subset(self.crashes),
        };
        self.drive = self.drive.crash(plan);
        self.target = None;
        self.reopen();
    }
}
