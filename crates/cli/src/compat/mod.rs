//! The command lines of DAOS: `dolmen daos …` and `dolmen dmg …`, or a link to the program that is called `daos` or `dmg`.
//!
//! Verbs, options and JSON are those that scripts and tests written for DAOS use. What is asked goes to the daemon of a
//! system: the one that `--sys-name`, `DOLMEN_SYSTEM` or the user's `dolmen/client.toml` names, else the user's own, which is
//! started if it does not run.

mod access;
mod attr;
pub(crate) mod daos;
pub(crate) mod dmg;
mod hosts;
mod uns;

pub(crate) use uns::named_by_path;

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::path::word;
use crate::patience::Patient;
use crate::place;
use crate::reached;
use dolmen_client::{Options, Pool, PoolInfo};
use dolmen_codec::wire::{PoolAccess, PoolName};
use dolmen_env::Address;
use dolmen_net::client::reach::{self, Begin};
use dolmen_net::client::{Link, LinkOptions, Remote};
use dolmen_types::TargetState;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// What DAOS calls a system that nobody has named.
const DEFAULT_SYSTEM: &str = "daos_server";

/// The words of the command line, with what the program is called in front if that is a command of DAOS. To these `-j` is
/// `--json`, which other commands have for jobs.
pub(crate) fn words() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let called = words.first().and_then(|word| Path::new(word).file_name()).map(OsString::from);
    if let Some(name) = called.filter(|name| name == "daos" || name == "dmg") {
        words.insert(1, name);
    }
    if words.get(1).is_some_and(|command| command == "daos" || command == "dmg") {
        let count = words.len();
        words.retain(|word| word != "-j" && word != "--json");
        if words.len() < count {
            // In front, where no verb takes it for an argument of its own.
            words.insert(2, "--json".into());
        }
        let verb = words.iter_mut().skip(2).find(|word| *word != "--json");
        if let Some(word) = verb.filter(|word| *word == "--version") {
            *word = "version".into();
        }
    }
    words
}

/// Which command of DAOS this is, if it is one.
pub(crate) fn called() -> Option<&'static str> {
    let words = words();
    ["daos", "dmg"].into_iter().find(|name| words.get(1).is_some_and(|word| word == name))
}

/// What clap says, without the name that the program was called by being there twice.
pub(crate) fn plain_usage(text: &str) -> Option<String> {
    let name = by_link()?;
    Some(text.replace(&format!("{name} {name}"), name))
}

/// Which command of DAOS the program is called, if it is called by a link of its name.
pub(crate) fn by_link() -> Option<&'static str> {
    let called = std::env::args_os().next()?;
    let name = Path::new(&called).file_name()?;
    ["daos", "dmg"].into_iter().find(|link| name == *link)
}

/// What makes a connection, from addresses and from a name.
type ByAddress = fn(&[Address], &LinkOptions) -> dolmen_net::Result<Link>;
type ByName = fn(&str, &Path, &LinkOptions, Begin) -> dolmen_net::Result<Link>;

/// Which system a command is about.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct SystemArg {
    /// The system: a name, unix:SOCKET or tcp://HOST:PORT, several with commas [default: DOLMEN_SYSTEM, else the system of dolmen/client.toml, else the user's own]
    #[arg(long = "sys-name", short = 'G', value_name = "SYSTEM", global = true)]
    name: Option<String>,
}

impl SystemArg {
    /// The same, or the system of this name where none is given.
    fn or(&self, name: impl FnOnce() -> Outcome<Option<String>>) -> Outcome<Self> {
        match &self.name {
            Some(_) => Ok(self.clone()),
            None => Ok(Self { name: name()? }),
        }
    }

    /// The connection to the engine where pools are made.
    fn link(&self) -> Outcome<Link> {
        self.link_by(reach::system, reach::of_name, Begin::Own)
    }

    /// The same, for the first pool of a system, too.
    fn link_to_begin(&self) -> Outcome<Link> {
        self.link_by(reach::system, reach::of_name, Begin::Any)
    }

    /// The connection to any engine: to ask what the system is, also while the first one is not there.
    fn link_to_any(&self) -> Outcome<Link> {
        self.link_by(reach::any, reach::any_of_name, Begin::Own)
    }

    /// What the system is asked for by: a name or addresses.
    fn called(&self) -> Outcome<String> {
        let given = self.name.clone().filter(|name| name != DEFAULT_SYSTEM);
        let name = match given {
            Some(name) => Some(name),
            None => dolmen_env::named_system().doing(|| "read the settings of the user".to_owned())?,
        };
        Ok(name.unwrap_or_else(|| reach::OWN_SYSTEM.to_owned()))
    }

    /// The name of the system, if it is asked for by that.
    fn meant(&self) -> Outcome<Option<String>> {
        Ok(Some(self.called()?).filter(|name| reach::is_system_name(name)))
    }

    fn link_by(&self, reached: ByAddress, named: ByName, begin: Begin) -> Outcome<Link> {
        let name = self.called()?;
        if let Some(given) = &self.name {
            // Ignored: a command that names several tells the first.
            let _noted = NAMED.set(given.clone());
        }
        let options = place::link_options(None);
        let made = match place::addresses(&name).doing(|| format!("reach {name}"))? {
            Some(addresses) => reached(&addresses, &options),
            None if name.starts_with("file:") => {
                let failure = Failure::new(Exit::Usage, format!("{name} has no daemon to be asked"));
                return Err(failure.hint(
                    "serve the directory (`dolmen serve DIR`), or use `dolmen pool` and `dolmen cont`",
                ));
            }
            None if !reach::is_system_name(&name) => {
                let failure = Failure::new(Exit::Usage, format!("{name:?} is no name of a system"));
                return Err(
                    failure.hint("give a name of letters, digits and . _ -, unix:SOCKET or tcp://HOST:PORT")
                );
            }
            None => named(&name, &dolmen_env::dolmen_program(), &options, begin),
        };
        let at = place::addresses(&name).ok().flatten().unwrap_or_else(|| reached::sockets_of(&name));
        let link = made
            .map_err(|error| place::unreachable_at(&error, &at))
            .doing(|| format!("reach system {name}"))?;
        reached::note(&at);
        access::note_caller(&link);
        Ok(link)
    }
}

/// The system that this command names; set when it is reached.
static NAMED: OnceLock<String> = OnceLock::new();

/// A command of DAOS that asks the system which this one has asked, for whoever reads what to do: `daos` or `dmg`, and the rest. Who
/// names no system need not name it there.
pub(crate) fn asking(program: &str, rest: &str) -> String {
    let reached = || reached::first().filter(|_| called().is_none());
    match NAMED.get().cloned().or_else(reached) {
        Some(system) => format!("{program} -G {} {rest}", word(Path::new(&system))),
        None => format!("{program} {rest}"),
    }
}

/// Words of a command behind its verb, each as a shell takes it.
pub(crate) fn behind(verb: &str, words: &[&str]) -> String {
    words.iter().fold(verb.to_owned(), |said, one| format!("{said} {}", word(Path::new(one))))
}

/// Arguments of a verb that is not available: whatever they are.
#[derive(clap::Args, Debug)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _rest: Vec<String>,
}

/// A pool by what it is called.
#[derive(clap::Args, Debug)]
pub(crate) struct PoolArg {
    /// The pool: its label or UUID
    pub(crate) pool: String,
}

fn pool_name(text: &str) -> Outcome<PoolName> {
    let doing = || format!("use {text:?} as a pool's name");
    match text.trim_end_matches('/').rsplit_once('/') {
        Some((_, last)) => {
            let failure =
                Failure::new(Exit::Usage, "it is a path, and the label or UUID of a pool is wanted");
            let hint =
                format!("the last part of it may be that: {}; -G names the system", word(Path::new(last)));
            Err(failure.hint(hint)).doing(doing)
        }
        None => reach::pool_name(text).doing(doing),
    }
}

/// The same failure; one for want of permission says who lacks which, and what gives it to him.
pub(crate) fn refused(failure: Failure, pool: &str, cont: Option<&str>) -> Failure {
    access::refused(failure, pool, cont, 'r')
}

/// A pool that is open, with what it is.
struct Opened {
    pool: Pool,
    info: PoolInfo,
}

fn open(link: &Link, name: &str, access: PoolAccess) -> Outcome<Opened> {
    let doing = || format!("open pool {name}");
    let head = place::head()?;
    let remote: Remote = reach::pool(link, &head, pool_name(name)?, access)
        .map_err(|error| match error {
            dolmen_types::Error::NotFound => Failure::from(error)
                .because("there is no such pool")
                .hint(format!("see `{}`", asking(called().unwrap_or("daos"), "pool list"))),
            error @ dolmen_types::Error::Exists => Failure::from(error)
                .because("several pools of the system have this name, or one is a copy of the other")
                .hint("`dolmen pool list` of its directory shows them: move one elsewhere"),
            error => {
                let is_busy = error == dolmen_types::Error::Busy;
                by_file(link, name, access::refused(error.into(), name, None, 'r'), is_busy)
            }
        })
        .doing(doing)?;
    let options = Options::like(&head).doing(doing)?;
    let pool = Pool::connect_with(Arc::new(Patient::new(remote, name.to_owned())), options).doing(doing)?;
    let info = pool.query().doing(doing)?;
    Ok(Opened { pool, info })
}

/// Names the file that keeps an engine of this machine from opening a pool, or the process that has it, if one does.
fn by_file(link: &Link, name: &str, failure: Failure, is_busy: bool) -> Failure {
    let Ok(engines) = dmg::engines(link, &[link.rank()]) else { return failure };
    let sockets = engines.iter().flat_map(|engine| &engine.addresses);
    let systems = sockets.filter_map(|address| Path::new(address.strip_prefix("unix:")?).parent());
    let pools = systems.filter_map(|system| place::pool_directory(&system.join(name)).ok());
    pools.fold(failure, |failure, dir| {
        let failure = failure.by_file_in(&dir);
        if is_busy { place::of_busy(failure, &dir) } else { failure }
    })
}

/// What of a pool is told.
#[derive(Default)]
struct Shown {
    /// No space.
    health_only: bool,
    /// The engines with targets in use.
    enabled: bool,
}

/// A pool as `pool query` of DAOS tells it.
//= daos:src/control/cmd/dmg pool query
fn pool_json(info: &PoolInfo, shown: &Shown) -> Value {
    let targets = info.map.targets.len();
    let disabled = disabled(info);
    let mask = match (shown.health_only, shown.enabled) {
        (false, false) => "disabled_engines,rebuild,space",
        (false, true) => "disabled_engines,enabled_engines,rebuild,space",
        (true, false) => "disabled_engines,rebuild",
        (true, true) => "disabled_engines,enabled_engines,rebuild",
    };
    let mut json = json!({
        "query_mask": mask,
        "state": state(info),
        "uuid": info.map.pool.to_string(),
        "total_targets": targets,
        "active_targets": targets - disabled,
        "total_engines": ranks(info).len(),
        "disabled_targets": disabled,
        "version": info.map.version,
        "svc_ldr": service_rank(info),
        "svc_reps": [service_rank(info)],
        "rebuild": {
            "status": 0,
            "state": "idle",
            "derived_state": "idle",
            "objects": 0,
            "records": 0,
            "total_objects": 0,
            "degraded": false,
        },
        "tier_stats": null,
        "pool_layout_ver": 4,
        "upgrade_layout_ver": 4,
        "mem_file_bytes": 0,
        "md_on_ssd_active": false,
        "self_heal_policy": "",
        "query_error_msg": "",
    });
    if let Some(label) = &info.label {
        json["label"] = json!(label.to_string());
    }
    let is_down = |rank: &u32| {
        info.map.targets.iter().any(|target| target.rank == *rank && target.state == TargetState::Down)
    };
    let (down, up): (Vec<u32>, Vec<u32>) = ranks(info).into_iter().partition(is_down);
    if !down.is_empty() {
        json["disabled_ranks"] = json!(rank_set(&down));
    }
    if shown.enabled {
        json["enabled_ranks"] = json!(rank_set(&up));
    }
    if !shown.health_only {
        let (stats, usage) = tiers(info);
        json["tier_stats"] = stats;
        json["usage"] = usage;
    }
    json
}

/// The space of a pool by kinds of storage, of which there is one, in both shapes that DAOS has for it.
fn tiers(info: &PoolInfo) -> (Value, Value) {
    let active = (info.map.targets.len() - disabled(info)).max(1) as u64;
    let tier = |media: &str, each: &[(u64, u64)]| {
        let (total, free) = each.iter().fold((0, 0), |sum, space| (sum.0 + space.0, sum.1 + space.1));
        let least = each.iter().map(|space| space.1).min().unwrap_or(0);
        let most = each.iter().map(|space| space.1).max().unwrap_or(0);
        let stats = json!({
            "total": total,
            "free": free,
            "min": least,
            "max": most,
            "mean": free.checked_div(each.len() as u64).unwrap_or(0),
            "media_type": media,
        });
        let imbalance = ((most - least) * 100).checked_div(total / active).unwrap_or(0);
        let usage = json!({
            "tier_name": media.to_ascii_uppercase(),
            "size": total,
            "free": free,
            "imbalance": imbalance,
        });
        (stats, usage)
    };
    let each: Vec<(u64, u64)> =
        info.space.iter().map(|space| (space.total_bytes, space.free_bytes)).collect();
    let (scm, nvme) = (tier("scm", &each), tier("nvme", &[]));
    (json!([scm.0, nvme.0]), json!([scm.1, nvme.1]))
}

/// Ranks as DAOS writes a set of them, such as `0-2,5`. They are in their order.
fn rank_set(ranks: &[u32]) -> String {
    let mut text = String::new();
    for run in ranks.chunk_by(|one, next| one + 1 == *next) {
        let comma = if text.is_empty() { "" } else { "," };
        match run {
            [only] => text.push_str(&format!("{comma}{only}")),
            [first, .., last] => text.push_str(&format!("{comma}{first}-{last}")),
            [] => {}
        }
    }
    text
}

/// What DAOS calls a pool's state.
fn state(info: &PoolInfo) -> &'static str {
    if disabled(info) == 0 { "Ready" } else { "Degraded" }
}

/// The engines with targets of a pool, in their order.
fn ranks(info: &PoolInfo) -> Vec<u32> {
    let mut ranks: Vec<u32> = info.map.targets.iter().map(|target| target.rank).collect();
    ranks.dedup();
    ranks
}

/// The engine with a pool's service.
fn service_rank(info: &PoolInfo) -> u32 {
    info.map.targets.first().map_or(0, |target| target.rank)
}

/// Targets whose engine does not answer.
fn disabled(info: &PoolInfo) -> usize {
    info.map.targets.iter().filter(|target| target.state == TargetState::Down).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_ranks_are_written_as_daos_writes_them() {
        assert_eq!(rank_set(&[]), "");
        assert_eq!(rank_set(&[0]), "0");
        assert_eq!(rank_set(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
