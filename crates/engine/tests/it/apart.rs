//! A power cut at every boundary where bulk data has a device of its own.

use crate::crash::{run_until_crash, script};
use crate::rig::{Rig, amount, tiny};
use dolmen_env::Media;
use dolmen_env::sim::CrashPlan;
use dolmen_types::Durability;

/// Each device in every way, beside the other one with none and with all of what was not flushed; then both in part.
fn plans(rig: &Rig, subsets: u64) -> Vec<(CrashPlan, CrashPlan)> {
    let bulk = rig.bulk.as_ref().expect("it has a device of its own");
    let mut plans = Vec::new();
    for other in [CrashPlan::None, CrashPlan::All] {
        plans.extend(rig.drive.crash_plans(0).into_iter().map(|plan| (plan, other)));
        plans.extend(bulk.crash_plans(0).into_iter().map(|plan| (other, plan)));
    }
    plans.extend((0..subsets).map(|seed| (CrashPlan::Subset(seed), CrashPlan::Subset(seed + 1))));
    plans
}

#[test]
fn no_power_cut_at_any_boundary_loses_anything_where_bulk_has_its_own_device() {
    let subsets = amount("CRASH_APART_SUBSETS", 4);
    let script = script();
    for media in [Media::Block, Media::Mapped] {
        let mut checked = 0;
        for at in 0.. {
            let run = run_until_crash(&script, Rig::apart(media, Durability::Power, tiny()), at);
            for (plan, bulk_plan) in plans(&run.rig, subsets) {
                let what = format!("{media:?}, boundary {at}, {plan:?}, bulk {bulk_plan:?}");
                run.judge_in(&mut run.rig.after_crashes(plan, bulk_plan), &what);
                checked += 1;
            }
            if !run.is_crashed {
                break;
            }
        }
        assert!(checked > 1000, "{checked}");
    }
}
