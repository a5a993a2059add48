//! `dolmen check`: audits a pool.

use crate::failure::{Doing, Outcome};
use crate::output::{Answer, Table, human};
use crate::place::{self, PoolArg};
use clap::Args as ClapArgs;
use dolmen_client::Audit;
use dolmen_types::Place;
use serde_json::{Value, json};

#[derive(ClapArgs, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// Also read and verify every stored byte
    #[arg(long)]
    scrub: bool,
}

pub(crate) fn run(args: &Args) -> Outcome<Answer> {
    let session = place::open(&args.pool)?;
    let doing = || format!("check pool {}", session.dir().display());
    let audits = session.pool.check().doing(doing)?;
    let scrubs = if args.scrub { session.pool.scrub().doing(doing)? } else { Vec::new() };
    let recoveries = session.local.recoveries().to_vec();
    let dir = session.dir().display().to_string();
    session.close()?;

    let mut table =
        Table::new(&[">target", "closed", ">replayed", ">discarded", ">versions", ">verified", ">findings"]);
    let mut targets = Vec::new();
    let mut findings = String::new();
    for (target, recovery) in recoveries.iter().enumerate() {
        let all: Vec<&Audit> = audits.get(target).into_iter().chain(scrubs.get(target)).collect();
        let versions = all.first().map_or(0, |audit| audit.versions);
        let verified = all.iter().map(|audit| audit.verified_bytes).sum::<u64>();
        let found: Vec<Value> = all
            .iter()
            .flat_map(|audit| &audit.findings)
            .map(|finding| json!({ "rule": finding.rule, "place": place_json(&finding.place) }))
            .collect();
        for finding in all.iter().flat_map(|audit| &audit.findings) {
            findings.push_str(&format!(
                "target {target}: {} at {}\n",
                finding.rule,
                place_text(&finding.place)
            ));
        }
        table.row([
            target.to_string(),
            if recovery.clean { "yes".to_owned() } else { "no".to_owned() },
            recovery.frames.to_string(),
            human(recovery.discarded_bytes),
            versions.to_string(),
            human(verified),
            found.len().to_string(),
        ]);
        targets.push(json!({
            "target": target,
            "closed": recovery.clean,
            "frames_replayed": recovery.frames,
            "discarded_bytes": recovery.discarded_bytes,
            "versions": versions,
            "verified_bytes": verified,
            "findings": found,
        }));
    }
    let clean = findings.is_empty();
    let text = format!("{}{findings}{dir} is {}\n", table.text(), if clean { "clean" } else { "DAMAGED" });
    let json = json!({ "directory": dir, "clean": clean, "scrubbed": args.scrub, "targets": targets });
    Ok(Answer::new(text, json).with_findings(!clean))
}

fn place_text(place: &Place) -> String {
    use crate::output::readable;
    match place {
        Place::Value { cont, oid, dkey, akey, extent } => {
            let keys = format!("{}/{}", readable(dkey), readable(akey));
            let records = extent.map_or(String::new(), |e| format!(" records {}+{}", e.index, e.count));
            format!("container {} object {oid} key {keys}{records}", cont.0)
        }
        Place::Record { file, number, offset } => format!("{file} {number} byte {offset}"),
    }
}

fn place_json(place: &Place) -> Value {
    use crate::output::readable;
    match place {
        Place::Value { cont, oid, dkey, akey, extent } => json!({
            "container": cont.0,
            "oid": oid.to_string(),
            "dkey": readable(dkey),
            "akey": readable(akey),
            "extent": extent.map(|extent| json!({ "index": extent.index, "count": extent.count })),
        }),
        Place::Record { file, number, offset } => {
            json!({ "file": file, "number": number, "offset": offset })
        }
    }
}
