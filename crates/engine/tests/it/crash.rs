//! A crash at every I/O boundary of a scripted workload, with every plan of what survives.

use crate::rig::{Rig, amount, oid, tiny};
use dolmen_codec::verb::{
    ContVerb, Mutation, NewValue, Payload, PunchScope, ReadAt, Reply, Update, UpdateIod, Verb, Want,
};
use dolmen_codec::{Progress, TargetStore};
use dolmen_engine::TargetConfig;
use dolmen_env::Media;
use dolmen_env::sim::{CrashPlan, Fault};
use dolmen_types::{Cond, Durability, Epoch, Error, Key, Recx};
use smallvec::smallvec;
use std::collections::BTreeMap;

/// The object and the dkey of a value.
type Name = (u64, u8);

/// The name whose value is an extent.
const EXTENT: Name = (1, 7);

/// Expected values; `None` for one that is not there.
type State = BTreeMap<Name, Option<Vec<u8>>>;

/// One step of a script.
pub(crate) enum Step {
    Put(u8, Vec<u8>),
    Remove(u8),
    Extent(Vec<u8>),
    /// The same value under a dkey of two objects, in one transaction.
    Both(u8, Vec<u8>),
    /// Keeps the state as of the last write.
    Snapshot,
    Checkpoint,
    Flush,
    Aggregate,
    /// So many steps of an aggregation.
    AggregatePart(u32),
    /// Checkpoints and merges, as they are due.
    Work,
    /// An object is charged to a user from now on.
    Give(u64, u32),
}

/// All names of the scripts.
fn names() -> impl Iterator<Item = Name> {
    (0..12).map(|dkey| (1, dkey)).chain((0..4).map(|dkey| (2, dkey)))
}

fn nothing() -> State {
    names().map(|name| (name, None)).collect()
}

pub(crate) fn script() -> Vec<Step> {
    let mut steps = Vec::new();
    for number in 0..6u8 {
        steps.push(Step::Put(number, vec![number + 1; 200]));
    }
    steps.push(Step::Put(6, vec![0x66; 5000]));
    steps.push(Step::Extent(vec![0x77; 3000]));
    steps.push(Step::Remove(1));
    steps.push(Step::Checkpoint);
    for number in 0..4u8 {
        steps.push(Step::Put(number, vec![number + 65; 900]));
    }
    steps.push(Step::Put(6, vec![0x67; 9000]));
    steps.push(Step::Remove(2));
    steps.push(Step::Checkpoint);
    steps.push(Step::Put(8, vec![0x88; 700]));
    steps.push(Step::Aggregate);
    steps.push(Step::Put(6, vec![0x68; 6000]));
    steps.push(Step::Put(0, vec![0x30; 100]));
    // Segments of bulk are filled, emptied, given back, and their numbers taken again.
    steps.push(Step::Put(9, vec![0x99; 150_000]));
    steps.push(Step::Put(10, vec![0xaa; 150_000]));
    steps.push(Step::Put(11, vec![0xbb; 150_000]));
    steps.push(Step::Checkpoint);
    steps.push(Step::Remove(9));
    steps.push(Step::Remove(10));
    steps.push(Step::Put(11, vec![0xbc; 100]));
    steps.push(Step::Aggregate);
    steps.push(Step::Put(9, vec![0x9a; 150_000]));
    steps
}

/// The same, with what there is given away now and then: before a checkpoint and behind one.
pub(crate) fn given_script() -> Vec<Step> {
    let mut steps = Vec::new();
    for (number, step) in script().into_iter().enumerate() {
        steps.push(step);
        if number % 4 == 3 {
            steps.push(Step::Give(1, [7, 8, 9][number / 4 % 3]));
        }
    }
    steps.push(Step::Checkpoint);
    // What an aggregation leaves out of the object is given away at each of its steps.
    for uid in [8, 7, 8, 7, 8, 9] {
        steps.push(Step::AggregatePart(1));
        steps.push(Step::Give(1, uid));
    }
    steps.push(Step::Aggregate);
    steps
}

/// Rounds of writes that fill several segments of the log, with transactions, snapshots, and the checkpoints and
/// merges that become due.
fn long_script() -> Vec<Step> {
    let mut steps = Vec::new();
    for round in 0..6u8 {
        for number in 0..7u8 {
            steps.push(Step::Put(number, vec![0x10 * (round + 1) + number; 500 + 60 * usize::from(number)]));
        }
        steps.push(Step::Extent(vec![0xe0 + round; 3000]));
        steps.push(Step::Both(round % 4, vec![0xb0 + round; 700]));
        if round % 2 == 0 {
            steps.push(Step::Snapshot);
        }
        steps.push(Step::Put(8, vec![0x80 + round; 5000]));
        steps.push(Step::Both((round + 1) % 4, vec![0xc0 + round; 4000]));
        steps.push(Step::Remove(round));
        steps.push(Step::Work);
        steps.push(Step::Put(9, vec![0x90 + round; 20_000]));
        if round == 3 {
            steps.push(Step::Aggregate);
        }
        steps.push(Step::Checkpoint);
        steps.push(Step::Work);
    }
    steps
}

/// A script with a flush after every fifth step.
fn flushed(script: Vec<Step>) -> Vec<Step> {
    let mut steps = Vec::new();
    for (number, step) in script.into_iter().enumerate() {
        steps.push(step);
        if number % 5 == 4 {
            steps.push(Step::Flush);
        }
    }
    steps
}

/// Does a step; the epoch if it wrote.
fn run_step(rig: &mut Rig, step: &Step, last: Epoch) -> Result<Option<Epoch>, Error> {
    let single = |value| NewValue::Single(Payload::Ref(value));
    match step {
        Step::Put(dkey, value) => rig.update(oid(1), &[*dkey], Cond::NONE, b"a", single(value)).map(Some),
        Step::Remove(dkey) => {
            let scope = PunchScope::Dkey(Key::from_slice(&[*dkey]));
            match rig.punch(oid(1), scope, Cond::NONE)? {
                Reply::Written(epoch) => Ok(Some(epoch)),
                other => panic!("{other:?}"),
            }
        }
        Step::Extent(bytes) => {
            let extents = smallvec![Recx::new(5, bytes.len() as u64)];
            let value = NewValue::Array { record_bytes: 1, extents, data: Payload::Ref(bytes) };
            rig.update(oid(EXTENT.0), &[EXTENT.1], Cond::NONE, b"x", value).map(Some)
        }
        Step::Both(dkey, value) => {
            let update = |object| {
                let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value: single(value) };
                let dkey = Key::from_slice(&[*dkey]);
                Mutation::Update(Update {
                    oid: oid(object),
                    dkey,
                    cond: Cond::NONE,
                    iods: smallvec![iod],
                    charged: None,
                })
            };
            rig.commit(vec![update(1), update(2)]).map(Some)
        }
        Step::Give(object, uid) => {
            let (dkey, iods, charged) = (Key::new(), smallvec![], Some(*uid));
            let gift = Update { oid: oid(*object), dkey, cond: Cond::NONE, iods, charged };
            rig.commit(vec![Mutation::Update(gift)]).map(|_| None)
        }
        Step::Snapshot => rig.ask(Verb::Cont(ContVerb::AddSnapshot(last))).map(|_| None),
        Step::Checkpoint => rig.ask(Verb::Checkpoint).map(|_| None),
        Step::Flush => rig.ask(Verb::Flush).map(|_| None),
        Step::Aggregate => loop {
            let step = rig.ask(Verb::Cont(ContVerb::Aggregate(Epoch::MAX)))?;
            if let Reply::Aggregated { more: false, .. } = step {
                return Ok(None);
            }
        },
        Step::AggregatePart(count) => {
            for _ in 0..*count {
                rig.ask(Verb::Cont(ContVerb::Aggregate(Epoch::MAX)))?;
            }
            Ok(None)
        }
        Step::Work => {
            // A machine that has stopped has no more work to do, whatever the target believes.
            while !rig.drive.power().is_crashed() && rig.target.as_mut().unwrap().step() == Progress::More {}
            Ok(None)
        }
    }
}

/// What a step changes.
fn effect(step: &Step) -> State {
    match step {
        Step::Put(dkey, value) => State::from([((1, *dkey), Some(value.clone()))]),
        Step::Extent(value) => State::from([(EXTENT, Some(value.clone()))]),
        Step::Both(dkey, value) => {
            State::from([((1, *dkey), Some(value.clone())), ((2, *dkey), Some(value.clone()))])
        }
        Step::Remove(dkey) => State::from([((1, *dkey), None)]),
        Step::Snapshot
        | Step::Checkpoint
        | Step::Flush
        | Step::Aggregate
        | Step::AggregatePart(_)
        | Step::Work
        | Step::Give(..) => State::new(),
    }
}

/// The values as they are stored.
fn observe(rig: &mut Rig, at: ReadAt) -> State {
    let mut state = State::new();
    for name in names() {
        let (object, dkey) = (oid(name.0), [name.1]);
        let value = if name == EXTENT {
            let want = Want::Array { record_bytes: 1, extents: smallvec![Recx::new(0, 3005)] };
            let (_, filled, bytes) = rig.fetch(object, &dkey, b"x", want, 3005, at).unwrap();
            match filled[..] {
                [] => None,
                [recx] => {
                    assert_eq!(recx, Recx::new(5, 3000));
                    Some(bytes[5..].to_vec())
                }
                _ => panic!("half an extent: {filled:?}"),
            }
        } else {
            rig.get_within(150_000, object, &dkey, b"a", at)
        };
        state.insert(name, value);
    }
    state
}

/// What differs, tersely: values are long.
fn difference(seen: &State, expected: &State) -> Vec<String> {
    let terse = |value: &Option<Vec<u8>>| value.as_ref().map(|bytes| (bytes.len(), bytes[0]));
    let changed = names().filter(|name| seen[name] != expected[name]);
    changed
        .map(|name| format!("{name:?}: {:?} for {:?}", terse(&seen[&name]), terse(&expected[&name])))
        .collect()
}

/// A script that met a crash, or its end.
pub(crate) struct Run {
    pub(crate) rig: Rig,
    /// The state that was acknowledged.
    acknowledged: State,
    /// The same with the step that was under way.
    possible: State,
    /// Snapshots that were acknowledged, and the state each keeps.
    snapshots: Vec<(Epoch, State)>,
    /// The states that were acknowledged one after the other since the last flush, that of the flush first, and how
    /// many snapshots there were then.
    since_flush: Vec<State>,
    snapshots_flushed: usize,
    pub(crate) is_crashed: bool,
}

/// Runs a script until a crash at boundary `at`.
pub(crate) fn run_until_crash(script: &[Step], rig: Rig, at: u64) -> Run {
    let start = rig.drive.power().ops();
    rig.drive.power().fail_at(start + at, Fault::Crash);
    let mut run = Run {
        rig,
        acknowledged: nothing(),
        possible: nothing(),
        snapshots: Vec::new(),
        since_flush: vec![nothing()],
        snapshots_flushed: 0,
        is_crashed: false,
    };
    let mut last = Epoch::default();
    for step in script {
        run.possible.extend(effect(step));
        let result = run_step(&mut run.rig, step, last);
        // A write through mapped memory cannot fail: the machine may have stopped without an error.
        if run.rig.drive.power().is_crashed() {
            run.is_crashed = true;
            return run;
        }
        last = result.unwrap().unwrap_or(last);
        run.acknowledged.clone_from(&run.possible);
        run.since_flush.push(run.acknowledged.clone());
        match step {
            Step::Snapshot => run.snapshots.push((last, run.acknowledged.clone())),
            Step::Flush | Step::Checkpoint => {
                run.since_flush.drain(..run.since_flush.len() - 1);
                run.snapshots_flushed = run.snapshots.len();
            }
            _ => {}
        }
    }
    run
}

impl Run {
    /// All that was acknowledged is there, and the step under way either whole or not at all.
    fn judge(&self, plan: CrashPlan, what: &str) {
        self.judge_in(&mut self.rig.after_crash(plan), what);
    }

    /// The same of a target that was opened on what a crash left.
    pub(crate) fn judge_in(&self, after: &mut Rig, what: &str) {
        let seen = observe(after, ReadAt::Latest);
        assert!(
            seen == self.acknowledged || seen == self.possible,
            "{what}: {:?}; with the step under way: {:?}",
            difference(&seen, &self.acknowledged),
            difference(&seen, &self.possible)
        );
        assert_kept(after, &self.snapshots, what);
        after.assert_clean();
    }

    /// What was acknowledged is there up to some step, not before the last flush, and nothing of the steps behind it:
    /// what a power cut leaves where only the death of the process is survived.
    fn judge_prefix(&self, plan: CrashPlan, what: &str) {
        let mut after = self.rig.after_crash(plan);
        let seen = observe(&mut after, ReadAt::Latest);
        let is_prefix = self.since_flush.contains(&seen) || seen == self.possible;
        let flushed = &self.since_flush[0];
        assert!(is_prefix, "{what}: no prefix; since the flush: {:?}", difference(&seen, flushed));
        assert_kept(&mut after, &self.snapshots[..self.snapshots_flushed], what);
        after.assert_clean();
    }
}

fn assert_kept(rig: &mut Rig, snapshots: &[(Epoch, State)], what: &str) {
    for (epoch, state) in snapshots {
        let kept = observe(rig, ReadAt::Epoch(*epoch));
        assert!(kept == *state, "{what}: snapshot {epoch:?}: {:?}", difference(&kept, state));
    }
}

/// Crashes at every `stride`-th boundary; how many crashes were judged.
fn crash_everywhere(
    script: &[Step],
    config: &TargetConfig,
    (media, durability): (Media, Durability),
    stride: usize,
    plans: impl Fn(&Rig) -> Vec<CrashPlan>,
    judge: fn(&Run, CrashPlan, &str),
) -> u64 {
    let mut checked = 0;
    for at in (0..).step_by(stride) {
        let run = run_until_crash(script, Rig::with_config(media, durability, config.clone()), at);
        for plan in plans(&run.rig) {
            judge(&run, plan, &format!("boundary {at}, {plan:?}, {media:?}, {durability:?}"));
            checked += 1;
        }
        if !run.is_crashed {
            return checked;
        }
    }
    checked
}

#[test]
fn no_power_cut_at_any_boundary_loses_or_halves_an_acknowledged_write() {
    let subsets = amount("CRASH_SUBSETS", 32);
    for media in [Media::Block, Media::Mapped] {
        let on = (media, Durability::Power);
        let checked =
            crash_everywhere(&script(), &tiny(), on, 1, |rig| rig.drive.crash_plans(subsets), Run::judge);
        assert!(checked > 1000, "{checked}");
    }
}

#[test]
fn no_death_of_the_process_at_any_boundary_loses_an_acknowledged_write() {
    for media in [Media::Block, Media::Mapped] {
        let on = (media, Durability::Process);
        let checked = crash_everywhere(&script(), &tiny(), on, 1, |_| vec![CrashPlan::Process], Run::judge);
        assert!(checked > 50, "{checked}");
    }
}

/// With `durability = process` a power cut takes what was not flushed: from the end, and never a part of an operation.
#[test]
fn a_power_cut_at_any_boundary_leaves_a_prefix_of_what_only_survives_the_process() {
    let subsets = amount("CRASH_SUBSETS", 32);
    for media in [Media::Block, Media::Mapped] {
        let on = (media, Durability::Process);
        let plans = |rig: &Rig| rig.drive.crash_plans(subsets);
        let checked = crash_everywhere(&flushed(script()), &tiny(), on, 1, plans, Run::judge_prefix);
        assert!(checked > 1000, "{checked}");
    }
}

/// The longer script, at boundaries as far apart as time allows: a soak run takes every one.
#[test]
fn no_power_cut_among_checkpoints_merges_snapshots_and_transactions_loses_anything() {
    let config = TargetConfig { checkpoint_log_bytes: 8 << 10, ..tiny() };
    let steps = long_script();
    let rig = Rig::with_config(Media::Block, Durability::Power, config.clone());
    let whole = run_until_crash(&steps, rig, u64::MAX / 2);
    let done = whole.rig.target.as_ref().unwrap().background_done();
    assert!(done.checkpoints > 6, "{done:?}");
    assert!(done.merges > 0, "{done:?}");
    let stride = usize::try_from(amount("CRASH_STRIDE", 11)).unwrap();
    let subsets = amount("CRASH_LONG_SUBSETS", 4);
    for media in [Media::Block, Media::Mapped] {
        let on = (media, Durability::Power);
        let checked =
            crash_everywhere(&steps, &config, on, stride, |rig| rig.drive.crash_plans(subsets), Run::judge);
        assert!(checked > 100, "{checked}");
        let on = (media, Durability::Process);
        let checked = crash_everywhere(&steps, &config, on, stride, |_| vec![CrashPlan::Process], Run::judge);
        assert!(checked > 10, "{checked}");
        let plans = |rig: &Rig| rig.drive.crash_plans(subsets);
        let checked = crash_everywhere(&steps, &config, on, stride, plans, Run::judge_prefix);
        assert!(checked > 100, "{checked}");
    }
}

/// What may be found: under each name the last value acknowledged. What was refused for want of space has not happened;
/// only a write whose device failed may have, because it was the flush that failed.
struct Expected {
    acknowledged: State,
    doubtful: Vec<(Name, Option<Vec<u8>>)>,
    /// The target has ended with an error: what it refuses from here on does not happen.
    is_over: bool,
}

impl Expected {
    fn new() -> Self {
        Self { acknowledged: nothing(), doubtful: Vec::new(), is_over: false }
    }

    /// Notes how a step ended.
    fn note(&mut self, step: &Step, result: Result<Option<Epoch>, Error>, what: &str) {
        let changed = effect(step);
        match result {
            Ok(_) => {
                self.doubtful.retain(|(name, _)| !changed.contains_key(name));
                self.acknowledged.extend(changed);
            }
            Err(Error::ReadOnly { .. }) if self.is_over => {}
            Err(Error::NoSpace { .. }) => {}
            Err(Error::Io { .. } | Error::ReadOnly { .. }) => {
                self.is_over = true;
                self.doubtful.extend(changed);
            }
            Err(error) => panic!("{what}: {error:?}"),
        }
    }

    fn judge(&self, rig: &mut Rig, what: &str) {
        let seen = observe(rig, ReadAt::Latest);
        for (name, value) in &seen {
            let is_right = self.acknowledged[name] == *value
                || self.doubtful.iter().any(|(of, refused)| of == name && refused == value);
            assert!(is_right, "{what}: {name:?} of {:?}", difference(&seen, &self.acknowledged));
        }
        rig.assert_clean();
    }
}

/// Runs the script with one boundary that fails; what may be found, and whether that boundary was met.
fn run_with_fault(media: Media, durability: Durability, at: u64, fault: Fault) -> (Rig, Expected, bool) {
    let mut rig = Rig::with_config(media, durability, tiny());
    let power = rig.drive.power().clone();
    let boundary = power.ops() + at;
    power.fail_at(boundary, fault);
    let mut expected = Expected::new();
    for step in script() {
        let what = format!("{fault:?} at {at}, {media:?}, {durability:?}");
        let result = run_step(&mut rig, &step, Epoch::default());
        let is_refused = matches!(result, Err(Error::NoSpace { .. }));
        expected.note(&step, result, &what);
        // Behind a flush that failed nothing is answered any more.
        if is_refused && rig.get_at(oid(1), b"none", b"a", ReadAt::Latest).is_ok() {
            expected.judge(&mut rig, &format!("{what}, just refused"));
        }
    }
    let has_met = power.ops() > boundary;
    (rig, expected, has_met)
}

#[test]
fn no_boundary_that_finds_the_device_full_or_fails_loses_an_acknowledged_write() {
    for (media, fault) in
        [(Media::Block, Fault::NoSpace), (Media::Mapped, Fault::NoSpace), (Media::Block, Fault::Eio)]
    {
        for at in 0.. {
            let (mut rig, expected, has_met) = run_with_fault(media, Durability::Power, at, fault);
            let what = format!("{fault:?} at {at} on {media:?}");
            let closed =
                fault == Fault::NoSpace && rig.target.take().is_some_and(|target| target.close().is_ok());
            if closed {
                rig.reopen();
                expected.judge(&mut rig, &format!("{what}, closed"));
            }
            rig.crash(CrashPlan::None);
            expected.judge(&mut rig, &format!("{what}, after a crash"));
            if !has_met {
                break;
            }
        }
    }
}

/// A device that is full although the target counted on room: the operation fails or not, the next ones go on.
#[test]
fn no_full_device_at_any_boundary_loses_or_halves_an_acknowledged_write() {
    for media in [Media::Block, Media::Mapped] {
        for durability in [Durability::Power, Durability::Process] {
            let mut at = 0;
            while full_device(media, durability, at) {
                at += 1;
            }
            assert!(at > 50, "{at}");
        }
    }
}

/// Runs the script with a device that is full at one boundary; `false` if the script has ended before that.
fn full_device(media: Media, durability: Durability, at: u64) -> bool {
    let (mut rig, expected, has_met) = run_with_fault(media, durability, at, Fault::NoSpace);
    let what = format!("boundary {at}, {media:?}, {durability:?}");
    // Behind a flush that failed nothing is answered that it was to cover.
    if rig.ask(Verb::Flush).is_ok() {
        expected.judge(&mut rig, &what);
    }
    rig.crash(CrashPlan::Process);
    expected.judge(&mut rig, &what);
    has_met
}
