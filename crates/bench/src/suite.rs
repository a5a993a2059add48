//! The scenarios by name.

use crate::error::{Error, Result};
use crate::options::Options;
use crate::row::Row;
use crate::{amplify, durable, points, targets};

/// A scenario: its name and what runs it.
type Scenario = (&'static str, fn(&Options, &mut dyn FnMut(Row)) -> Result<()>);

const ENGINE: [Scenario; 5] = [
    ("points", points::run),
    ("dkeys", targets::dkeys),
    ("targets", targets::two),
    ("power", durable::run),
    ("amplification", amplify::run),
];

/// Measures the engine; `each` gets every row as soon as it is there.
///
/// # Errors
/// The first scenario's that fails: a store that refuses or loses data, a system that refuses files or processes.
pub fn engine(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    run(&ENGINE, options, each)
}

/// Measures files and directories beside native file systems.
///
/// # Errors
/// As [`engine`].
pub fn dfs(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    run(&[("dfs", crate::dfs::run)], options, each)
}

fn run(scenarios: &[Scenario], options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    for (_, scenario) in scenarios.iter().filter(|(name, _)| options.wants(name)) {
        let mut marked = |row| each(Row { quick: options.quick, ..row });
        scenario(options, &mut marked)?;
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
