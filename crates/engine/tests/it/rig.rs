//! A target on simulated devices, and terse ways to ask it.

use dolmen_codec::order::HashKey;
use dolmen_codec::verb::{
    ContSpec, ContVerb, Fetch, FetchIod, List, ListWhat, Listed, Mutation, NewValue, Payload, Prepare, Punch,
    PunchScope, ReadAt, Reply, SpaceReport, Update, UpdateIod, Verb, Want,
};
use dolmen_codec::{Completion, Op, TargetStore};
use dolmen_engine::{Devices, Recovery, Target, TargetConfig};
use dolmen_env::sim::{CrashPlan, SimConfig, SimDisk, SimDrive};
use dolmen_env::{Clock as _, Disk, Media, SimClock};
use dolmen_types::{
    Anchor, Cond, ContNo, Durability, Epoch, Error, Head, IoBuf, Key, ObjectClass, ObjectType, Oid, Recx,
    TxId,
};
use smallvec::smallvec;
use std::sync::Arc;

pub(crate) const CONT: ContNo = ContNo(1);

pub(crate) struct Rig {
    pub(crate) drive: SimDrive,
    /// A device for bulk data, on the same supply of power.
    pub(crate) bulk: Option<SimDrive>,
    pub(crate) clock: SimClock,
    pub(crate) config: TargetConfig,
    pub(crate) target: Option<Target>,
    pub(crate) recovery: Recovery,
    /// Whose operations come.
    pub(crate) cont: ContNo,
}

/// How much of something to do: a variable of the environment, set by a soak run, or the share of every run.
pub(crate) fn amount(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect("a soak run sets a number"))
}

pub(crate) fn small_config() -> TargetConfig {
    TargetConfig {
        capacity_bytes: 64 << 20,
        log_segment_bytes: 64 << 10,
        bulk_segment_bytes: 1 << 20,
        memory_budget_bytes: 4 << 20,
        checkpoint_log_bytes: 1 << 20,
        join_extents_min: 2,
        ..TargetConfig::default()
    }
}

/// Tiny parts, so that a short script passes every kind of boundary: segments roll, bulk grows, checkpoints
/// and merges run.
pub(crate) fn tiny() -> TargetConfig {
    TargetConfig {
        capacity_bytes: 16 << 20,
        log_segment_bytes: 16 << 10,
        bulk_segment_bytes: 256 << 10,
        small_value_bytes_max: 1024,
        memory_budget_bytes: 1 << 20,
        checkpoint_log_bytes: 1 << 30,
        join_extents_min: 2,
        ..TargetConfig::default()
    }
}

pub(crate) fn oid(number: u64) -> Oid {
    Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 0, number)
}

impl Rig {
    pub(crate) fn new(media: Media, durability: Durability) -> Self {
        Self::with_config(media, durability, small_config())
    }

    /// On a drive whose operations complete in the order of this seed.
    pub(crate) fn seeded(seed: u64, media: Media, durability: Durability) -> Self {
        Self::with_container(Self::bare_seeded(seed, media, small_config()), durability)
    }

    pub(crate) fn with_config(media: Media, durability: Durability, config: TargetConfig) -> Self {
        Self::with_container(Self::bare(media, config), durability)
    }

    fn with_container(mut rig: Self, durability: Durability) -> Self {
        rig.create_container(durability);
        rig
    }

    pub(crate) fn create_container(&mut self, durability: Durability) {
        let spec = ContSpec { hash_key: HashKey([5; 16]), durability };
        self.ask(Verb::Cont(ContVerb::Create(spec))).unwrap();
    }

    pub(crate) fn space(&mut self) -> SpaceReport {
        match self.ask(Verb::Space).unwrap() {
            Reply::Space(space) => space,
            other => panic!("{other:?}"),
        }
    }

    /// A target without a container.
    pub(crate) fn bare(media: Media, config: TargetConfig) -> Self {
        Self::bare_seeded(1, media, config)
    }

    fn bare_seeded(seed: u64, media: Media, config: TargetConfig) -> Self {
        Self::bare_on(SimDrive::new(SimConfig { seed, media, ..SimConfig::default() }), config)
    }

    /// A target without a container on this drive.
    pub(crate) fn bare_on(drive: SimDrive, config: TargetConfig) -> Self {
        Self::created(drive, None, config)
    }

    /// A target whose bulk data has a device of its own.
    pub(crate) fn apart(media: Media, durability: Durability, config: TargetConfig) -> Self {
        let drive = SimDrive::new(SimConfig { seed: 1, media, ..SimConfig::default() });
        let bulk = SimDrive::on_power(SimConfig { seed: 2, media, ..SimConfig::default() }, drive.power());
        Self::with_container(Self::created(drive, Some(bulk), config), durability)
    }

    /// A target without a container on these drives, the second one for bulk data.
    pub(crate) fn created(drive: SimDrive, bulk: Option<SimDrive>, config: TargetConfig) -> Self {
        let clock = SimClock::new(1_800_000_000_000_000_000);
        let mut rig =
            Self { drive, bulk, clock, config, target: None, recovery: Recovery::default(), cont: CONT };
        let clock = Arc::new(rig.clock.clone());
        rig.target = Some(Target::create(rig.devices(), clock, 7, &rig.config).unwrap());
        rig
    }

    fn devices(&self) -> Devices {
        let disk = |drive: &SimDrive| -> Box<dyn Disk> { Box::new(SimDisk::new(drive)) };
        Devices { meta: disk(&self.drive), bulk: self.bulk.as_ref().map(disk) }
    }

    /// What a crash now would leave, not opened; this one stays as it is.
    pub(crate) fn powered_off(&self, plan: CrashPlan, bulk_plan: CrashPlan) -> Self {
        let drive = self.drive.crash(plan);
        let bulk = self.bulk.as_ref().map(|bulk| bulk.crash_onto(bulk_plan, drive.power()));
        Self {
            drive,
            bulk,
            clock: self.clock.clone(),
            config: self.config.clone(),
            target: None,
            recovery: Recovery::default(),
            cont: self.cont,
        }
    }

    /// A target opened on what a crash now would leave; this one stays as it is.
    pub(crate) fn after_crash(&self, plan: CrashPlan) -> Self {
        self.after_crashes(plan, plan)
    }

    /// The same with another plan for the device of bulk data.
    pub(crate) fn after_crashes(&self, plan: CrashPlan, bulk_plan: CrashPlan) -> Self {
        let mut rig = self.powered_off(plan, bulk_plan);
        rig.reopen();
        rig
    }

    /// The machine stops and comes back.
    pub(crate) fn crash(&mut self, plan: CrashPlan) {
        *self = self.after_crash(plan);
    }

    pub(crate) fn reopen(&mut self) {
        self.try_open().unwrap();
    }

    /// Opens the target, again if it was open.
    pub(crate) fn try_open(&mut self) -> Result<(), Error> {
        drop(self.target.take());
        let (target, recovery) = Target::open(self.devices(), Arc::new(self.clock.clone()), &self.config)?;
        self.target = Some(target);
        self.recovery = recovery;
        Ok(())
    }

    pub(crate) fn close_and_reopen(&mut self) {
        self.target.take().unwrap().close().unwrap();
        self.reopen();
    }

    pub(crate) fn complete(&mut self, verb: Verb<'_>) -> Completion {
        self.complete_as(Head::default(), verb)
    }

    pub(crate) fn complete_as(&mut self, head: Head, verb: Verb<'_>) -> Completion {
        let target = self.target.as_mut().unwrap();
        let mut ops = vec![Op { token: 9, head, cont: self.cont, verb }];
        target.submit(&mut ops);
        let mut out = Vec::new();
        while out.is_empty() {
            target.poll(true, &mut out);
        }
        assert_eq!((out.len(), out[0].token), (1, 9));
        out.pop().unwrap()
    }

    pub(crate) fn ask(&mut self, verb: Verb<'_>) -> Result<Reply, Error> {
        self.complete(verb).result
    }

    pub(crate) fn put(&mut self, oid: Oid, dkey: &[u8], akey: &[u8], value: &[u8]) -> Result<Epoch, Error> {
        self.update(oid, dkey, Cond::NONE, akey, NewValue::Single(Payload::Ref(value)))
    }

    pub(crate) fn update(
        &mut self,
        oid: Oid,
        dkey: &[u8],
        cond: Cond,
        akey: &[u8],
        value: NewValue<'_>,
    ) -> Result<Epoch, Error> {
        let iod = UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value };
        let update = Update { oid, dkey: Key::from_slice(dkey), cond, iods: smallvec![iod], charged: None };
        match self.ask(Verb::Update(update))? {
            Reply::Written(epoch) => Ok(epoch),
            other => panic!("{other:?}"),
        }
    }

    /// Commits a transaction of this target alone.
    pub(crate) fn commit(&mut self, mutations: Vec<Mutation<'_>>) -> Result<Epoch, Error> {
        self.clock.advance(1_000_000);
        let epoch = Epoch::from_unix_ns(self.clock.now_ns());
        self.clock.advance(1_000_000);
        self.commit_at(epoch, mutations)
    }

    /// Commits a transaction of this target alone that began at this epoch.
    pub(crate) fn commit_at(&mut self, epoch: Epoch, mutations: Vec<Mutation<'_>>) -> Result<Epoch, Error> {
        let target = self.config.target;
        let tx = TxId { client: 9, begin: epoch };
        let prepare = Prepare { tx, epoch, leader: target, participants: smallvec![target], mutations };
        self.ask(Verb::Prepare(prepare)).map(|_| epoch)
    }

    pub(crate) fn write(
        &mut self,
        oid: Oid,
        dkey: &[u8],
        akey: &[u8],
        index: u64,
        record: u64,
        bytes: &[u8],
    ) -> Result<Epoch, Error> {
        let count = bytes.len() as u64 / record;
        let value = NewValue::Array {
            record_bytes: record,
            extents: smallvec![Recx::new(index, count)],
            data: Payload::Ref(bytes),
        };
        self.update(oid, dkey, Cond::NONE, akey, value)
    }

    pub(crate) fn fetch(
        &mut self,
        oid: Oid,
        dkey: &[u8],
        akey: &[u8],
        want: Want,
        room: usize,
        at: ReadAt,
    ) -> Result<(u64, Vec<Recx>, Vec<u8>), Error> {
        let iod = FetchIod { akey: Key::from_slice(akey), want };
        let buf = IoBuf::zeroed(room);
        let fetch =
            Fetch { oid, dkey: Key::from_slice(dkey), cond: Cond::NONE, at, iods: smallvec![iod], buf };
        let completion = self.complete(Verb::Fetch(fetch));
        let buf = completion.buf.expect("a fetch brings its buffer back");
        match completion.result? {
            Reply::Fetched(mut found) => {
                let found = found.pop().unwrap();
                Ok((found.size_bytes, found.filled.to_vec(), buf.to_vec()))
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn get(&mut self, oid: Oid, dkey: &[u8], akey: &[u8]) -> Option<Vec<u8>> {
        self.get_at(oid, dkey, akey, ReadAt::Latest).unwrap()
    }

    pub(crate) fn get_at(
        &mut self,
        oid: Oid,
        dkey: &[u8],
        akey: &[u8],
        at: ReadAt,
    ) -> Result<Option<Vec<u8>>, Error> {
        let room = 2 << 20;
        let (size, _, mut bytes) =
            self.fetch(oid, dkey, akey, Want::Single { room_bytes: room }, room, at)?;
        bytes.truncate(usize::try_from(size).unwrap());
        Ok((size > 0).then_some(bytes))
    }

    /// A single value that is known to have at most `room` bytes.
    pub(crate) fn get_within(
        &mut self,
        room: usize,
        oid: Oid,
        dkey: &[u8],
        akey: &[u8],
        at: ReadAt,
    ) -> Option<Vec<u8>> {
        let want = Want::Single { room_bytes: room };
        let (size, _, mut bytes) = self.fetch(oid, dkey, akey, want, room, at).unwrap();
        bytes.truncate(usize::try_from(size).unwrap());
        (size > 0).then_some(bytes)
    }

    pub(crate) fn read(
        &mut self,
        oid: Oid,
        dkey: &[u8],
        akey: &[u8],
        index: u64,
        count: u64,
        record: u64,
    ) -> (Vec<Recx>, Vec<u8>) {
        let want = Want::Array { record_bytes: record, extents: smallvec![Recx::new(index, count)] };
        let room = usize::try_from(count * record).unwrap();
        let (_, filled, bytes) = self.fetch(oid, dkey, akey, want, room, ReadAt::Latest).unwrap();
        (filled, bytes)
    }

    pub(crate) fn punch(&mut self, oid: Oid, scope: PunchScope, cond: Cond) -> Result<Reply, Error> {
        self.ask(Verb::Punch(Punch { oid, scope, cond }))
    }

    pub(crate) fn keys(&mut self, what: ListWhat) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut anchor = Anchor::default();
        while !anchor.is_eof() {
            let list =
                List { what: what.clone(), anchor, items_max: 3, bytes_max: 1 << 20, at: ReadAt::Latest };
            match self.ask(Verb::List(list)).unwrap() {
                Reply::Listed(Listed::Keys(keys), next) => {
                    all.extend(keys.iter().map(<[u8]>::to_vec));
                    anchor = next;
                }
                other => panic!("{other:?}"),
            }
        }
        all.sort();
        all
    }

    /// Aggregates everything; returns how many versions were freed.
    pub(crate) fn aggregate(&mut self) -> u64 {
        for _ in 0..10_000 {
            match self.ask(Verb::Cont(ContVerb::Aggregate(Epoch::MAX))).unwrap() {
                Reply::Aggregated { more: false, freed } => return freed,
                Reply::Aggregated { more: true, .. } => {}
                other => panic!("{other:?}"),
            }
        }
        panic!("aggregation does not end");
    }

    /// Runs background work until there is none.
    pub(crate) fn work(&mut self) {
        for _ in 0..10_000 {
            if self.target.as_mut().unwrap().step() == dolmen_codec::Progress::Idle {
                return;
            }
        }
        panic!("background work does not end");
    }

    pub(crate) fn assert_clean(&mut self) {
        for verb in [Verb::Check, Verb::Scrub] {
            match self.ask(verb).unwrap() {
                Reply::Audited(audit) => assert_eq!(audit.findings, []),
                other => panic!("{other:?}"),
            }
        }
    }
}
