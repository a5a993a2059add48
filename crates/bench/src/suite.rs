//! The scenarios by name.

use crate::child::say_next;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::rig::Kind;
use crate::row::Row;
use crate::{amplify, bare, durable, points, targets};

/// A scenario, and how long it takes.
struct Scenario {
    name: &'static str,
    /// Rows, or turns of rows, that take the seconds of a rate each.
    rates: f64,
    /// Seconds of all else in a quoted run: loading, limits of the machine, opening, comparing.
    besides_s: f64,
    run: fn(&Options, &mut dyn FnMut(Row)) -> Result<()>,
}

const ENGINE: [Scenario; 14] = [
    Scenario { name: "machine", rates: 0.0, besides_s: 6.0, run: points::machine },
    Scenario { name: "bare", rates: 1.0, besides_s: 40.0, run: bare::run },
    Scenario {
        name: "points-single-64",
        rates: 4.1,
        besides_s: 20.0,
        run: |options, each| points::run(options, Kind::Single, 64, each),
    },
    Scenario {
        name: "points-record-64",
        rates: 4.1,
        besides_s: 20.0,
        run: |options, each| points::run(options, Kind::Record, 64, each),
    },
    Scenario {
        name: "points-single-1024",
        rates: 2.1,
        besides_s: 25.0,
        run: |options, each| points::run(options, Kind::Single, 1024, each),
    },
    Scenario {
        name: "points-single-4096",
        rates: 4.1,
        besides_s: 20.0,
        run: |options, each| points::run(options, Kind::Single, 4096, each),
    },
    Scenario {
        name: "points-record-4096",
        rates: 4.1,
        besides_s: 20.0,
        run: |options, each| points::run(options, Kind::Record, 4096, each),
    },
    Scenario {
        name: "points-extent-1m",
        rates: 4.1,
        besides_s: 25.0,
        run: |options, each| points::run(options, Kind::Extent, points::EXTENT, each),
    },
    Scenario { name: "dkeys", rates: 1.0, besides_s: 20.0, run: targets::dkeys },
    Scenario { name: "targets", rates: 4.0, besides_s: 20.0, run: targets::two },
    Scenario { name: "limits", rates: 2.0, besides_s: 20.0, run: crate::limits::writes },
    Scenario { name: "gifts", rates: 0.0, besides_s: 15.0, run: crate::limits::gifts },
    Scenario { name: "power", rates: 4.4, besides_s: 60.0, run: durable::run },
    Scenario { name: "amplification", rates: 0.0, besides_s: 120.0, run: amplify::run },
];
const DFS: [Scenario; 4] = [
    Scenario { name: "dfs", rates: 6.0, besides_s: 60.0, run: crate::dfs::store },
    Scenario { name: "native-tmpfs", rates: 6.0, besides_s: 30.0, run: crate::dfs::native_tmpfs },
    Scenario { name: "native-ext4", rates: 6.0, besides_s: 60.0, run: crate::dfs::native_ext4 },
    Scenario { name: "pools", rates: 0.0, besides_s: 10.0, run: crate::pools::run },
];

/// Measures the engine; `each` gets every row as soon as it is there.
///
/// # Errors
/// [`Error::Scenario`] if none has such a name; the first scenario's that fails: a store that refuses or loses data,
/// a system that refuses files or processes.
pub fn engine(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    run(&ENGINE, options, each)
}

/// Measures files and directories beside native file systems.
///
/// # Errors
/// As [`engine`].
pub fn dfs(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    run(&DFS, options, each)
}

/// Refuses a name that no scenario of [`engine`] has: for who prepares a machine before it measures.
///
/// # Errors
/// [`Error::Scenario`].
pub fn check_engine(options: &Options) -> Result<()> {
    wanted(&ENGINE, options).map(|_some| ())
}

/// Refuses a name that no scenario of [`dfs`] has.
///
/// # Errors
/// [`Error::Scenario`].
pub fn check_dfs(options: &Options) -> Result<()> {
    wanted(&DFS, options).map(|_some| ())
}

/// The scenarios that the options name; at least one.
fn wanted<'a>(scenarios: &'a [Scenario], options: &Options) -> Result<Vec<&'a Scenario>> {
    let wanted: Vec<&Scenario> = scenarios.iter().filter(|scenario| options.wants(scenario.name)).collect();
    if wanted.is_empty() {
        let names = scenarios.iter().map(|scenario| scenario.name).collect();
        return Err(Error::Scenario { wanted: options.only.clone(), names });
    }
    Ok(wanted)
}

fn run(scenarios: &[Scenario], options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    let wanted = wanted(scenarios, options)?;
    let seconds =
        |scenario: &Scenario| scenario.rates * options.seconds + options.pick(scenario.besides_s, 1.0);
    say_next("all of it", wanted.iter().map(|scenario| seconds(scenario)).sum());
    for scenario in wanted {
        say_next(scenario.name, seconds(scenario));
        let mut marked = |row| each(Row { quick: options.quick, ..row });
        (scenario.run)(options, &mut marked)?;
    }
    Ok(())
}

/// The part of a scenario that is killed: writes rows and the count of acknowledged updates to standard output,
/// then goes on writing until its end comes.
///
/// # Errors
/// [`Error::Child`] for a scenario or specification that no parent of this version gives; the scenario's.
pub fn child(scenario: &str, spec: &str) -> Result<()> {
    let unknown = || Error::Child { scenario: scenario.to_owned() };
    let spec_of_large = || serde_json::from_str(spec).map_err(|_not_ours| unknown());
    let work = match scenario {
        crate::load::SCENARIO => return crate::load::run_rank(spec),
        crate::served::SCENARIO => return crate::served::run_disturber(spec),
        "memory" => return crate::ground::hold_memory_until_told(),
        "large" => return crate::large::child(&spec_of_large()?),
        "large-after" => return crate::large::after(&spec_of_large()?),
        "points" => points::child,
        "dkeys" => targets::dkeys_child,
        "targets" => targets::two_child,
        "power" => durable::child,
        "amplification" => amplify::child,
        "dfs" => crate::dfs::child,
        _ => return Err(unknown()),
    };
    work(&serde_json::from_str(spec).map_err(|_not_ours| unknown())?)
}
