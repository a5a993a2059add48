//! Sorted runs: footer, fence, and every block verified.

use super::{Report, files, sizes};
use crate::failure::{Failure, Outcome};
use crate::output::{count, human};
use crate::path::shown_outside;
use dolmen_codec::manifest::Manifest;
use dolmen_codec::run_block::{RUN_PAGE_BYTES, RunBlock, RunBlockKind};
use dolmen_codec::run_footer::RunFooter;
use dolmen_types::Epoch;
use serde_json::{Value, json};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Shows the runs of a target.
pub(super) fn show(dir: &Path, manifest: Option<&Manifest>, report: &mut Report) -> Outcome<Vec<Value>> {
    let found = files(dir, "run")?;
    report.line(format!("  runs: {}, {}", found.len(), sizes(&found)));
    let known = manifest.map_or(&[][..], |manifest| &manifest.runs);
    let mut rows = Vec::new();
    for (number, path, bytes) in &found {
        let info = known.iter().find(|info| info.number == *number);
        let file = File::open(path).map_err(|error| Failure::on_file(path, &error))?;
        // A run that the manifest does not name was not finished, or is not needed any more.
        let length = info.map_or(*bytes, |info| info.bytes);
        let footer = footer(&file, *number, length);
        let Some(footer) = footer else {
            if info.is_some() {
                report.finding(format!("{}: its footer is damaged", shown_outside(path)));
            } else {
                report.line(format!("    {number:08x}  {}, unfinished", human(*bytes)));
            }
            rows.push(json!({ "number": number, "bytes": bytes, "valid": false }));
            continue;
        };
        let damaged = verify(&file, &footer);
        report.line(format!(
            "    {number:08x}  {}, {} in {}, epochs {} to {}{}",
            human(*bytes),
            count(footer.entries, "entry", "entries"),
            count(u64::from(footer.blocks), "block", "blocks"),
            Epoch(footer.epoch_min),
            Epoch(footer.epoch_max),
            if info.is_some() { "" } else { ", not in the manifest" },
        ));
        for offset in &damaged {
            report.finding(format!("{}: the block at byte {offset} is damaged", shown_outside(path)));
        }
        rows.push(json!({
            "number": number,
            "bytes": bytes,
            "valid": damaged.is_empty(),
            "entries": footer.entries,
            "blocks": footer.blocks,
            "epoch_min": Epoch(footer.epoch_min).to_string(),
            "epoch_max": Epoch(footer.epoch_max).to_string(),
            "in_manifest": info.is_some(),
            "damaged_offsets": damaged,
        }));
    }
    for info in known.iter().filter(|info| !found.iter().any(|(number, _, _)| *number == info.number)) {
        report.finding(format!("{}: run {:08x} is missing", shown_outside(dir), info.number));
    }
    Ok(rows)
}

fn footer(file: &File, number: u32, file_bytes: u64) -> Option<RunFooter> {
    let page = read(file, file_bytes.checked_sub(RUN_PAGE_BYTES as u64)?, RUN_PAGE_BYTES).ok()?;
    RunFooter::decode(&page, number, file_bytes).ok()
}

fn read(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// Offsets of the blocks that are damaged. Each fence entry says where an entry block begins.
fn verify(file: &File, footer: &RunFooter) -> Vec<u64> {
    let page_bytes = RUN_PAGE_BYTES as u64;
    let (mut starts, mut damaged) = (Vec::new(), Vec::new());
    for page in 0..footer.fence_pages {
        let offset = footer.fence_offset() + u64::from(page) * page_bytes;
        let block = read(file, offset, RUN_PAGE_BYTES).ok();
        let name = (footer.run, page, offset);
        match block.and_then(|bytes| RunBlock::parse(bytes, RunBlockKind::Fence, name).ok()) {
            None => damaged.push(offset),
            Some(fence) => {
                for index in 0..fence.count() {
                    starts.extend(fence.payload_array(index).map(u32::from_le_bytes));
                }
            }
        }
    }
    if !damaged.is_empty() {
        return damaged;
    }
    let ends = starts.iter().copied().skip(1).chain([footer.entry_pages]);
    for (start, end) in starts.iter().copied().zip(ends) {
        let offset = u64::from(start) * page_bytes;
        let len = end.saturating_sub(start) as usize * RUN_PAGE_BYTES;
        let name = (footer.run, start, offset);
        let sound = start < end
            && end <= footer.entry_pages
            && read(file, offset, len)
                .is_ok_and(|bytes| RunBlock::parse(bytes, RunBlockKind::Entries, name).is_ok());
        if !sound {
            damaged.push(offset);
        }
    }
    damaged
}
