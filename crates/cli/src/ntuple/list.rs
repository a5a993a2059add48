//! What a store or a file has: ntuples, and trees.

use super::home::Home;
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, Table, count, date};
use dolmen_remote::{Options, Stores, stores};
use dolmen_rntuple::rootfile::RootFile;
use dolmen_rntuple::rootfile::tree::Tree;
use dolmen_rntuple::store::When;
use serde_json::{Value, json};
use std::sync::Arc;

/// Ntuples and trees of a file.
pub(super) fn of_file(root: RootFile) -> Outcome<Answer> {
    let root = Arc::new(root);
    let (ntuples, trees) = (root.ntuples(), root.trees());
    let mut all: Vec<Value> =
        ntuples.iter().map(|name| json!({ "name": &**name, "kind": "ntuple" })).collect();
    if trees.is_empty() {
        let text = if all.is_empty() { "no ntuples and no trees".to_owned() } else { ntuples.join("\n") };
        return Ok(Answer::new(text, all.into()));
    }
    let mut table = Table::new(&["name", "kind", ">entries", ">branches", ">not read"]);
    for name in &ntuples {
        table.row([name.to_string(), "ntuple".to_owned()]);
    }
    for name in &trees {
        let tree = Tree::open(&root, name)?;
        let refused = tree.branches().iter().filter(|branch| branch.type_of().is_err()).count();
        let numbers = [tree.entry_count(), tree.branches().len() as u64, refused as u64];
        let words = [name.to_string(), "tree".to_owned()];
        table.row(words.into_iter().chain(numbers.map(|number| number.to_string())));
        let [entries, branches, refused] = numbers;
        all.push(json!({
            "name": &**name,
            "kind": "tree",
            "entries": entries,
            "branches": branches,
            "branches_not_read": refused,
        }));
    }
    Ok(Answer::new(table.text(), all.into()))
}

/// Ntuples of a store.
pub(super) fn of_store(home: &Home) -> Outcome<Answer> {
    let (mut table, mut all) = (Table::new(&["name", "made (UTC)", "version", "entries"]), Vec::new());
    let doing = || format!("list ntuples of {}", home.shown());
    for listed in home.store.list().doing(doing)? {
        let version = home.store.ntuple(&listed.name).and_then(|stored| stored.version(When::Now));
        let version = version.doing(doing)?;
        let made_s = i64::try_from(listed.created_ns / 1_000_000_000).unwrap_or(i64::MAX);
        let numbers = [version.number.to_string(), version.entry_count.to_string()];
        table.row([listed.name.to_string(), date(made_s)].into_iter().chain(numbers));
        all.push(json!({
            "name": &*listed.name,
            "created_ns": listed.created_ns,
            "version": version.number,
            "entries": version.entry_count,
        }));
    }
    let text = if all.is_empty() { "no ntuples".to_owned() } else { table.text() };
    Ok(Answer::new(text, all.into()))
}

/// Stores of ntuples at an address that has no ntuples, and below it; `own` is what is told of one that is there and has none.
pub(super) fn of_bucket(address: &str, own: Answer) -> Outcome<Answer> {
    let Stores { addresses, is_all } = stores(address, &Options::default())?;
    if addresses == [address.trim_end_matches('/')] {
        return Ok(own);
    }
    let rest = if is_all { "" } else { ", as far as was looked (1000 prefixes, and four slashes below it)" };
    if addresses.is_empty() {
        let why = format!(
            "there is neither a file of ROOT nor a store of ntuples at {address}, nor a store below it{rest}"
        );
        return Err(Failure::new(Exit::Missing, why));
    }
    let note = if is_all {
        ""
    } else {
        "\nThere may be more: only 1000 prefixes were looked at, and four slashes below it."
    };
    let json = addresses.iter().map(|address| json!({ "name": address, "kind": "store" })).collect();
    Ok(Answer::new(addresses.join("\n") + note, Value::Array(json)))
}

/// The branches of a tree.
pub(super) fn of_tree(tree: &Tree) -> Answer {
    let mut table = Table::new(&["branch", "type", ">baskets"]);
    let mut all = Vec::new();
    for branch in tree.branches() {
        let (of, refused) = match branch.type_of() {
            Ok(of) => (of.name(), None),
            Err(error) => (format!("not read: {error}"), Some(error.to_string())),
        };
        table.row([branch.path.to_string(), of.clone(), branch.basket_count().to_string()]);
        all.push(json!({
            "name": &*branch.path,
            "type": if refused.is_none() { json!(of) } else { Value::Null },
            "class": &*branch.class,
            "title": &*branch.title,
            "baskets": branch.basket_count(),
            "not_read": refused,
        }));
    }
    let head = format!(
        "tree {}: {}, {}\n",
        tree.name(),
        count(tree.entry_count(), "entry", "entries"),
        count(all.len() as u64, "branch", "branches"),
    );
    let json = json!({
        "name": tree.name(),
        "kind": "tree",
        "title": tree.title(),
        "entries": tree.entry_count(),
        "branches": all,
    });
    Answer::new(head + &table.text(), json)
}
