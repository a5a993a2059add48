//! `dolmen cont`: create, query, list, destroy, get-prop, set-prop, quota, aggregate, snapshot.

pub(crate) mod props;
mod quota;

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, Table, human, pairs};
use crate::path::shown_outside;
use crate::place::{self, ContArg, PoolArg, Session};
use crate::{size, snapshot};
use clap::{Args, Subcommand, ValueEnum};
use core::time::Duration;
use dolmen_client::{ContHandle, ContInfo, Pool, Usage};
use dolmen_codec::Progress;
use dolmen_dfs::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Dfs, FormatOptions};
use dolmen_env::{Clock, RealClock};
use dolmen_local::LocalPool;
use dolmen_types::limits::WINDOW_RECORDS;
use dolmen_types::{Durability, Epoch, Error, ObjectClass, PropId, PropValue, Props, Uuid};
use serde_json::{Value, json};
use std::path::PathBuf;

/// How long the end of a container may take at the most to give its space back.
const FREE_FOR_NS: u64 = 2_000_000_000;
/// How long to rest while a device works for it.
const DEVICE_REST: Duration = Duration::from_millis(1);

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Make a container
    Create(Box<Create>),
    /// Show a container's space, snapshots and properties
    Query(ContArg),
    /// List the containers of a pool
    List(PoolArg),
    /// Remove a container with everything in it, its snapshots too; nothing more is asked
    Destroy(Destroy),
    /// Print properties
    GetProp(GetProp),
    /// Set properties
    SetProp(SetProp),
    /// Show or set what may be used, of all and by user
    Quota(quota::Quota),
    /// Give back what no reader can see any more
    Aggregate(ContArg),
    /// States of a container that are kept
    #[command(subcommand, visible_alias = "snap")]
    Snapshot(snapshot::Command),
}

/// What a container holds.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Files and directories
    Posix,
    /// Objects of an application
    None,
}

/// What an acknowledged write survives.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Survives {
    /// The loss of power
    Power,
    /// The death of the process
    Process,
}

#[derive(Args, Debug)]
pub(crate) struct Create {
    #[command(flatten)]
    pool: PoolArg,
    /// A name for the container
    #[arg(value_name = "LABEL")]
    label: Option<String>,
    /// What the container holds [default: posix]
    #[arg(long = "type", value_enum, ignore_case = true)]
    layout: Option<Layout>,
    /// What an acknowledged write survives [default: power]; with process an fsync waits until all before it survives the loss of power
    #[arg(long, value_enum)]
    durability: Option<Survives>,
    /// Its UUID; drawn if not given
    #[arg(long)]
    uuid: Option<Uuid>,
    /// Chunk of new files [default: 1 MiB, or the pool's bulk segment if that is less]
    #[arg(long, value_name = "SIZE", value_parser = chunk_size())]
    chunk_size: Option<u64>,
    /// Class of new files, S1 to SX [default: SX, all targets; S1 for those that `fs put` stores at once, up to 256 KiB]
    #[arg(long, value_name = "CLASS", value_parser = class)]
    file_class: Option<ObjectClass>,
    /// Class of new directories [default: S1]
    #[arg(long, value_name = "CLASS", value_parser = class)]
    dir_class: Option<ObjectClass>,
    /// More properties, as NAME:VALUE or NAME=VALUE; none that another option says otherwise
    #[arg(long, value_name = "NAME:VALUE", value_delimiter = ',')]
    properties: Vec<String>,
}

impl Create {
    /// Properties of the new container, and whether it gets a file system.
    fn props(&self) -> Outcome<(Props, bool)> {
        let mut props = props::parse(&self.properties)?;
        if let Some(label) = &self.label {
            let given = PropValue::Text(label.clone());
            agree(&props, PropId::CO_LABEL, &given, &format!("LABEL {label}"))?;
        }
        let durability = self.durability.map(|survives| match survives {
            Survives::Power => ("power", Durability::Power),
            Survives::Process => ("process", Durability::Process),
        });
        if let Some((word, number)) = durability {
            let given = PropValue::Number(number as u64);
            agree(&props, PropId::CO_DURABILITY, &given, &format!("--durability {word}"))?;
        }
        let durability = durability.map_or(Durability::Power, |(_, durability)| durability);
        props.entry(PropId::CO_DURABILITY).or_insert(PropValue::Number(durability as u64));
        let layout = self.layout.map(|layout| match layout {
            Layout::Posix => ("posix", dolmen_dfs::LAYOUT_POSIX),
            Layout::None => ("none", 0),
        });
        if let Some((word, number)) = layout {
            let given = PropValue::Number(number);
            agree(&props, PropId::CO_LAYOUT_TYPE, &given, &format!("--type {word}"))?;
        }
        let number = layout.map_or(dolmen_dfs::LAYOUT_POSIX, |(_, number)| number);
        let layout = props.entry(PropId::CO_LAYOUT_TYPE).or_insert(PropValue::Number(number));
        let has_files = *layout == PropValue::Number(dolmen_dfs::LAYOUT_POSIX);
        let of_files = [
            (self.chunk_size.is_some(), "--chunk-size"),
            (self.file_class.is_some(), "--file-class"),
            (self.dir_class.is_some(), "--dir-class"),
        ];
        if let Some((_, option)) = of_files.iter().find(|(is_given, _)| *is_given && !has_files) {
            let given = props::show(PropId::CO_LAYOUT_TYPE, Some(layout));
            let why = format!("{option} is for files, and --type {given} has none");
            return Err(Failure::new(Exit::Usage, why).hint("leave out one of them"));
        }
        Ok((props, has_files))
    }
}

/// Refuses a property that an option says otherwise.
fn agree(props: &Props, id: PropId, given: &PropValue, option: &str) -> Outcome<()> {
    match props.get(&id) {
        Some(other) if other != given => {
            let (name, value) = (props::name(id), props::show(id, Some(other)));
            let why = format!("{option} and --properties {name}:{value} contradict each other");
            Err(Failure::new(Exit::Usage, why).hint("leave out one of them"))
        }
        _ => Ok(()),
    }
}

#[derive(Args, Debug)]
pub(crate) struct Destroy {
    #[command(flatten)]
    cont: ContArg,
    /// Also if it is open somewhere
    #[arg(short, long)]
    force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct GetProp {
    #[command(flatten)]
    cont: ContArg,
    /// Which; all if none is given
    #[arg(value_name = "NAME", value_delimiter = ',')]
    names: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct SetProp {
    #[command(flatten)]
    cont: ContArg,
    /// Properties and their new values, as NAME:VALUE or NAME=VALUE
    #[arg(value_name = "NAME:VALUE", value_delimiter = ',', required = true)]
    values: Vec<String>,
}

/// A parser of how large a chunk is.
pub(crate) fn chunk_size() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    size::between(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)
}

/// The class of this name.
pub(crate) fn class(name: &str) -> Result<ObjectClass, String> {
    ObjectClass::from_name(name)
        .ok_or_else(|| "no such class; there are S1, S2, S4, S6, S8, S12, S16, S32 and SX".to_owned())
}

pub(crate) fn run(command: &Command) -> Outcome<Answer> {
    match command {
        Command::Create(args) => create(args),
        Command::Query(arg) => query(arg),
        Command::List(arg) => list(arg),
        Command::Destroy(args) => destroy(args),
        Command::GetProp(args) => get_prop(args),
        Command::SetProp(args) => set_prop(args),
        Command::Quota(args) => quota::run(args),
        Command::Aggregate(arg) => aggregate(arg),
        Command::Snapshot(command) => snapshot::run(command),
    }
}

fn create(args: &Create) -> Outcome<Answer> {
    let label = args.label.as_deref().map(place::label).transpose()?;
    let (props, has_files) = args.props()?;
    if args.uuid.is_some_and(|uuid| uuid.is_nil()) {
        let failure = Failure::new(Exit::Usage, "--uuid of zeros alone names nothing");
        return Err(failure.hint("choose another UUID, or leave it out to have one drawn"));
    }
    let session = place::open(&args.pool)?;
    let named = args.label.as_deref().unwrap_or("without a label");
    let doing = || format!("create container {named} in {}", shown_outside(session.dir()));
    let chunk_bytes =
        chunk_bytes(args, session.local().map_or(u64::MAX, LocalPool::bulk_segment_bytes)).doing(doing)?;
    let handle = match args.uuid {
        Some(uuid) => session.pool.create_container_as(uuid, label, props),
        None => session.pool.create_container(label, props),
    }
    .map_err(|error| taken_uuid(&session, args, error))
    .doing(doing)?;
    if has_files {
        format_new(&session.pool, &handle, args, chunk_bytes, false).doing(doing)?;
    }
    session.close()?;
    let text = format!("{}  {}", args.label.as_deref().unwrap_or("-"), handle.uuid);
    Ok(Answer::new(text, describe(&handle)))
}

/// A new container, in the words of another command line.
pub(crate) struct Spec<'a> {
    pub(crate) label: Option<&'a str>,
    pub(crate) layout: Layout,
    pub(crate) properties: &'a [String],
    pub(crate) chunk_bytes: Option<u64>,
    pub(crate) file_class: Option<ObjectClass>,
    pub(crate) dir_class: Option<ObjectClass>,
    /// Every mount keeps to what a shared one promises.
    pub(crate) balanced: bool,
    /// Whose it is, and who may use it.
    pub(crate) owned: Props,
}

/// Makes a container in a pool that a daemon has.
pub(crate) fn create_in(pool: &Pool, spec: &Spec<'_>) -> Outcome<Uuid> {
    let args = Create {
        pool: PoolArg::new(PathBuf::new()),
        label: spec.label.map(str::to_owned),
        layout: Some(spec.layout),
        durability: None,
        uuid: None,
        chunk_size: spec.chunk_bytes,
        file_class: spec.file_class,
        dir_class: spec.dir_class,
        properties: spec.properties.to_vec(),
    };
    let label = args.label.as_deref().map(place::label).transpose()?;
    let (mut props, has_files) = args.props()?;
    for (id, value) in &spec.owned {
        props.entry(*id).or_insert_with(|| value.clone());
    }
    let doing = || format!("create container {}", spec.label.unwrap_or("without a label"));
    let chunk_bytes = chunk_bytes(&args, u64::MAX).doing(doing)?;
    let handle = pool.create_container(label, props).doing(doing)?;
    if has_files {
        format_new(pool, &handle, &args, chunk_bytes, spec.balanced).doing(doing)?;
    }
    Ok(handle.uuid)
}

/// Which of the two names of the new container is taken.
fn taken_uuid(session: &Session, args: &Create, error: Error) -> Failure {
    let is_there =
        |uuid: Uuid| session.pool.containers().is_ok_and(|conts| conts.iter().any(|cont| cont.uuid == uuid));
    match (&error, args.uuid) {
        (Error::Exists, Some(uuid)) if is_there(uuid) => {
            Failure::new(Exit::Taken, format!("a container has the UUID {uuid}"))
                .hint("choose another UUID, or none")
        }
        _ => error.into(),
    }
}

/// The chunk of new files: what is written of one at once has to fit into a bulk segment.
fn chunk_bytes(args: &Create, segment_bytes: u64) -> Outcome<u64> {
    let Some(chunk_bytes) = args.chunk_size else {
        return Ok(segment_bytes.min(FormatOptions::default().chunk_bytes));
    };
    // More than a window of a larger chunk is not written at once.
    if chunk_bytes.min(WINDOW_RECORDS) > segment_bytes {
        let (chunk, segment) = (size::exact(chunk_bytes), size::exact(segment_bytes));
        let why = format!("--chunk-size is {chunk}, and a bulk segment of the pool has {segment}");
        return Err(Failure::new(Exit::Usage, why).hint("choose that or less, or leave it out"));
    }
    Ok(chunk_bytes)
}

/// Makes the file system of a new container, which is removed again if that cannot be.
fn format_new(
    pool: &Pool,
    handle: &ContHandle,
    args: &Create,
    chunk_bytes: u64,
    balanced: bool,
) -> Outcome<()> {
    let formatted = format(pool, handle, args, chunk_bytes, balanced);
    if formatted.is_err() {
        let name = dolmen_client::ContName::Uuid(handle.uuid);
        // Ignored: why it could not be made says more than why its remains could not be removed.
        let _removed = pool.destroy_container(&name, true);
    }
    formatted
}

fn format(pool: &Pool, handle: &ContHandle, args: &Create, chunk_bytes: u64, balanced: bool) -> Outcome<()> {
    let cont = pool.open_container(&dolmen_client::ContName::Uuid(handle.uuid))?;
    let owner = place::credentials();
    let defaults = FormatOptions::default();
    let options = FormatOptions {
        chunk_bytes,
        dir_class: args.dir_class.unwrap_or(defaults.dir_class),
        file_class: args.file_class.unwrap_or(defaults.file_class),
        uid: owner.uid,
        gid: owner.gid,
        balanced,
        ..defaults
    };
    Ok(Dfs::format(&cont, &options)?)
}

fn query(arg: &ContArg) -> Outcome<Answer> {
    let session = place::open_to_read(&arg.pool)?;
    let cont = session.container(&arg.cont)?;
    let info = cont.query().doing(|| format!("query container {}", arg.cont))?;
    let quota = cont.quota().ok().filter(|report| !report.limits.is_none());
    drop(cont);
    session.close()?;
    let ContInfo { cont: handle, snapshots, last_snapshot, usage, .. } = &info;
    let last = if *last_snapshot == Epoch::ZERO { "-".to_owned() } else { last_snapshot.to_string() };
    let mut text = pairs(&[
        ("label", handle.label.as_ref().map_or("-".to_owned(), ToString::to_string)),
        ("uuid", handle.uuid.to_string()),
        ("layout", props::show(PropId::CO_LAYOUT_TYPE, handle.props.get(&PropId::CO_LAYOUT_TYPE))),
        ("durability", props::show(PropId::CO_DURABILITY, handle.props.get(&PropId::CO_DURABILITY))),
        ("snapshots", snapshots.to_string()),
        ("last snapshot", last.clone()),
    ]);
    // Kept versions count, too: that is what the container costs.
    text.push_str(&pairs(&[
        ("versions     ", usage.versions.to_string()),
        ("values       ", human(usage.value_bytes)),
        ("space held   ", human(usage.bulk_bytes + usage.small_bytes)),
    ]));
    if let Some(report) = &quota {
        let [(_, bytes), (_, files)] = quota::lines(report);
        text.push_str(&pairs(&[("quota        ", bytes), ("quota, files ", files)]));
    }
    let mut json = describe(handle);
    json["quota"] = quota.as_ref().map_or(Value::Null, quota::to_json);
    json["snapshots"] = json!(snapshots);
    json["last_snapshot"] = if *last_snapshot == Epoch::ZERO { Value::Null } else { json!(last) };
    json["usage"] = usage_json(usage);
    Ok(Answer::new(text, json))
}

fn usage_json(usage: &Usage) -> Value {
    json!({
        "versions": usage.versions,
        "value_bytes": usage.value_bytes,
        "bulk_bytes": usage.bulk_bytes,
        "small_bytes": usage.small_bytes,
    })
}

fn aggregate(arg: &ContArg) -> Outcome<Answer> {
    let session = place::open(&arg.pool)?;
    let cont = session.container(&arg.cont)?;
    let run = || -> dolmen_types::Result<_> {
        let before = cont.query()?.usage;
        let freed = cont.aggregate(Epoch::ZERO)?;
        Ok((before, freed, cont.query()?.usage))
    };
    let (before, freed, after) = run().doing(|| format!("aggregate container {}", arg.cont))?;
    drop(cont);
    session.close()?;
    let held = |usage: &Usage| human(usage.bulk_bytes + usage.small_bytes);
    let text = pairs(&[
        ("versions freed", freed.to_string()),
        ("space before", held(&before)),
        ("space after", held(&after)),
    ]);
    let json = json!({
        "freed_versions": freed,
        "before": usage_json(&before),
        "after": usage_json(&after),
    });
    Ok(Answer::new(text, json))
}

/// A container as JSON.
fn describe(handle: &ContHandle) -> Value {
    json!({
        "uuid": handle.uuid.to_string(),
        "label": handle.label.as_ref().map(ToString::to_string),
        "number": handle.no.0,
        "layout": props::show(PropId::CO_LAYOUT_TYPE, handle.props.get(&PropId::CO_LAYOUT_TYPE)),
        "durability": props::show(PropId::CO_DURABILITY, handle.props.get(&PropId::CO_DURABILITY)),
    })
}

fn list(arg: &PoolArg) -> Outcome<Answer> {
    let session = place::open_to_read(arg)?;
    let conts =
        session.pool.containers().doing(|| format!("list containers of {}", shown_outside(session.dir())))?;
    session.close()?;
    let mut table = Table::new(&["label", "uuid", "layout", "durability"]);
    for cont in &conts {
        table.row([
            cont.label.as_ref().map_or("-".to_owned(), ToString::to_string),
            cont.uuid.to_string(),
            props::show(PropId::CO_LAYOUT_TYPE, cont.props.get(&PropId::CO_LAYOUT_TYPE)),
            props::show(PropId::CO_DURABILITY, cont.props.get(&PropId::CO_DURABILITY)),
        ]);
    }
    let text = if conts.is_empty() { "no containers".to_owned() } else { table.text() };
    Ok(Answer::new(text, conts.iter().map(describe).collect()))
}

fn destroy(args: &Destroy) -> Outcome<Answer> {
    let session = place::open(&args.cont.pool)?;
    let name = place::cont_name(&args.cont.cont)?;
    let doing = || format!("destroy container {} in {}", args.cont.cont, shown_outside(session.dir()));
    match session.pool.destroy_container(&name, args.force) {
        Err(Error::NotFound | Error::NoContainer) => {
            return Err(place::no_container(&args.cont.pool.pool)).doing(doing);
        }
        destroyed => destroyed.map_err(|error| Failure::of_destroy(error, args.force)).doing(doing)?,
    }
    session.close()?;
    free_soon(&args.cont.pool)?;
    Ok(Answer::new(format!("{} is gone", args.cont.cont), json!({ "container": args.cont.cont })))
}

/// Does what gives the space of a destroyed container back, which is background work: all of it in a pool of moderate size,
/// and the rest when the pool is open next and has time. The closing before has told it which containers are gone.
fn free_soon(arg: &PoolArg) -> Outcome<()> {
    let session = place::open(arg)?;
    // A daemon does so by itself.
    let Some(local) = session.local() else { return session.close() };
    let end_ns = RealClock.monotonic_ns() + FREE_FOR_NS;
    while RealClock.monotonic_ns() < end_ns {
        match local.step() {
            Progress::Idle => break,
            Progress::More => {}
            Progress::Waiting => std::thread::park_timeout(DEVICE_REST),
        }
    }
    session.close()
}

fn get_prop(args: &GetProp) -> Outcome<Answer> {
    let wanted = args.names.iter().map(|name| props::id(name)).collect::<Outcome<Vec<PropId>>>()?;
    let session = place::open_to_read(&args.cont.pool)?;
    let cont = session.container(&args.cont.cont)?;
    let found: Props = cont.props(&wanted).doing(|| format!("read properties of {}", args.cont.cont))?;
    drop(cont);
    session.close()?;
    let rows: Vec<(&str, String)> =
        found.iter().map(|(id, value)| (props::name(*id), props::show(*id, Some(value)))).collect();
    let json: serde_json::Map<String, Value> =
        found.iter().map(|(id, value)| (props::name(*id).to_owned(), props::to_json(*id, value))).collect();
    let is_daos = |id: &PropId| *id == PropId::CO_CSUM || *id == PropId::CO_CSUM_CHUNK_SIZE;
    let mut text = pairs(&rows);
    if found.keys().any(is_daos) {
        text.push_str(
            "every stored byte has a checksum: cksum and cksum_size are kept for clients of DAOS\n",
        );
    }
    Ok(Answer::new(text, Value::Object(json)))
}

fn set_prop(args: &SetProp) -> Outcome<Answer> {
    let doing = || format!("set {} of container {}", args.values.join(", "), args.cont.cont);
    let values = props::parse_change(&args.values).doing(doing)?;
    let session = place::open(&args.cont.pool)?;
    let cont = session.container(&args.cont.cont)?;
    cont.set_props(&values).doing(doing)?;
    drop(cont);
    session.close()?;
    let json: serde_json::Map<String, Value> =
        values.iter().map(|(id, value)| (props::name(*id).to_owned(), props::to_json(*id, value))).collect();
    Ok(Answer::new(String::new(), Value::Object(json)))
}
