//! `dolmen obj`: list, dump.

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, Table, akey_text, dkey_text, hex, human, readable, say_key};
use crate::place::{self, ContArg};
use clap::{Args, Subcommand};
use core::fmt::Write as _;
use dolmen_client::{Anchor, At, Container, IoBuf, ListedExtent, Object, PackedKeys, Page};
use dolmen_types::{ObjectClass, Oid};
use serde_json::{Value, json};

/// Extents listed at once.
const EXTENTS_AT_ONCE: u32 = 1024;
/// Bytes of a value that a dump shows.
const VALUE_BYTES_SHOWN: usize = 64;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the objects of a container
    List(List),
    /// Show keys, values and extents of an object
    Dump(Dump),
}

#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(flatten)]
    cont: ContArg,
    /// As of this snapshot
    #[arg(long, value_name = "SNAP")]
    snapshot: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Dump {
    #[command(flatten)]
    cont: ContArg,
    /// Object id, as `obj list` prints it: HI.LO
    #[arg(value_name = "OID", value_parser = parse_oid)]
    oid: Oid,
    /// As of this snapshot
    #[arg(long, value_name = "SNAP")]
    snapshot: Option<String>,
}

pub(crate) fn parse_oid(text: &str) -> Result<Oid, String> {
    let wrong = || "an object id is two numbers, HI.LO".to_owned();
    let (hi, lo) = text.split_once('.').ok_or_else(wrong)?;
    let number = |digits: &str| digits.parse().map_err(|_digits| wrong());
    Ok(Oid { hi: number(hi)?, lo: number(lo)? })
}

pub(crate) fn run(command: &Command) -> Outcome<Answer> {
    match command {
        Command::List(args) => list(args),
        Command::Dump(args) => dump(args),
    }
}

/// Refuses what is no object's id, whatever its class would be.
pub(crate) fn known(oid: Oid) -> Outcome<()> {
    if oid.object_type().is_some() && oid.class() != ObjectClass::UNKNOWN {
        return Ok(());
    }
    let failure =
        Failure::new(Exit::Usage, format!("{oid} is the id of no object: it has no known type and class"));
    let list = if crate::compat::called().is_some() { "daos cont list-objects" } else { "dolmen obj list" };
    Err(failure.hint(format!("give it as `{list} POOL CONT` prints it")))
}

pub(crate) fn type_name(oid: Oid) -> String {
    oid.object_type().map_or("?".to_owned(), |kind| format!("{kind:?}"))
}

fn list(args: &List) -> Outcome<Answer> {
    let session = place::open_to_read(&args.cont.pool)?;
    let cont = session.container(&args.cont.cont)?;
    let view = place::view(&cont, &args.cont, args.snapshot.as_deref())?;
    let mut walk = view.objects(None);
    let mut oids: Vec<Oid> = Vec::new();
    loop {
        let mut page = walk.next_page().doing(|| format!("list objects of {}", args.cont.cont))?;
        if page.is_empty() {
            break;
        }
        oids.append(&mut page);
    }
    drop((walk, view, cont));
    session.close()?;
    oids.sort_unstable();
    let mut table = Table::new(&["object", "type", "class"]);
    let mut rows: Vec<Value> = Vec::with_capacity(oids.len());
    for oid in &oids {
        let (name, kind, class) = (oid.to_string(), type_name(*oid), oid.class().to_string());
        rows.push(json!({ "oid": name, "type": kind, "class": class }));
        table.row([name, kind, class]);
    }
    Ok(Answer::new(if oids.is_empty() { "no objects".to_owned() } else { table.text() }, json!(rows)))
}

fn dump(args: &Dump) -> Outcome<Answer> {
    let session = place::open_to_read(&args.cont.pool)?;
    let cont = session.container(&args.cont.cont)?;
    let view = place::view(&cont, &args.cont, args.snapshot.as_deref())?;
    let doing = || format!("dump object {}", args.oid);
    let (text, dkeys) = dump_object(&view, args.oid).doing(doing)?;
    drop((view, cont));
    session.close()?;
    if dkeys.is_empty() {
        let hint = format!("see `dolmen obj list {}`", args.cont.words());
        let failure = Failure::new(Exit::Missing, "it has no values").hint(hint);
        return Err(failure).doing(doing);
    }
    let json = json!({
        "oid": args.oid.to_string(),
        "type": type_name(args.oid),
        "class": args.oid.class().to_string(),
        "dkeys": dkeys,
    });
    Ok(Answer::new(text, json))
}

fn dump_object(view: &Container, oid: Oid) -> Outcome<(String, Vec<Value>)> {
    known(oid)?;
    let object = view.object(oid)?;
    let kind = object.object_type();
    let mut text = format!("object {oid}  {kind:?}  {}\n", oid.class());
    let mut dkeys = Vec::new();
    for dkey in keys(|anchor| object.list_dkeys(At::Latest, anchor, Page::default()))? {
        let dkey_name = dkey_text(oid, &dkey);
        writeln!(text, "  dkey {dkey_name}").expect("a String takes everything");
        let mut akeys = Vec::new();
        for akey in keys(|anchor| object.list_akeys(At::Latest, &dkey, anchor, Page::default()))? {
            akeys.push(dump_akey(&object, oid, &dkey, &akey, &mut text)?);
        }
        let mut row = json!({ "akeys": akeys });
        say_key(&mut row, "dkey", &dkey, dkey_name);
        dkeys.push(row);
    }
    Ok((text, dkeys))
}

pub(crate) fn keys(
    mut next: impl FnMut(&mut Anchor) -> dolmen_types::Result<PackedKeys>,
) -> dolmen_types::Result<Vec<Vec<u8>>> {
    let (mut all, mut anchor) = (Vec::new(), Anchor::default());
    while !anchor.is_eof() {
        all.extend(next(&mut anchor)?.iter().map(<[u8]>::to_vec));
    }
    Ok(all)
}

fn dump_akey(object: &Object, oid: Oid, dkey: &[u8], akey: &[u8], text: &mut String) -> Outcome<Value> {
    let name = akey_text(oid, akey);
    let (mut extents, mut anchor) = (Vec::<ListedExtent>::new(), Anchor::default());
    while !anchor.is_eof() {
        extents.append(&mut object.list_extents(At::Latest, dkey, akey, &mut anchor, EXTENTS_AT_ONCE)?);
    }
    let mut rows = Vec::with_capacity(extents.len());
    for extent in &extents {
        let epoch = extent.epoch.to_string();
        let line = if extent.single {
            let mut buf = IoBuf::default();
            object.get(At::Latest, dkey, akey, &mut buf)?;
            let shown = &buf[..buf.len().min(VALUE_BYTES_SHOWN)];
            let more = if buf.len() > VALUE_BYTES_SHOWN { "…" } else { "" };
            rows.push(json!({ "single_bytes": buf.len(), "epoch": epoch, "head": hex(shown) }));
            format!("{} at {epoch}: {}{more}", human(extent.record_bytes), readable(shown))
        } else {
            let (index, count, bytes) = (extent.recx.index, extent.recx.count, extent.record_bytes);
            rows.push(json!({ "index": index, "count": count, "record_bytes": bytes, "epoch": epoch }));
            format!("records {index}+{count} of {bytes} B at {epoch}")
        };
        writeln!(text, "    akey {name}  {line}").expect("a String takes everything");
    }
    let mut row = json!({ "values": rows });
    say_key(&mut row, "akey", akey, name);
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_ids_are_read_as_they_are_printed() {
        let oid = Oid { hi: 7 << 40, lo: 9 };
        assert_eq!(parse_oid(&oid.to_string()), Ok(oid));
        assert!(parse_oid("7").is_err());
        assert!(parse_oid("7.x").is_err());
    }
}
