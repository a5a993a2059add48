//! `dmg pool create`: sizes and places as scripts give them.

use super::{engines, no_engine, props};
use crate::compat::{Opened, access, open, ranks, service_rank};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, count, human};
use crate::stop::Process;
use crate::{place, size};
use clap::Args;
use dolmen_codec::wire::{PoolAccess, PoolSpec, RankInfo, SystemReply, SystemVerb};
use dolmen_env::Address;
use dolmen_net::client::Link;
use dolmen_types::{Error, Invalid};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a pool may have, as the daemon takes it.
const BYTES_MIN: u64 = 64 << 10;
const BYTES_MAX: u64 = 1 << 50;

/// How much a pool is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    Bytes(u64),
    /// Of what the devices have left.
    Percent(u64),
}

fn parse_size(text: &str) -> Result<Size, String> {
    let Some(percent) = text.strip_suffix('%') else {
        return size::daos(BYTES_MIN, BYTES_MAX)(text).map(Size::Bytes);
    };
    match percent.trim().parse() {
        Ok(percent @ 1..=100) => Ok(Size::Percent(percent)),
        _ => Err("give a whole percentage from 1% to 100%".to_owned()),
    }
}

#[derive(Args, Debug)]
pub(super) struct Create {
    /// What the pool is to be called; may also stand in --properties
    label: Option<String>,
    /// What all its targets together may use: bytes, with a unit (GB is 10^9, GiB 2^30), or a percentage of what the devices have left
    #[arg(long, short = 'z', value_name = "SIZE", value_parser = parse_size)]
    size: Option<Size>,
    /// What it may use at each engine; there is one kind of storage, so --nvme-size is added to it
    #[arg(long, short = 's', visible_alias = "meta-size", value_name = "SIZE", conflicts_with = "size", value_parser = size::daos(BYTES_MIN, BYTES_MAX))]
    scm_size: Option<u64>,
    /// What it may use at each engine besides
    #[arg(long, short = 'n', visible_alias = "data-size", value_name = "SIZE", requires = "scm_size", conflicts_with = "size", value_parser = size::daos(0, BYTES_MAX))]
    nvme_size: Option<u64>,
    /// How scripts divide --size between kinds of storage: there is one, and the pool is as large without it
    #[arg(long, short = 't', value_name = "PERCENT", conflicts_with = "scm_size", value_parser = parse_ratio)]
    tier_ratio: Option<String>,
    /// For scripts: what is kept in memory is decided by each engine's budget
    #[arg(long, value_name = "PERCENT", value_parser = parse_ratio)]
    mem_ratio: Option<String>,
    /// Properties, as NAME:VALUE: the label, and others as they are here
    #[arg(long, short = 'P', value_name = "NAME:VALUE", value_delimiter = ',')]
    properties: Vec<String>,
    /// Replicas of the pool's service: there is 1
    #[arg(long, short = 'v', value_name = "COUNT")]
    nsvc: Option<u32>,
    /// Engines with targets of it: a pool has targets at all
    #[arg(long, short = 'k', value_name = "COUNT", conflicts_with = "ranks")]
    nranks: Option<usize>,
    /// The same by their ranks, such as 0,1
    #[arg(long, short = 'r', value_name = "RANKS", value_delimiter = ',')]
    ranks: Vec<u32>,
    /// Name of the user whom it belongs to [default: the caller]
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,
    /// Name of the group that it belongs to [default: the caller's]
    #[arg(long, short, value_name = "GROUP")]
    group: Option<String>,
    /// File with an access control list, an entry a line
    #[arg(long, short, value_name = "FILE")]
    acl_file: Option<PathBuf>,
    /// Targets of each engine
    #[arg(long, value_name = "COUNT")]
    targets: Option<u16>,
    /// The pool may be lost with the power, as one in memory is
    #[arg(long)]
    volatile: bool,
}

/// Percentages with commas, which add up to 100, or the first of two.
fn parse_ratio(text: &str) -> Result<String, String> {
    let parts = text.split(',').map(|part| part.trim().trim_end_matches('%').parse::<f64>());
    let sum: f64 = match parts.collect::<Result<Vec<f64>, _>>() {
        Ok(parts) if parts.iter().all(|part| *part >= 0.0) => parts.iter().sum(),
        _ => return Err("give percentages such as 6,94".to_owned()),
    };
    let is_whole = (sum - 100.0).abs() < 0.01 || !text.contains(',') && sum < 100.0;
    if is_whole { Ok(text.to_owned()) } else { Err("the percentages do not add up to 100".to_owned()) }
}

pub(super) fn create(link: &Link, args: &Create) -> Outcome<Answer> {
    let label = label(args)?;
    let doing = || format!("create pool {label}");
    let all = engines(link, &[]).doing(doing)?;
    refuse_places(args, &all).doing(doing)?;
    let owned = access::of_new_pool(args.user.as_deref(), args.group.as_deref(), args.acl_file.as_deref())
        .doing(doing)?;
    let mut rng = dolmen_env::Rng::from_entropy().doing(|| "draw a UUID".to_owned())?;
    let spec = PoolSpec {
        // Drawn here, so that a request that has to be sent again makes no second pool.
        uuid: Some(dolmen_types::uuid_of_random(rng.next_u128())),
        label: Some(place::label(&label)?),
        targets: args.targets,
        capacity_bytes: capacity_bytes(args, &all).doing(doing)?,
        volatile: args.volatile,
        ..PoolSpec::default()
    };
    let reply =
        link.ask_system(&place::head()?, &SystemVerb::PoolCreate(spec)).map_err(not_created).doing(doing)?;
    let SystemReply::Created(entry) = reply else { return Err(place::protocol()).doing(doing) };
    let Opened { pool, info } = open(link, &entry.uuid.to_string(), PoolAccess::ReadWrite)?;
    pool.set_props(&owned).doing(|| format!("say whose the new pool {label} is"))?;
    let total: u64 = info.space.iter().map(|space| space.total_bytes).sum();
    let mut text = format!("{label}  {}  {}", entry.uuid, human(total));
    if args.scm_size.is_some() || args.tier_ratio.is_some() {
        let each = human(total / all.len().max(1) as u64);
        let engines = count(all.len() as u64, "engine", "engines");
        text.push_str(&format!("\nthere is one kind of storage: {each} at each of {engines}"));
    }
    let json = json!({
        "uuid": entry.uuid.to_string(),
        "svc_ldr": service_rank(&info),
        "svc_reps": [service_rank(&info)],
        "tgt_ranks": ranks(&info),
        "tier_bytes": [total / all.len().max(1) as u64, 0],
        "mem_file_bytes": 0,
        "md_on_ssd_active": false,
    });
    Ok(Answer::new(text, json))
}

/// What the pool is to be called, said in one or both of two ways.
fn label(args: &Create) -> Outcome<String> {
    let given = props::given(&args.properties)?;
    match (&args.label, given) {
        (Some(one), Some(other)) if *one != other => {
            let why = format!("LABEL {one} and --properties label:{other} contradict each other");
            Err(Failure::new(Exit::Usage, why).hint("leave out one of them"))
        }
        (Some(label), _) => Ok(label.clone()),
        (None, Some(label)) => Ok(label),
        (None, None) => Err(Failure::new(Exit::Usage, "the pool has no label").hint("give a LABEL")),
    }
}

/// Refuses what would put targets or the service elsewhere than where they are put.
fn refuse_places(args: &Create, all: &[RankInfo]) -> Outcome<()> {
    if let Some(replicas) = args.nsvc.filter(|count| *count != 1) {
        let failure =
            Failure::new(Exit::Usage, format!("the service of a pool has 1 replica, not {replicas}"));
        return Err(failure.hint("leave out --nsvc, or give 1"));
    }
    let listed: Vec<u32> = all.iter().map(|engine| engine.rank).collect();
    if let Some(rank) = args.ranks.iter().find(|rank| !listed.contains(rank)) {
        return Err(no_engine(*rank));
    }
    let some = args.nranks.map(|count| (count, "--nranks")).or_else(|| {
        let is_some = listed.iter().any(|rank| !args.ranks.contains(rank));
        (!args.ranks.is_empty() && is_some).then_some((args.ranks.len(), "--ranks"))
    });
    match some {
        Some((count, option)) if count != all.len() => {
            let why = format!("a pool has targets at all engines, here {}, not at {count}", all.len());
            Err(Failure::new(Exit::Usage, why).hint(format!("leave out {option}")))
        }
        _ => Ok(()),
    }
}

/// What all targets together may use; `None` for as much as the smallest device has.
fn capacity_bytes(args: &Create, all: &[RankInfo]) -> Outcome<Option<u64>> {
    let engines = all.len().max(1) as u64;
    if let Some(scm) = args.scm_size {
        let each = scm.saturating_add(args.nvme_size.unwrap_or(0));
        let total = each.saturating_mul(engines);
        if total > BYTES_MAX {
            let failure = Failure::new(Exit::Usage, format!("{} is more than a pool can have", human(total)));
            return Err(failure.hint("choose smaller sizes"));
        }
        return Ok(Some(total));
    }
    match args.size {
        None => Ok(None),
        Some(Size::Bytes(bytes)) => Ok(Some(bytes)),
        Some(Size::Percent(percent)) => {
            let left = left_bytes(all)?;
            Ok(Some((left / 100 * percent + left % 100 * percent / 100).min(BYTES_MAX)))
        }
    }
}

/// What the devices of the engines have left: each has as many targets, so the one with the least counts.
fn left_bytes(all: &[RankInfo]) -> Outcome<u64> {
    let mut devices = Vec::with_capacity(all.len());
    for engine in all {
        let Some(dir) = directory(engine) else {
            let why = format!("what the device of engine {} has left cannot be seen from here", engine.rank);
            return Err(
                Failure::new(Exit::Usage, why).hint("give --size in bytes, or run it where that engine is")
            );
        };
        let failed = |error: std::io::Error| Failure::on_file(&dir, &error);
        let device = std::fs::metadata(&dir).map_err(failed)?.dev();
        let space = rustix::fs::statvfs(&dir).map_err(|errno| failed(errno.into()))?;
        devices.push((device, space.f_bavail.saturating_mul(space.f_frsize)));
    }
    let share = |(device, left): &(u64, u64)| {
        left / devices.iter().filter(|(other, _)| other == device).count().max(1) as u64
    };
    let least = devices.iter().map(share).min().unwrap_or(0);
    Ok(least.saturating_mul(devices.len() as u64))
}

/// The directory that an engine of this machine serves.
fn directory(engine: &RankInfo) -> Option<PathBuf> {
    let sockets = engine.addresses.iter().filter_map(|address| address.strip_prefix("unix:"));
    sockets.map(Path::new).find_map(|socket| {
        let pid = Process::at(&Address::Unix(socket.to_owned()))?.pid;
        let dir = socket.parent()?;
        let owner = std::fs::read_to_string(dir.join(".owner")).unwrap_or_default(); // Ignored: then it is elsewhere.
        let is_there = owner.trim_matches(['\0', '\n', ' ']).parse() == Ok(pid);
        if is_there { Some(dir.to_owned()) } else { held_by(pid) }
    })
}

/// The directory that a process serves from a socket elsewhere: the first of those that it has the lock of, since those of pools
/// lie in it.
fn held_by(pid: u32) -> Option<PathBuf> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let open = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    let locks = open.filter(|file| file.file_name().is_some_and(|name| name == ".owner"));
    let first = locks.min_by_key(|file| file.components().count())?;
    first.parent().map(Path::to_owned)
}

/// Why no pool was made, with what to do.
fn not_created(error: Error) -> Failure {
    match error {
        Error::Invalid(Invalid::Flags) => {
            let why = "the system's directory is in memory, and lost with the power";
            Failure::new(Exit::Refused, why).hint("add --volatile")
        }
        Error::Invalid(Invalid::Argument) => {
            let why = "a target cannot have so little, or so much";
            Failure::new(Exit::Usage, why).hint("choose another --size, or other --targets")
        }
        Error::NoSpace { needed_bytes, .. } => Failure::from(error)
            .because(format!(
                "the device of an engine is not as large: {} are to be there",
                size::exact(needed_bytes)
            ))
            .hint("choose a smaller --size, a part of what is left (--size 80%), or none: see `df`"),
        other => access::for_operators(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_a_part_of_what_is_left() {
        assert_eq!(parse_size("100%"), Ok(Size::Percent(100)));
        assert_eq!(parse_size("2G"), Ok(Size::Bytes(2_000_000_000)));
        assert_eq!(parse_size("1.5TiB"), Ok(Size::Bytes(3 << 39)));
        for wrong in ["0%", "101%", "-1%", "5.5%", "%", "1", "2000T", "all"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
        for ratio in ["6", "6,94", "6%,94%", "0,100", "10.5,89.5"] {
            assert!(parse_ratio(ratio).is_ok(), "{ratio}");
        }
        for wrong in ["", "6,95", "-6,106", "x", "100.5"] {
            assert!(parse_ratio(wrong).is_err(), "{wrong}");
        }
    }
}
