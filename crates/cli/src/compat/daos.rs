//! `daos`: pools as their users see them, and containers.

mod fs;
mod object;
mod props;

use super::access::{self, Entries};
use super::attr::{self, Owner};
use super::{PoolArg, Rest, SystemArg, asking, behind, dmg, open, uns};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, Table, date, human, pairs};
use crate::path::shown_outside;
use crate::{cont, place, size};
use clap::{Args, Subcommand, ValueEnum};
use dolmen_client::{ContInfo, ContName, Container, OpenFor, Whose};
use dolmen_codec::pool::ContHandle;
use dolmen_codec::wire::PoolAccess;
use dolmen_net::client::{Link, reach};
use dolmen_types::{Epoch, Error, ObjectClass, PropId};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct Daos {
    #[command(flatten)]
    system: SystemArg,
    /// For scripts: says no more than without it
    #[arg(long = "debug", hide = true)]
    _debug: bool,
    /// For scripts: some verbs have it themselves
    #[arg(long = "verbose", hide = true)]
    _verbose: bool,
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
    /// Objects of a container
    #[command(subcommand, visible_alias = "obj")]
    Object(object::Command),
    /// Files and directories of a container
    #[command(subcommand, visible_alias = "fs")]
    Filesystem(fs::Command),
    /// What the system is called, and where its engines are
    #[command(subcommand, visible_alias = "sys")]
    System(System),
    /// Look whether client and network are well (not available)
    Health(Rest),
    /// Which version the program has
    Version,
}

#[derive(Subcommand, Debug)]
enum System {
    /// Show what it is called; with -j also where its engines are
    Query,
}

#[derive(Subcommand, Debug)]
enum Pool {
    /// Show what pools there are
    #[command(visible_alias = "ls")]
    List {
        /// For scripts: shows the same
        #[arg(long, short)]
        verbose: bool,
        /// Open none of them: their space is not told
        #[arg(long, short)]
        no_query: bool,
    },
    /// Show a pool with its space
    Query(dmg::Query),
    /// Show the targets that one engine has of a pool, with their space
    QueryTargets(dmg::Targets),
    #[command(flatten)]
    Attr(attr::Verb<PoolArg>),
    /// Print a pool's properties
    GetProp(dmg::props::GetProp),
    /// Test a pool (not available)
    Autotest(Rest),
    /// The same as `container list`
    #[command(visible_aliases = ["list-cont", "list-conts"])]
    ListContainers(ListConts),
}

/// A container, by what it and its pool are called.
#[derive(Args, Debug)]
struct ContArg {
    #[command(flatten)]
    pool: PoolArg,
    /// The container: its label or UUID
    cont: String,
    /// In place of POOL and CONT: a path outside that stands for the container, or lies below such a one
    #[arg(long, short, value_name = "PATH")]
    path: Option<PathBuf>,
}

impl ContArg {
    /// Pool and container, as a command has them.
    fn words(&self) -> [&str; 2] {
        [&self.pool.pool, &self.cont]
    }

    /// A command of DAOS on this container, for whoever reads what to do.
    fn asking(&self, verb: &str) -> String {
        asking("daos", &behind(verb, &self.words()))
    }

    fn new(pool: &str, cont: impl ToString) -> Self {
        Self { pool: PoolArg { pool: pool.to_owned() }, cont: cont.to_string(), path: None }
    }
}

#[derive(Args, Debug)]
struct ListConts {
    #[command(flatten)]
    pool: PoolArg,
    /// For scripts: shows the same
    #[arg(long, short)]
    verbose: bool,
}

#[derive(Subcommand, Debug)]
enum Cont {
    /// Make a container in a pool
    Create(Box<Create>),
    /// Show what containers a pool has
    #[command(visible_alias = "ls")]
    List(ListConts),
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
    #[command(visible_alias = "snap")]
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
    /// Give up a state that is kept, or several
    DestroySnap {
        #[command(flatten)]
        cont: ContArg,
        #[command(flatten)]
        which: Several,
    },
    /// Go back to a state that is kept
    Rollback {
        #[command(flatten)]
        cont: ContArg,
        #[command(flatten)]
        which: Which,
    },
    #[command(flatten)]
    Attr(attr::Verb<ContArg>),
    #[command(flatten)]
    One(One),
    /// List objects
    #[command(visible_alias = "list-obj")]
    ListObjects {
        #[command(flatten)]
        cont: ContArg,
        /// Those that there were at this epoch
        #[arg(long, short)]
        epc: Option<String>,
    },
    /// Audit the pool's targets, which have the container's data
    Check(ContArg),
    /// Copy a container (not available)
    Clone(Rest),
    /// Take a container from who has it open: the caller's own handles, or everybody's
    Evict {
        #[command(flatten)]
        cont: ContArg,
        /// From everybody
        #[arg(long, short)]
        all: bool,
    },
    /// Let a path outside stand for a container
    Link(LinkArg),
    /// Count what a container has (not available)
    Stat(Rest),
}

#[derive(Args, Debug)]
struct LinkArg {
    /// The pool: its label or UUID
    pool: String,
    /// The container: its label or UUID
    cont: String,
    /// The path, which is made: a directory for a container of files, else a file
    #[arg(long, short, value_name = "PATH")]
    path: PathBuf,
}

/// What is kept with a container.
#[derive(Subcommand, Debug)]
enum One {
    /// Print properties; all if none is named
    #[command(visible_alias = "getprop")]
    GetProp {
        #[command(flatten)]
        cont: ContArg,
        /// Their names
        #[arg(value_delimiter = ',')]
        names: Vec<String>,
        /// The same, by an option
        #[arg(long = "properties", value_delimiter = ',', conflicts_with = "names")]
        given: Vec<String>,
    },
    /// Set properties, as NAME:VALUE
    #[command(visible_alias = "setprop")]
    SetProp {
        #[command(flatten)]
        cont: ContArg,
        /// What to set
        #[arg(value_delimiter = ',')]
        values: Vec<String>,
        /// The same, by an option
        #[arg(long = "properties", value_delimiter = ',', conflicts_with = "values")]
        given: Vec<String>,
    },
    /// Show the access control list, the owner and the group
    GetAcl {
        #[command(flatten)]
        cont: ContArg,
        /// Write it to this file, too
        #[arg(long, short = 'O', value_name = "FILE")]
        outfile: Option<PathBuf>,
        /// For scripts: the file is written over anyway
        #[arg(long, short)]
        force: bool,
        /// Say each entry in words, too
        #[arg(long, short, visible_short_alias = 'V')]
        verbose: bool,
    },
    /// Replace the access control list
    #[command(visible_alias = "replace")]
    OverwriteAcl {
        #[command(flatten)]
        cont: ContArg,
        /// File with an entry a line
        #[arg(long, short = 'f', visible_short_alias = 'a', value_name = "FILE")]
        acl_file: PathBuf,
    },
    /// Add entries to the access control list, or replace those of the same principals
    UpdateAcl {
        #[command(flatten)]
        cont: ContArg,
        #[command(flatten)]
        entries: Entries,
    },
    /// Remove an entry of the access control list
    DeleteAcl {
        #[command(flatten)]
        cont: ContArg,
        /// Whose: OWNER@, GROUP@, EVERYONE@, u:NAME@ or g:NAME@
        #[arg(long, short = 'P')]
        principal: String,
    },
    /// Give the container to another user or group
    #[command(visible_alias = "chown")]
    SetOwner {
        #[command(flatten)]
        cont: ContArg,
        /// Name of the user
        #[arg(long, short)]
        user: Option<String>,
        /// Name of the group
        #[arg(long, short)]
        group: Option<String>,
        /// Also if this machine has no user or group of that name
        #[arg(long)]
        no_check: bool,
    },
}

/// Which state is meant.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Which {
    /// Its epoch
    #[arg(long, short)]
    epc: Option<String>,
    /// Its name
    #[arg(long, short)]
    snap: Option<String>,
}

/// Which states are meant.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Several {
    /// Its epoch
    #[arg(long, short)]
    epc: Option<String>,
    /// Its name
    #[arg(long, short)]
    snap: Option<String>,
    /// All from one epoch to another, with both, as BEGIN-END
    #[arg(long, short = 'r', value_name = "RANGE", value_parser = epoch_range)]
    epcrange: Option<(Epoch, Epoch)>,
}

fn epoch_range(text: &str) -> Result<(Epoch, Epoch), String> {
    let ends = text.split_once('-').map(|(from, to)| (place::parse_epoch(from), place::parse_epoch(to)));
    match ends {
        Some((Some(from), Some(to))) if from <= to => Ok((from, to)),
        Some((Some(_), Some(_))) => Err("the first epoch is newer than the second".to_owned()),
        _ => Err("give BEGIN-END, with epochs that list-snaps prints".to_owned()),
    }
}

#[derive(Args, Debug)]
struct Create {
    #[command(flatten)]
    pool: PoolArg,
    /// What it is to be called
    label: Option<String>,
    /// The same, as DAOS 2.0 has it
    #[arg(long = "label", short = 'l', value_name = "LABEL", hide = true, conflicts_with = "label")]
    called: Option<String>,
    /// What it holds: POSIX, or unknown
    #[arg(long = "type", short = 't', value_name = "TYPE")]
    layout: Option<String>,
    /// Properties, as NAME:VALUE
    #[arg(long, value_name = "NAME:VALUE", value_delimiter = ',')]
    properties: Vec<String>,
    /// File with an access control list, an entry a line
    #[arg(long, short = 'A', value_name = "FILE")]
    acl_file: Option<PathBuf>,
    /// User attributes, as NAME:VALUE
    #[arg(long, short, value_name = "NAME:VALUE")]
    attrs: Vec<String>,
    /// Name of the owning user [default: the caller]
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,
    /// Name of the owning group [default: the caller's]
    #[arg(long, short, value_name = "GROUP")]
    group: Option<String>,
    /// A path outside, which is made and stands for the container from then on: a directory for files, else a file
    #[arg(long, short, value_name = "PATH")]
    path: Option<PathBuf>,
    /// What files and directories will be like, such as file:single,dir:max; one that a class is named for goes by that
    #[arg(long, short = 'H', value_name = "HINTS", value_parser = hints)]
    hints: Option<Hints>,
    /// How mounts keep to each other: relaxed, or all of them balanced [default: relaxed]
    #[arg(long, short = 'M', value_enum, ignore_case = true)]
    mode: Option<Mode>,
    /// Object class of files and directories
    #[arg(long, short, value_name = "CLASS", conflicts_with_all = ["file_oclass", "dir_oclass"], value_parser = cont::class)]
    oclass: Option<ObjectClass>,
    /// Bytes in a chunk of new files
    #[arg(long, short = 'z', value_name = "SIZE", value_parser = size::daos(dolmen_dfs::CHUNK_BYTES_MIN, dolmen_dfs::CHUNK_BYTES_MAX))]
    chunk_size: Option<u64>,
    /// Object class of new files
    #[arg(long, short, value_name = "CLASS", value_parser = cont::class)]
    file_oclass: Option<ObjectClass>,
    /// Object class of new directories
    #[arg(long, short, value_name = "CLASS", value_parser = cont::class)]
    dir_oclass: Option<ObjectClass>,
}

/// What every mount of a container keeps to.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Each mount says for itself
    Relaxed,
    /// What others have done is seen at once
    Balanced,
}

/// The classes that hints ask for: of files, of directories; `UNKNOWN` for what they are silent about.
type Hints = (ObjectClass, ObjectClass);

fn hints(text: &str) -> Result<Hints, String> {
    dolmen_dfs::classes_of_hints(text).ok_or_else(|| {
        "give file:single, file:max, dir:single or dir:max, or two of them with a comma".to_owned()
    })
}

impl Create {
    /// The class of new files, and that of new directories.
    fn classes(&self) -> (Option<ObjectClass>, Option<ObjectClass>) {
        let (files, dirs) = self.hints.unwrap_or((ObjectClass::UNKNOWN, ObjectClass::UNKNOWN));
        let first = |asked: Option<ObjectClass>, hint: ObjectClass| {
            asked.or(self.oclass).or((hint != ObjectClass::UNKNOWN).then_some(hint))
        };
        (first(self.file_oclass, files), first(self.dir_oclass, dirs))
    }

    /// What the container holds; refuses options of files where there are none.
    fn layout(&self) -> Outcome<cont::Layout> {
        let is = |name: &str, named: &str| named.eq_ignore_ascii_case(name);
        let layout = match self.layout.as_deref() {
            None => cont::Layout::None,
            Some(named) if is("unknown", named) => cont::Layout::None,
            Some(named) if is("posix", named) => return Ok(cont::Layout::Posix),
            Some(named) => {
                let failure =
                    Failure::new(Exit::Usage, format!("containers of type {named} cannot be made here"));
                return Err(failure.hint("give --type POSIX, or none"));
            }
        };
        let of_files = [
            (self.oclass.is_some(), "--oclass"),
            (self.file_oclass.is_some(), "--file-oclass"),
            (self.dir_oclass.is_some(), "--dir-oclass"),
            (self.chunk_size.is_some(), "--chunk-size"),
            (self.hints.is_some(), "--hints"),
            (self.mode.is_some(), "--mode"),
        ];
        match of_files.iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => {
                let why = format!("{option} is for files, and a container without --type POSIX has none");
                Err(Failure::new(Exit::Usage, why).hint(format!("add --type POSIX, or leave out {option}")))
            }
            None => Ok(layout),
        }
    }
}

pub(crate) fn run(args: &Daos) -> Outcome<Answer> {
    match &args.command {
        Command::Health(_) => Err(Failure::absent(
            "daos health",
            "`daos system query` and `daos pool query` say what answers, `dolmen bench object` how fast",
        )),
        Command::Version => Ok(dmg::version("daos")),
        Command::System(System::Query) => system(&args.system.link_to_any()?, &args.system),
        Command::Pool(command) => pool(&args.system, command),
        Command::Container(command) => container(&args.system, command),
        Command::Object(command) => object::run(&args.system.link()?, command),
        Command::Filesystem(command) => fs::run(&args.system.link()?, command),
    }
}

fn pool(system: &SystemArg, command: &Pool) -> Outcome<Answer> {
    match command {
        Pool::List { no_query, .. } => pools(&system.link()?, !*no_query),
        Pool::Query(args) => dmg::query(&system.link()?, args),
        Pool::QueryTargets(args) => dmg::targets(&system.link()?, args),
        Pool::ListContainers(arg) => list(&system.link()?, &arg.pool.pool),
        Pool::Attr(verb) => {
            let pool = &verb.of().pool;
            let opened = open(&system.link()?, pool, verb.access())?;
            let lists = asking("daos", &behind("pool list-attrs", &[pool]));
            verb.run(Owner::Pool(&opened.pool), &lists).doing(|| format!("use pool {pool}"))
        }
        Pool::GetProp(args) => dmg::props::show(&system.link()?, args),
        Pool::Autotest(_) => Err(Failure::absent("daos pool autotest", "use `dolmen bench object`")),
    }
}

fn container(system: &SystemArg, command: &Cont) -> Outcome<Answer> {
    let link = || system.link();
    match command {
        Cont::Create(args) => create(&link()?, args),
        Cont::List(arg) => list(&link()?, &arg.pool.pool),
        Cont::Query(arg) => query(&link()?, arg),
        Cont::Destroy { cont, force } => destroy(&link()?, cont, *force),
        Cont::CreateSnap { cont, snap } => create_snap(&link()?, cont, snap.as_deref()),
        Cont::ListSnaps(arg) => snaps(&link()?, arg),
        Cont::DestroySnap { cont, which } => destroy_snap(&link()?, cont, which),
        Cont::Rollback { cont, which } => rollback(&link()?, cont, which),
        Cont::ListObjects { cont, epc } => {
            let at = epc.as_deref().map(epoch_of).transpose()?;
            with(&link()?, cont, PoolAccess::ReadOnly, |cont| object::list(cont, at))
        }
        Cont::Check(arg) => check(&link()?, arg),
        Cont::Clone(_) => Err(Failure::absent("daos cont clone", "copy with `dolmen fs get` and `fs put`")),
        Cont::Evict { cont, all } => evict(&link()?, cont, *all),
        Cont::Link(arg) => link_path(&link()?, arg),
        Cont::Stat(_) => {
            Err(Failure::absent("daos cont stat", "see `daos cont query` and `dolmen cont query`"))
        }
        Cont::Attr(verb) => with(&link()?, verb.of(), verb.access(), |cont| {
            verb.run(Owner::Cont(cont), &verb.of().asking("cont list-attrs"))
        }),
        Cont::One(verb) => one(&link()?, verb),
    }
}

/// Attributes, properties, owners and lists of one container.
fn one(link: &Link, command: &One) -> Outcome<Answer> {
    let read = |arg: &ContArg, perm, body: &dyn Fn(&Container) -> Outcome<Answer>| {
        with_perm(link, arg, PoolAccess::ReadOnly, perm, body)
    };
    let write = |arg: &ContArg, perm, body: &dyn Fn(&Container) -> Outcome<Answer>| {
        with_perm(link, arg, PoolAccess::ReadWrite, perm, body)
    };
    match command {
        One::GetProp { cont: arg, names, given } => {
            let lists = arg.asking("cont get-prop");
            read(arg, 't', &|cont| props::get(cont, if given.is_empty() { names } else { given }, &lists))
        }
        One::SetProp { cont, values, given } => {
            write(cont, 'T', &|cont| props::set(cont, if given.is_empty() { values } else { given }))
        }
        One::GetAcl { cont, outfile, verbose, .. } => {
            read(cont, 'a', &|cont| access::get(Owner::Cont(cont), outfile.as_deref(), *verbose))
        }
        One::OverwriteAcl { cont, acl_file } => {
            write(cont, 'A', &|cont| access::overwrite(Owner::Cont(cont), acl_file))
        }
        One::UpdateAcl { cont, entries } => write(cont, 'A', &|cont| {
            access::update(Owner::Cont(cont), entries.acl_file.as_deref(), entries.entry.as_deref())
        }),
        One::DeleteAcl { cont: arg, principal } => {
            let shows = arg.asking("cont get-acl");
            write(arg, 'A', &|cont| access::delete(Owner::Cont(cont), principal, &shows))
        }
        One::SetOwner { cont, user, group, no_check } => write(cont, 'o', &|cont| {
            let named = access::Named { user: user.as_deref(), group: group.as_deref(), no_check: *no_check };
            access::set_owner(Owner::Cont(cont), &named)
        }),
    }
}

/// Does something with an open container.
fn with<T>(
    link: &Link,
    arg: &ContArg,
    access: PoolAccess,
    body: impl FnOnce(&Container) -> Outcome<T>,
) -> Outcome<T> {
    let perm = if access == PoolAccess::ReadOnly { 'r' } else { 'w' };
    with_perm(link, arg, access, perm, body)
}

/// The same with something that needs another permission than to read or to write.
fn with_perm<T>(
    link: &Link,
    arg: &ContArg,
    access: PoolAccess,
    perm: char,
    body: impl FnOnce(&Container) -> Outcome<T>,
) -> Outcome<T> {
    with_opened(link, arg, access, perm, |pool, name| pool.open_container(name), body)
}

/// The same with a container that is opened in another way than others are.
fn with_opened<T>(
    link: &Link,
    arg: &ContArg,
    access: PoolAccess,
    perm: char,
    open_it: impl FnOnce(&dolmen_client::Pool, &ContName) -> Result<Container, Error>,
    body: impl FnOnce(&Container) -> Outcome<T>,
) -> Outcome<T> {
    let refused = |failure, perm| access::refused(failure, &arg.pool.pool, Some(&arg.cont), perm);
    let doing = || format!("use container {} of pool {}", arg.cont, arg.pool.pool);
    let opened = open(link, &arg.pool.pool, access)?;
    let cont = match open_it(&opened.pool, &place::cont_name(&arg.cont)?) {
        Err(Error::NotFound | Error::NoContainer) => return Err(no_container(arg)).doing(doing),
        Err(error @ Error::Busy) => return Err(others_have_it(error, arg)).doing(doing),
        cont => cont.map_err(|error| refused(error.into(), 'r')).doing(doing)?,
    };
    body(&cont).map_err(|failure| refused(failure, perm)).doing(doing)
}

/// It is to be had alone, or somebody has it so.
fn others_have_it(error: Error, arg: &ContArg) -> Failure {
    let evict = arg.asking("cont evict --all");
    Failure::from(error)
        .because("others have the container open")
        .hint(format!("end programs and mounts that use it, or take it from them with `{evict}`"))
}

/// The label of a container that has none.
//= daos:src/include/daos_prop.h DAOS_PROP_CO_LABEL default
const NO_LABEL: &str = "container_label_not_set";

fn no_container(arg: &ContArg) -> Failure {
    let list = asking("daos", &behind("cont list", &[&arg.pool.pool]));
    Failure::new(Exit::Missing, "there is no such container").hint(format!("see `{list}`"))
}

/// The administrator's way to give a container to somebody else.
pub(super) fn set_owner(link: &Link, args: &dmg::SetOwner) -> Outcome<Answer> {
    let (pool, cont) = args.names();
    let arg = ContArg::new(pool, cont);
    with(link, &arg, PoolAccess::ReadWrite, |cont| {
        let named =
            access::Named { user: args.user.as_deref(), group: args.group.as_deref(), no_check: false };
        access::set_owner(Owner::Cont(cont), &named)
    })
}

fn system(link: &Link, asked: &SystemArg) -> Outcome<Answer> {
    let Some(welcome) = link.welcome() else { return Err(place::protocol()) };
    // One that was given no name is called as who asked has found it: by that he finds it again.
    let name = match asked.meant()?.filter(|_| welcome.system == dolmen_daemon::UNNAMED) {
        Some(name) => name,
        None => welcome.system,
    };
    let engines = dmg::engines(link, &[])?;
    let uris: Vec<Value> = engines
        .iter()
        .map(|engine| json!({ "rank": engine.rank, "uri": engine.addresses.first() }))
        .collect();
    Ok(Answer::new(
        name.clone(),
        json!({
            "system_name": name,
            "fabric_provider": "dolmen",
            "agent_path": "",
            "rank_uris": uris,
            "access_point_rank_uris": uris,
        }),
    ))
}

fn pools(link: &Link, are_queried: bool) -> Outcome<Answer> {
    let pools = reach::pools(link, &place::head()?).doing(|| "list pools".to_owned())?;
    let mut table = Table::new(&["label", "uuid"]);
    for pool in &pools {
        let label = pool.label.as_ref().map_or("-".to_owned(), ToString::to_string);
        table.row([label, pool.uuid.to_string()]);
    }
    let all: Vec<Value> = pools.iter().map(|pool| dmg::listed(link, pool, are_queried).0).collect();
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
        .map(|cont| {
            let label = cont.label.as_ref().map_or(NO_LABEL.to_owned(), ToString::to_string);
            json!({ "uuid": cont.uuid.to_string(), "label": label })
        })
        .collect();
    let text = if conts.is_empty() { "no containers".to_owned() } else { table.text() };
    Ok(Answer::new(text, Value::Array(all)))
}

fn create(link: &Link, args: &Create) -> Outcome<Answer> {
    let layout = args.layout()?;
    let attrs = attr::parsed(&args.attrs)?;
    let mut owned = access::owner_props(args.user.as_deref(), args.group.as_deref())?;
    if let Some(file) = &args.acl_file {
        owned.extend(access::file_prop(file)?);
    }
    let opened = open(link, &args.pool.pool, PoolAccess::ReadWrite)?;
    let (file_class, dir_class) = args.classes();
    let spec = cont::Spec {
        label: args.label.as_deref().or(args.called.as_deref()),
        layout,
        properties: &args.properties,
        chunk_bytes: args.chunk_size,
        file_class,
        dir_class,
        balanced: args.mode == Some(Mode::Balanced),
        owned,
    };
    let refused = |failure| access::refused(failure, &args.pool.pool, None, 'c');
    let uuid = cont::create_in(&opened.pool, &spec).map_err(refused)?;
    let arg = ContArg::new(&args.pool.pool, uuid);
    let finish = || -> Outcome<()> {
        if !attrs.is_empty() {
            with(link, &arg, PoolAccess::ReadWrite, |cont| Ok(Owner::Cont(cont).set(&attrs)?))?;
        }
        match &args.path {
            Some(path) => uns::make(path, opened.info.map.pool, uuid, layout == cont::Layout::Posix),
            None => Ok(()),
        }
    };
    if let Err(failure) = finish() {
        // Ignored: why it is not as it was asked for says more than why its remains could not be removed.
        let _removed = opened.pool.destroy_container(&dolmen_client::ContName::Uuid(uuid), true);
        return Err(failure);
    }
    query(link, &arg)
}

/// Makes a path that stands for a container that there is.
fn link_path(link: &Link, arg: &LinkArg) -> Outcome<Answer> {
    let pool = open(link, &arg.pool, PoolAccess::ReadOnly)?.info.map.pool;
    let named = ContArg::new(&arg.pool, &arg.cont);
    let info = with(link, &named, PoolAccess::ReadOnly, |cont| Ok(cont.query()?))?;
    uns::make(&arg.path, pool, info.cont.uuid, layout_of(&info) == POSIX)?;
    Ok(Answer::new(format!("{} stands for {}", shown_outside(&arg.path), arg.cont), Value::Null))
}

fn query(link: &Link, arg: &ContArg) -> Outcome<Answer> {
    let opened = open(link, &arg.pool.pool, PoolAccess::ReadOnly)?;
    let pool = opened.info.map.pool;
    // When it was opened and closed before it is opened here.
    let dated = opened.pool.containers().doing(|| format!("list the containers of {}", arg.pool.pool))?;
    let (info, superblock) = with(link, arg, PoolAccess::ReadOnly, |cont| {
        let info = cont.query()?;
        // Ignored: what a container of files was made with is told if it can be read.
        let superblock =
            (layout_of(&info) == POSIX).then(|| place::mount(cont, &arg.cont, true).ok()).flatten();
        Ok((info, superblock.map(|dfs| dfs.superblock())))
    })?;
    let label = info.cont.label.as_ref().map(ToString::to_string);
    let mut rows = vec![
        ("container", info.cont.uuid.to_string()),
        ("label", label.clone().unwrap_or_else(|| "-".to_owned())),
        ("type", layout_of(&info).to_owned()),
        ("pool", pool.to_string()),
        ("snapshots", info.snapshots.to_string()),
        ("handles", info.handles.to_string()),
    ];
    let known = dated.iter().find(|cont| cont.uuid == info.cont.uuid).unwrap_or(&info.cont);
    let (open_time, change_time) = (time_of(known, PropId::CO_OPENED), time_of(known, PropId::CO_CHANGED));
    for (name, time) in [("opened last", open_time), ("changed or closed last", change_time)] {
        let seconds = i64::try_from(Epoch(time).unix_ns() / 1_000_000_000).unwrap_or(0);
        rows.push((name, if time == 0 { "-".to_owned() } else { format!("{} UTC", date(seconds)) }));
    }
    let mut json = json!({
        "pool_uuid": pool.to_string(),
        "container_uuid": info.cont.uuid.to_string(),
        "open_time": open_time,
        "close_modify_time": change_time,
        "latest_snapshot": info.last_snapshot.0,
        "redundancy_factor": 0,
        "num_handles": info.handles,
        "num_snapshots": info.snapshots,
        "container_type": layout_of(&info),
        "health": "HEALTHY",
    });
    if let Some(label) = label {
        json["container_label"] = json!(label);
    }
    if let Some(superblock) = superblock {
        let class = |class: ObjectClass| {
            if class == ObjectClass::UNKNOWN { "UNKNOWN".to_owned() } else { class.to_string() }
        };
        let (dirs, files) = (class(superblock.dir_class), class(superblock.file_class));
        for (name, class, text) in [
            ("class of directories", superblock.dir_class, &dirs),
            ("class of files", superblock.file_class, &files),
        ] {
            if class != ObjectClass::UNKNOWN {
                rows.push((name, text.clone()));
            }
        }
        rows.push(("chunk", human(superblock.chunk_bytes)));
        json["object_class"] = json!("UNKNOWN");
        json["dir_object_class"] = json!(dirs);
        json["file_object_class"] = json!(files);
        json["chunk_size"] = json!(superblock.chunk_bytes);
        json["cons_mode"] = json!(if superblock.balanced { BALANCED } else { 0 });
    }
    Ok(Answer::new(pairs(&rows), json))
}

/// What DAOS calls containers of files, and the number of a mode that all mounts keep to.
//= daos:src/include/daos_fs.h DFS_BALANCED
const POSIX: &str = "POSIX";
const BALANCED: u32 = 4;

/// An epoch that the service tells of a container; 0 if there was nothing of the kind, or the service is older.
fn time_of(cont: &ContHandle, id: PropId) -> u64 {
    match cont.props.get(&id) {
        Some(dolmen_types::PropValue::Number(epoch)) => *epoch,
        _ => 0,
    }
}

fn layout_of(info: &ContInfo) -> &'static str {
    match info.cont.props.get(&PropId::CO_LAYOUT_TYPE) {
        Some(dolmen_types::PropValue::Number(number)) if *number == dolmen_dfs::LAYOUT_POSIX => POSIX,
        _ => "unknown",
    }
}

fn destroy(link: &Link, arg: &ContArg, force: bool) -> Outcome<Answer> {
    let opened = open(link, &arg.pool.pool, PoolAccess::ReadWrite)?;
    let failed = |error| match error {
        Error::NotFound | Error::NoContainer => no_container(arg),
        error => {
            let failure = Failure::of_destroy(error, force);
            access::refused(failure, &arg.pool.pool, Some(&arg.cont), 'd')
        }
    };
    let destroyed = opened.pool.destroy_container(&place::cont_name(&arg.cont)?, force).map_err(failed);
    destroyed.doing(|| format!("destroy container {} of pool {}", arg.cont, arg.pool.pool))?;
    if let Some(path) = &arg.path {
        uns::remove(path)?;
    }
    Ok(Answer::new(format!("{} is gone", arg.cont), Value::Null))
}

/// Ends handles; whoever has one is told so by his next request.
fn evict(link: &Link, arg: &ContArg, all: bool) -> Outcome<Answer> {
    let (whose, perm) = if all { (Whose::All, 'd') } else { (Whose::Own, 'r') };
    let text =
        if all { "everybody who had it open" } else { "whichever of your other processes had it open" };
    // Also from who has it alone.
    let open_it = |pool: &dolmen_client::Pool, name: &ContName| match pool.open_container(name) {
        Err(Error::Busy) => pool.open_container_for(name, OpenFor::Evicting),
        other => other,
    };
    with_opened(link, arg, PoolAccess::ReadWrite, perm, open_it, |cont| Ok(cont.evict_others(whose)?))?;
    Ok(Answer::new(format!("{} was taken from {text}", arg.cont), Value::Null))
}

fn create_snap(link: &Link, arg: &ContArg, name: Option<&str>) -> Outcome<Answer> {
    let (epoch, hidden) = with(link, arg, PoolAccess::ReadWrite, |cont| {
        let hidden = name.filter(|name| !place::is_shown_in_mounts(cont, name));
        Ok((cont.create_snapshot(name)?, hidden))
    })?;
    if let Some(name) = hidden {
        let name = dolmen_types::shown(name.as_bytes());
        dolmen_env::say(&format!(
            "dolmen: `.snapshots` of a mount does not show {name}, which no file can be called; `dolmen mount --snapshot` does"
        ));
    }
    let text = format!("snapshot {epoch} ({})", timestamp(epoch));
    Ok(Answer::new(text, snap_json(epoch, name)))
}

fn snap_json(epoch: Epoch, name: Option<&str>) -> Value {
    let mut json = json!({ "epoch": epoch.0, "timestamp": timestamp(epoch) });
    if let Some(name) = name {
        json["name"] = json!(name);
    }
    json
}

/// When an epoch was, as DAOS's tools write times.
fn timestamp(epoch: Epoch) -> String {
    let unix_ms = epoch.unix_ns() / 1_000_000;
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    format!("{}.{:03}+00:00", date(seconds).replace(' ', "T"), unix_ms % 1000)
}

fn snaps(link: &Link, arg: &ContArg) -> Outcome<Answer> {
    let all = with(link, arg, PoolAccess::ReadOnly, |cont| Ok(cont.snapshots()?))?;
    let mut table = Table::new(&["epoch", "time", "name"]);
    for snap in &all {
        let name = snap.name.clone().unwrap_or_else(|| "-".to_owned());
        table.row([snap.epoch.to_string(), timestamp(snap.epoch), name]);
    }
    let json = all.iter().map(|snap| snap_json(snap.epoch, snap.name.as_deref())).collect();
    Ok(Answer::new(table.text(), json))
}

fn destroy_snap(link: &Link, arg: &ContArg, which: &Several) -> Outcome<Answer> {
    let epoch = which.epc.as_deref().map(epoch_of).transpose()?;
    let (from, to) = which.epcrange.or(epoch.map(|epoch| (epoch, epoch))).unwrap_or((Epoch(1), Epoch::ZERO));
    let name = which.snap.as_deref();
    let gone = with(link, arg, PoolAccess::ReadWrite, |cont| {
        let is_meant = |snap: &dolmen_client::Snapshot| {
            (from..=to).contains(&snap.epoch) || name.is_some() && snap.name.as_deref() == name
        };
        let mut gone = Vec::new();
        for snap in cont.snapshots()?.iter().filter(|snap| is_meant(snap)) {
            match cont.destroy_snapshot(snap.epoch) {
                // Somebody else was faster.
                Err(Error::NotFound) => {}
                done => gone.push((snap.epoch, done?)),
            }
        }
        Ok(gone.into_iter().map(|(epoch, ())| epoch).collect::<Vec<Epoch>>())
    })?;
    let what = name.map(str::to_owned).or(epoch.map(|epoch| epoch.to_string()));
    if gone.is_empty() {
        return Err(no_snapshot(arg, &what.unwrap_or(format!("from {from} to {to}"))));
    }
    let text = gone.iter().map(|epoch| format!("snapshot {epoch} is gone\n")).collect::<String>();
    Ok(Answer::new(text, json!(gone.iter().map(|epoch| epoch.0).collect::<Vec<u64>>())))
}

fn epoch_of(text: &str) -> Outcome<Epoch> {
    let wrong =
        || Failure::new(Exit::Usage, format!("{text} is no epoch")).hint("give one that list-snaps prints");
    place::parse_epoch(text).ok_or_else(wrong)
}

fn no_snapshot(arg: &ContArg, what: &str) -> Failure {
    let list = arg.asking("cont list-snaps");
    Failure::new(Exit::Missing, format!("there is no snapshot {what}")).hint(format!("see `{list}`"))
}

fn rollback(link: &Link, arg: &ContArg, which: &Which) -> Outcome<Answer> {
    let epoch = which.epc.as_deref().map(epoch_of).transpose()?;
    let named = which.snap.as_deref();
    with(link, arg, PoolAccess::ReadWrite, |cont| {
        let all = cont.snapshots()?;
        let is_meant = |snap: &&dolmen_client::Snapshot| {
            Some(snap.epoch) == epoch || named.is_some() && snap.name.as_deref() == named
        };
        let what = named.or(which.epc.as_deref()).unwrap_or("-");
        let snap = all.iter().find(is_meant).ok_or_else(|| no_snapshot(arg, what))?;
        cont.rollback(snap.epoch)?;
        Ok(Answer::new(format!("as it was at {}", snap.epoch), json!({ "epoch": snap.epoch.0 })))
    })
}

fn check(link: &Link, arg: &ContArg) -> Outcome<Answer> {
    let doing = || format!("check container {} of pool {}", arg.cont, arg.pool.pool);
    let opened = open(link, &arg.pool.pool, PoolAccess::ReadOnly)?;
    opened.pool.open_container(&place::cont_name(&arg.cont)?).doing(doing)?;
    let audits = opened.pool.check().doing(doing)?;
    let findings: u64 = audits.iter().map(|audit| audit.findings.len() as u64).sum();
    let json = json!({ "targets": audits.len(), "findings": findings });
    let answer = Answer::new(format!("{} targets: {findings} findings", audits.len()), json);
    Ok(answer.with_findings((findings > 0).then(|| format!("{findings} findings"))))
}
