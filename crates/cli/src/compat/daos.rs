//! `daos`: pools as their users see them, and containers.

use super::{PoolArg, SystemArg, dmg, head, open};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, Table, pairs};
use crate::{cont, place};
use clap::{Args, Subcommand};
use dolmen_client::{ContInfo, Container};
use dolmen_codec::wire::PoolAccess;
use dolmen_net::client::{Link, reach};
use dolmen_types::{Epoch, PropId};
use serde_json::{Value, json};

#[derive(Args, Debug)]
pub(crate) struct Daos {
    #[command(flatten)]
    system: SystemArg,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Look at pools
    #[command(subcommand)]
    Pool(Pool),
    /// Containers, with their snapshots and attributes
    #[command(subcommand, visible_alias = "cont")]
    Container(Cont),
    /// The system
    #[command(subcommand)]
    System(System),
    /// Which version the program has
    Version,
}

#[derive(Subcommand, Debug)]
enum System {
    /// Show what it is called
    Query,
}

#[derive(Subcommand, Debug)]
enum Pool {
    /// Show what pools there are
    List,
    /// Show a pool with its space
    Query(PoolArg),
    /// The same as `container list`
    #[command(visible_aliases = ["list-cont", "list-conts"])]
    ListContainers(PoolArg),
}

/// A container, by what it and its pool are called.
#[derive(Args, Debug)]
struct ContArg {
    #[command(flatten)]
    pool: PoolArg,
    /// The container: its label or UUID
    cont: String,
}

#[derive(Subcommand, Debug)]
enum Cont {
    /// Make a container in a pool
    Create(Box<Create>),
    /// Show what containers a pool has
    List(PoolArg),
    /// Show a container with its snapshots and handles
    Query(ContArg),
    /// Remove a container and all that is in it
    Destroy {
        #[command(flatten)]
        cont: ContArg,
        /// Also if it is open somewhere
        #[arg(short, long)]
        force: bool,
    },
    /// Keep the state that a container has now
    CreateSnap {
        #[command(flatten)]
        cont: ContArg,
        /// A name for it
        #[arg(long, short)]
        snap: Option<String>,
    },
    /// List the states that are kept
    #[command(visible_alias = "list-snap")]
    ListSnaps(ContArg),
    /// Give up a state that is kept
    DestroySnap {
        #[command(flatten)]
        cont: ContArg,
        /// Its epoch
        #[arg(long, short)]
        epc: String,
    },
    /// Set attributes, as NAME:VALUE
    SetAttr {
        #[command(flatten)]
        cont: ContArg,
        /// What to set
        #[arg(required = true, value_delimiter = ',')]
        attrs: Vec<String>,
    },
    /// Print an attribute
    GetAttr {
        #[command(flatten)]
        cont: ContArg,
        /// The attribute's name
        attr: String,
    },
    /// List attributes
    #[command(visible_alias = "list-attr")]
    ListAttrs(ContArg),
    /// Remove an attribute
    DelAttr {
        #[command(flatten)]
        cont: ContArg,
        /// Its name
        attr: String,
    },
}

#[derive(Args, Debug)]
struct Create {
    #[command(flatten)]
    pool: PoolArg,
    /// What it is to be called
    label: Option<String>,
    /// What it holds: POSIX, or unknown
    #[arg(long = "type", short, value_name = "TYPE")]
    layout: Option<String>,
    /// Properties, as NAME:VALUE
    #[arg(long, value_name = "NAME:VALUE", value_delimiter = ',')]
    properties: Vec<String>,
    /// Bytes in a chunk of new files
    #[arg(long, short = 'z', value_name = "SIZE")]
    chunk_size: Option<String>,
    /// Object class of new files
    #[arg(long, value_name = "CLASS")]
    file_oclass: Option<String>,
    /// Object class of new directories
    #[arg(long, value_name = "CLASS")]
    dir_oclass: Option<String>,
}

pub(crate) fn run(args: &Daos) -> Outcome<Answer> {
    match &args.command {
        Command::Version => Ok(dmg::version("daos")),
        Command::System(System::Query) => system(&args.system.link_to_any()?),
        Command::Pool(Pool::List) => pools(&args.system.link()?),
        Command::Pool(Pool::Query(arg)) => dmg::query(&args.system.link()?, &arg.pool),
        Command::Pool(Pool::ListContainers(arg)) => list(&args.system.link()?, &arg.pool),
        Command::Container(command) => container(&args.system.link()?, command),
    }
}

fn container(link: &Link, command: &Cont) -> Outcome<Answer> {
    match command {
        Cont::Create(args) => create(link, args),
        Cont::List(arg) => list(link, &arg.pool),
        Cont::Query(arg) => query(link, arg),
        Cont::Destroy { cont, force } => destroy(link, cont, *force),
        Cont::CreateSnap { cont, snap } => create_snap(link, cont, snap.as_deref()),
        Cont::ListSnaps(arg) => snaps(link, arg),
        Cont::DestroySnap { cont, epc } => destroy_snap(link, cont, epc),
        Cont::SetAttr { cont, attrs } => set_attr(link, cont, attrs),
        Cont::GetAttr { cont, attr } => attribute(link, cont, attr),
        Cont::ListAttrs(arg) => attrs(link, arg),
        Cont::DelAttr { cont, attr } => {
            with(link, cont, PoolAccess::ReadWrite, |cont| {
                Ok(cont.remove_attrs(core::slice::from_ref(attr))?)
            })?;
            Ok(Answer::new("", Value::Null))
        }
    }
}

/// Does something with an open container.
fn with<T>(
    link: &Link,
    arg: &ContArg,
    access: PoolAccess,
    body: impl FnOnce(&Container) -> Outcome<T>,
) -> Outcome<T> {
    let doing = || format!("use container {} of pool {}", arg.cont, arg.pool.pool);
    let opened = open(link, &arg.pool.pool, access)?;
    let cont = opened.pool.open_container(&place::cont_name(&arg.cont)?).doing(doing)?;
    body(&cont).doing(doing)
}

fn system(link: &Link) -> Outcome<Answer> {
    let Some(welcome) = link.welcome() else { return Err(place::protocol()) };
    let name = welcome.system;
    Ok(Answer::new(
        name.clone(),
        json!({ "system_name": name, "fabric_provider": "dolmen", "rank_uris": [] }),
    ))
}

fn pools(link: &Link) -> Outcome<Answer> {
    let pools = reach::pools(link, &head()).doing(|| "list pools".to_owned())?;
    let mut table = Table::new(&["label", "uuid"]);
    for pool in &pools {
        let label = pool.label.as_ref().map_or("-".to_owned(), ToString::to_string);
        table.row([label, pool.uuid.to_string()]);
    }
    let all: Vec<Value> = pools
        .iter()
        .map(|pool| json!({ "uuid": pool.uuid.to_string(), "label": pool.label.as_ref().map(ToString::to_string), "svc_reps": [0] }))
        .collect();
    let text = if pools.is_empty() { "no pools".to_owned() } else { table.text() };
    Ok(Answer::new(text, json!({ "status": 0, "pools": all })))
}

fn list(link: &Link, pool: &str) -> Outcome<Answer> {
    let conts = open(link, pool, PoolAccess::ReadOnly)?
        .pool
        .containers()
        .doing(|| format!("list containers of {pool}"))?;
    let mut table = Table::new(&["uuid", "label"]);
    for cont in &conts {
        table.row([cont.uuid.to_string(), cont.label.as_ref().map_or("-".to_owned(), ToString::to_string)]);
    }
    let all: Vec<Value> = conts
        .iter()
        .map(|cont| json!({ "uuid": cont.uuid.to_string(), "label": cont.label.as_ref().map(ToString::to_string) }))
        .collect();
    let text = if conts.is_empty() { "no containers".to_owned() } else { table.text() };
    Ok(Answer::new(text, Value::Array(all)))
}

fn create(link: &Link, args: &Create) -> Outcome<Answer> {
    let layout = match args.layout.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None | Some("unknown") => "none",
        Some("posix") => "posix",
        Some(other) => {
            let failure =
                Failure::new(Exit::Usage, format!("containers of type {other} cannot be made here"));
            return Err(failure.hint("give --type POSIX, or none"));
        }
    };
    let opened = open(link, &args.pool.pool, PoolAccess::ReadWrite)?;
    let spec = cont::Spec {
        label: args.label.as_deref(),
        layout,
        properties: &args.properties,
        chunk_size: args.chunk_size.as_deref(),
        file_class: args.file_oclass.as_deref(),
        dir_class: args.dir_oclass.as_deref(),
    };
    let uuid = cont::create_in(&opened.pool, &spec)?;
    let arg = ContArg { pool: PoolArg { pool: args.pool.pool.clone() }, cont: uuid.to_string() };
    query(link, &arg)
}

fn query(link: &Link, arg: &ContArg) -> Outcome<Answer> {
    let pool = open(link, &arg.pool.pool, PoolAccess::ReadOnly)?.info.map.pool;
    let info = with(link, arg, PoolAccess::ReadOnly, |cont| Ok(cont.query()?))?;
    let label = info.cont.label.as_ref().map(ToString::to_string);
    let text = pairs(&[
        ("container", info.cont.uuid.to_string()),
        ("label", label.clone().unwrap_or_else(|| "-".to_owned())),
        ("type", layout_of(&info).to_owned()),
        ("snapshots", info.snapshots.to_string()),
        ("handles", info.handles.to_string()),
    ]);
    let json = json!({
        "pool_uuid": pool.to_string(),
        "container_uuid": info.cont.uuid.to_string(),
        "container_label": label,
        "latest_snapshot": info.last_snapshot.0,
        "redundancy_factor": 0,
        "num_handles": info.handles,
        "num_snapshots": info.snapshots,
        "container_type": layout_of(&info),
    });
    Ok(Answer::new(text, json))
}

fn layout_of(info: &ContInfo) -> &'static str {
    match info.cont.props.get(&PropId::CO_LAYOUT_TYPE) {
        Some(dolmen_types::PropValue::Number(number)) if *number == dolmen_dfs::LAYOUT_POSIX => "POSIX",
        _ => "unknown",
    }
}

fn destroy(link: &Link, arg: &ContArg, force: bool) -> Outcome<Answer> {
    let opened = open(link, &arg.pool.pool, PoolAccess::ReadWrite)?;
    opened
        .pool
        .destroy_container(&place::cont_name(&arg.cont)?, force)
        .doing(|| format!("destroy container {}", arg.cont))?;
    Ok(Answer::new(format!("{} is gone", arg.cont), Value::Null))
}

fn create_snap(link: &Link, arg: &ContArg, name: Option<&str>) -> Outcome<Answer> {
    let epoch = with(link, arg, PoolAccess::ReadWrite, |cont| Ok(cont.create_snapshot(name)?))?;
    Ok(Answer::new(format!("snapshot {epoch}"), json!({ "epoch": epoch.0, "name": name })))
}

fn snaps(link: &Link, arg: &ContArg) -> Outcome<Answer> {
    let all = with(link, arg, PoolAccess::ReadOnly, |cont| Ok(cont.snapshots()?))?;
    let mut table = Table::new(&["epoch", "name"]);
    for snap in &all {
        table.row([snap.epoch.to_string(), snap.name.clone().unwrap_or_else(|| "-".to_owned())]);
    }
    let json = all.iter().map(|snap| json!({ "epoch": snap.epoch.0, "name": snap.name })).collect();
    Ok(Answer::new(table.text(), json))
}

fn destroy_snap(link: &Link, arg: &ContArg, epoch: &str) -> Outcome<Answer> {
    let missing =
        || Failure::new(Exit::Usage, format!("{epoch} is no epoch")).hint("give one that list-snaps prints");
    let epoch: Epoch = place::parse_epoch(epoch).ok_or_else(missing)?;
    with(link, arg, PoolAccess::ReadWrite, |cont| Ok(cont.destroy_snapshot(epoch)?))?;
    Ok(Answer::new("", Value::Null))
}

fn set_attr(link: &Link, arg: &ContArg, words: &[String]) -> Outcome<Answer> {
    let mut attrs = Vec::with_capacity(words.len());
    for word in words {
        let parts = word.split_once(':');
        let no_value = || Failure::new(Exit::Usage, format!("{word} has no value")).hint("give NAME:VALUE");
        let (name, value) = parts.ok_or_else(no_value)?;
        attrs.push((name.to_owned(), value.as_bytes().to_vec()));
    }
    with(link, arg, PoolAccess::ReadWrite, |cont| Ok(cont.set_attrs(&attrs)?))?;
    Ok(Answer::new("", Value::Null))
}

fn attribute(link: &Link, arg: &ContArg, name: &str) -> Outcome<Answer> {
    let value = with(link, arg, PoolAccess::ReadOnly, |cont| Ok(cont.attr(name)?))?;
    let text = String::from_utf8_lossy(&value).into_owned();
    // As DAOS's tool prints bytes in JSON.
    Ok(Answer::new(text.clone(), json!({ "name": name, "value": text })))
}

fn attrs(link: &Link, arg: &ContArg) -> Outcome<Answer> {
    let names = with(link, arg, PoolAccess::ReadOnly, |cont| Ok(cont.attr_names()?))?;
    let json = names.iter().map(|name| json!({ "name": name })).collect();
    Ok(Answer::new(names.join("\n"), json))
}
