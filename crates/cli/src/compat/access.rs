//! Owners and access control lists of pools and containers: `get-acl`, `overwrite-acl`, `update-acl`, `delete-acl`, `set-owner`.

use super::attr::Owner;
use super::{PoolArg, asking, behind, open};
use crate::cont::props::{by_name, is_unknown, refuse_unknown};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, complain};
use crate::path::shown_outside;
use crate::place;
use dolmen_client::Container;
use dolmen_codec::acl::{self, Acl, Entry, Who};
use dolmen_codec::wire::PoolAccess;
use dolmen_dfs::Follow;
use dolmen_env::{group_principal, user_principal};
use dolmen_net::client::Link;
use dolmen_net::tls::Role;
use dolmen_types::{PropId, PropValue, Props};
use nix::unistd::{Gid, Group, Uid, User};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Who asks, as access control lists know him: whom his certificate names over a network, else the user of the process.
struct Caller {
    user: String,
    group: String,
    /// He has a certificate, which is not an administrator's.
    is_certified_user: bool,
}

/// Who asks the system that this command has reached; set when it is.
static CALLER: OnceLock<Caller> = OnceLock::new();

/// Notes as whom the other end of a connection knows this process.
pub(super) fn note_caller(link: &Link) {
    // Who has none, or one that cannot be read any more, is told so by the connection.
    let Ok(Some(identity)) = link.own_identity() else { return };
    if identity.role == Role::User {
        let group = identity.groups.first().map_or_else(|| identity.name.clone(), Clone::clone);
        let (user, group) = (format!("{}@", identity.name), format!("{group}@"));
        // Ignored: a command that reaches a system twice is the same user's.
        let _noted = CALLER.set(Caller { user, group, is_certified_user: true });
    }
}

fn caller() -> &'static Caller {
    CALLER.get_or_init(|| Caller {
        user: user_principal(Uid::effective().as_raw()),
        group: group_principal(Gid::effective().as_raw()),
        is_certified_user: false,
    })
}

/// Properties that say whose a new container is: the caller's, unless another user or group is named.
pub(super) fn owner_props(user: Option<&str>, group: Option<&str>) -> Outcome<Props> {
    let own = [(PropId::CO_OWNER, user, &caller().user), (PropId::CO_OWNER_GROUP, group, &caller().group)];
    let mut props = Props::new();
    for (id, given, own) in own {
        let name = given.map_or_else(|| Ok(own.clone()), |given| name(id, given))?;
        if given.is_some() {
            refuse_unknown(id, &name)?;
        }
        props.insert(id, PropValue::Text(name));
    }
    Ok(props)
}

/// Says that a pool's owner or group is nobody here, and goes on: as in a list, that may be who has a certificate of that name, or is
/// known to the engine's machine.
fn tell_unknown(id: PropId, name: &str) {
    if let Some(why) = is_unknown(id, name) {
        let hint = "who has a certificate of that name has what is the owner's, and so has whom the engine's machine knows by it";
        complain(&Failure::new(Exit::Usage, why).hint(hint));
    }
}

/// The name of a user or group as DAOS writes it, and a daemon knows him.
fn name(id: PropId, text: &str) -> Outcome<String> {
    as_given(text).map(|name| by_name([PropId::CO_OWNER_GROUP, PropId::PO_OWNER_GROUP].contains(&id), name))
}

/// The same, whoever that is.
fn as_given(text: &str) -> Outcome<String> {
    acl::named(text).map_err(|_none| {
        Failure::new(Exit::Usage, format!("{text:?} is no name of a user or group")).hint("give NAME@")
    })
}

/// The property with the list of a file.
pub(super) fn file_prop(file: &Path) -> Outcome<Props> {
    Ok(Props::from([(PropId::CO_ACL, PropValue::Bytes(from_file(file)?.encode()))]))
}

/// The longest file that is read: many times what a list can have.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One entry a line; empty lines, and those that begin with `#`, say nothing.
fn from_file(file: &Path) -> Outcome<Acl> {
    let doing = || format!("read {}", shown_outside(file));
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    let bytes = read.map_err(|error| Failure::on_file(file, &error)).doing(doing)?;
    if bytes as u64 > FILE_BYTES_MAX {
        let most = crate::size::exact(FILE_BYTES_MAX);
        let failure = Failure::new(Exit::Usage, format!("it is longer than {most}, and so no list"));
        return Err(failure.hint("name a file with one entry a line, such as A::bob@:rw")).doing(doing);
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entries = lines.map(entry).collect::<Outcome<Vec<Entry>>>().doing(doing)?;
    let twice = |_error| Failure::new(Exit::Usage, "two entries are about the same principal");
    Acl::new(entries).map_err(twice).doing(doing)
}

fn entry(text: &str) -> Outcome<Entry> {
    let wrong = |_wrong| {
        Failure::new(Exit::Usage, format!("{text:?} is no entry of an access control list"))
            .hint("an entry reads ACCESS:FLAGS:PRINCIPAL:PERMISSIONS, such as A::bob@:rw")
    };
    let entry = Entry::parse(text).map_err(wrong)?;
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [access, flags, who, perms] => {
            let who = by_name(flags.contains('G'), who.to_owned());
            Entry::parse(&[access, flags, &who, perms].join(":")).map_err(wrong)
        }
        _ => Ok(entry),
    }
}

/// The list, owner and group of something; into a file, too, if one is named.
pub(super) fn get(of: Owner<'_>, out: Option<&Path>, verbose: bool) -> Outcome<Answer> {
    let (owner, group) = of.owners()?;
    let acl = of.acl()?;
    let entries: Vec<String> = acl.entries().iter().filter_map(Entry::text).collect();
    let mut text = format!("# Owner: {owner}\n# Owner Group: {group}\n# Entries:\n");
    for (entry, line) in acl.entries().iter().filter_map(|entry| Some((entry, entry.text()?))) {
        if verbose {
            text.push_str(&format!("# {}\n", entry.verbose()));
        }
        text.push_str(&format!("{line}\n"));
    }
    if let Some(file) = out {
        std::fs::write(file, &text).map_err(|error| Failure::on_file(file, &error))?;
    }
    let json = json!({ "entries": entries, "owner_user": owner, "owner_group": group });
    Ok(Answer::new(text, json))
}

fn set(of: Owner<'_>, acl: &Acl) -> Outcome<Answer> {
    of.set_acl(acl)?;
    get(of, None, false)
}

/// Replaces the list by that of a file.
pub(super) fn overwrite(of: Owner<'_>, file: &Path) -> Outcome<Answer> {
    set(of, &from_file(file)?)
}

/// Adds entries, or replaces those of the same principals.
pub(super) fn update(of: Owner<'_>, file: Option<&Path>, text: Option<&str>) -> Outcome<Answer> {
    let mut acl = of.acl()?;
    let given = match file {
        Some(file) => from_file(file)?.entries().to_vec(),
        None => Vec::new(),
    };
    given.into_iter().for_each(|entry| acl.put(entry));
    if let Some(text) = text {
        acl.put(entry(text)?);
    }
    set(of, &acl)
}

/// Removes the entry of a principal; `shows` is the command that shows which there are.
pub(super) fn delete(of: Owner<'_>, text: &str, shows: &str) -> Outcome<Answer> {
    let (who, name) = acl::principal(text).map_err(|_wrong| {
        Failure::new(Exit::Usage, format!("{text:?} is no principal"))
            .hint("give OWNER@, GROUP@, EVERYONE@, u:NAME@ or g:NAME@")
    })?;
    let mut acl = of.acl()?;
    let mut removes = |name: Option<String>| acl.remove(who, name.as_deref());
    // As it stands there, or as it would be put there.
    if !removes(name.clone()) && !removes(name.map(|name| by_name(who == Who::Group, name))) {
        let failure = Failure::new(Exit::Missing, format!("there is no entry for {text}"));
        let hint = format!("see `{shows}`");
        return Err(failure.hint(hint));
    }
    set(of, &acl)
}

/// Whose something is to be.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) user: Option<&'a str>,
    pub(super) group: Option<&'a str>,
    /// Also if this machine knows nobody of that name.
    pub(super) no_check: bool,
}

/// Gives something to another user or group; of a container of files the root directory, too.
pub(super) fn set_owner(of: Owner<'_>, named: &Named<'_>) -> Outcome<Answer> {
    let known = |id, text: Option<&str>| match text {
        Some(text) => {
            let name = if named.no_check { as_given(text)? } else { name(id, text)? };
            match of {
                Owner::Pool(_) => tell_unknown(id, &name),
                Owner::Cont(_) if named.no_check => {}
                Owner::Cont(_) => refuse_unknown(id, &name)?,
            }
            Ok(Some(name))
        }
        None => Ok::<_, Failure>(None),
    };
    let user = known(PropId::CO_OWNER, named.user)?;
    let group = known(PropId::CO_OWNER_GROUP, named.group)?;
    if user.is_none() && group.is_none() {
        return Err(Failure::new(Exit::Usage, "nobody is named").hint("give --user or --group"));
    }
    // First: afterwards it may be somebody else's to change.
    if let Owner::Cont(cont) = of {
        give_root(cont, user.as_deref(), group.as_deref())?;
    }
    of.set_owners(user, group)?;
    Ok(Answer::new("", Value::Null))
}

/// Gives the root directory of a container of files to whom this machine knows by these names.
fn give_root(cont: &Container, user: Option<&str>, group: Option<&str>) -> Outcome<()> {
    let layout = cont.props(&[PropId::CO_LAYOUT_TYPE])?.remove(&PropId::CO_LAYOUT_TYPE);
    if layout != Some(PropValue::Number(dolmen_dfs::LAYOUT_POSIX)) {
        return Ok(());
    }
    let local = |name: &str| name.strip_suffix('@').unwrap_or(name).to_owned();
    let uid = user.map(local).and_then(|name| match User::from_name(&name) {
        Ok(Some(user)) => Some(user.uid.as_raw()),
        _ => name.parse().ok(),
    });
    let gid = group.map(local).and_then(|name| match Group::from_name(&name) {
        Ok(Some(group)) => Some(group.gid.as_raw()),
        _ => name.parse().ok(),
    });
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    let dfs = place::mount(cont, &cont.uuid().to_string(), false)?;
    Ok(dfs.chown("/", uid, gid, Follow::No)?)
}

/// The properties of a new pool that say whose it is, the caller's unless others are named, and who may use it.
pub(super) fn of_new_pool(user: Option<&str>, group: Option<&str>, file: Option<&Path>) -> Outcome<Props> {
    let own = [
        (PropId::PO_OWNER, user, user_principal(Uid::effective().as_raw())),
        (PropId::PO_OWNER_GROUP, group, group_principal(Gid::effective().as_raw())),
    ];
    let mut props = Props::new();
    for (id, given, own) in own {
        let name = given.map_or(Ok(own), |given| name(id, given))?;
        if given.is_some() {
            tell_unknown(id, &name);
        }
        props.insert(id, PropValue::Text(name));
    }
    let acl = file.map_or_else(|| Ok(Acl::of_new_pool()), from_file)?;
    props.insert(PropId::PO_ACL, PropValue::Bytes(acl.encode()));
    Ok(props)
}

/// What is done with the owner and the list of a pool.
#[derive(clap::Subcommand, Debug)]
pub(super) enum Verb {
    /// Show the list of who may use a pool, its owner and its group
    GetAcl {
        #[command(flatten)]
        pool: PoolArg,
        /// Also written to this file
        #[arg(long, short = 'O', visible_short_alias = 'o', value_name = "FILE")]
        outfile: Option<PathBuf>,
        /// For scripts: the file is written over anyway
        #[arg(long, short)]
        force: bool,
        /// Say each entry in words, too
        #[arg(long, short)]
        verbose: bool,
    },
    /// Replace the list of a pool
    OverwriteAcl {
        #[command(flatten)]
        pool: PoolArg,
        /// File with an entry a line
        #[arg(long, short = 'a', value_name = "FILE")]
        acl_file: PathBuf,
    },
    /// Add entries to the list of a pool, or replace those of the same principals
    UpdateAcl {
        #[command(flatten)]
        pool: PoolArg,
        #[command(flatten)]
        entries: Entries,
    },
    /// Remove an entry of the list of a pool
    DeleteAcl {
        #[command(flatten)]
        pool: PoolArg,
        /// Whose: OWNER@, GROUP@, EVERYONE@, u:NAME@ or g:NAME@
        #[arg(long, short)]
        principal: String,
    },
    /// Give the pool to another user or group
    SetOwner {
        #[command(flatten)]
        pool: PoolArg,
        /// Name of the user
        #[arg(long, short)]
        user: Option<String>,
        /// Name of the group
        #[arg(long, short)]
        group: Option<String>,
    },
}

impl Verb {
    /// The pool.
    fn pool(&self) -> &str {
        match self {
            Self::GetAcl { pool, .. }
            | Self::OverwriteAcl { pool, .. }
            | Self::UpdateAcl { pool, .. }
            | Self::DeleteAcl { pool, .. }
            | Self::SetOwner { pool, .. } => &pool.pool,
        }
    }

    pub(super) fn run(&self, link: &Link) -> Outcome<Answer> {
        let (access, perm) = match self {
            Self::GetAcl { .. } => (PoolAccess::ReadOnly, 'a'),
            Self::SetOwner { .. } => (PoolAccess::ReadWrite, 'o'),
            _ => (PoolAccess::ReadWrite, 'A'),
        };
        let opened = open(link, self.pool(), access)?;
        let of = Owner::Pool(&opened.pool);
        let done = match self {
            Self::GetAcl { outfile, verbose, .. } => get(of, outfile.as_deref(), *verbose),
            Self::OverwriteAcl { acl_file, .. } => overwrite(of, acl_file),
            Self::UpdateAcl { entries, .. } => {
                update(of, entries.acl_file.as_deref(), entries.entry.as_deref())
            }
            Self::DeleteAcl { pool, principal } => {
                delete(of, principal, &asking("dmg", &behind("pool get-acl", &[&pool.pool])))
            }
            Self::SetOwner { user, group, .. } => {
                let named = Named { user: user.as_deref(), group: group.as_deref(), no_check: false };
                set_owner(of, &named)
            }
        };
        done.map_err(|failure| refused(failure, self.pool(), None, perm))
            .doing(|| format!("use the list of pool {}", self.pool()))
    }
}

/// The same failure; one that only whoever runs the system may do something says so.
pub(super) fn for_operators(failure: Failure) -> Failure {
    if !failure.is_for_want_of_permission() {
        return failure;
    }
    failure.hint(if caller().is_certified_user {
        "over a network that is for who has the administrator's certificate: name its directory in DOLMEN_CERTS"
    } else {
        "that is for the user who runs the daemon, and for root: ask one of them, or run it as they"
    })
}

/// The same failure; one that somebody may not do something names him, the permission that he lacks, and what gives it to him.
pub(super) fn refused(failure: Failure, pool: &str, cont: Option<&str>, perm: char) -> Failure {
    if !failure.is_for_want_of_permission() {
        return failure;
    }
    let user = &caller().user;
    let of = match cont {
        None => format!("pool {pool}"),
        Some(cont) => format!("container {cont}"),
    };
    let (who, program, noun) = match cont {
        None => ("its owner or administrator", "dmg", "pool"),
        Some(_) => ("its owner", "daos", "cont"),
    };
    let args: Vec<&str> = [pool].into_iter().chain(cont).collect();
    let command = |verb: &str| asking(program, &behind(&format!("{noun} {verb}"), &args));
    let (get, update) = (command("get-acl"), command("update-acl"));
    let hint = match (cont, perm) {
        // Without it he has nothing that an entry could take away.
        (None, 'r') => format!("{who} gives it: `{update} -e A::{user}:r`"),
        _ => format!(
            "{who} gives it beside what `{get}` says that he has: `{update} -e A::{user}:PERMS`, where PERMS are those and {perm}, \
             since from then on this entry alone counts for him"
        ),
    };
    failure.because(format!("{user} has no permission {perm} on {of}")).hint(hint)
}

/// Where entries come from.
#[derive(clap::Args, Debug)]
#[group(required = true, multiple = true)]
pub(super) struct Entries {
    /// File with an entry a line
    #[arg(long, short = 'f', visible_short_alias = 'a', value_name = "FILE")]
    pub(super) acl_file: Option<PathBuf>,
    /// One entry, such as A::bob@:rw
    #[arg(long, short, value_name = "ENTRY")]
    pub(super) entry: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_is_told_which_permission_he_lacks_and_what_gives_it_to_him() {
        let lacking = || Failure::from(dolmen_types::Error::NoPermission);
        let user = user_principal(Uid::effective().as_raw());
        let of_pool = refused(lacking(), "tank", None, 'r').to_string();
        assert!(of_pool.starts_with(&format!("{user} has no permission r on pool tank; ")), "{of_pool}");
        assert!(of_pool.ends_with(&format!("`dmg pool update-acl tank -e A::{user}:r`")), "{of_pool}");
        let of_cont = refused(lacking(), "tank", Some("home"), 'w').to_string();
        // An entry takes the place of the one before, and of those of his groups: what he has he would lose.
        let entry =
            format!("`daos cont update-acl tank home -e A::{user}:PERMS`, where PERMS are those and w");
        assert!(of_cont.contains(&entry) && of_cont.contains("`daos cont get-acl tank home`"), "{of_cont}");
        // Once said, it stays.
        let again = refused(refused(lacking(), "tank", None, 'r'), "tank", Some("home"), 'w');
        assert_eq!(again.to_string(), of_pool);
        let operators = for_operators(lacking()).to_string();
        assert!(operators.contains("for the user who runs the daemon, and for root"), "{operators}");
        let other = Failure::from(dolmen_types::Error::NotFound);
        assert_eq!(refused(other.clone(), "tank", None, 'r').to_string(), other.to_string());
    }
}
