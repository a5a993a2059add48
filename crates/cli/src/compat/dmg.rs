//! `dmg`: pools and the system, for whoever runs it.

use super::{PoolArg, SystemArg, disabled, head, open, pool_json, pool_name, ranks, service_rank, state};
use crate::failure::{Doing, Failure, Outcome};
use crate::output::{Answer, Table, human};
use crate::{place, size};
use clap::{Args, Subcommand};
use dolmen_client::PoolInfo;
use dolmen_codec::wire::{PoolAccess, PoolEntry, PoolSpec, SystemReply, SystemVerb};
use dolmen_net::client::{Link, reach};
use dolmen_types::Error;
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
    /// Remove a pool and all containers in it
    Destroy {
        #[command(flatten)]
        pool: PoolArg,
        /// Also if somebody uses it
        #[arg(short, long)]
        force: bool,
        /// Also if it holds containers: it is removed in any case
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
        Command::Pool(Pool::Destroy { pool, force, .. }) => destroy(&args.system.link()?, &pool.pool, *force),
        Command::System(System::Query) => system(&args.system.link()?),
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
    let reply = link.ask_system(&head(), &SystemVerb::PoolCreate(spec)).map_err(|error| match error {
        Error::Invalid(_) => Failure::from(error).hint(
            "a pool in memory needs --volatile; --size and --targets are to fit each other and the device",
        ),
        other => other.into(),
    });
    let reply = reply.doing(doing)?;
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

fn list(link: &Link) -> Outcome<Answer> {
    let pools = reach::pools(link, &head()).doing(|| "list pools".to_owned())?;
    let mut table = Table::new(&["label", "uuid", ">targets"]);
    let mut all = Vec::with_capacity(pools.len());
    for pool in &pools {
        table.row([
            pool.label.as_ref().map_or("-".to_owned(), ToString::to_string),
            pool.uuid.to_string(),
            pool.target_count.to_string(),
        ]);
        all.push(listed(link, pool)?);
    }
    let text = if pools.is_empty() { "no pools".to_owned() } else { table.text() };
    Ok(Answer::new(text, json!({ "status": 0, "pools": all })))
}

fn listed(link: &Link, pool: &PoolEntry) -> Outcome<Value> {
    let info = open(link, &pool.uuid.to_string(), PoolAccess::ReadOnly)?.info;
    let (total, free) =
        info.space.iter().fold((0, 0), |sum, space| (sum.0 + space.total_bytes, sum.1 + space.free_bytes));
    let usage = |tier: &str, size: u64, free: u64| json!({ "tier_name": tier, "size": size, "free": free, "imbalance": 0 });
    Ok(json!({
        "uuid": pool.uuid.to_string(),
        "label": pool.label.as_ref().map(ToString::to_string),
        "svc_ldr": service_rank(&info),
        "svc_reps": [service_rank(&info)],
        "targets_total": pool.target_count,
        "targets_disabled": disabled(&info),
        "query_error_msg": "",
        "query_status_msg": "",
        "state": state(&info),
        "rebuild_state": "idle",
        "usage": [usage("SCM", total, free), usage("NVME", 0, 0)],
    }))
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

fn destroy(link: &Link, pool: &str, force: bool) -> Outcome<Answer> {
    let verb = SystemVerb::PoolDestroy { name: pool_name(pool)?, force };
    link.ask_system(&head(), &verb).doing(|| format!("destroy pool {pool}"))?;
    Ok(Answer::new(format!("{pool} is gone"), Value::Null))
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
