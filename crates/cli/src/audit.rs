//! `dolmen check`: audits a pool, and the file systems in it.

use crate::failure::{Doing, Failure, Outcome};
use crate::inspect;
use crate::output::{Answer, Table, human, place_json, place_text};
use crate::path::{say, shown_outside};
use crate::place::{self, PoolArg, Session};
use clap::Args as ClapArgs;
use dolmen_client::{Audit, ContHandle, ContName, Finding};
use dolmen_dfs::{BadEntry, CheckReport, Dfs, LAYOUT_POSIX, MountOptions};
use dolmen_types::{ContNo, Error, Oid, Place, PropId, PropValue, shown};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[derive(ClapArgs, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// Also read and verify every stored byte
    #[arg(long)]
    scrub: bool,
    /// Free objects of files that nothing names, as a killed process may leave them; not where anything is damaged
    #[arg(long)]
    repair: bool,
}

/// Why data may be damaged after a good copy has replaced it.
const OLD_VERSIONS: &str = "data that a good copy has replaced since (`fs put --no-resume`, `ntuple scrub --repair-from`) is that of an old \
                            version: `dolmen cont aggregate` frees it, unless a snapshot shows it\n";

/// What opening a target found.
struct Opened {
    closed: bool,
    frames: u64,
    discarded_bytes: u64,
}

/// What was found so far.
#[derive(Default)]
struct Report {
    text: String,
    findings: u64,
}

impl Report {
    /// Notes what could not be audited.
    fn unchecked(&mut self, what: &str, failure: &Failure) {
        self.findings += 1;
        self.text.push_str(&format!("{what}: NOT CHECKED: {failure}\n"));
    }
}

pub(crate) fn run(args: &Args) -> Outcome<Answer> {
    // What opening it writes again, nobody finds after that.
    let damaged_slots = inspect::damaged_slots(&place::pool_directory(&args.pool.pool)?);
    let session = place::open_alone(&args.pool)?;
    let doing = || format!("check pool {}", shown_outside(session.dir()));
    let mut audits = session.pool.check().doing(doing)?;
    note_repaired(&damaged_slots, session.dir(), &mut audits);
    let (scrubs, unread) = if args.scrub { scrub(&session).doing(doing)? } else { (Vec::new(), None) };
    let mut report = Report::default();
    let opened: Vec<Opened> = session
        .own()?
        .recoveries()
        .iter()
        .map(|found| Opened {
            closed: found.clean && found.frames == 0,
            frames: found.frames,
            discarded_bytes: found.discarded_bytes,
        })
        .collect();
    let targets = targets(&opened, &audits, &scrubs, &mut report);
    if let Some(failure) = &unread {
        report.unchecked("stored bytes", failure);
    }
    let damaged: Vec<(ContNo, Oid)> =
        audits.iter().chain(&scrubs).flat_map(|audit| &audit.findings).filter_map(object_of).collect();
    let conts = session.pool.containers().doing(doing).unwrap_or_else(|failure| {
        report.unchecked("containers", &failure);
        Vec::new()
    });
    let posix = Some(&PropValue::Number(LAYOUT_POSIX));
    let mut trees = Vec::new();
    for cont in conts.iter().filter(|cont| cont.props.get(&PropId::CO_LAYOUT_TYPE) == posix) {
        let mut tree = files_or_why(&session, cont, args.repair, &mut report);
        let damaged = damaged.iter().filter(|(no, _)| *no == cont.no).map(|(_, oid)| *oid).collect();
        name_damaged(&session, cont, &damaged, &mut report, &mut tree);
        trees.push(tree);
    }
    let dir = session.dir().to_owned();
    if let Err(failure) = session.close() {
        report.unchecked("closing", &failure);
    }

    if damaged.iter().any(|(no, _)| conts.iter().any(|cont| cont.no == *no)) {
        report.text.push_str(OLD_VERSIONS);
    }
    let clean = report.findings == 0;
    let verdict = format!("{} is {}", shown_outside(&dir), if clean { "clean" } else { "DAMAGED" });
    let unread = if clean && !args.scrub { "; values were not read (--scrub)" } else { "" };
    let text = format!("{}{verdict}{unread}\n", report.text);
    let mut json = json!({
        "clean": clean,
        "scrubbed": args.scrub,
        "targets": targets,
        "file_systems": trees,
    });
    say(&mut json, "directory", dir.as_os_str().as_bytes());
    Ok(Answer::new(text, json).with_findings((!clean).then_some(verdict)))
}

/// What reading every stored byte finds, or why a device cannot go on with that.
fn scrub(session: &Session) -> dolmen_types::Result<(Vec<Audit>, Option<Failure>)> {
    match session.pool.scrub() {
        Err(error @ Error::Io { .. }) => Ok((Vec::new(), Some(error.into()))),
        scrubs => scrubs.map(|scrubs| (scrubs, None)),
    }
}

/// Adds the slots of superblocks that were damaged before the pool was opened, and no longer are.
fn note_repaired(damaged: &[(u16, u64)], pool: &Path, audits: &mut [Audit]) {
    let still = if damaged.is_empty() { Vec::new() } else { inspect::damaged_slots(pool) };
    for slot @ &(target, offset) in damaged {
        if let Some(audit) = audits.get_mut(usize::from(target)).filter(|_| !still.contains(slot)) {
            let place = Place::Record { file: "super", number: 0, offset };
            audit.findings.push(Finding { place, rule: "superblock-repaired" });
        }
    }
}

fn targets(opened: &[Opened], audits: &[Audit], scrubs: &[Audit], report: &mut Report) -> Vec<Value> {
    let headings = [">target", "closed", ">replayed", ">discarded", ">versions", ">verified", ">findings"];
    let mut table = Table::new(&headings);
    let (mut rows, mut lines) = (Vec::new(), String::new());
    for (target, recovery) in opened.iter().enumerate() {
        let all: Vec<&Audit> = audits.get(target).into_iter().chain(scrubs.get(target)).collect();
        let versions = all.first().map_or(0, |audit| audit.versions);
        let verified = all.iter().map(|audit| audit.verified_bytes).sum::<u64>();
        let mut found: Vec<Value> = Vec::new();
        for finding in all.iter().flat_map(|audit| &audit.findings) {
            let Finding { rule, place } = finding;
            let meaning = meaning(rule);
            lines.push_str(&format!("target {target}: {}: {meaning} ({rule})\n", place_text(place)));
            found.push(json!({ "rule": rule, "meaning": meaning, "place": place_json(place) }));
        }
        let unlisted = all.iter().map(|audit| audit.unlisted).sum::<u64>();
        if unlisted > 0 {
            lines.push_str(&format!("target {target}: {unlisted} more findings\n"));
        }
        report.findings += found.len() as u64 + unlisted;
        table.row([
            target.to_string(),
            if recovery.closed { "yes".to_owned() } else { "no".to_owned() },
            format!("{} frames", recovery.frames),
            human(recovery.discarded_bytes),
            versions.to_string(),
            human(verified),
            found.len().to_string(),
        ]);
        rows.push(json!({
            "target": target,
            "closed": recovery.closed,
            "frames_replayed": recovery.frames,
            "discarded_bytes": recovery.discarded_bytes,
            "versions": versions,
            "verified_bytes": verified,
            "findings": found,
            "unlisted_findings": unlisted,
        }));
    }
    report.text.push_str(&table.text());
    report.text.push_str(&lines);
    rows
}

/// The object that a finding is about.
fn object_of(finding: &Finding) -> Option<(ContNo, Oid)> {
    match &finding.place {
        Place::Value { cont, oid, .. } => Some((*cont, *oid)),
        Place::Record { .. } => None,
    }
}

/// Says which files and directories the damaged objects are.
fn name_damaged(
    session: &Session,
    handle: &ContHandle,
    damaged: &BTreeSet<Oid>,
    report: &mut Report,
    tree: &mut Value,
) {
    if damaged.is_empty() {
        return;
    }
    let cont = session.pool.open_container(&ContName::Uuid(handle.uuid));
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let found = cont
        .map_err(dolmen_dfs::Error::from)
        .and_then(|cont| Dfs::mount(&cont, &options))
        .and_then(|dfs| dolmen_dfs::tree::paths_of(&dfs, damaged));
    let name = name_of(handle);
    let found = match found {
        Ok(found) => found,
        Err(error) => return report.unchecked(&format!("paths of container {name}"), &error.into()),
    };
    let mut rows = Vec::new();
    for (oid, path) in found {
        report.text.push_str(&format!(
            "container {name}: damaged data belongs to {} (object {oid})\n",
            shown(&path)
        ));
        let mut row = json!({ "oid": oid.to_string() });
        say(&mut row, "path", &path);
        rows.push(row);
    }
    tree["damaged"] = Value::Array(rows);
}

/// Audits the file system of a container; what keeps it from that is a finding, and other containers are audited.
fn files_or_why(session: &Session, handle: &ContHandle, repair: bool, report: &mut Report) -> Value {
    files(session, handle, repair, report).unwrap_or_else(|failure| {
        let name = name_of(handle);
        report.unchecked(&format!("container {name}"), &failure);
        json!({ "container": name, "failure": failure.detail() })
    })
}

fn name_of(handle: &ContHandle) -> String {
    handle.label.as_ref().map_or(handle.uuid.to_string(), ToString::to_string)
}

/// Objects that no entry names, in words.
fn objects(found: &CheckReport) -> String {
    let unnamed = match (found.leaked.len(), found.repaired, found.is_whole()) {
        (0, ..) => String::new(),
        (count, true, _) => format!(", {count} objects without a name freed"),
        (count, false, true) => format!(", {count} objects without a name (space only: --repair frees it)"),
        (count, false, false) => {
            format!(", {count} objects without a name, which may belong to what is damaged")
        }
    };
    match found.others {
        0 => unnamed,
        count => format!("{unnamed}, beside {count} objects that are no file's, such as ntuples"),
    }
}

/// Audits the file system of a container: entries, link counts, and objects that nothing names.
fn files(session: &Session, handle: &ContHandle, repair: bool, report: &mut Report) -> Outcome<Value> {
    let name = name_of(handle);
    let doing = || format!("check the files of container {name}");
    let cont = session.pool.open_container(&ContName::Uuid(handle.uuid)).doing(doing)?;
    let found = match Dfs::mount(&cont, &session.mount_options(!repair)).and_then(|dfs| dfs.check(repair)) {
        // Its creation was cut short: there is nothing to check, and making it again needs another name.
        Err(dolmen_dfs::Error::NotFormatted) => {
            report
                .text
                .push_str(&format!("container {name}: no file system yet; destroy it and make it anew\n"));
            return Ok(json!({ "container": name, "formatted": false }));
        }
        other => other.doing(doing)?,
    };
    let CheckReport {
        dirs,
        files,
        symlinks,
        orphans,
        bad_entries,
        bad_links,
        leaked,
        others,
        unlisted,
        repaired,
    } = &found;
    report.findings += (bad_entries.len() + bad_links.len() + usize::from(*unlisted)) as u64;
    report.text.push_str(&format!(
        "container {name}: {dirs} directories, {files} files, {symlinks} symbolic links{}\n",
        objects(&found)
    ));
    for bad in bad_entries {
        let (entry, path) = (shown(&bad.name), shown(&path_of(bad)));
        report.text.push_str(&format!(
            "container {name}: {path} is damaged (entry {entry} of directory {})\n",
            bad.dir
        ));
    }
    if *unlisted {
        report.text.push_str(&format!("container {name}: the list of its objects is damaged\n"));
    }
    for bad in bad_links {
        let names = bad.found;
        report
            .text
            .push_str(&format!("container {name}: file {} has {names} names, counted others\n", bad.file));
    }
    if repair && !repaired {
        report.text.push_str(&format!(
            "container {name}: nothing was repaired; first remove what is damaged (`fs rm -r`) or replace it (`fs put`)\n"
        ));
    }
    Ok(json!({
        "container": name,
        "formatted": true,
        "dirs": dirs,
        "files": files,
        "symlinks": symlinks,
        "orphans": orphans,
        "bad_entries": bad_entries.iter().map(describe).collect::<Vec<_>>(),
        "bad_links": bad_links.iter().map(|bad| json!({ "file": bad.file.to_string(), "found": bad.found, "stored": bad.stored })).collect::<Vec<_>>(),
        "unnamed_objects": leaked.len(),
        "other_objects": others,
        "unlisted": unlisted,
        "repaired": repaired,
    }))
}

fn describe(bad: &BadEntry) -> Value {
    let mut row = json!({ "dir": bad.dir.to_string() });
    say(&mut row, "name", &bad.name);
    say(&mut row, "path", &path_of(bad));
    row
}

fn path_of(bad: &BadEntry) -> Vec<u8> {
    crate::path::join(&bad.dir_path, &bad.name)
}

/// What a rule's word means; the table in docs/operating.md.
fn meaning(rule: &str) -> &'static str {
    match rule {
        "index-order" => "keys of the index do not ascend",
        "index-key" => "a key of the index cannot be split",
        "version-record" => {
            "the record of a version is damaged: if the log has it, no checkpoint can come, and the next open fails"
        }
        "bulk-shared" => "two versions name the same space",
        "bulk-free" => "a version names space that counts as free",
        "bulk-overlap" => "ranges in use overlap",
        "bulk-length" => {
            "the file of a bulk segment is shorter than it was made: what lay behind its end is gone"
        }
        "bulk-leak" => "space in use is not that which something refers to",
        "log-live-bytes" => "the count of bytes referred to is wrong",
        "run-block" => "a block of a run is damaged, and what it names cannot be audited",
        "run-index" => {
            "fence, filter or footer of a run is damaged: the next open fails, unless a merge comes first"
        }
        "superblock" => "a slot of the superblock is damaged",
        "manifest" => "the manifest is damaged: the next open fails, unless a checkpoint comes first",
        "superblock-repaired" => "a slot of the superblock was damaged and has been written again",
        "manifest-repaired" => "the manifest was damaged and has been written again",
        "log-frame" => {
            "the log behind the checkpoint is damaged: the next open fails, unless a checkpoint comes first, which damage \
             of a version prevents"
        }
        "record-size" => "visible data of an array has several record sizes",
        "usage" => "a container's count of versions or bytes is wrong",
        "checksum" => "the value does not match its checksum",
        "unreadable" => "the device does not give the value",
        "container-on-record" => "the pool service knows a container that the target does not",
        _ => "a rule of the store is broken",
    }
}
