//! Owners and access control lists of containers: `get-acl`, `overwrite-acl`, `update-acl`, `delete-acl`, `set-owner`.

use crate::cont::props::refuse_unknown;
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::Answer;
use crate::path::shown_outside;
use dolmen_client::Container;
use dolmen_codec::acl::{self, Acl, Entry};
use dolmen_env::{group_name, user_name};
use dolmen_types::{PropId, PropValue, Props};
use nix::unistd::{Gid, Uid};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Properties that say whose a new container is: the caller's, unless another group is named.
pub(super) fn owner_props(group: Option<&str>) -> Outcome<Props> {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    let user = user_name(uid.as_raw()).unwrap_or_else(|| uid.to_string());
    let own = || group_name(gid.as_raw()).unwrap_or_else(|| gid.to_string());
    let given = group.map(name).transpose()?;
    if let Some(given) = &given {
        refuse_unknown(PropId::CO_OWNER_GROUP, given)?;
    }
    let group = given.map_or_else(|| name(&own()), Ok)?;
    Ok(Props::from([
        (PropId::CO_OWNER, PropValue::Text(name(&user)?)),
        (PropId::CO_OWNER_GROUP, PropValue::Text(group)),
    ]))
}

/// The name of a user or group as DAOS writes it.
fn name(text: &str) -> Outcome<String> {
    acl::named(text).map_err(|_none| {
        Failure::new(Exit::Usage, format!("{text:?} is no name of a user or group")).hint("give NAME@")
    })
}

/// The property with the list of a file.
pub(super) fn file_prop(file: &Path) -> Outcome<Props> {
    Ok(Props::from([(PropId::CO_ACL, PropValue::Bytes(from_file(file)?.encode()))]))
}

/// One entry a line; empty lines, and those that begin with `#`, say nothing.
fn from_file(file: &Path) -> Outcome<Acl> {
    let doing = || format!("read {}", shown_outside(file));
    let text = std::fs::read_to_string(file).map_err(|error| Failure::on_file(file, &error)).doing(doing)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entries = lines.map(entry).collect::<Outcome<Vec<Entry>>>().doing(doing)?;
    let twice = |_error| Failure::new(Exit::Usage, "two entries are about the same principal");
    Acl::new(entries).map_err(twice).doing(doing)
}

fn entry(text: &str) -> Outcome<Entry> {
    Entry::parse(text).map_err(|_wrong| {
        Failure::new(Exit::Usage, format!("{text:?} is no entry of an access control list"))
            .hint("an entry reads ACCESS:FLAGS:PRINCIPAL:PERMISSIONS, such as A::bob@:rw")
    })
}

/// The list, owner and group of a container; into a file, too, if one is named.
pub(super) fn get(cont: &Container, out: Option<&Path>, verbose: bool) -> Outcome<Answer> {
    let props = cont.props(&[PropId::CO_OWNER, PropId::CO_OWNER_GROUP])?;
    let text_of = |id| match props.get(&id) {
        Some(PropValue::Text(text)) => text.clone(),
        _ => String::new(),
    };
    let (owner, group) = (text_of(PropId::CO_OWNER), text_of(PropId::CO_OWNER_GROUP));
    let acl = cont.acl()?;
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

fn set(cont: &Container, acl: &Acl) -> Outcome<Answer> {
    cont.set_acl(acl)?;
    get(cont, None, false)
}

/// Replaces the list by that of a file.
pub(super) fn overwrite(cont: &Container, file: &Path) -> Outcome<Answer> {
    set(cont, &from_file(file)?)
}

/// Adds entries, or replaces those of the same principals.
pub(super) fn update(cont: &Container, file: Option<&Path>, text: Option<&str>) -> Outcome<Answer> {
    let mut acl = cont.acl()?;
    let given = match file {
        Some(file) => from_file(file)?.entries().to_vec(),
        None => Vec::new(),
    };
    given.into_iter().for_each(|entry| acl.put(entry));
    if let Some(text) = text {
        acl.put(entry(text)?);
    }
    set(cont, &acl)
}

/// Removes the entry of a principal.
pub(super) fn delete(cont: &Container, text: &str) -> Outcome<Answer> {
    let (who, name) = acl::principal(text).map_err(|_wrong| {
        Failure::new(Exit::Usage, format!("{text:?} is no principal"))
            .hint("give OWNER@, GROUP@, EVERYONE@, u:NAME@ or g:NAME@")
    })?;
    let mut acl = cont.acl()?;
    if !acl.remove(who, name.as_deref()) {
        let failure = Failure::new(Exit::Missing, format!("there is no entry for {text}"));
        return Err(failure.hint("see `get-acl`"));
    }
    set(cont, &acl)
}

/// Gives a container to another user or group.
pub(super) fn set_owner(cont: &Container, user: Option<&str>, group: Option<&str>) -> Outcome<Answer> {
    let mut props = Props::new();
    for (id, text) in [(PropId::CO_OWNER, user), (PropId::CO_OWNER_GROUP, group)] {
        if let Some(text) = text {
            let name = name(text)?;
            refuse_unknown(id, &name)?;
            props.insert(id, PropValue::Text(name));
        }
    }
    if props.is_empty() {
        return Err(Failure::new(Exit::Usage, "nobody is named").hint("give --user or --group"));
    }
    cont.set_props(&props)?;
    Ok(Answer::new("", Value::Null))
}

/// Where entries come from.
#[derive(clap::Args, Debug)]
#[group(required = true, multiple = true)]
pub(super) struct Entries {
    /// File with an entry a line
    #[arg(long, short = 'a', value_name = "FILE")]
    pub(super) acl_file: Option<PathBuf>,
    /// One entry, such as A::bob@:rw
    #[arg(long, short, value_name = "ENTRY")]
    pub(super) entry: Option<String>,
}
