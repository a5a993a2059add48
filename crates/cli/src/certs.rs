//! `dolmen system certs`: the certificates of a system, in a directory.
//!
//! Invariants: no file that is there is changed, but the list of revoked certificates, which only grows; a certificate's directory appears whole or not at all.

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{self, Answer, Table};
use crate::path::shown_outside;
use crate::{place, serve};
use dolmen_daemon::{Authority, Issued};
use dolmen_env::{Clock, RealClock};
use dolmen_net::tls::{Certs, Identity, Role, Validity, revoked_in, serial_of, validity_of};
use serde_json::{Value, json};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The key of the authority.
const AUTHORITY_KEY: &str = "ca.key";

/// How long an authority is of use. Its certificates end before it.
const AUTHORITY_DAYS: u64 = 3650;

const DAY_S: i64 = 86_400;

/// How much earlier than now a certificate begins: clocks of machines differ.
const EARLIER_S: i64 = 3600;

/// Where the certificates of users are.
const USERS: &str = "users";

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Command {
    /// Make the certificates of a system for its engines, administrators and users
    Certs(Args),
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Without --user, whatever is missing is made in DIR: the system's authority (ca.crt, and ca.key, which belongs in a safe \
place), and below it what engines need (engine) and administrators (admin). With --user, what one user needs (users/NAME). \
Each of these is a directory for who it is for: `dolmen serve --certs DIR/engine`, and DOLMEN_CERTS=DIR/users/NAME for a \
client. What is there is never changed: to renew, move the old directory away and run the command again. With --revoke, \
revoked.pem in DIR and DIR/engine is replaced by a list with one more certificate, which engines do not let in any more; it \
goes to the directory of each engine. Engines and clients take new files into use by themselves.")]
pub(crate) struct Args {
    /// Directory of the system's authority
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// Make what this user needs: the name that access control lists have, and groups, the first before the others
    /// [default: those of this machine]
    #[arg(long, value_name = "NAME[,GROUP...]")]
    user: Option<String>,
    /// The user's number, where data is counted by it [default: that of the name on this machine]
    #[arg(long, requires = "user")]
    uid: Option<u32>,
    /// The number of the first group [default: that of its name on this machine]
    #[arg(long, requires = "user")]
    gid: Option<u32>,
    /// How long the certificates are valid
    #[arg(long, value_name = "COUNT", default_value_t = 365, value_parser = crate::size::count::<u64>(1, AUTHORITY_DAYS))]
    days: u64,
    /// Make nothing: put the certificate of this directory below users (or admin, and what either was renamed to) on the list
    /// of those that are of no use any more
    #[arg(long, value_name = "NAME", conflicts_with_all = ["user", "days", "show"])]
    revoke: Option<String>,
    /// Make nothing: show what is there, for whom, and until when
    #[arg(long, conflicts_with_all = ["user", "days"])]
    show: bool,
}

pub(crate) fn run(command: &Command) -> Outcome<Answer> {
    let Command::Certs(args) = command;
    let doing = || format!("make certificates in {}", shown_outside(&args.dir));
    if let Some(name) = &args.revoke {
        return revoke(&args.dir, name)
            .doing(|| format!("revoke a certificate of {}", shown_outside(&args.dir)));
    }
    match (&args.user, args.show) {
        (_, true) => show(&args.dir).doing(|| format!("show certificates in {}", shown_outside(&args.dir))),
        (Some(user), _) => make_user(args, user).doing(doing),
        (None, _) => make_system(args).doing(doing),
    }
}

/// Makes what is missing of the authority, and what engines and administrators need.
fn make_system(args: &Args) -> Outcome<Answer> {
    let dir = &args.dir;
    if !dir.is_dir() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| Failure::on_file(dir, &error))?;
    }
    let mut made = Vec::new();
    let key = dir.join(AUTHORITY_KEY);
    let authority = match (key.exists(), dir.join(Certs::AUTHORITY).exists()) {
        (false, false) => {
            let authority = Authority::generate().map_err(|error| serve::of_daemon(&error))?;
            write(&key, authority.key().as_bytes())?;
            made.push(key);
            authority
        }
        _ => authority_of(dir)?,
    };
    let path = dir.join(Certs::AUTHORITY);
    if !path.exists() {
        let text =
            authority.certificate(lasting(AUTHORITY_DAYS)).map_err(|error| serve::of_daemon(&error))?;
        write(&path, text.as_bytes())?;
        made.push(path);
    }
    let dolmen_types::Credentials { uid, gid, .. } = place::credentials();
    for role in [Role::Engine, Role::Admin] {
        let name = if role == Role::Engine { "server" } else { role.name() }.to_owned();
        let to = dir.join(role.name());
        if !to.exists() {
            issue(dir, &to, &authority, &Identity { role, name, groups: Vec::new(), uid, gid }, args.days)?;
            made.push(to);
        }
    }
    if made.is_empty() {
        let failure = Failure::new(Exit::Taken, "there is nothing to make: everything is there");
        return Err(failure.hint("move away what is to be renewed; see `dolmen system certs --show`"));
    }
    Ok(answer(&made, args.days))
}

fn make_user(args: &Args, user: &str) -> Outcome<Answer> {
    let authority = authority_of(&args.dir)?;
    let mut words = user.split(',').map(str::to_owned);
    let name = words.next().unwrap_or(String::new());
    let mut groups: Vec<String> = words.collect();
    let known = dolmen_env::user_named(&name);
    let unknown = |what: &str, option: &str| {
        Failure::new(Exit::Missing, format!("this machine knows no {what}"))
            .hint(format!("give its number with {option}"))
    };
    let uid = args.uid.or(known.map(|(uid, _)| uid));
    let uid = uid.ok_or_else(|| unknown(&format!("user {name:?}"), "--uid"))?;
    if groups.is_empty() && args.gid.is_none() {
        groups.extend(known.and_then(|(_, gid)| dolmen_env::group_name(gid)));
    }
    let gid = match (args.gid, groups.first()) {
        (Some(gid), _) => gid,
        (None, Some(group)) => {
            dolmen_env::group_named(group).ok_or_else(|| unknown(&format!("group {group:?}"), "--gid"))?
        }
        (None, None) => known.map(|(_, gid)| gid).ok_or_else(|| unknown("group of his", "--gid"))?,
    };
    let identity = Identity { role: Role::User, name, groups, uid, gid };
    let subject = identity.subject();
    if subject.is_none() {
        let error = dolmen_daemon::Error::Unnamed { name: user.to_owned() };
        return Err(serve::of_daemon(&error));
    }
    let users = args.dir.join(USERS);
    if !users.is_dir() {
        DirBuilder::new().mode(0o700).create(&users).map_err(|error| Failure::on_file(&users, &error))?;
    }
    let to = users.join(&identity.name);
    if to.exists() {
        let failure = Failure::new(Exit::Taken, format!("{} is there", shown_outside(&to)));
        return Err(failure.hint("move it away to make new ones"));
    }
    issue(&args.dir, &to, &authority, &identity, args.days)?;
    Ok(answer(&[to], args.days))
}

/// Puts a certificate on the list of those that engines do not let in.
fn revoke(dir: &Path, name: &str) -> Outcome<Answer> {
    let authority = authority_of(dir)?;
    let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
    // A user may be called as administrators are.
    let places = [dir.join(USERS).join(name), dir.join(name)];
    let found = places.iter().filter(|_| is_name).find(|place| place.join(Certs::OWN).exists());
    let Some(place) = found else {
        let failure = Failure::new(Exit::Missing, format!("there is no certificate of {name:?}"));
        return Err(failure.hint(
            "`dolmen system certs DIR --show` lists them; one whose directory is gone cannot be named",
        ));
    };
    let unread = |error| place::unreachable(&error);
    let (identity, _) = validity_of(place, Certs::OWN).map_err(unread)?;
    if identity.as_ref().is_some_and(|identity| identity.role == Role::Engine) {
        let failure = Failure::new(Exit::Usage, "that is the engines' certificate, and clients have no list");
        return Err(
            failure.hint("make a new authority in another directory, and give everybody its certificates")
        );
    }
    let serial = serial_of(place, Certs::OWN).map_err(unread)?;
    let mut all = revoked_in(dir).map_err(unread)?;
    let now_s = now_s();
    let is_new = all.iter().all(|(known, _)| *known != serial);
    if is_new {
        all.push((serial, now_s));
    }
    let text = authority.revoke(&all, now_s).map_err(|error| serve::of_daemon(&error))?;
    let engine = dir.join(Role::Engine.name());
    let mut written = vec![dir.join(Certs::REVOKED)];
    written.extend(engine.is_dir().then(|| engine.join(Certs::REVOKED)));
    // The own copy last: whoever is cut off in between runs it again.
    written.iter().rev().try_for_each(|path| replace(path, text.as_bytes()))?;
    let shown: Vec<String> = written.iter().map(|path| shown_outside(path).to_string()).collect();
    let place = shown_outside(place).to_string();
    let text = format!(
        "{place} {}: {} on the list\ncopy {} to the directory of certificates of each engine that is not this one",
        if is_new { "is revoked" } else { "was revoked before" },
        output::count(all.len() as u64, "certificate", "certificates"),
        shown[0],
    );
    let json = json!({ "revoked": place, "is_new": is_new, "count": all.len(), "lists": shown });
    Ok(Answer::new(text, json))
}

/// Replaces a file in one step.
fn replace(path: &Path, bytes: &[u8]) -> Outcome<()> {
    let mut staged = path.as_os_str().to_owned();
    staged.push(format!(".{}", std::process::id()));
    let staged = PathBuf::from(staged);
    write(&staged, bytes)?;
    std::fs::rename(&staged, path).map_err(|error| Failure::on_file(path, &error))
}

fn now_s() -> i64 {
    i64::try_from(RealClock.now_ns() / 1_000_000_000).unwrap_or(i64::MAX)
}

fn answer(made: &[PathBuf], days: u64) -> Answer {
    let shown: Vec<String> = made.iter().map(|path| shown_outside(path).to_string()).collect();
    let text = format!("made {}, valid for {}", shown.join(", "), output::count(days, "day", "days"));
    Answer::new(text, json!({ "made": shown, "days": days }))
}

fn authority_of(dir: &Path) -> Outcome<Authority> {
    let key = dir.join(AUTHORITY_KEY);
    let text = match std::fs::read_to_string(&key) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let failure = Failure::new(Exit::Missing, format!("{} is not there", shown_outside(&key)));
            let hint =
                "run `dolmen system certs DIR` first, or bring the authority's key back to make certificates";
            return Err(failure.hint(hint));
        }
        read => read.map_err(|error| Failure::on_file(&key, &error))?,
    };
    Authority::of_key(&text).map_err(|error| serve::of_daemon(&error))
}

fn lasting(days: u64) -> Validity {
    let now_s = now_s();
    Validity { from: now_s - EARLIER_S, until: now_s + DAY_S * i64::try_from(days).unwrap_or(0) }
}

/// Makes the directory `to` with a certificate of `authority`, its key, and the authority's own certificate; for engines with the
/// list of those that are revoked.
fn issue(dir: &Path, to: &Path, authority: &Authority, whom: &Identity, days: u64) -> Outcome<()> {
    let ca = dir.join(Certs::AUTHORITY);
    let trusted = std::fs::read(&ca).map_err(|error| Failure::on_file(&ca, &error))?;
    let Issued { certificate, key } =
        authority.issue(whom, lasting(days)).map_err(|error| serve::of_daemon(&error))?;
    let mut staged = to.as_os_str().to_owned();
    staged.push(format!(".{}", std::process::id()));
    let staged = PathBuf::from(staged);
    let on = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| Failure::on_file(&path, &error)
    };
    DirBuilder::new().mode(0o700).create(&staged).map_err(on(&staged))?;
    write(&staged.join(Certs::AUTHORITY), &trusted)?;
    write(&staged.join(Certs::OWN), certificate.as_bytes())?;
    write(&staged.join(Certs::KEY), key.as_bytes())?;
    let list = dir.join(Certs::REVOKED);
    if whom.role == Role::Engine && list.exists() {
        // Or a renewal would let in again who was kept out.
        let revoked = std::fs::read(&list).map_err(on(&list))?;
        write(&staged.join(Certs::REVOKED), &revoked)?;
    }
    std::fs::rename(&staged, to).map_err(on(to))
}

/// Writes a file that is not there, for its owner alone.
fn write(path: &Path, bytes: &[u8]) -> Outcome<()> {
    let made = || -> std::io::Result<()> {
        let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    made().map_err(|error| Failure::on_file(path, &error))
}

/// What is in a directory: its authority, and whom it has certificates for.
fn show(dir: &Path) -> Outcome<Answer> {
    let mut places: Vec<(PathBuf, &'static str)> = vec![(dir.to_owned(), Certs::AUTHORITY)];
    places.extend([Role::Engine, Role::Admin].map(|role| (dir.join(role.name()), Certs::OWN)));
    places.push((dir.to_owned(), Certs::OWN));
    if let Ok(users) = std::fs::read_dir(dir.join(USERS)) {
        let mut users: Vec<PathBuf> = users.filter_map(|user| Some(user.ok()?.path())).collect();
        users.sort();
        places.extend(users.into_iter().map(|user| (user, Certs::OWN)));
    }
    let now_s = now_s();
    let revoked = revoked_in(dir).map_err(|error| place::unreachable(&error))?;
    let mut table = Table::new(&["Certificate", "Role", "Name", "Groups", "Valid until", "Days left"]);
    let (mut all, mut wrong): (Vec<Value>, Option<String>) = (Vec::new(), None);
    for (place, file) in places {
        if !place.join(file).exists() {
            continue;
        }
        let path = place.join(file);
        let (identity, validity) = validity_of(&place, file).map_err(|error| place::unreachable(&error))?;
        let days = (validity.until - now_s).div_euclid(DAY_S);
        let serial = serial_of(&place, file).map_err(|error| place::unreachable(&error))?;
        let is_revoked = revoked.iter().any(|(known, _)| *known == serial);
        if validity.until < now_s {
            wrong = Some(format!("{} has expired", shown_outside(&path)));
        }
        let (role, name, groups) = match &identity {
            Some(identity) => (identity.role.name(), identity.name.as_str(), identity.groups.join(",")),
            None => ("authority", "-", String::new()),
        };
        let until = output::date(validity.until);
        let shown = shown_outside(&path).to_string();
        all.push(json!({
            "path": shown, "role": role, "name": name, "groups": groups, "until": validity.until, "days_left": days,
            "revoked": is_revoked,
        }));
        let left = if is_revoked { "revoked".to_owned() } else { days.to_string() };
        table.row([shown, role.to_owned(), name.to_owned(), groups, until, left]);
    }
    if all.is_empty() {
        let failure = Failure::new(Exit::Missing, "there are none");
        return Err(failure.hint("make them with `dolmen system certs DIR`"));
    }
    Ok(Answer::new(table.text(), json!({ "certificates": all })).with_findings(wrong))
}
