//! Properties of pools: those that there are, and those that `dmg pool create` is given.

use crate::compat::attr::Owner;
use crate::compat::{Opened, PoolArg, asking, behind, called, open, service_rank};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Answer, Table};
use clap::Args;
use dolmen_client::{POOL_PROPS, PoolProp};
use dolmen_codec::acl::Entry;
use dolmen_codec::wire::PoolAccess;
use dolmen_net::client::Link;
use serde_json::{Value, json};

#[derive(Args, Debug)]
pub(in crate::compat) struct GetProp {
    #[command(flatten)]
    pool: PoolArg,
    /// Their names
    #[arg(value_delimiter = ',')]
    names: Vec<String>,
}

/// Properties of a pool: its label, where its service is, and those that are the same for all.
pub(in crate::compat) fn show(link: &Link, args: &GetProp) -> Outcome<Answer> {
    let Opened { pool, info } = open(link, &args.pool.pool, PoolAccess::ReadOnly)?;
    let owner = Owner::Pool(&pool);
    let (user, group) = owner.owners()?;
    let label = info.label.as_ref().map_or("pool_label_not_set".to_owned(), ToString::to_string);
    let same = |prop: &PoolProp| {
        (prop.name, prop.about, prop.word.map_or_else(|| json!(prop.value), |word| json!(word)))
    };
    let mut all: Vec<(&str, &str, Value)> = POOL_PROPS.iter().map(same).collect();
    all.push(("label", "Pool label", json!(label)));
    all.push(("svc_list", "Pool service replica list", json!(format!("[{}]", service_rank(&info)))));
    all.push(("owner", "Owner", json!(user)));
    all.push(("group", "Owner Group", json!(group)));
    // Whoever may not read the list is told the rest.
    if let Ok(acl) = owner.acl() {
        let entries: Vec<String> = acl.entries().iter().filter_map(Entry::text).collect();
        all.push(("acl", "Access Control List", json!(entries)));
    }
    all.sort_unstable_by_key(|row| row.0);
    if let Some(name) = args.names.iter().find(|name| !all.iter().any(|row| row.0 == name.as_str())) {
        let program = called().unwrap_or("dmg");
        let lists = asking(program, &behind("pool get-prop", &[&args.pool.pool]));
        return Err(unknown(name).hint(format!("see `{lists}`")));
    }
    let mut table = Table::new(&["name", "value"]);
    let mut rows = Vec::new();
    for (name, description, value) in all {
        if args.names.is_empty() || args.names.iter().any(|wanted| wanted == name) {
            let entries =
                value.as_array().map(|all| all.iter().filter_map(Value::as_str).collect::<Vec<_>>());
            let text = match (value.as_str(), entries) {
                (Some(text), _) => text.to_owned(),
                (None, Some(entries)) => entries.join(", "),
                (None, None) => value.to_string(),
            };
            table.row([format!("{description} ({name})"), text]);
            rows.push(json!({ "name": name, "description": description, "value": value }));
        }
    }
    Ok(Answer::new(table.text(), Value::Array(rows)))
}

fn unknown(name: &str) -> Failure {
    Failure::new(Exit::Usage, format!("there is no property {name} of a pool"))
}

/// Reads the properties of a pool that is to be made, each `NAME:VALUE`; the label, if it is among them. The others can only be
/// what they are.
pub(super) fn given(pairs: &[String]) -> Outcome<Option<String>> {
    let mut label = None;
    for pair in pairs {
        let Some((name, value)) = pair.split_once([':', '=']) else {
            return Err(
                Failure::new(Exit::Usage, format!("{pair:?} is no property")).hint("write NAME:VALUE")
            );
        };
        if name == "label" {
            label = Some(value.to_owned());
            continue;
        }
        let prop = POOL_PROPS.iter().find(|prop| prop.name == name).ok_or_else(|| {
            let names: Vec<&str> = POOL_PROPS.iter().map(|prop| prop.name).collect();
            unknown(name).hint(format!("there are label, {}", names.join(", ")))
        })?;
        if !prop.is_said_by(value) {
            let is = prop.word.map_or_else(|| prop.value.to_string(), str::to_owned);
            let why = format!("{name} is {is} for every pool, and cannot be {value}");
            return Err(Failure::new(Exit::Usage, why).hint("leave it out"));
        }
    }
    Ok(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_may_be_a_property_and_others_are_what_they_are() {
        let read = |pairs: &[&str]| given(&pairs.iter().map(|pair| (*pair).to_owned()).collect::<Vec<_>>());
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&["label:tank", "reclaim:lazy", "rd_fac=0"]).unwrap(), Some("tank".to_owned()));
        let line = read(&["reclaim:disabled"]).unwrap_err().to_string();
        assert_eq!(line, "reclaim is lazy for every pool, and cannot be disabled; leave it out");
        for wrong in ["rd_fac:2", "svc_rf:1", "nonsense:1", "label"] {
            assert_eq!(read(&[wrong]).unwrap_err().exit, Exit::Usage, "{wrong}");
        }
    }
}
