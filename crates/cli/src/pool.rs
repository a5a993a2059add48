//! `dolmen pool`: create, query, list, destroy.

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, Table, count, human, pairs};
use crate::path::{say, shown_arg, shown_outside, word};
use crate::place::{self, PoolArg, Session};
use crate::size;
use clap::{Args, Subcommand};
use dolmen_client::{PoolInfo, SpaceReport};
use dolmen_local::{PoolOptions, RecordFault};
use dolmen_types::Uuid;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What helps who names a directory without pools.
const HOLDS: &str = "name a directory that holds pools: `dolmen pool create DIR/POOL` makes one in DIR";
/// Targets of a pool, as the option's range has it.
const TARGETS_MAX: u64 = dolmen_types::limits::TARGETS_MAX as u64;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Make a pool in a directory
    Create(Create),
    /// Show a pool's targets and space
    Query(PoolArg),
    /// List the pools of a system directory
    List(List),
    /// Remove a pool with everything in it
    Destroy(Destroy),
}

#[derive(Args, Debug)]
pub(crate) struct Create {
    /// Directory to make the pool in; must not exist, or be empty; the one above it must exist
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// Targets, the unit of concurrency; one for each processor if not given. Each takes four log segments at
    /// once: of 4 MiB, a thousand targets begin with 16 GiB
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = crate::size::count::<u16>(1, TARGETS_MAX))]
    targets: Option<u16>,
    /// A name for the pool
    #[arg(long)]
    label: Option<String>,
    /// The pool's UUID; drawn if not given
    #[arg(long)]
    uuid: Option<Uuid>,
    /// What the pool may use at most; the size of its device if not given
    #[arg(long, value_name = "SIZE", value_parser = size::between(64 << 10, 1 << 50), allow_negative_numbers = true)]
    capacity: Option<u64>,
    /// Resident memory for metadata [default: 1 GiB]
    #[arg(long, value_name = "SIZE", value_parser = place::memory())]
    memory: Option<u64>,
    /// Values up to this size stay beside the metadata [default: 4 KiB]
    #[arg(long, value_name = "SIZE", value_parser = size::steps(0, 256 << 20, 1))]
    small_values: Option<u32>,
    /// Size of a log segment [default: 4 MiB, less in a small pool]
    #[arg(long, value_name = "SIZE", value_parser = size::steps(16 << 10, 1 << 30, 4 << 10))]
    log_segment: Option<u32>,
    /// Size of a bulk segment [default: 64 MiB, less in a small pool]
    #[arg(long, value_name = "SIZE", value_parser = size::steps(256 << 10, 1 << 30, 256 << 10))]
    bulk_segment: Option<u32>,
    /// Directory for bulk data, on another device
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    bulk_dir: Option<PathBuf>,
    /// The pool may be lost with the power: required on a file system in memory
    #[arg(long)]
    volatile: bool,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Directory that holds pools
    #[arg(value_name = "SYSTEM", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    system: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct Destroy {
    #[command(flatten)]
    pool: PoolArg,
    /// Also if it holds containers
    #[arg(short, long)]
    recursive: bool,
    /// Without looking what is in it: for pools that cannot be opened, or have lost their --bulk-dir, and for copies of
    /// pools, whose --bulk-dir stays
    #[arg(short, long)]
    force: bool,
    /// What one engine has of a pool on several, which is lost with it
    #[arg(long, requires = "force")]
    part: bool,
}

pub(crate) fn run(command: &Command) -> Outcome<Answer> {
    match command {
        Command::Create(args) => create(args),
        Command::Query(arg) => query(arg),
        Command::List(args) => list(args),
        Command::Destroy(args) => destroy(args),
    }
}

fn create(args: &Create) -> Outcome<Answer> {
    place::refuse_bucket(&args.dir)?;
    if let Some((system, label)) = args.dir.to_str().and_then(|text| text.rsplit_once('/'))
        && matches!(place::addresses(system), Ok(Some(_)))
    {
        let failure = Failure::new(Exit::Usage, "that is a daemon's address, and no directory");
        let [system, label] = [system, label].map(|text| word(Path::new(text)));
        let hint = format!("`dmg -G {system} pool create {label}` makes a pool there");
        return Err(failure.hint(hint)).doing(|| format!("create a pool in {}", shown_outside(&args.dir)));
    }
    let dir = place::directory(&args.dir);
    if let Some(label @ ("." | "..")) = args.label.as_deref() {
        let failure = Failure::new(Exit::Usage, "it is the name of a directory that is always there");
        return Err(failure.hint("choose another label")).doing(|| format!("use {label:?} as a label"));
    }
    let defaults = PoolOptions::default();
    let options = PoolOptions {
        targets: args.targets.unwrap_or(0),
        label: args.label.as_deref().map(place::label).transpose()?,
        uuid: args.uuid,
        capacity_bytes: args.capacity.unwrap_or(0),
        small_value_bytes_max: args.small_values.unwrap_or(defaults.small_value_bytes_max),
        log_segment_bytes: args.log_segment.unwrap_or(0),
        bulk_segment_bytes: args.bulk_segment.unwrap_or(0),
        memory_budget_bytes: args.memory.unwrap_or(defaults.memory_budget_bytes),
        volatile: args.volatile,
        bulk_dir: args.bulk_dir.clone(),
        ..defaults
    };
    let doing = || format!("create a pool in {}", shown_outside(&dir));
    dolmen_local::create(&dir, &options).doing(doing)?;
    warn_of_engines(&dir);
    let session = place::open(&PoolArg::new(dir.clone()))?;
    let info = session.pool.query().doing(doing)?;
    let bulk = bulk_dir(&session);
    session.close()?;
    let targets = count(info.map.targets.len() as u64, "target", "targets");
    let text = format!("{}  {targets}  {}", shown_outside(&dir), info.map.pool);
    Ok(Answer::new(text, describe(&dir, bulk.as_deref(), &info)))
}

/// Says of a pool in the directory of an engine of several that it is none of their system.
fn warn_of_engines(dir: &Path) {
    let Some(system) = dir.parent() else { return };
    let system = if system.as_os_str().is_empty() { Path::new(".") } else { system };
    // What cannot be listed has nothing to say here.
    let Ok(beside) = dolmen_local::list(system) else { return };
    if let Some(part) = beside.iter().find(|entry| entry.spread.is_some()) {
        let (system, part) = (shown_outside(system), shown_outside(Path::new(&part.name)));
        dolmen_env::say(&format!(
            "dolmen: {system} is an engine's of several, which have {part} together: this pool is none of theirs, and `dmg pool \
             create` makes one that is"
        ));
    } else if place::is_of_several(dir) {
        dolmen_env::say(&format!(
            "dolmen: {} is an engine's of several: this pool is on its targets alone, and `dmg pool create` makes one that is on all",
            shown_outside(system)
        ));
    }
}

fn query(arg: &PoolArg) -> Outcome<Answer> {
    let session = place::open_to_read(arg)?;
    let info = session.pool.query().doing(|| format!("query pool {}", shown_outside(session.dir())))?;
    let (dir, bulk) = (session.dir().to_owned(), bulk_dir(&session));
    session.close()?;
    let sum = |of: fn(&SpaceReport) -> u64| info.space.iter().map(of).sum::<u64>();
    let mut rows = vec![
        ("directory", shown_outside(&dir)),
        ("bulk data", bulk.as_deref().map_or("beside the metadata".to_owned(), shown_outside)),
        ("uuid", info.map.pool.to_string()),
        ("label", info.label.as_ref().map_or("-".to_owned(), ToString::to_string)),
        ("containers", info.cont_count.to_string()),
        ("targets", info.map.targets.len().to_string()),
        ("total", human(sum(|space| space.total_bytes))),
        ("free", human(sum(|space| space.free_bytes))),
        ("used", human(sum(|space| space.bulk_bytes + space.log_bytes + space.run_bytes))),
        ("allocated", human(sum(|space| space.allocated_bytes))),
    ];
    if let Some(bytes) = of_others(&info.space) {
        rows.push(("others'", format!("{} of the total: on the device, and not this pool's", human(bytes))));
    }
    let mut text = pairs(&rows);
    let mut table =
        Table::new(&[">target", ">total", ">free", ">allocated", ">bulk", ">log", ">runs", ">reserve"]);
    for (target, space) in info.space.iter().enumerate() {
        let sizes = [
            space.total_bytes,
            space.free_bytes,
            space.allocated_bytes,
            space.bulk_bytes,
            space.log_bytes,
            space.run_bytes,
            space.reserve_bytes,
        ];
        table.row(core::iter::once(target.to_string()).chain(sizes.map(human)));
    }
    text.push('\n');
    text.push_str(&table.text());
    Ok(Answer::new(text, describe(&dir, bulk.as_deref(), &info)))
}

/// What others have of the device where this pool has its total, as one without a capacity of its own. Less than an eighth is none:
/// what is free is counted in whole segments.
fn of_others(space: &[SpaceReport]) -> Option<u64> {
    let total: u64 = space.iter().map(|target| target.total_bytes).sum();
    let own = |target: &SpaceReport| target.free_bytes + target.allocated_bytes + target.reserve_bytes;
    let others = total.saturating_sub(space.iter().map(own).sum());
    (others > total / 8).then_some(others)
}

/// Where the bulk data is, if not beside the metadata.
fn bulk_dir(session: &Session) -> Option<PathBuf> {
    session.local()?.directories().nth(1).map(Path::to_owned)
}

/// Adds where the bulk data is.
pub(crate) fn say_bulk(object: &mut Value, bulk: Option<&Path>) {
    match bulk {
        Some(bulk) => say(object, "bulk_dir", bulk.as_os_str().as_bytes()),
        None => object["bulk_dir"] = Value::Null,
    }
}

/// A pool as JSON.
fn describe(dir: &Path, bulk: Option<&Path>, info: &PoolInfo) -> Value {
    let targets: Vec<Value> = info
        .space
        .iter()
        .enumerate()
        .map(|(target, space)| {
            json!({
                "target": target,
                "total_bytes": space.total_bytes,
                "free_bytes": space.free_bytes,
                "allocated_bytes": space.allocated_bytes,
                "bulk_bytes": space.bulk_bytes,
                "log_bytes": space.log_bytes,
                "run_bytes": space.run_bytes,
                "reserve_bytes": space.reserve_bytes,
                "scrubbed_bytes": space.scrubbed_bytes,
                "damage_count": space.damage_count,
            })
        })
        .collect();
    let mut pool = json!({
        "uuid": info.map.pool.to_string(),
        "label": info.label.as_ref().map(ToString::to_string),
        "map_version": info.map.version,
        "containers": info.cont_count,
        "targets": targets,
    });
    say(&mut pool, "directory", dir.as_os_str().as_bytes());
    say_bulk(&mut pool, bulk);
    pool
}

fn list(args: &List) -> Outcome<Answer> {
    if let Some(text) = args.system.to_str().filter(|text| matches!(place::addresses(text), Ok(Some(_)))) {
        let failure = Failure::new(Exit::Usage, format!("{text} is a daemon's address, and no directory"));
        let system = word(Path::new(text));
        return Err(failure.hint(format!("`dmg -G {system} pool list` lists its pools")));
    }
    let system = place::directory(&args.system);
    let doing = || format!("list the pools in {}", shown_outside(&system));
    let pools = match dolmen_local::list(&system) {
        Err(error @ dolmen_local::Error::NoDirectory { .. }) => {
            return Err(Failure::new(Exit::Missing, error.to_string()).hint(HOLDS)).doing(doing);
        }
        Err(error) => {
            let failure = Failure::from(error);
            let is_missing = failure.exit == Exit::Missing;
            return Err(if is_missing { failure.hint(HOLDS) } else { failure }).doing(doing);
        }
        Ok(pools) => pools,
    };
    let mut table = Table::new(&["name", "label", "uuid", ">targets", "kept"]);
    let mut rows = Vec::new();
    for pool in &pools {
        let label = pool.label.as_ref().map(ToString::to_string);
        let is_twice = pools.iter().filter(|other| other.uuid == pool.uuid).count() > 1;
        let kept = if pool.volatile { "volatile" } else { "durable" };
        table.row([
            shown_arg(&pool.name),
            label.clone().unwrap_or_else(|| "-".to_owned()),
            pool.uuid.to_string(),
            pool.targets.to_string(),
            if is_twice { format!("{kept}, COPY: another has its UUID") } else { kept.to_owned() },
        ]);
        let mut row = json!({
            "label": label,
            "uuid": pool.uuid.to_string(),
            "targets": pool.targets,
            "volatile": pool.volatile,
            "fault": is_twice.then_some("another pool here has its UUID"),
        });
        say(&mut row, "name", pool.name.as_bytes());
        say(&mut row, "directory", system.join(&pool.name).as_os_str().as_bytes());
        say_bulk(&mut row, pool.bulk_dir.as_deref());
        rows.push(row);
    }
    let damaged = dolmen_local::list_damaged(&system).doing(doing)?;
    for (name, fault) in &damaged {
        let fault = if *fault == RecordFault::Damaged { "record DAMAGED" } else { "newer format" };
        table.row([&shown_arg(name), "-", "-", "-", fault].map(str::to_owned));
        let mut row =
            json!({ "label": null, "uuid": null, "targets": null, "volatile": null, "fault": fault });
        say(&mut row, "name", name.as_bytes());
        say(&mut row, "directory", system.join(name).as_os_str().as_bytes());
        say_bulk(&mut row, None);
        rows.push(row);
    }
    let closed = closed_in(&system).doing(doing)?;
    if let Some(first) = closed.first() {
        let first = shown_outside(&system.join(first));
        let all = count(closed.len() as u64, "directory", "directories");
        let why = format!("this user may not look into {all} there, such as {first}");
        if rows.is_empty() {
            let failure = Failure::new(Exit::Refused, why);
            return Err(failure.hint("run it as the owner of that directory")).doing(doing);
        }
        dolmen_env::say(&format!("dolmen: {why}"));
    }
    let text = if rows.is_empty() { format!("no pools in {}", shown_outside(&system)) } else { table.text() };
    Ok(Answer::new(text, json!(rows)))
}

/// Directories of a system into which this user may not look.
fn closed_in(system: &Path) -> Outcome<Vec<OsString>> {
    let is_closed = |name: &OsString| {
        let found = system.join(name).join("pool").symlink_metadata();
        found.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    Ok(dolmen_env::subdirectories(system)?.into_iter().filter(is_closed).collect())
}

fn destroy(args: &Destroy) -> Outcome<Answer> {
    let dir = place::pool_directory(&args.pool.pool)?;
    let doing = || format!("destroy pool {}", shown_outside(&dir));
    if place::is_part(&dir) && !(args.force && args.part) {
        let shared = Failure::from(dolmen_local::Error::Spread { dir: dir.clone() });
        let hint = "`dmg pool destroy` removes it from all of them, while they are served; --force --part removes what this \
                    one has, and with it the pool";
        return Err(shared.hint(hint)).doing(doing);
    }
    if !args.force && !args.recursive {
        let session: Session = place::open(&args.pool)?;
        let containers = session.pool.query().doing(doing)?.cont_count;
        session.close()?;
        if containers > 0 {
            let held = count(containers, "container", "containers");
            let failure = Failure::new(Exit::Taken, format!("it holds {held}"));
            return Err(failure.hint("add --recursive to remove them, too")).doing(doing);
        }
    }
    let remove = || {
        if args.force { dolmen_local::destroy_rest(&dir) } else { dolmen_local::destroy(&dir).map(|()| None) }
    };
    let failed = |error: dolmen_local::Error| match (&error, place::served_at(&dir)) {
        (error, Some((socket, uuid))) if error.owner_pid().is_some() => {
            let more = if args.recursive { " --recursive" } else { "" };
            let failure = Failure::new(Exit::InUse, "a daemon serves it");
            let socket = word(Path::new(&socket.to_string()));
            failure.hint(format!("have that remove it: `dmg -G {socket} pool destroy {uuid}{more}`"))
        }
        _ => without_bulk(&dir, error),
    };
    let missing = args.pool.when_free(remove, failed).doing(doing)?;
    let mut json = json!({ "missing_bulk_dir": null });
    let mut text = format!("{} is gone", shown_outside(&dir));
    say(&mut json, "directory", dir.as_os_str().as_bytes());
    if let Some(bulk) = missing {
        say(&mut json, "missing_bulk_dir", bulk.as_os_str().as_bytes());
        let shown = shown_outside(&bulk);
        text.push_str(&if bulk.join("bulk").exists() {
            format!("; the bulk data in {shown} belongs to the pool that it was a copy of, and stays")
        } else {
            format!("; its bulk data was not in {shown}, and stays wherever it is")
        });
    }
    Ok(Answer::new(text, json))
}

/// Why a pool cannot be removed; with what removes it where its directory for bulk data is not there, or not its own.
fn without_bulk(dir: &Path, error: dolmen_local::Error) -> Failure {
    if let dolmen_local::Error::OtherPlace { .. } = error {
        return Failure::from(error).hint("add --force to remove the copy alone");
    }
    let is_gone = match &error {
        dolmen_local::Error::Device(error) => error.is_not_found() && dir.exists(),
        dolmen_local::Error::Record { dir: other, fault: RecordFault::Missing } => other != dir,
        _ => false,
    };
    let failure = Failure::from(error);
    if is_gone { failure.hint("add --force to remove what is left of the pool") } else { failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_on_the_device_is_told_and_rounding_is_not() {
        let space = |free_bytes| SpaceReport {
            total_bytes: 1 << 30,
            free_bytes,
            allocated_bytes: 100 << 20,
            reserve_bytes: 20 << 20,
            ..SpaceReport::default()
        };
        assert_eq!(of_others(&[space(880 << 20), space(904 << 20)]), None);
        assert_eq!(of_others(&[space(404 << 20), space(404 << 20)]), Some(1000 << 20));
    }
}
