//! `dmg`: pools and the system, for whoever runs it.

mod create;
pub(super) mod props;

use super::hosts::Hosts;
use super::{
    PoolArg, Rest, Shown, SystemArg, access, asking, behind, disabled, open, pool_json, pool_name, rank_set,
    ranks, state,
};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, Table, count, human};
use crate::place;
use crate::stop::{self, Process};
use clap::{Args, Subcommand};
use create::Create;
use dolmen_client::PoolInfo;
use dolmen_codec::wire::{PoolAccess, PoolEntry, PoolName, RankInfo, SystemReply, SystemVerb};
use dolmen_env::Address;
use dolmen_net::client::{Link, LinkOptions, reach};
use dolmen_types::TargetState;
use serde_json::{Value, json};

#[derive(Args, Debug)]
pub(crate) struct Dmg {
    #[command(flatten)]
    system: SystemArg,
    #[command(flatten)]
    hosts: Hosts,
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
    /// Containers, for whoever runs the system
    #[command(subcommand, visible_alias = "cont")]
    Container(Cont),
    /// Devices of servers (not available)
    #[command(visible_alias = "sto")]
    Storage(Rest),
    /// Network devices of servers (not available)
    #[command(visible_alias = "net")]
    Network(Rest),
    /// Logs of servers (not available)
    #[command(visible_alias = "srv")]
    Server(Rest),
    /// Files of settings for servers (not available)
    #[command(visible_alias = "cfg")]
    Config(Rest),
    /// Metrics (not available)
    #[command(visible_alias = "telem")]
    Telemetry(Rest),
    /// Logs for whoever helps (not available)
    #[command(visible_alias = "supp")]
    Support(Rest),
    /// Look for what is wrong in a system that is stopped (not available)
    Check(Rest),
    /// Show the program's version
    Version,
    /// Show the versions of servers (not available)
    ServerVersion(Rest),
}

#[derive(Subcommand, Debug)]
enum Cont {
    /// Give a container to another user or group
    SetOwner(SetOwner),
}

#[derive(Args, Debug)]
pub(super) struct SetOwner {
    /// The pool: its label or UUID
    #[arg(value_name = "POOL", required_unless_present = "pool_option")]
    pool: Option<String>,
    /// The container: its label or UUID
    #[arg(value_name = "CONT", required_unless_present = "cont_option")]
    cont: Option<String>,
    /// The pool, by an option
    #[arg(long = "pool", value_name = "POOL", conflicts_with = "pool")]
    pool_option: Option<String>,
    /// The container, by an option
    #[arg(long = "cont", value_name = "CONT", conflicts_with = "cont")]
    cont_option: Option<String>,
    /// Name of the user
    #[arg(long, short)]
    pub(super) user: Option<String>,
    /// Name of the group
    #[arg(long, short)]
    pub(super) group: Option<String>,
}

impl SetOwner {
    /// Pool and container.
    pub(super) fn names(&self) -> (&str, &str) {
        const ASKED: &str = "the command line has one of the two";
        let pool = self.pool.as_deref().or(self.pool_option.as_deref());
        let cont = self.cont.as_deref().or(self.cont_option.as_deref());
        (pool.expect(ASKED), cont.expect(ASKED))
    }
}

#[derive(Subcommand, Debug)]
enum System {
    /// Show the engines
    Query {
        /// For scripts: shows the same
        #[arg(long, short)]
        verbose: bool,
        /// Only these, such as 0,2
        #[arg(long, short, value_delimiter = ',')]
        ranks: Vec<u32>,
    },
    /// Say which engine pools are made at
    LeaderQuery {
        /// For scripts: names those that do not answer, which are told anyway
        #[arg(long, short = 'N')]
        down_replicas: bool,
    },
    /// As `pool list`
    ListPools(List),
    /// Do without engines (not available)
    Exclude(Rest),
    /// Take engines back that were excluded (not available)
    ClearExclude(Rest),
    /// Move data away from engines (not available)
    Drain(Rest),
    /// Let engines take part again (not available)
    #[command(visible_alias = "reint")]
    Reintegrate(Rest),
    /// Remove what the system knows (not available)
    Erase(Rest),
    /// Take pools from those of one machine (not available)
    Cleanup(Rest),
    /// Set attributes of the system (not available)
    SetAttr(Rest),
    /// Show attributes of the system (not available)
    GetAttr(Rest),
    /// Remove attributes of the system (not available)
    DelAttr(Rest),
    /// Set properties of the system (not available)
    SetProp(Rest),
    /// Show properties of the system (not available)
    GetProp(Rest),
    /// Begin or end repairs of pools (not available)
    Rebuild(Rest),
    /// Let pools be repaired by themselves (not available)
    SelfHeal(Rest),
    /// End the engines, and wait until their processes have ended
    Stop {
        /// Only these, such as 0,2
        #[arg(long, short, value_delimiter = ',')]
        ranks: Vec<u32>,
        /// For scripts: ends them the same, with what is under way finished
        #[arg(long, short)]
        force: bool,
    },
    /// Say whether the engines run; each is started on its machine, by `dolmen serve`
    Start {
        /// Only these of them, such as 0,2
        #[arg(long, short, value_delimiter = ',')]
        ranks: Vec<u32>,
    },
}

#[derive(Subcommand, Debug)]
enum Pool {
    /// Make a pool in the system
    Create(Box<Create>),
    /// Show all pools with their state
    #[command(visible_alias = "ls")]
    List(List),
    /// Show one pool with its space
    Query(Query),
    /// Show the targets that one engine has of a pool, with their space
    QueryTargets(Targets),
    /// Print properties; all if none is named
    GetProp(props::GetProp),
    /// Set properties (not available)
    SetProp(Rest),
    #[command(flatten)]
    Access(access::Verb),
    /// Move data away from engines (not available)
    Drain(Rest),
    /// Do without engines (not available)
    Exclude(Rest),
    /// Take engines back (not available)
    #[command(visible_alias = "reint")]
    Reintegrate(Rest),
    /// Add engines (not available)
    Extend(Rest),
    /// Bring to a newer format (not available)
    Upgrade(Rest),
    /// Begin or end a repair (not available)
    Rebuild(Rest),
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

/// How pools are listed.
#[derive(Args, Debug)]
struct List {
    /// Show sizes, too
    #[arg(long, short)]
    verbose: bool,
    /// Open none of them: their state and space are not told
    #[arg(long, short)]
    no_query: bool,
    /// Only those that are under repair: none ever is
    #[arg(long, short)]
    rebuild_only: bool,
}

/// What is asked of one pool.
#[derive(Args, Debug)]
pub(super) struct Query {
    #[command(flatten)]
    pool: PoolArg,
    /// Tell no space
    #[arg(long, short = 't')]
    health_only: bool,
    /// Tell the engines that have targets in use
    #[arg(long, short = 'e')]
    show_enabled: bool,
    /// For scripts: engines that do not answer are told anyway
    #[arg(long, short = 'b')]
    show_disabled: bool,
    /// For scripts: nothing is repaired by itself, and nothing is said of that
    #[arg(long)]
    no_self_heal_check: bool,
}

#[derive(Args, Debug)]
pub(super) struct Targets {
    #[command(flatten)]
    pool: PoolArg,
    /// The engine
    #[arg(long)]
    rank: u32,
    /// Which of its targets, such as 0,2 [default: all]
    #[arg(long, value_delimiter = ',')]
    target_idx: Vec<usize>,
}

pub(crate) fn run(args: &Dmg) -> Outcome<Answer> {
    let system = &args.hosts.system(&args.system)?;
    match &args.command {
        Command::Version => Ok(version("dmg")),
        Command::ServerVersion(_) => {
            Err(Failure::absent("dmg server-version", "use `dolmen --version` where an engine runs"))
        }
        Command::Pool(command) => pool(system, command),
        Command::Container(Cont::SetOwner(args)) => super::daos::set_owner(&system.link()?, args),
        Command::System(command) => of_system(system, command),
        Command::Storage(_) => Err(Failure::absent(
            "dmg storage",
            "devices need no preparation: `dolmen serve DIR` serves a directory",
        )),
        Command::Network(_) => {
            Err(Failure::absent("dmg network", "`dolmen serve --tcp` listens where it is told"))
        }
        Command::Server(_) => Err(Failure::absent(
            "dmg server",
            "a daemon says what it has to say in `dolmen.log` of its directory",
        )),
        Command::Config(_) => {
            Err(Failure::absent("dmg config", "see `dolmen serve --help`: it needs no file"))
        }
        Command::Telemetry(_) => {
            Err(Failure::absent("dmg telemetry", "see `dmg pool query` and `dmg system query`"))
        }
        Command::Support(_) => Err(Failure::absent("dmg support", "see `dolmen inspect` and `dolmen check`")),
        Command::Check(_) => Err(Failure::absent("dmg check", "use `dolmen check` on each pool")),
    }
}

fn of_system(system: &SystemArg, command: &System) -> Outcome<Answer> {
    const ALL: &str = "a system has the engines and the settings that its list and `dolmen serve` say";
    match command {
        System::ListPools(args) => list(&system.link()?, args),
        System::Query { ranks, .. } => self::system(&system.link_to_any()?, ranks),
        System::LeaderQuery { .. } => leader(&system.link_to_any()?),
        System::Stop { ranks, .. } => stop_engines(&system.link_to_any()?, ranks),
        System::Start { ranks } => start(&system.link_to_any()?, ranks),
        System::Exclude(_) => Err(Failure::absent("dmg system exclude", ALL)),
        System::ClearExclude(_) => Err(Failure::absent("dmg system clear-exclude", ALL)),
        System::Drain(_) => Err(Failure::absent("dmg system drain", ALL)),
        System::Reintegrate(_) => {
            Err(Failure::absent("dmg system reintegrate", "start the engine: it takes part again by itself"))
        }
        System::Erase(_) => {
            Err(Failure::absent("dmg system erase", "remove each pool with `dmg pool destroy`"))
        }
        System::Cleanup(_) => Err(Failure::absent("dmg system cleanup", "use `dmg pool evict`")),
        System::SetAttr(_) | System::GetAttr(_) | System::DelAttr(_) => {
            Err(Failure::absent("an attribute of the system", "pools and containers have them"))
        }
        System::SetProp(_) | System::GetProp(_) => Err(Failure::absent("a property of the system", ALL)),
        System::Rebuild(_) | System::SelfHeal(_) => {
            Err(Failure::absent("a repair from copies", "pools have one copy of their data"))
        }
    }
}

fn pool(system: &SystemArg, command: &Pool) -> Outcome<Answer> {
    const FIXED: &str = "a pool keeps the engines and the format that it was made with";
    match command {
        Pool::Create(args) => create::create(&system.link_to_begin()?, args),
        Pool::List(args) => list(&system.link()?, args),
        Pool::Query(args) => query(&system.link()?, args),
        Pool::QueryTargets(args) => targets(&system.link()?, args),
        Pool::GetProp(args) => props::show(&system.link()?, args),
        Pool::Evict(arg) => evict(&system.link()?, &arg.pool),
        Pool::Destroy { pool, force, recursive } => destroy(&system.link()?, &pool.pool, *force, *recursive),
        Pool::SetProp(_) => {
            Err(Failure::absent("dmg pool set-prop", "properties of a pool are those that it was made with"))
        }
        Pool::Access(verb) => verb.run(&system.link()?),
        Pool::Drain(_) => Err(Failure::absent("dmg pool drain", FIXED)),
        Pool::Exclude(_) => Err(Failure::absent("dmg pool exclude", FIXED)),
        Pool::Reintegrate(_) => {
            Err(Failure::absent("dmg pool reintegrate", "start the engine: it takes part again by itself"))
        }
        Pool::Extend(_) => Err(Failure::absent("dmg pool extend", FIXED)),
        Pool::Rebuild(_) => Err(Failure::absent(
            "dmg pool rebuild",
            "pools have one copy of their data, and repair nothing from others",
        )),
        Pool::Upgrade(_) => Err(Failure::absent("dmg pool upgrade", FIXED)),
    }
}

pub(super) fn version(name: &str) -> Answer {
    let number = env!("CARGO_PKG_VERSION");
    let text = format!("{name} version {number}, of Dolmen");
    Answer::new(text, json!({ "name": name, "version": number, "daos_api_version": "2.8.0" }))
}

fn list(link: &Link, args: &List) -> Outcome<Answer> {
    let pools = match args.rebuild_only {
        true => Vec::new(),
        false => reach::pools(link, &place::head()?).doing(|| "list pools".to_owned())?,
    };
    let mut table = match args.verbose {
        false => Table::new(&["label", "uuid", ">targets", "state"]),
        true => Table::new(&["label", "uuid", ">targets", ">size", ">used", ">disabled", "state"]),
    };
    let mut all = Vec::with_capacity(pools.len());
    for pool in &pools {
        let (json, opened) = listed(link, pool, !args.no_query);
        let mut row = vec![
            pool.label.as_ref().map_or("-".to_owned(), ToString::to_string),
            pool.uuid.to_string(),
            pool.target_count.to_string(),
        ];
        if args.verbose {
            row.extend(sizes(opened.as_ref().and_then(|opened| opened.as_ref().ok())));
        }
        row.push(match &opened {
            Some(Ok(info)) => state(info).to_owned(),
            Some(Err(failure)) => format!("Unknown: {failure}"),
            None => "-".to_owned(),
        });
        table.row(row);
        all.push(json);
    }
    let text = if pools.is_empty() { "no pools".to_owned() } else { table.text() };
    Ok(Answer::new(text, json!({ "status": 0, "pools": all })))
}

/// Size, used part and disabled targets of a pool.
fn sizes(info: Option<&PoolInfo>) -> [String; 3] {
    let Some(info) = info else { return ["-", "-", "-"].map(str::to_owned) };
    let sum = |of: fn(&dolmen_client::SpaceReport) -> u64| info.space.iter().map(of).sum::<u64>();
    let (total, free) = (sum(|space| space.total_bytes), sum(|space| space.free_bytes));
    let used = (total - free.min(total)) * 100 / total.max(1);
    [human(total), format!("{used}%"), format!("{}/{}", disabled(info), info.map.targets.len())]
}

/// A pool as lists have it, and what was found when it was opened for that: one that cannot be opened is there, too, with the
/// reason.
pub(super) fn listed(link: &Link, pool: &PoolEntry, is_queried: bool) -> (Value, Option<Outcome<PoolInfo>>) {
    if !is_queried {
        return (unopened(pool, ""), None);
    }
    match open(link, &pool.uuid.to_string(), PoolAccess::ReadOnly) {
        Ok(opened) => (pool_json(&opened.info, &Shown::default()), Some(Ok(opened.info))),
        Err(failure) => (unopened(pool, &failure.to_string()), Some(Err(failure))),
    }
}

/// What is known of a pool without looking into it.
fn unopened(pool: &PoolEntry, why: &str) -> Value {
    let mut json = json!({
        "query_mask": "",
        "uuid": pool.uuid.to_string(),
        "total_targets": pool.target_count,
        "active_targets": 0,
        "disabled_targets": 0,
        "query_error_msg": why,
        "state": "Unknown",
        "svc_reps": [],
        "rebuild": null,
        "tier_stats": null,
    });
    if let Some(label) = &pool.label {
        json["label"] = json!(label.to_string());
    }
    json
}

pub(super) fn query(link: &Link, args: &Query) -> Outcome<Answer> {
    let info = open(link, &args.pool.pool, PoolAccess::ReadOnly)?.info;
    let sum = |of: fn(&dolmen_client::SpaceReport) -> u64| info.space.iter().map(of).sum::<u64>();
    let mut rows = vec![
        ("pool", info.map.pool.to_string()),
        ("state", state(&info).to_owned()),
        ("targets", shown_targets(&info)),
    ];
    if !args.health_only {
        rows.push(("total", human(sum(|space| space.total_bytes))));
        rows.push(("free", human(sum(|space| space.free_bytes))));
    }
    if args.show_enabled {
        rows.push(("engines", rank_set(&ranks(&info))));
    }
    let shown = Shown { health_only: args.health_only, enabled: args.show_enabled };
    let mut json = pool_json(&info, &shown);
    json["status"] = json!(0);
    Ok(Answer::new(crate::output::pairs(&rows), json))
}

/// Targets of one engine, with their space.
pub(super) fn targets(link: &Link, args: &Targets) -> Outcome<Answer> {
    let doing = || format!("query targets of pool {}", args.pool.pool);
    let info = open(link, &args.pool.pool, PoolAccess::ReadOnly)?.info;
    let all = info.map.targets.iter().zip(&info.space);
    let own: Vec<_> = all.filter(|(target, _)| target.rank == args.rank).collect();
    let wanted: Vec<usize> =
        if args.target_idx.is_empty() { (0..own.len()).collect() } else { args.target_idx.clone() };
    let mut table = Table::new(&[">target", "state", ">total", ">free"]);
    let mut infos = Vec::with_capacity(wanted.len());
    for index in wanted {
        let Some((target, space)) = own.get(index) else {
            let why = format!("engine {} has {} targets of it", args.rank, own.len());
            return Err(Failure::new(Exit::Missing, why).hint("give --rank and --target-idx of one"))
                .doing(doing);
        };
        let state = if target.state == TargetState::Down { "down" } else { "up_in" };
        let (total, free) = (space.total_bytes, space.free_bytes);
        table.row([index.to_string(), state.to_owned(), human(total), human(free)]);
        let tier =
            |media: &str, total: u64, free: u64| json!({ "total": total, "free": free, "media_type": media });
        infos.push(json!({
            "target_type": "unknown",
            "target_state": state,
            "space": [tier("scm", total, free), tier("nvme", 0, 0)],
            "mem_file_bytes": 0,
            "md_on_ssd_active": false,
        }));
    }
    if infos.is_empty() {
        let failure = Failure::new(Exit::Missing, format!("engine {} has no target of it", args.rank));
        let hint = format!("see `{}`", asking("dmg", &behind("pool query", &[&args.pool.pool])));
        return Err(failure.hint(hint)).doing(doing);
    }
    Ok(Answer::new(table.text(), json!({ "status": 0, "infos": infos })))
}

/// How many targets there are, and how many of them do not answer.
fn shown_targets(info: &PoolInfo) -> String {
    let (all, disabled) = (info.map.targets.len(), disabled(info));
    if disabled == 0 { all.to_string() } else { format!("{all}, {disabled} of them disabled") }
}

fn destroy(link: &Link, pool: &str, force: bool, recursive: bool) -> Outcome<Answer> {
    let doing = || format!("destroy pool {pool}");
    // The one that is meant now: its name may be another's when a lost answer is asked for again.
    let (name, text) = match meant(link, pool)? {
        Some(entry) => (PoolName::Uuid(entry.uuid), entry.uuid.to_string()),
        None => (pool_name(pool)?, pool.to_owned()),
    };
    if !recursive {
        refuse_containers(link, &text).doing(doing)?;
    }
    let verb = SystemVerb::PoolDestroy { name, force };
    link.ask_system(&place::head()?, &verb)
        .map_err(|error| access::for_operators(Failure::of_destroy(error, force)))
        .doing(doing)?;
    Ok(Answer::new(format!("{pool} is gone"), Value::Null))
}

fn evict(link: &Link, pool: &str) -> Outcome<Answer> {
    let doing = || format!("take pool {pool} from all who have it open");
    let verb = SystemVerb::PoolEvict(pool_name(pool)?);
    let text = match is_open(link, pool)? {
        false => format!("nobody has {pool} open"),
        true => format!("{pool} was taken from all who had it open"),
    };
    let asked = link.ask_system(&place::head()?, &verb);
    let failed = |error| match error {
        dolmen_types::Error::NotFound => {
            let list = asking("dmg", "pool list");
            Failure::from(error).because("there is no such pool").hint(format!("see `{list}`"))
        }
        error => access::for_operators(error.into()),
    };
    asked.map_err(failed).doing(doing)?;
    Ok(Answer::new(text, Value::Null))
}

/// Whether somebody has a pool open.
fn is_open(link: &Link, pool: &str) -> Outcome<bool> {
    Ok(meant(link, pool)?.is_some_and(|entry| entry.connections > 0))
}

/// The pool that a name stands for now.
fn meant(link: &Link, pool: &str) -> Outcome<Option<PoolEntry>> {
    let name = pool_name(pool)?;
    let is_meant = |entry: &PoolEntry| match &name {
        PoolName::Label(label) => entry.label.as_ref() == Some(label),
        PoolName::Uuid(uuid) => entry.uuid == *uuid,
    };
    let all = reach::pools(link, &place::head()?).doing(|| "list pools".to_owned())?;
    Ok(all.into_iter().find(is_meant))
}

/// As DAOS: who removes containers with their pool says so. A pool that cannot be looked into may hold some.
fn refuse_containers(link: &Link, pool: &str) -> Outcome<()> {
    let opened = match open(link, pool, PoolAccess::ReadOnly) {
        // Who may remove pools may look into all of them.
        Err(failure) if failure.is_of_lists() => {
            return Err(access::for_operators(dolmen_types::Error::NoPermission.into()));
        }
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

/// Why an engine cannot be asked that the system does not have.
fn no_engine(rank: u32) -> Failure {
    let failure = Failure::new(Exit::Missing, format!("there is no engine {rank}"));
    failure.hint(format!("see `{}`", asking("dmg", "system query")))
}

/// The engines of a system, of `ranks` if there are any.
pub(super) fn engines(link: &Link, ranks: &[u32]) -> Outcome<Vec<RankInfo>> {
    let doing = || "query the system".to_owned();
    let SystemReply::System(info) = link.ask_system(&place::head()?, &SystemVerb::Query).doing(doing)? else {
        return Err(place::protocol()).doing(doing);
    };
    if let Some(rank) = ranks.iter().find(|&&rank| !info.ranks.iter().any(|info| info.rank == rank)) {
        return Err(no_engine(*rank));
    }
    Ok(info.ranks.into_iter().filter(|info| ranks.is_empty() || ranks.contains(&info.rank)).collect())
}

fn system(link: &Link, ranks: &[u32]) -> Outcome<Answer> {
    let mut table = Table::new(&[">rank", "state", "address"]);
    let mut members = Vec::new();
    for rank in &engines(link, ranks)? {
        let state = if reach::rank(link, rank).is_ok() { "joined" } else { "unresponsive" };
        table.row([rank.rank.to_string(), state.to_owned(), rank.addresses.join(", ")]);
        let address = rank.addresses.first();
        members.push(json!({
            "rank": rank.rank,
            "uuid": rank.uuid.to_string(),
            "state": state,
            "addr": address,
            "fabric_uri": address,
            "fault_domain": "",
            "info": "",
        }));
    }
    Ok(Answer::new(table.text(), json!({ "members": members })))
}

/// The first engine has the system's list of pools; there are no others that could.
fn leader(link: &Link) -> Outcome<Answer> {
    let all = engines(link, &[])?;
    let Some(first) = all.first() else { return Err(place::protocol()) };
    let address = first.addresses.first().cloned().unwrap_or_default();
    let down = if reach::rank(link, first).is_ok() { Vec::new() } else { vec![address.clone()] };
    let text = crate::output::pairs(&[
        ("leader", address.clone()),
        ("unresponsive", if down.is_empty() { "-".to_owned() } else { down.join(", ") }),
    ]);
    let json = json!({ "current_leader": address, "replicas": [address], "down_replicas": down });
    Ok(Answer::new(text, json))
}

/// What became of each engine; `done` is what all of them were to be.
fn results(action: &str, done: &str, all: &[(u32, &str, Option<String>)]) -> Answer {
    let mut table = Table::new(&[">rank", "state", "reason"]);
    let mut rows = Vec::with_capacity(all.len());
    let mut failed = 0;
    for (rank, state, wrong) in all {
        table.row([rank.to_string(), (*state).to_owned(), wrong.clone().unwrap_or_else(|| "-".to_owned())]);
        failed += u64::from(*state != done);
        rows.push(json!({
            "rank": rank,
            "action": action,
            "state": state,
            "errored": *state != done,
            "msg": wrong.as_deref().unwrap_or(""),
        }));
    }
    let told = (failed > 0).then(|| format!("{} not {done}", count(failed, "engine", "engines")));
    Answer::new(table.text(), json!({ "results": rows })).with_findings(told)
}

/// Ends engines, the one that is asked last, and waits until their processes have ended.
fn stop_engines(link: &Link, ranks: &[u32]) -> Outcome<Answer> {
    let mut all = engines(link, ranks)?;
    all.sort_by_key(|info| info.rank == link.rank());
    let ending: Vec<(u32, Ending)> = all.iter().map(|info| (info.rank, end(info))).collect();
    let end_ns = stop::deadline_ns(stop::WAIT_SECONDS);
    let mut told: Vec<_> = ending
        .into_iter()
        .map(|(rank, ending)| {
            let (state, why) = ending.seen_by(end_ns);
            (rank, state, why)
        })
        .collect();
    told.sort_by_key(|row| row.0);
    Ok(results("stop", "stopped", &told))
}

/// An engine that was told to end.
enum Ending {
    /// What there is to be told of it now: its state, and why.
    Told(&'static str, Option<String>),
    Process(Process),
    /// Only its address can be seen.
    Elsewhere(Address),
}

/// Tells an engine to end.
fn end(info: &RankInfo) -> Ending {
    let (engine, address) = match find(info) {
        Found::Running(engine, address) => (engine, address),
        Found::Nobody => return Ending::Told("stopped", None),
        Found::Silent(why) => return Ending::Told("unresponsive", Some(why)),
    };
    // Before it is told: a number may soon be another process's.
    let process = Process::at(&address);
    let told = place::head().and_then(|head| Ok(engine.ask_system(&head, &SystemVerb::Stop)?));
    match (told, process) {
        (Ok(_), Some(process)) => Ending::Process(process),
        (Ok(_), None) => Ending::Elsewhere(address),
        // The answer may be lost with the engine.
        (Err(_), Some(process)) if process.ends_by(0) => Ending::Told("stopped", None),
        (Err(error), _) => Ending::Told("joined", Some(access::for_operators(error).to_string())),
    }
}

impl Ending {
    /// What can be told of it once it has ended, or at `end_ns`.
    fn seen_by(self, end_ns: u64) -> (&'static str, Option<String>) {
        const UNSEEN: &str = "nobody listens there any more; from here its process cannot be seen";
        match self {
            Self::Told(state, why) => (state, why),
            Self::Process(process) if process.ends_by(end_ns) => ("stopped", None),
            Self::Process(process) => ("stopping", Some(stop::still_ends(process.pid, stop::WAIT_SECONDS))),
            Self::Elsewhere(address) if stop::is_left_by(&address, end_ns) => {
                ("stopped", Some(UNSEEN.to_owned()))
            }
            Self::Elsewhere(address) => {
                let seconds = stop::WAIT_SECONDS;
                ("stopping", Some(format!("it still listens at {address} after {seconds} s")))
            }
        }
    }
}

/// What is at an engine's addresses.
enum Found {
    /// The engine, and where it was found.
    Running(Link, Address),
    Nobody,
    /// Something, which is not what was looked for, or nothing that can be told from here; why.
    Silent(String),
}

/// Looks for an engine, at sockets of this machine first. That it has ended can be said only if nobody listens at any of its
/// addresses: one that does not answer may be at work on what it holds.
fn find(info: &RankInfo) -> Found {
    let mut silent = info.addresses.is_empty().then(|| "it has no address".to_owned());
    let mut all: Vec<&String> = info.addresses.iter().collect();
    all.sort_by_key(|text| !text.starts_with("unix:"));
    for text in all {
        let why = match reach::address(text) {
            Ok(Some(address)) => match reach::link(&address, &LinkOptions::default()) {
                Ok(link) if link.rank() == info.rank => return Found::Running(link, address),
                Ok(_) => "another engine answers".to_owned(),
                Err(error) if is_nobody(&error) => continue,
                Err(error) => error.to_string(),
            },
            Ok(None) => "this is no address".to_owned(),
            Err(error) => error.to_string(),
        };
        silent = Some(format!("{text}: {why}"));
    }
    silent.map_or(Found::Nobody, Found::Silent)
}

/// Whether the name is missing, or left over by a process that has ended.
fn is_nobody(error: &dolmen_net::Error) -> bool {
    use dolmen_env::{Errno, Error};
    match error {
        dolmen_net::Error::Env(Error::Io { errno, .. }) => *errno == Errno::CONNREFUSED,
        dolmen_net::Error::Env(error) => error.is_not_found(),
        _ => false,
    }
}

/// Engines are processes of their machines: here it can only be said whether they run.
fn start(link: &Link, ranks: &[u32]) -> Outcome<Answer> {
    let wrong = "start it where it is, by `dolmen serve` or `systemctl start dolmen@`";
    let state = |info: &RankInfo| match reach::rank(link, info) {
        Ok(_engine) => (info.rank, "joined", None),
        Err(_silent) => (info.rank, "unresponsive", Some(wrong.to_owned())),
    };
    Ok(results("start", "joined", &engines(link, ranks)?.iter().map(state).collect::<Vec<_>>()))
}
