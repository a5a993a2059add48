//! A crash at every I/O boundary of a scripted workload, with every plan of what survives.

use crate::rig::{Rig, amount, oid, tiny};
use dolmen_codec::verb::{ContVerb, NewValue, Payload, PunchScope, ReadAt, Verb};
use dolmen_env::Media;
use dolmen_env::sim::{CrashPlan, Fault};
use dolmen_types::{Cond, Durability, Error, Key, Recx};
use smallvec::smallvec;
use std::collections::BTreeMap;

/// The dkeys of the script.
const DKEYS: u8 = 12;

/// Expected single values by dkey; `None` for a removed one.
type State = BTreeMap<u8, Option<Vec<u8>>>;

/// One step of the script: what it asks, and what holds when it was acknowledged.
enum Step {
    Put(u8, Vec<u8>),
    Remove(u8),
    Extent(u8, Vec<u8>),
    Checkpoint,
    Aggregate,
}

fn script() -> Vec<Step> {
    let mut steps = Vec::new();
    for number in 0..6u8 {
        steps.push(Step::Put(number, vec![number + 1; 200]));
    }
    steps.push(Step::Put(6, vec![0x66; 5000]));
    steps.push(Step::Extent(7, vec![0x77; 3000]));
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

fn run_step(rig: &mut Rig, step: &Step) -> Result<(), Error> {
    match step {
        Step::Put(dkey, value) => {
            rig.update(oid(1), &[*dkey], Cond::NONE, b"a", NewValue::Single(Payload::Ref(value))).map(|_| ())
        }
        Step::Remove(dkey) => {
            rig.punch(oid(1), PunchScope::Dkey(Key::from_slice(&[*dkey])), Cond::NONE).map(|_| ())
        }
        Step::Extent(dkey, bytes) => {
            let extents = smallvec![Recx::new(5, bytes.len() as u64)];
            let value = NewValue::Array { record_bytes: 1, extents, data: Payload::Ref(bytes) };
            rig.update(oid(1), &[*dkey], Cond::NONE, b"x", value).map(|_| ())
        }
        Step::Checkpoint => rig.ask(Verb::Checkpoint).map(|_| ()),
        Step::Aggregate => loop {
            let step = rig.ask(Verb::Cont(ContVerb::Aggregate(dolmen_types::Epoch::MAX)))?;
            if let dolmen_codec::verb::Reply::Aggregated { more: false, .. } = step {
                return Ok(());
            }
        },
    }
}

fn apply(state: &mut State, step: &Step) {
    match step {
        Step::Put(dkey, value) | Step::Extent(dkey, value) => {
            state.insert(*dkey, Some(value.clone()));
        }
        Step::Remove(dkey) => {
            state.insert(*dkey, None);
        }
        Step::Checkpoint | Step::Aggregate => {}
    }
}

/// The values as they are stored now.
fn observe(rig: &mut Rig, keys: impl Iterator<Item = u8>) -> State {
    let mut state = State::new();
    for dkey in keys {
        let value = if dkey == 7 {
            let (filled, bytes) = rig.read(oid(1), &[dkey], b"x", 0, 3005, 1);
            match filled[..] {
                [] => None,
                [recx] => {
                    assert_eq!(recx, Recx::new(5, 3000));
                    Some(bytes[5..].to_vec())
                }
                _ => panic!("half an extent: {filled:?}"),
            }
        } else {
            rig.get_within(200_000, oid(1), &[dkey], b"a", ReadAt::Latest)
        };
        state.insert(dkey, value);
    }
    state
}

/// Runs the script until a crash at boundary `at`; returns what was acknowledged and what may have happened.
fn run_until_crash(media: Media, durability: Durability, at: u64) -> (Rig, State, State, bool) {
    let mut rig = Rig::with_config(media, durability, tiny());
    let start = rig.drive.power().ops();
    rig.drive.power().fail_at(start + at, Fault::Crash);
    let (mut acknowledged, mut possible) = (State::new(), State::new());
    for step in script() {
        apply(&mut possible, &step);
        let result = run_step(&mut rig, &step);
        // A write through mapped memory cannot fail: the machine may have stopped without an error.
        if rig.drive.power().is_crashed() {
            return (rig, acknowledged, possible, true);
        }
        result.unwrap();
        apply(&mut acknowledged, &step);
    }
    (rig, acknowledged, possible, false)
}

fn crash_everywhere(media: Media, durability: Durability, plans: impl Fn(&Rig) -> Vec<CrashPlan>) -> u64 {
    let mut checked = 0;
    for at in 0.. {
        let (rig, acknowledged, possible, crashed) = run_until_crash(media, durability, at);
        for plan in plans(&rig) {
            let mut after = rig.after_crash(plan);
            let seen = observe(&mut after, 0..DKEYS);
            let nothing = None;
            for dkey in 0..DKEYS {
                let value = &seen[&dkey];
                let old = acknowledged.get(&dkey).unwrap_or(&nothing);
                let new = possible.get(&dkey).unwrap_or(&nothing);
                assert!(
                    value == old || value == new,
                    "boundary {at}, {plan:?}, {media:?}: dkey {dkey} has {:?} bytes of {:?}",
                    value.as_ref().map(Vec::len),
                    value.as_ref().and_then(|v| v.first())
                );
            }
            after.assert_clean();
            checked += 1;
        }
        if !crashed {
            return checked;
        }
    }
    checked
}

#[test]
fn no_power_cut_at_any_boundary_loses_or_halves_an_acknowledged_write() {
    let subsets = amount("CRASH_SUBSETS", 32);
    for media in [Media::Block, Media::Mapped] {
        let checked = crash_everywhere(media, Durability::Power, |rig| rig.drive.crash_plans(subsets));
        assert!(checked > 1000, "{checked}");
    }
}

#[test]
fn no_death_of_the_process_at_any_boundary_loses_an_acknowledged_write() {
    for media in [Media::Block, Media::Mapped] {
        let checked = crash_everywhere(media, Durability::Process, |_| vec![CrashPlan::Process]);
        assert!(checked > 50, "{checked}");
    }
}

/// Runs the script with one boundary failing, then whatever still works; returns what was acknowledged and
/// what may have happened.
fn run_with_fault(media: Media, at: u64, fault: Fault) -> (Rig, State, State, bool) {
    let mut rig = Rig::with_config(media, Durability::Power, tiny());
    let power = rig.drive.power().clone();
    let boundary = power.ops() + at;
    power.fail_at(boundary, fault);
    let (mut acknowledged, mut possible) = (State::new(), State::new());
    for step in script() {
        apply(&mut possible, &step);
        match run_step(&mut rig, &step) {
            Ok(()) => apply(&mut acknowledged, &step),
            Err(Error::NoSpace { .. } | Error::Io { .. } | Error::ReadOnly { .. }) => {}
            Err(error) => panic!("boundary {at}: {error:?}"),
        }
    }
    let is_past = power.ops() <= boundary;
    (rig, acknowledged, possible, is_past)
}

/// Every value is one that was acknowledged last, or written since without an answer.
fn assert_nothing_lost(rig: &mut Rig, acknowledged: &State, possible: &State, what: &str) {
    let seen = observe(rig, 0..9);
    for dkey in 0..9u8 {
        let (old, new) = (acknowledged.get(&dkey).cloned().flatten(), possible.get(&dkey).cloned().flatten());
        let found = &seen[&dkey];
        let of_script = script().iter().any(
            |step| matches!(step, Step::Put(key, value) if *key == dkey && found.as_ref() == Some(value)),
        );
        assert!(*found == old || *found == new || of_script && old != new, "{what}: dkey {dkey}");
    }
    rig.assert_clean();
}

#[test]
fn no_boundary_that_finds_the_device_full_or_fails_loses_an_acknowledged_write() {
    for (media, fault) in
        [(Media::Block, Fault::NoSpace), (Media::Mapped, Fault::NoSpace), (Media::Block, Fault::Eio)]
    {
        for at in 0.. {
            let (mut rig, acknowledged, possible, is_past) = run_with_fault(media, at, fault);
            let what = format!("{fault:?} at {at} on {media:?}");
            let closed =
                fault == Fault::NoSpace && rig.target.take().is_some_and(|target| target.close().is_ok());
            if closed {
                rig.reopen();
                assert_nothing_lost(&mut rig, &acknowledged, &possible, &format!("{what}, closed"));
            }
            rig.crash(CrashPlan::None);
            assert_nothing_lost(&mut rig, &acknowledged, &possible, &format!("{what}, after a crash"));
            if is_past {
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
    let mut rig = Rig::with_config(media, durability, tiny());
    let boundary = rig.drive.power().ops() + at;
    rig.drive.power().fail_at(boundary, Fault::NoSpace);
    // What was refused may have happened all the same if its flush failed.
    let (mut acknowledged, mut refused) = (State::new(), Vec::new());
    for step in script() {
        let mut done = State::new();
        apply(&mut done, &step);
        match run_step(&mut rig, &step) {
            Ok(()) => {
                refused.retain(|(dkey, _)| !done.contains_key(dkey));
                acknowledged.append(&mut done);
            }
            Err(Error::NoSpace { .. } | Error::ReadOnly { .. } | Error::Io { .. }) => refused.extend(done),
            Err(error) => panic!("boundary {at}, {media:?}: {error:?}"),
        }
    }
    let has_met = rig.drive.power().ops() > boundary;
    let judge = |rig: &mut Rig| {
        let seen = observe(rig, 0..DKEYS);
        for dkey in 0..DKEYS {
            let value = &seen[&dkey];
            let is_right = acknowledged.get(&dkey).unwrap_or(&None) == value
                || refused.iter().any(|(of, refused)| *of == dkey && refused == value);
            assert!(is_right, "boundary {at}, {media:?}, {durability:?}: dkey {dkey}");
        }
        rig.assert_clean();
    };
    // Behind a flush that failed nothing is answered that it was to cover.
    if rig.ask(Verb::Flush).is_ok() {
        judge(&mut rig);
    }
    rig.crash(CrashPlan::Process);
    judge(&mut rig);
    has_met
}
