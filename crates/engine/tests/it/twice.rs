//! Power fails again while a target recovers, at every boundary of the recovery.

use crate::crash::{Run, run_until_crash, script};
use crate::rig::{Rig, amount, oid, tiny};
use dolmen_env::Media;
use dolmen_env::sim::{CrashPlan, Fault};
use dolmen_types::Durability;

/// What a first cut left, and the recovery from it up to boundary `at`, where power fails again; whether it came to
/// its end before.
fn cut_recovery(run: &Run, plan: CrashPlan, at: u64) -> (Rig, bool) {
    let mut rig = run.rig.powered_off(plan, plan);
    let power = rig.drive.power().clone();
    power.fail_at(power.ops() + at, Fault::Crash);
    let opened = rig.try_open();
    let is_over = !power.is_crashed();
    assert!(opened.is_ok() || !is_over, "{opened:?}");
    (rig, is_over)
}

/// Cuts the recovery at each boundary, and judges what every plan leaves; how many were judged.
fn cut_again(run: &Run, plan: CrashPlan, subsets: u64, what: &str) -> u64 {
    let mut checked = 0;
    for at in 0.. {
        let (rig, is_over) = cut_recovery(run, plan, at);
        for second in rig.drive.crash_plans(subsets).into_iter().chain([CrashPlan::Process]) {
            let what = format!("{what}, recovery cut at {at}, {second:?}");
            let mut after = rig.after_crash(second);
            run.judge_in(&mut after, &what);
            // And it can be written, for another cut to find.
            after.put(oid(3), b"z", b"a", b"new").unwrap();
            let mut again = after.after_crash(CrashPlan::None);
            assert_eq!(again.get(oid(3), b"z", b"a").as_deref(), Some(&b"new"[..]), "{what}");
            run.judge_in(&mut again, &what);
            checked += 1;
        }
        if is_over {
            break;
        }
    }
    checked
}

/// First cuts as far apart as time allows: a soak run takes every boundary.
#[test]
fn a_second_power_cut_at_any_boundary_of_a_recovery_loses_nothing() {
    let stride = usize::try_from(amount("CRASH_TWICE_STRIDE", 29)).unwrap();
    let subsets = amount("CRASH_TWICE_SUBSETS", 2);
    let (script, mut checked) = (script(), 0);
    for media in [Media::Block, Media::Mapped] {
        for at in (0..).step_by(stride) {
            let run = run_until_crash(&script, Rig::with_config(media, Durability::Power, tiny()), at);
            for plan in [CrashPlan::None, CrashPlan::All, CrashPlan::Subset(3), CrashPlan::Process] {
                checked += cut_again(&run, plan, subsets, &format!("{media:?}, boundary {at}, {plan:?}"));
            }
            if !run.is_crashed {
                break;
            }
        }
    }
    assert!(checked > 1000, "{checked}");
}
