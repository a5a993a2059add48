//! A load generator over the C interface: the phases of IOR and mdtest, and values of objects, in several processes; and over the
//! calls of the system: files of any directory.
//!
//! The program starts itself once for each process ([`rank`]); all go through the same phases, with a barrier before and
//! after each ([`talk`], [`crew`]). One connects and mounts, the others have its handles, as programs on MPI do it.

mod crew;
mod daos;
mod fault;
mod figures;
mod ior;
mod mdtest;
mod object;
mod options;
mod pattern;
mod posix;
mod rank;
mod system;
mod talk;

pub use crew::stop_load;
pub(crate) use daos::process_cpu_ns;
pub use fault::Difference;
pub(crate) use fault::call_text;
pub use figures::{Conditions, Figures, Phase, PhaseRound};
pub use options::{IorLoad, Load, MdtestLoad, ObjectLoad, Place, PosixLoad, PosixPlace, ValueKind};
pub(crate) use rank::run as run_rank;
pub use system::clear_load;
pub(crate) use system::{Served, own_name, serve};

use crate::error::{Error, Result};
use options::Plan;

/// What the processes of a load are called among the parts of measurements.
pub(crate) const SCENARIO: &str = "load";

/// Runs a load and tells what it has shown; `watch` hears of each phase before it begins.
///
/// # Errors
/// Those of the library; data that differ from what was written, with the place; if no system, pool or container can be
/// had.
pub fn load(load: &Load, place: &Place, watch: &mut dyn FnMut(&str)) -> Result<Figures> {
    let ground = system::prepare(place, load)?;
    let plan = Plan {
        rank: 0,
        processes: place.processes,
        rounds: place.rounds,
        system: Some(ground.system.clone()),
        pool: ground.pool.clone(),
        cont: ground.cont.clone(),
        load: load.clone(),
    };
    let ran = crew::run(&plan, ground.daemon_pid.as_slice(), watch);
    if ran.is_err() {
        crew::stop_load();
    }
    let names = (&*plan.pool, &*plan.cont);
    let system = ground.system.clone();
    let cleared = ground.clear();
    crew::stop_load();
    let rounds = ran?;
    cleared?;
    Ok(Figures::new(load, place, (&system, names.0, names.1), rounds))
}

/// Runs a load in a directory, which has it all to itself and loses what it has made; `load` has sizes and counts.
///
/// # Errors
/// Those of the system; data that differ from what was written, with the place.
pub fn posix(load: &PosixLoad, place: &PosixPlace, watch: &mut dyn FnMut(&str)) -> Result<Figures> {
    let own = place.dir.join(own_name());
    std::fs::create_dir(&own).map_err(Error::system("make a directory for the load"))?;
    let plan = Plan {
        rank: 0,
        processes: place.processes,
        rounds: place.rounds,
        system: None,
        pool: String::new(),
        cont: String::new(),
        load: Load::Posix(PosixLoad { dir: own.clone(), ..load.clone() }),
    };
    let ran = crew::run(&plan, &place.serving, watch);
    if ran.is_ok() {
        crew::end_load();
    }
    crew::stop_load();
    let removed = std::fs::remove_dir_all(&own).map_err(Error::system("remove the directory of the load"));
    let rounds = ran?;
    removed?;
    Ok(Figures::of_directory(&plan.load, place, rounds))
}
