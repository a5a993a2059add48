//! One target: superblock, manifest, and how its files fit them.

use super::{Report, files, log, run, sizes};
use crate::failure::{Failure, Outcome};
use crate::output::{count, human};
use crate::path::shown_outside;
use dolmen_codec::manifest::{ContState, Manifest};
use dolmen_codec::superblock::{SUPERBLOCK_SLOT_BYTES, Superblock};
use dolmen_types::{crc32c, limits};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::path::Path;

/// Where a target is, and what it has to be.
pub(super) struct Place<'a> {
    pub(super) number: u16,
    pub(super) dir: &'a Path,
    pub(super) bulk: &'a Path,
    /// As far as the pool is known.
    pub(super) of: Option<Of>,
}

/// What the pool's record says of a target.
#[derive(Clone, Copy)]
pub(super) struct Of {
    pub(super) id: u128,
    /// How often the pool was opened and closed.
    pub(super) life: u64,
    /// Its bulk data has a directory of its own.
    pub(super) has_bulk: bool,
}

/// Names a target that no command would open: another one, or one from another time than the pool's record.
fn compare(dir: &Path, superblock: &Superblock, of: &Of, report: &mut Report) {
    let shown = shown_outside(dir);
    if superblock.target_id != of.id {
        report.finding(format!("{shown}: holds another target than this pool's"));
    } else if superblock.life.checked_sub(of.life).is_none_or(|ahead| ahead > 1) {
        report.finding(format!(
            "{shown}: is as it was after {} openings and closings of the pool, the pool's record as after {}",
            superblock.life, of.life
        ));
    }
}

/// The superblock that counts of a target's directory for bulk data, which names the target and the life alone.
fn bulk_superblock(dir: &Path) -> Option<Superblock> {
    let bytes = std::fs::read(dir.join("super")).ok()?;
    bytes.chunks(SUPERBLOCK_SLOT_BYTES).filter_map(Superblock::decode).max_by_key(|slot| slot.sequence)
}

/// Shows a target's directory.
pub(super) fn show(place: &Place<'_>, frames: bool, report: &mut Report) -> Outcome<Value> {
    let Place { number, dir, bulk, of } = *place;
    let (slots, superblock) = superblock(dir, report)?;
    if let (Some(found), Some(of)) = (&superblock, &of) {
        compare(dir, found, of, report);
    }
    match of.filter(|of| of.has_bulk).map(|of| (of, bulk_superblock(bulk))) {
        Some((of, Some(found))) => compare(bulk, &found, &of, report),
        Some((_, None)) => report.finding(format!("{}: no valid superblock", shown_outside(bulk))),
        None => {}
    }
    let manifest = match &superblock {
        Some(superblock) => manifest(dir, superblock, report)?,
        None => None,
    };
    if let Some(manifest) = &manifest {
        conts(manifest, report);
    }
    let segments = log::show(dir, manifest.as_ref(), frames, report)?;
    let runs = run::show(dir, manifest.as_ref(), report)?;
    let bulk = bulk_segments(bulk, manifest.as_ref(), report)?;
    Ok(json!({
        "target": number,
        "superblock": slots,
        "manifest": manifest.as_ref().map(describe),
        "log": segments,
        "runs": runs,
        "bulk": bulk,
    }))
}

/// Both slots, and the one that counts.
fn superblock(dir: &Path, report: &mut Report) -> Outcome<(Vec<Value>, Option<Superblock>)> {
    let path = dir.join("super");
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Failure::on_file(&path, &error)),
    };
    let slots: Vec<Option<Superblock>> =
        bytes.chunks(SUPERBLOCK_SLOT_BYTES).map(Superblock::decode).collect();
    let current = slots.iter().flatten().max_by_key(|slot| slot.sequence).copied();
    let mut rows = Vec::new();
    for (index, (slot, stored)) in slots.iter().zip(bytes.chunks(SUPERBLOCK_SLOT_BYTES)).enumerate() {
        let Some(slot) = slot else {
            let blank = is_blank(stored);
            let other_version = Superblock::is_of_another_version(stored);
            if blank {
                report.line(format!("  superblock slot {index}: empty"));
            } else if other_version {
                report.line(format!("  superblock slot {index}: of another version of Dolmen"));
            } else {
                report
                    .finding(format!("{}: superblock slot {index} is torn or damaged", shown_outside(&path)));
            }
            rows.push(
                json!({ "slot": index, "valid": false, "empty": blank, "other_version": other_version }),
            );
            continue;
        };
        let counts = current.as_ref() == Some(slot);
        report.line(format!(
            "  superblock slot {index}: sequence {}, manifest {:08x} of {}, {}{}",
            slot.sequence,
            slot.manifest,
            human(u64::from(slot.manifest_bytes)),
            if slot.clean { "closed" } else { "open" },
            if counts { ", current" } else { "" }
        ));
        rows.push(json!({
            "slot": index,
            "valid": true,
            "current": counts,
            "sequence": slot.sequence,
            "target_id": format!("{:032x}", slot.target_id),
            "manifest": slot.manifest,
            "manifest_bytes": slot.manifest_bytes,
            "clean": slot.clean,
            "features": slot.features,
        }));
    }
    if current.is_none() {
        report.finding(format!("{}: no valid superblock", shown_outside(&path)));
    }
    Ok((rows, current))
}

/// Whether a slot was never written.
fn is_blank(slot: &[u8]) -> bool {
    slot.iter().all(|&byte| byte == 0)
}

/// Byte offsets of the slots of a target's superblock that hold something which is none; nothing if it cannot be read.
pub(super) fn damaged_slots(dir: &Path) -> Vec<u64> {
    let Ok(bytes) = std::fs::read(dir.join("super")) else { return Vec::new() };
    let offsets = (0..).step_by(SUPERBLOCK_SLOT_BYTES);
    offsets
        .zip(bytes.chunks(SUPERBLOCK_SLOT_BYTES))
        .filter(|(_, slot)| Superblock::decode(slot).is_none() && !is_blank(slot))
        .map(|(offset, _)| offset)
        .collect()
}

fn manifest(dir: &Path, superblock: &Superblock, report: &mut Report) -> Outcome<Option<Manifest>> {
    let path = dir.join(format!("manifest.{:08x}", superblock.manifest));
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Failure::on_file(&path, &error)),
    };
    let whole = bytes.get(..superblock.manifest_bytes as usize);
    let sound = whole.filter(|bytes| crc32c(bytes) == superblock.manifest_sum);
    let decoded = sound.and_then(Manifest::decode).filter(|m| m.target_id == superblock.target_id);
    match &decoded {
        None => report.finding(format!("{}: missing, or not what the superblock says", shown_outside(&path))),
        Some(manifest) => report.line(format!(
            "  manifest: log from segment {:08x} byte {} frame {}; {}, {}, epochs up to {}",
            manifest.log_start.segment,
            manifest.log_start.offset,
            manifest.log_start.sequence,
            count(manifest.runs.len() as u64, "run", "runs"),
            count(manifest.conts.len() as u64, "container", "containers"),
            manifest.ceiling
        )),
    }
    Ok(decoded)
}

fn conts(manifest: &Manifest, report: &mut Report) {
    for cont in &manifest.conts {
        report.line(format!(
            "  container {}: {}, {}, {} of values, {}, {}{}",
            cont.no.0,
            durability(cont),
            count(cont.usage.versions, "version", "versions"),
            human(cont.usage.value_bytes),
            count(cont.snapshots.len() as u64, "snapshot", "snapshots"),
            count(cont.rollbacks.len() as u64, "rollback", "rollbacks"),
            if cont.destroyed { ", being destroyed" } else { "" }
        ));
    }
}

fn durability(cont: &ContState) -> String {
    format!("{:?}", cont.spec.durability).to_lowercase()
}

fn describe(manifest: &Manifest) -> Value {
    let conts: Vec<Value> = manifest
        .conts
        .iter()
        .map(|cont| {
            json!({
                "container": cont.no.0,
                "durability": durability(cont),
                "floor": cont.floor.to_string(),
                "aggregated": cont.aggregated.to_string(),
                "destroyed": cont.destroyed,
                "versions": cont.usage.versions,
                "value_bytes": cont.usage.value_bytes,
                "bulk_bytes": cont.usage.bulk_bytes,
                "small_bytes": cont.usage.small_bytes,
                "snapshots": cont.snapshots.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "rollbacks": cont.rollbacks.iter().map(|(to, at)| json!({ "to": to.to_string(), "at": at.to_string() })).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "ceiling": manifest.ceiling.to_string(),
        "log_segment": manifest.log_start.segment,
        "log_offset": manifest.log_start.offset,
        "log_sequence": manifest.log_start.sequence,
        "next_run": manifest.next_run,
        "containers": conts,
        "clients": manifest.clients.len(),
        "decided": manifest.decided.len(),
        "unconcluded": manifest.unconcluded.len(),
    })
}

/// Bulk segments: those that the manifest knows with the units in use, and newer ones.
fn bulk_segments(dir: &Path, manifest: Option<&Manifest>, report: &mut Report) -> Outcome<Vec<Value>> {
    let found = files(dir, "bulk")?;
    report.line(format!("  bulk: {}, {}", count(found.len() as u64, "segment", "segments"), sizes(&found)));
    let known = manifest.map_or(&[][..], |manifest| &manifest.bulk_segments);
    let mut rows = Vec::new();
    for (number, path, bytes) in &found {
        let info = known.iter().find(|info| info.number == *number);
        let units = info.map(|info| info.bitmap.iter().map(|word| u64::from(word.count_ones())).sum::<u64>());
        let used_bytes = units.map(|units| units * limits::BULK_UNIT_BYTES);
        let used = used_bytes
            .map_or("newer than the checkpoint".to_owned(), |used| format!("{} in use", human(used)));
        report.line(format!("    {:08x}  {}, {used}", number, human(*bytes)));
        if used_bytes.is_some_and(|used| used > *bytes) {
            report.finding(format!("{}: shorter than what is in use of it", shown_outside(path)));
        }
        rows.push(json!({ "number": number, "bytes": bytes, "used_bytes": used_bytes }));
    }
    for info in known.iter().filter(|info| !found.iter().any(|(number, _, _)| *number == info.number)) {
        report.finding(format!("{}: bulk segment {:08x} is missing", shown_outside(dir), info.number));
    }
    Ok(rows)
}
