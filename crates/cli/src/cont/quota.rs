//! `dolmen cont quota`: what is used of a container and what may be, by all and by user.

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, Table, human, pairs};
use crate::place::{self, ContArg};
use crate::size;
use clap::Args;
use dolmen_client::Container;
use dolmen_client::quota::{Limits, Report, UserUse};
use dolmen_env::{user_name, user_named};
use dolmen_types::{Error, Invalid};
use serde_json::{Value, json};

/// Shows or sets limits.
#[derive(Args, Debug)]
#[command(
    after_help = "Without --bytes and --files what is used is shown, and what may be. Values count from when they are \
                        written until they are freed: also what a snapshot shows. What nobody sees any more is freed before \
                        anybody is refused. What is written to a file is charged to its owner."
)]
pub(crate) struct Quota {
    #[command(flatten)]
    cont: ContArg,
    /// Whose; of all together if it is left out
    #[arg(long, value_name = "NAME|UID", value_parser = user, allow_negative_numbers = true)]
    user: Option<u32>,
    /// What may be used; `none` lifts the limit
    #[arg(long, value_name = "SIZE|none", value_parser = bytes, allow_negative_numbers = true)]
    bytes: Option<u64>,
    /// How many names of files and directories there may be; `none` lifts the limit
    #[arg(long, value_name = "N|none", value_parser = files, allow_negative_numbers = true)]
    files: Option<u64>,
}

/// The number of a user.
fn user(text: &str) -> Result<u32, String> {
    if let Ok(uid) = text.parse() {
        // The system's word for "nobody": no file is ever his.
        return if uid == u32::MAX { Err("no user has this number".to_owned()) } else { Ok(uid) };
    }
    user_named(text)
        .map(|(uid, _)| uid)
        .ok_or_else(|| "no such user on this machine; give a number".to_owned())
}

fn bytes(text: &str) -> Result<u64, String> {
    if text == "none" { Ok(0) } else { some(size::parse(text)?) }
}

fn files(text: &str) -> Result<u64, String> {
    if text == "none" {
        return Ok(0);
    }
    some(text.parse().map_err(|_digits| "give a number, or `none`".to_owned())?)
}

/// A limit that is one: whoever says 0 means either nothing at all, or as much as one likes.
fn some(limit: u64) -> Result<u64, String> {
    if limit == 0 { Err("a limit is 1 at least; `none` lifts it".to_owned()) } else { Ok(limit) }
}

impl Quota {
    fn sets(&self) -> bool {
        self.bytes.is_some() || self.files.is_some()
    }
}

pub(super) fn run(args: &Quota) -> Outcome<Answer> {
    let session =
        if args.sets() { place::open(&args.cont.pool) } else { place::open_to_read(&args.cont.pool) }?;
    let cont = session.container(&args.cont.cont)?;
    let doing = || {
        let verb = if args.sets() { "set" } else { "show" };
        format!("{verb} the quota of container {}", args.cont.cont)
    };
    let report = carry_out(&cont, args).map_err(explained).doing(doing)?;
    drop(cont);
    session.close()?;
    Ok(match args.user {
        Some(uid) => of_user(&user_in(&report, uid)),
        None => of_all(&report),
    })
}

fn carry_out(cont: &Container, args: &Quota) -> dolmen_types::Result<Report> {
    let before = cont.quota()?;
    if !args.sets() {
        return Ok(before);
    }
    let known = args.user.map_or(before.limits, |uid| user_in(&before, uid).limits);
    let limits =
        Limits { bytes: args.bytes.unwrap_or(known.bytes), files: args.files.unwrap_or(known.files) };
    cont.set_quota(args.user, limits)?;
    cont.quota()
}

fn explained(error: Error) -> Failure {
    match error {
        Error::Invalid(Invalid::Engines) => {
            Failure::new(Exit::Refused, "what stores the pool keeps no quotas")
        }
        Error::Invalid(Invalid::Argument) => Failure::new(
            Exit::Other,
            "the daemon, or another engine of the pool, is of a version that knows no quotas",
        ),
        Error::Invalid(Invalid::Count) => {
            let most = dolmen_client::quota::USERS_MAX;
            Failure::new(Exit::Usage, format!("{most} users of the container have limits, and no more may"))
        }
        error => error.into(),
    }
}

fn user_in(report: &Report, uid: u32) -> UserUse {
    let known = report.users.iter().find(|user| user.uid == uid);
    known.copied().unwrap_or(UserUse { uid, ..UserUse::default() })
}

fn of_user(user: &UserUse) -> Answer {
    let text = pairs(&[
        ("user ", shown_user(user.uid)),
        ("bytes", of(human(user.used.bytes), shown_bytes(user.limits.bytes))),
        ("files", of(user.used.files.to_string(), shown_files(user.limits.files))),
    ]);
    Answer::new(text, user_json(user))
}

fn of_all(report: &Report) -> Answer {
    let mut text = pairs(&lines(report));
    if !report.users.is_empty() {
        let mut table = Table::new(&["user", "bytes", "limit", "files", "limit"]);
        for user in &report.users {
            table.row([
                shown_user(user.uid),
                human(user.used.bytes),
                shown_bytes(user.limits.bytes),
                user.used.files.to_string(),
                shown_files(user.limits.files),
            ]);
        }
        text.push_str(&table.text());
    }
    Answer::new(text, to_json(report))
}

/// What is used by all together, and what may be.
pub(super) fn lines(report: &Report) -> [(&'static str, String); 2] {
    let Report { used, limits, .. } = report;
    [
        ("bytes", of(human(used.bytes), shown_bytes(limits.bytes))),
        ("files", of(used.files.to_string(), shown_files(limits.files))),
    ]
}

fn of(used: String, limit: String) -> String {
    if limit == "-" { used } else { format!("{used} of {limit}") }
}

fn shown_user(uid: u32) -> String {
    user_name(uid).unwrap_or_else(|| uid.to_string())
}

fn shown_bytes(limit: u64) -> String {
    if limit == 0 { "-".to_owned() } else { human(limit) }
}

fn shown_files(limit: u64) -> String {
    if limit == 0 { "-".to_owned() } else { limit.to_string() }
}

fn counts(used: u64, limit: u64) -> Value {
    json!({ "used": used, "limit": (limit > 0).then_some(limit) })
}

fn user_json(user: &UserUse) -> Value {
    json!({
        "uid": user.uid,
        "user": user_name(user.uid),
        "bytes": counts(user.used.bytes, user.limits.bytes),
        "files": counts(user.used.files, user.limits.files),
    })
}

/// A report as JSON.
pub(super) fn to_json(report: &Report) -> Value {
    json!({
        "bytes": counts(report.used.bytes, report.limits.bytes),
        "files": counts(report.used.files, report.limits.files),
        "users": report.users.iter().map(user_json).collect::<Vec<_>>(),
    })
}
