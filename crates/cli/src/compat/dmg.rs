//! `dmg`: pools and the system, for whoever runs it.

use super::{PoolArg, SystemArg, disabled, head, open, pool_json, pool_name, ranks, service_rank, state};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, Table, count, human};
use crate::{place, size};
use clap::{Args, Subcommand};
use dolmen_client::PoolInfo;
use dolmen_codec::wire::{PoolAccess, PoolEntry, PoolSpec, SystemReply, SystemVerb};
use dolmen_net::client::{Link, reach};
use dolmen_types::{Error, Invalid};
use serde_json::{Value, json};

#[derive(Args, Debug)]
pub(crate) struct Dmg {
    #[command(flatten)]
    system: SystemArg,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Pools, as whoever runs the system sees them
    #[command(subcommand)]
    Pool(Pool),
    /// The system's engines
    #[command(subcommand)]
    System(System),
    /// Show the program's version
    Version,
}

#[derive(Subcommand, Debug)]
enum System {
    /// Show the engines
    Query,
    /// The same as `pool list`
    ListPools,
}

#[derive(Subcommand, Debug)]
enum Pool {
    /// Make a pool in the system
    Create(Create),
    /// Show all pools with their space
    List,
    /// Show one pool with its space
    Query(PoolArg),
    /// Take a pool from all who have it open
    Evict(PoolArg),
    /// Remove a pool and all containers in it
    Destroy {
        #[command(flatten)]
        pool: PoolArg,
        /// Also if somebody has it open, and loses it by that
        #[arg(short, long)]
        force: bool,
        /// Also if it holds containers
        #[arg(short, long)]
        recursive: bool,
    },
}

#[derive(Args, Debug)]
struct Create {
    /// What the pool is to be called
    label: String,
    /// What all its targets together may use
    #[arg(long, short = 'z', value_name = "SIZE", value_parser = size::between(64 << 10, 1 << 50))]
    size: Option<u64>,
    /// The same, as DAOS calls memory
    #[arg(long, short = 's', value_name = "SIZE", conflicts_with = "size", value_parser = size::between(64 << 10, 1 << 50))]
    scm_size: Option<u64>,
    /// Targets of each engine
    #[arg(long, value_name = "COUNT")]
    targets: Option<u16>,
    /// The pool may be lost with the power, as one in memory is
    #[arg(long)]
    volatile: bool,
}

pub(crate) fn run(args: &Dmg) -> Outcome<Answer> {
    match &args.command {
        Command::Version => Ok(version("dmg")),
        Command::Pool(Pool::Create(create)) => self::create(&args.system.link()?, create),
        Command::Pool(Pool::List) | Command::System(System::ListPools) => list(&args.system.link()?),
        Command::Pool(Pool::Query(arg)) => query(&args.system.link()?, &arg.pool),
        Command::Pool(Pool::Evict(arg)) => evict(&args.system.link()?, &arg.pool),
        Command::Pool(Pool::Destroy { pool, force, recursive }) => {
            destroy(&args.system.link()?, &pool.pool, *force, *recursive)
        }
        Command::System(System::Query) => system(&args.system.link_to_any()?),
    }
}

pub(super) fn version(name: &str) -> Answer {
    let number = env!("CARGO_PKG_VERSION");
    let text = format!("{name} version {number}, of Dolmen");
    Answer::new(text, json!({ "name": name, "version": number, "daos_api_version": "2.8.0" }))
}

fn create(link: &Link, args: &Create) -> Outcome<Answer> {
    let mut rng = dolmen_env::Rng::from_entropy().doing(|| "draw a UUID".to_owned())?;
    let spec = PoolSpec {
        // Drawn here, so that a request that has to be sent again makes no second pool.
        uuid: Some(dolmen_types::uuid_of_random(rng.next_u128())),
        label: Some(place::label(&args.label)?),
        targets: args.targets,
        capacity_bytes: args.size.or(args.scm_size),
        volatile: args.volatile,
        ..PoolSpec::default()
    };
    let doing = || format!("create pool {}", args.label);
    let reply = link.ask_system(&head(), &SystemVerb::PoolCreate(spec)).map_err(not_created).doing(doing)?;
    let SystemReply::Created(entry) = reply else { return Err(place::protocol()).doing(doing) };
    let info = open(link, &entry.uuid.to_string(), PoolAccess::ReadOnly)?.info;
    let total: u64 = info.space.iter().map(|space| space.total_bytes).sum();
    let text = format!("{}  {}  {}", args.label, entry.uuid, human(total));
    let json = json!({
        "uuid": entry.uuid.to_string(),
        "svc_ldr": service_rank(&info),
        "svc_reps": [service_rank(&info)],
        "tgt_ranks": ranks(&info),
        "tier_bytes": [total, 0],
    });
    Ok(Answer::new(text, json))
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
        other => other.into(),
    }
}

fn list(link: &Link) -> Outcome<Answer> {
    let pools = reach::pools(link, &head()).doing(|| "list pools".to_owned())?;
    let mut table = Table::new(&["label", "uuid", ">targets", "state"]);
    let mut all = Vec::with_capacity(pools.len());
    for pool in &pools {
        let opened = open(link, &pool.uuid.to_string(), PoolAccess::ReadOnly);
        table.row([
            pool.label.as_ref().map_or("-".to_owned(), ToString::to_string),
            pool.uuid.to_string(),
            pool.target_count.to_string(),
            match &opened {
                Ok(opened) => state(&opened.info).to_owned(),
                Err(failure) => format!("Unknown: {failure}"),
            },
        ]);
        all.push(match &opened {
            Ok(opened) => listed(pool, &opened.info),
            Err(failure) => unopened(pool, failure),
        });
    }
    let text = if pools.is_empty() { "no pools".to_owned() } else { table.text() };
    Ok(Answer::new(text, json!({ "status": 0, "pools": all })))
}

fn listed(pool: &PoolEntry, info: &PoolInfo) -> Value {
    let (total, free) =
        info.space.iter().fold((0, 0), |sum, space| (sum.0 + space.total_bytes, sum.1 + space.free_bytes));
    let usage = |tier: &str, size: u64, free: u64| json!({ "tier_name": tier, "size": size, "free": free, "imbalance": 0 });
    json!({
        "uuid": pool.uuid.to_string(),
        "label": pool.label.as_ref().map(ToString::to_string),
        "svc_ldr": service_rank(info),
        "svc_reps": [service_rank(info)],
        "targets_total": pool.target_count,
        "targets_disabled": disabled(info),
        "query_error_msg": "",
        "query_status_msg": "",
        "state": state(info),
        "rebuild_state": "idle",
        "usage": [usage("SCM", total, free), usage("NVME", 0, 0)],
    })
}

/// A pool that is there and cannot be opened: the list has it, with the reason.
fn unopened(pool: &PoolEntry, failure: &Failure) -> Value {
    json!({
        "uuid": pool.uuid.to_string(),
        "label": pool.label.as_ref().map(ToString::to_string),
        "svc_reps": [],
        "targets_total": pool.target_count,
        "targets_disabled": 0,
        "query_error_msg": failure.to_string(),
        "query_status_msg": "",
        "state": "Unknown",
        "rebuild_state": "",
        "usage": [],
    })
}

pub(super) fn query(link: &Link, pool: &str) -> Outcome<Answer> {
    let info = open(link, pool, PoolAccess::ReadOnly)?.info;
    let sum = |of: fn(&dolmen_client::SpaceReport) -> u64| info.space.iter().map(of).sum::<u64>();
    let text = crate::output::pairs(&[
        ("pool", info.map.pool.to_string()),
        ("targets", shown_targets(&info)),
        ("total", human(sum(|space| space.total_bytes))),
        ("free", human(sum(|space| space.free_bytes))),
    ]);
    Ok(Answer::new(text, pool_json(&info)))
}

/// How many targets there are, and how many of them do not answer.
fn shown_targets(info: &PoolInfo) -> String {
    let (all, disabled) = (info.map.targets.len(), disabled(info));
    if disabled == 0 { all.to_string() } else { format!("{all}, {disabled} of them disabled") }
}

fn destroy(link: &Link, pool: &str, force: bool, recursive: bool) -> Outcome<Answer> {
    let doing = || format!("destroy pool {pool}");
    if !recursive {
        refuse_containers(link, pool).doing(doing)?;
    }
    let verb = SystemVerb::PoolDestroy { name: pool_name(pool)?, force };
    link.ask_system(&head(), &verb).doing(doing)?;
    Ok(Answer::new(format!("{pool} is gone"), Value::Null))
}

fn evict(link: &Link, pool: &str) -> Outcome<Answer> {
    let verb = SystemVerb::PoolEvict(pool_name(pool)?);
    link.ask_system(&head(), &verb).doing(|| format!("take pool {pool} from all who have it open"))?;
    Ok(Answer::new(format!("{pool} is open nowhere"), Value::Null))
}

/// As DAOS: who removes containers with their pool says so. A pool that cannot be looked into may hold some.
fn refuse_containers(link: &Link, pool: &str) -> Outcome<()> {
    let opened = match open(link, pool, PoolAccess::ReadOnly) {
        Err(failure) if failure.exit != Exit::Missing => {
            return Err(failure.hint("add --recursive to remove it with whatever it holds"));
        }
        opened => opened?,
    };
    if opened.info.cont_count == 0 {
        return Ok(());
    }
    let held = count(opened.info.cont_count, "container", "containers");
    let failure = Failure::new(Exit::Taken, format!("it holds {held}"));
    Err(failure.hint("add --recursive to remove them, too"))
}

fn system(link: &Link) -> Outcome<Answer> {
    let doing = || "query the system".to_owned();
    let SystemReply::System(info) = link.ask_system(&head(), &SystemVerb::Query).doing(doing)? else {
        return Err(place::protocol()).doing(doing);
    };
    let mut table = Table::new(&[">rank", "state", "address"]);
    let mut members = Vec::with_capacity(info.ranks.len());
    for rank in &info.ranks {
        let state = if reach::rank(link, rank).is_ok() { "joined" } else { "unresponsive" };
        table.row([rank.rank.to_string(), state.to_owned(), rank.addresses.join(", ")]);
        let (uuid, address) = (rank.uuid.to_string(), rank.addresses.first());
        members.push(json!({ "rank": rank.rank, "uuid": uuid, "state": state, "addr": address }));
    }
    Ok(Answer::new(table.text(), json!({ "members": members })))
}
