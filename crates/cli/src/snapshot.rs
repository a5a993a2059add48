//! `dolmen cont snapshot`: create, list, diff, rollback, destroy.

use crate::diff;
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, Table, date};
use crate::path::word;
use crate::place::{self, ContArg};
use clap::{Args, Subcommand};
use dolmen_client::{Container, Snapshot};
use dolmen_types::{Epoch, Uuid, limits};
use serde_json::{Value, json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Keep the state of now
    Create(Create),
    /// List snapshots by epoch
    List(ContArg),
    /// Show what changed between a snapshot and another one, or now
    Diff(Diff),
    /// Return the container to a snapshot
    Rollback(Named),
    /// No longer keep a snapshot; one that is mounted on this machine, and not only looked at in .snapshots, is kept without --force
    Destroy(Destroy),
}

#[derive(Args, Debug)]
pub(crate) struct Create {
    #[command(flatten)]
    cont: ContArg,
    /// A name for the snapshot
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Named {
    #[command(flatten)]
    cont: ContArg,
    /// Snapshot: its name or epoch
    #[arg(value_name = "SNAP")]
    snapshot: String,
}

#[derive(Args, Debug)]
pub(crate) struct Destroy {
    #[command(flatten)]
    named: Named,
    /// Also one that is mounted: its files are ESTALE then, as soon as their state is dropped
    #[arg(long)]
    force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Diff {
    #[command(flatten)]
    cont: ContArg,
    /// The older state: a snapshot's name or epoch
    #[arg(value_name = "FROM")]
    from: String,
    /// The newer state; now if not given
    #[arg(value_name = "TO")]
    to: Option<String>,
    /// Show objects and keys, also for a container of files
    #[arg(long)]
    objects: bool,
}

pub(crate) fn run(command: &Command) -> Outcome<Answer> {
    match command {
        Command::Create(args) => create(args),
        Command::List(arg) => list(arg),
        Command::Diff(args) => show_diff(args),
        Command::Rollback(args) => rollback(args),
        Command::Destroy(args) => destroy(args),
    }
}

fn when(epoch: Epoch) -> String {
    date(i64::try_from(epoch.unix_ns() / 1_000_000_000).unwrap_or(i64::MAX))
}

fn describe(snapshot: &Snapshot) -> Value {
    json!({
        "epoch": snapshot.epoch.to_string(),
        "name": snapshot.name,
        "unix_ns": snapshot.epoch.unix_ns(),
    })
}

/// Refuses a name that a table cannot show, and one that reads as an epoch, which commands take it for.
fn check_name(name: &str) -> Outcome<()> {
    let why = if name.is_empty() || name.chars().any(char::is_control) {
        "a name has at least one character, and no control characters"
    } else if name.len() > limits::LABEL_BYTES_MAX {
        "a name has at most 127 bytes"
    } else if place::parse_epoch(name).is_some() {
        "the name reads as an epoch"
    } else {
        return Ok(());
    };
    Err(Failure::new(Exit::Usage, why).hint("choose another name"))
}

fn create(args: &Create) -> Outcome<Answer> {
    let named = |name: &str| format!("name a snapshot {}", dolmen_types::shown(name.as_bytes()));
    if let Some(name) = &args.name {
        check_name(name).doing(|| named(name))?;
    }
    let session = place::open(&args.cont.pool)?;
    let cont = session.container(&args.cont.cont)?;
    if let Some(name) = args.name.as_deref().filter(|name| !place::is_shown_in_mounts(&cont, name)) {
        let failure = Failure::new(Exit::Usage, "`.snapshots` of a mount could not show it");
        return Err(failure.hint("choose a name that a file can have: without /, and not . or .."))
            .doing(|| named(name));
    }
    let epoch = cont
        .create_snapshot(args.name.as_deref())
        .doing(|| format!("snapshot container {}", args.cont.cont))?;
    drop(cont);
    session.close()?;
    let snapshot = Snapshot { epoch, name: args.name.clone() };
    Ok(Answer::new(format!("{epoch}  {}", args.name.as_deref().unwrap_or("-")), describe(&snapshot)))
}

fn list(arg: &ContArg) -> Outcome<Answer> {
    let session = place::open_to_read(&arg.pool)?;
    let cont = session.container(&arg.cont)?;
    let snapshots = cont.snapshots().doing(|| format!("list snapshots of {}", arg.cont))?;
    drop(cont);
    session.close()?;
    let mut table = Table::new(&["epoch", "made (UTC)", "name"]);
    for snapshot in &snapshots {
        let name = snapshot.name.clone().unwrap_or_else(|| "-".to_owned());
        table.row([snapshot.epoch.to_string(), when(snapshot.epoch), name]);
    }
    let text = if snapshots.is_empty() { "no snapshots".to_owned() } else { table.text() };
    Ok(Answer::new(text, snapshots.iter().map(describe).collect()))
}

fn show_diff(args: &Diff) -> Outcome<Answer> {
    // The state of now is a snapshot that is given back at once.
    let open = if args.to.is_some() { place::open_to_read } else { place::open };
    let session = open(&args.cont.pool)?;
    let cont = session.container(&args.cont.cont)?;
    let from = place::snapshot(&cont, &args.cont, &args.from)?.epoch;
    let to = match &args.to {
        Some(name) => place::snapshot(&cont, &args.cont, name)?.epoch,
        None => now(&cont)?,
    };
    if from > to {
        let failure = Failure::new(Exit::Usage, "the first one is newer than the second");
        return Err(failure.hint("name the older one first")).doing(|| "compare snapshots".to_owned());
    }
    let doing = || format!("compare {} with {}", args.from, args.to.as_deref().unwrap_or("now"));
    let answer = if place::has_files(&cont) && !args.objects {
        diff::paths(&cont, from, to).doing(doing)?
    } else {
        diff::objects(&cont, from, to).doing(doing)?
    };
    drop(cont);
    session.close()?;
    Ok(answer)
}

/// The newest state, as an epoch: a snapshot that is given back at once, so that every target agrees on it.
fn now(cont: &Container) -> Outcome<Epoch> {
    let doing = || "take the state of now".to_owned();
    let epoch = cont.create_snapshot(None).doing(doing)?;
    cont.destroy_snapshot(epoch).doing(doing)?;
    Ok(epoch)
}

fn rollback(args: &Named) -> Outcome<Answer> {
    let session = place::open(&args.cont.pool)?;
    let cont = session.container(&args.cont.cont)?;
    let snapshot = place::snapshot(&cont, &args.cont, &args.snapshot)?;
    let epoch = cont
        .rollback(snapshot.epoch)
        .doing(|| format!("return {} to snapshot {}", args.cont.cont, args.snapshot))?;
    drop(cont);
    session.close()?;
    let text = format!("{} is as it was at {}", args.cont.cont, snapshot.epoch);
    Ok(Answer::new(text, json!({ "to": describe(&snapshot), "at": epoch.to_string() })))
}

/// Refuses a snapshot that is mounted, as far as this machine can tell.
fn refuse_shown(pool: Uuid, cont: Uuid, epoch: Epoch) -> Outcome<()> {
    let Some((dir, pid)) = crate::mount::snapshot_shown(pool, cont, epoch) else { return Ok(()) };
    let dir = word(&dir);
    let failure = Failure::new(Exit::InUse, format!("process {pid} shows its files in {dir}"));
    Err(failure.hint(format!("`dolmen unmount {dir}` first, or add --force: they are ESTALE then")))
}

fn destroy(Destroy { named: args, force }: &Destroy) -> Outcome<Answer> {
    let session = place::open(&args.cont.pool)?;
    let cont = session.container(&args.cont.cont)?;
    let snapshot = place::snapshot(&cont, &args.cont, &args.snapshot)?;
    let doing = || format!("destroy snapshot {}", args.snapshot);
    if !force {
        let pool = session.pool.query().doing(doing)?.map.pool;
        refuse_shown(pool, cont.uuid(), snapshot.epoch).doing(doing)?;
    }
    cont.destroy_snapshot(snapshot.epoch).doing(doing)?;
    drop(cont);
    session.close()?;
    Ok(Answer::new(format!("{} is gone", args.snapshot), describe(&snapshot)))
}
