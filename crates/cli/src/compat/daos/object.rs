//! `daos object`: where an object lies, and its keys.

use super::{ContArg, with};
use crate::failure::{Failure, Outcome};
use crate::obj;
use crate::output::{Answer, akey_text, dkey_text, say_key};
use clap::{Args, Subcommand};
use dolmen_client::{At, Container, Page};
use dolmen_codec::wire::PoolAccess;
use dolmen_net::client::Link;
use dolmen_types::{Epoch, Oid};
use serde_json::{Value, json};

#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Show what an object's class makes of it, and where its parts lie
    Query(ObjectArg),
    /// List the keys of an object
    ListKeys(ObjectArg),
    /// Write out what an object has (not available)
    Dump(ObjectArg),
}

#[derive(Args, Debug)]
pub(super) struct ObjectArg {
    #[command(flatten)]
    cont: ContArg,
    /// Object id: HI.LO
    #[arg(value_name = "OID", value_parser = obj::parse_oid, required_unless_present = "given")]
    oid: Option<Oid>,
    /// The same, by an option
    #[arg(long = "oid", short = 'i', value_name = "OID", value_parser = obj::parse_oid, conflicts_with = "oid")]
    given: Option<Oid>,
}

impl ObjectArg {
    fn oid(&self) -> Oid {
        self.oid.or(self.given).expect("the command line has one of the two")
    }
}

pub(super) fn run(link: &Link, command: &Command) -> Outcome<Answer> {
    match command {
        Command::Query(arg) => with(link, &arg.cont, PoolAccess::ReadOnly, |cont| query(cont, arg.oid())),
        Command::ListKeys(arg) => {
            with(link, &arg.cont, PoolAccess::ReadOnly, |cont| list_keys(cont, arg.oid()))
        }
        Command::Dump(_) => Err(Failure::absent("daos object dump", "use `dolmen obj dump`")),
    }
}

/// The object's shards: each is a group of its own, since there are no copies.
fn query(cont: &Container, oid: Oid) -> Outcome<Answer> {
    // Whether it can lie anywhere.
    obj::known(oid)?;
    cont.object(oid)?;
    let targets = cont.query_pool()?.map.targets;
    let count = u16::try_from(targets.len()).unwrap_or(u16::MAX);
    let placement = dolmen_layout::Layout::new(oid, count).map_err(dolmen_types::Error::from)?;
    let class = oid.class().to_string();
    let mut text = String::new();
    let (mut groups, mut shards) = (Vec::new(), Vec::new());
    for (group, target) in placement.targets().enumerate() {
        let rank = targets.get(target.index()).map_or(0, |info| info.rank);
        text.push_str(&format!("grp: {group}\nreplica 0 {rank}:{}\n", target.0));
        let lies = json!({ "rank": rank, "target": target.0 });
        groups.push(json!({ "group": group, "shards": [lies] }));
        shards.push(json!({ "replicas": [lies] }));
    }
    let text = format!("oid: {oid} ver 0 grp_nr: {}\n{text}class: {class}\n", groups.len());
    let json = json!({
        "oid": oid.to_string(),
        "version": 0,
        "ver": 0,
        "type": obj::type_name(oid),
        "class": class,
        "grp_nr": groups.len(),
        "groups": groups,
        "shards": shards,
    });
    Ok(Answer::new(text, json))
}

fn list_keys(cont: &Container, oid: Oid) -> Outcome<Answer> {
    let object = cont.object(oid)?;
    let (mut text, mut rows) = (String::new(), Vec::new());
    for dkey in obj::keys(|anchor| object.list_dkeys(At::Latest, anchor, Page::default()))? {
        let name = dkey_text(oid, &dkey);
        text.push_str(&format!("{name}\n"));
        let mut akeys = Vec::new();
        for akey in obj::keys(|anchor| object.list_akeys(At::Latest, &dkey, anchor, Page::default()))? {
            let name = akey_text(oid, &akey);
            text.push_str(&format!("  {name}\n"));
            let mut row = json!({});
            say_key(&mut row, "akey", &akey, name);
            akeys.push(row);
        }
        let mut row = json!({ "akeys": akeys });
        say_key(&mut row, "dkey", &dkey, name);
        rows.push(row);
    }
    Ok(Answer::new(text, Value::Array(rows)))
}

/// The objects of a container, as it is or was.
pub(super) fn list(cont: &Container, at: Option<Epoch>) -> Outcome<Answer> {
    let mut walk = cont.objects(at);
    let mut oids: Vec<String> = Vec::new();
    loop {
        let page = walk.next_page()?;
        if page.is_empty() {
            break;
        }
        oids.extend(page.iter().map(ToString::to_string));
    }
    oids.sort_unstable();
    Ok(Answer::new(oids.join("\n"), json!(oids)))
}
