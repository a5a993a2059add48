//! Attributes of pools and containers: `set-attr`, `get-attr`, `list-attrs`, `del-attr`.

use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Answer, Table};
use clap::{Args, Subcommand};
use dolmen_client::{Container, Pool};
use dolmen_codec::acl::Acl;
use dolmen_codec::wire::PoolAccess;
use dolmen_types::{Error, PropId, PropValue, Props, Result};
use serde_json::{Value, json};

/// What is done with attributes of one pool or container.
#[derive(Subcommand, Debug)]
pub(super) enum Verb<A: Args> {
    /// Set attributes, as NAME:VALUE, or one as NAME VALUE
    #[command(visible_alias = "setattr")]
    SetAttr {
        #[command(flatten)]
        of: A,
        /// What to set
        #[arg(required_unless_present = "attr")]
        attrs: Vec<String>,
        /// The name of one, by an option
        #[arg(long, short, value_name = "NAME", requires = "value", conflicts_with = "attrs")]
        attr: Option<String>,
        /// Its value
        #[arg(long, short, requires = "attr")]
        value: Option<String>,
    },
    /// Print attributes; all if none is named
    #[command(visible_alias = "getattr")]
    GetAttr {
        #[command(flatten)]
        of: A,
        #[command(flatten)]
        which: Which,
    },
    /// List attributes
    #[command(visible_aliases = ["list-attr", "lsattr"])]
    ListAttrs {
        #[command(flatten)]
        of: A,
        /// Show values, too
        #[arg(long, short, visible_short_alias = 'V')]
        verbose: bool,
    },
    /// Remove attributes
    #[command(visible_alias = "delattr")]
    DelAttr {
        #[command(flatten)]
        of: A,
        #[command(flatten)]
        which: Which,
    },
}

/// Which attributes are meant.
#[derive(Args, Debug)]
pub(super) struct Which {
    /// Their names
    #[arg(value_delimiter = ',')]
    attrs: Vec<String>,
    /// The name of one, by an option
    #[arg(long, short, value_name = "NAME", conflicts_with = "attrs")]
    attr: Option<String>,
}

impl Which {
    fn names(&self) -> Vec<String> {
        self.attrs.iter().chain(&self.attr).cloned().collect()
    }
}

impl<A: Args> Verb<A> {
    /// Whose they are.
    pub(super) fn of(&self) -> &A {
        match self {
            Self::SetAttr { of, .. }
            | Self::GetAttr { of, .. }
            | Self::DelAttr { of, .. }
            | Self::ListAttrs { of, .. } => of,
        }
    }

    /// What the pool is to be opened for.
    pub(super) fn access(&self) -> PoolAccess {
        match self {
            Self::SetAttr { .. } | Self::DelAttr { .. } => PoolAccess::ReadWrite,
            Self::GetAttr { .. } | Self::ListAttrs { .. } => PoolAccess::ReadOnly,
        }
    }

    /// Does it; `lists` is the command that lists what there is.
    pub(super) fn run(&self, owner: Owner<'_>, lists: &str) -> Outcome<Answer> {
        match self {
            Self::SetAttr { attr: Some(name), value: Some(value), .. } => {
                owner.set(&[(name.clone(), value.as_bytes().to_vec())])?;
                Ok(Answer::new("", Value::Null))
            }
            Self::SetAttr { attrs, .. } => set(owner, attrs),
            Self::GetAttr { which, .. } => get(owner, &which.names(), lists),
            Self::ListAttrs { verbose, .. } => list(owner, *verbose, lists),
            Self::DelAttr { which, .. } => remove(owner, &which.names(), lists),
        }
    }
}

/// What has attributes.
#[derive(Clone, Copy)]
pub(super) enum Owner<'a> {
    Pool(&'a Pool),
    Cont(&'a Container),
}

impl Owner<'_> {
    /// The user and the group that it belongs to.
    pub(super) fn owners(self) -> Result<(String, String)> {
        let (props, ids) = match self {
            Self::Pool(pool) => (pool.props()?, [PropId::PO_OWNER, PropId::PO_OWNER_GROUP]),
            Self::Cont(cont) => {
                let ids = [PropId::CO_OWNER, PropId::CO_OWNER_GROUP];
                (cont.props(&ids)?, ids)
            }
        };
        let text_of = |id| match props.get(&id) {
            Some(PropValue::Text(text)) => text.clone(),
            _ => String::new(),
        };
        Ok((text_of(ids[0]), text_of(ids[1])))
    }

    /// Who may do what with it.
    pub(super) fn acl(self) -> Result<Acl> {
        match self {
            Self::Cont(cont) => cont.acl(),
            Self::Pool(pool) => match pool.props()?.get(&PropId::PO_ACL) {
                Some(PropValue::Bytes(bytes)) => Acl::decode(bytes),
                _ => Err(Error::NoPermission),
            },
        }
    }

    /// Says who may do what with it.
    pub(super) fn set_acl(self, acl: &Acl) -> Result<()> {
        match self {
            Self::Cont(cont) => cont.set_acl(acl),
            Self::Pool(pool) => {
                pool.set_props(&Props::from([(PropId::PO_ACL, PropValue::Bytes(acl.encode()))]))
            }
        }
    }

    /// Gives it to another user or group, by their names as lists have them.
    pub(super) fn set_owners(self, user: Option<String>, group: Option<String>) -> Result<()> {
        let ids = match self {
            Self::Pool(_) => [PropId::PO_OWNER, PropId::PO_OWNER_GROUP],
            Self::Cont(_) => [PropId::CO_OWNER, PropId::CO_OWNER_GROUP],
        };
        let given = ids.into_iter().zip([user, group]);
        let props: Props = given.filter_map(|(id, name)| Some((id, PropValue::Text(name?)))).collect();
        match self {
            Self::Pool(pool) => pool.set_props(&props),
            Self::Cont(cont) => cont.set_props(&props),
        }
    }

    fn names(self) -> Result<Vec<String>> {
        match self {
            Self::Pool(pool) => pool.attr_names(),
            Self::Cont(cont) => cont.attr_names(),
        }
    }

    /// Sets attributes.
    pub(super) fn set(self, attrs: &[(String, Vec<u8>)]) -> Result<()> {
        match self {
            Self::Pool(pool) => pool.set_attrs(attrs),
            Self::Cont(cont) => cont.set_attrs(attrs),
        }
    }

    fn value(self, name: &str, lists: &str) -> Outcome<Vec<u8>> {
        let found = match self {
            Self::Pool(pool) => pool.attr(name),
            Self::Cont(cont) => cont.attr(name),
        };
        found.map_err(|error| without(name, error, lists))
    }
}

/// An attribute that is not there is named.
fn without(name: &str, error: Error, lists: &str) -> Failure {
    match error {
        Error::NotFound => {
            let failure = Failure::new(Exit::Missing, format!("there is no attribute {name:?}"));
            failure.hint(format!("see `{lists}`"))
        }
        other => other.into(),
    }
}

/// Attributes given as `NAME:VALUE`, or one as its name and its value.
pub(super) fn parsed(words: &[String]) -> Outcome<Vec<(String, Vec<u8>)>> {
    let no_value =
        |word: &str| Failure::new(Exit::Usage, format!("{word} has no value")).hint("give NAME:VALUE");
    let pair = |(name, value): (&str, &str)| (name.to_owned(), value.as_bytes().to_vec());
    match words {
        [name, value] if !name.contains(':') => Ok(vec![pair((name, value))]),
        words => {
            let given = words.iter().flat_map(|word| word.split(','));
            given.map(|word| word.split_once(':').map(pair).ok_or_else(|| no_value(word))).collect()
        }
    }
}

fn set(owner: Owner<'_>, words: &[String]) -> Outcome<Answer> {
    let attrs = parsed(words)?;
    owner.set(&attrs)?;
    Ok(Answer::new("", Value::Null))
}

/// The attributes with these names, or all. Values are bytes, which JSON has in base 64.
fn get(owner: Owner<'_>, names: &[String], lists: &str) -> Outcome<Answer> {
    let all = if names.is_empty() { owner.names()? } else { names.to_vec() };
    let mut table = Table::new(&["name", "value"]);
    let mut found = Vec::with_capacity(all.len());
    let mut text = String::new();
    for name in &all {
        let value = owner.value(name, lists)?;
        text = String::from_utf8_lossy(&value).into_owned();
        table.row([name.clone(), text.clone()]);
        found.push(json!({ "name": name, "value": base64(&value) }));
    }
    match (names, &mut found[..]) {
        ([_], [one]) => Ok(Answer::new(text, one.take())),
        _ => Ok(Answer::new(table.text(), Value::Array(found))),
    }
}

/// The names of all, or names and values.
fn list(owner: Owner<'_>, verbose: bool, lists: &str) -> Outcome<Answer> {
    let mut names = owner.names()?;
    names.sort_unstable();
    if !verbose {
        return Ok(Answer::new(names.join("\n"), json!(names)));
    }
    let mut table = Table::new(&["name", "value"]);
    let mut all = serde_json::Map::new();
    for name in names {
        let value = owner.value(&name, lists)?;
        table.row([name.clone(), String::from_utf8_lossy(&value).into_owned()]);
        all.insert(name, json!(base64(&value)));
    }
    Ok(Answer::new(table.text(), Value::Object(all)))
}

/// Bytes in base 64, as JSON of DAOS's tools has them.
// RFC 4648, section 4, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit <= three.len() { char::from(DIGITS[index as usize]) } else { '=' });
        }
    }
    text
}

/// Removes some.
fn remove(owner: Owner<'_>, names: &[String], lists: &str) -> Outcome<Answer> {
    if names.is_empty() {
        return Err(Failure::new(Exit::Usage, "no attribute is named").hint("give its NAME"));
    }
    // Before any is gone: removing what is not there would be no error.
    for name in names {
        owner.value(name, lists)?;
    }
    match owner {
        Owner::Pool(pool) => pool.remove_attrs(names)?,
        Owner::Cont(cont) => cont.remove_attrs(names)?,
    }
    Ok(Answer::new("", Value::Null))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_in_base_64() {
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (&[0xfb, 0xff], "+/8=")]
        {
            assert_eq!(base64(bytes), text);
        }
    }
}
