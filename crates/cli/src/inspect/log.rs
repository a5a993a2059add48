//! Log segments and their frames.

use super::{Report, files, sizes};
use crate::failure::{Failure, Outcome};
use crate::output::{count, human};
use crate::path::shown_outside;
use core::fmt::Write as _;
use dolmen_codec::bytes::Reader;
use dolmen_codec::log_body::{ContEvent, PrepareHead, WriteHead, decode_tx};
use dolmen_codec::log_frame::{LogFrame, LogKind};
use dolmen_codec::log_segment::{LOG_SEGMENT_HEADER_BYTES, LogSegmentHeader};
use dolmen_codec::manifest::Manifest;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Shows the log segments of a target.
pub(super) fn show(
    dir: &Path,
    manifest: Option<&Manifest>,
    frames: bool,
    report: &mut Report,
) -> Outcome<Vec<Value>> {
    let found = files(dir, "log")?;
    report.line(format!("  log: {}, {}", count(found.len() as u64, "segment", "segments"), sizes(&found)));
    let known = manifest.map_or(&[][..], |manifest| &manifest.log_segments);
    let mut rows = Vec::new();
    for (number, path, _) in &found {
        let bytes = std::fs::read(path).map_err(|error| Failure::on_file(path, &error))?;
        let info = known.iter().find(|info| info.number == *number);
        let header = LogSegmentHeader::decode(&bytes).filter(|header| header.number == *number);
        let Some(header) = header else {
            if info.is_some() {
                report
                    .finding(format!("{}: no valid header, and the manifest needs it", shown_outside(path)));
            } else {
                report.line(format!("    {number:08x}  {}, not begun", human(bytes.len() as u64)));
            }
            rows.push(json!({ "number": number, "bytes": bytes.len(), "valid": false }));
            continue;
        };
        rows.push(segment(&header, &bytes, info.map(|info| info.live_bytes), frames, report));
    }
    for info in known.iter().filter(|info| !found.iter().any(|(number, _, _)| *number == info.number)) {
        report.finding(format!("{}: log segment {:08x} is missing", shown_outside(dir), info.number));
    }
    Ok(rows)
}

/// Walks the frames of one segment up to the first that is none.
fn segment(
    header: &LogSegmentHeader,
    bytes: &[u8],
    live_bytes: Option<u64>,
    show_frames: bool,
    report: &mut Report,
) -> Value {
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    let (mut frames, mut lines, mut listed) = (0u64, String::new(), Vec::new());
    let mut at = LOG_SEGMENT_HEADER_BYTES;
    while let Some((frame, body)) = bytes.get(at..).and_then(|rest| LogFrame::open(rest, header.salt)) {
        if frame.sequence != header.first_sequence + frames {
            break;
        }
        *kinds.entry(format!("{:?}", frame.kind).to_lowercase()).or_default() += 1;
        if show_frames {
            let what = body_text(frame.kind, body);
            writeln!(
                lines,
                "      @{at:<9} #{:<8} {:?} {} B  {what}",
                frame.sequence,
                frame.kind,
                body.len()
            )
            .expect("a String takes everything");
            listed.push(json!({
                "offset": at,
                "sequence": frame.sequence,
                "kind": format!("{:?}", frame.kind).to_lowercase(),
                "body_bytes": body.len(),
                "unflushed": frame.unflushed,
                "what": what,
            }));
        }
        frames += 1;
        at += LogFrame::padded_bytes(body.len());
    }
    let live = live_bytes
        .map_or("newer than the checkpoint, or spare".to_owned(), |live| format!("{} live", human(live)));
    let mix: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    report.line(format!(
        "    {:08x}  {}, frames {}+{frames} up to byte {at}: {}; {live}",
        header.number,
        human(bytes.len() as u64),
        header.first_sequence,
        if mix.is_empty() { "none".to_owned() } else { mix.join(", ") },
    ));
    report.text.push_str(&lines);
    json!({
        "number": header.number,
        "bytes": bytes.len(),
        "valid": true,
        "first_sequence": header.first_sequence,
        "frames": frames,
        "end": at,
        "kinds": kinds,
        "live_bytes": live_bytes,
        "listed": listed,
    })
}

/// What a record says, in a few words.
fn body_text(kind: LogKind, body: &[u8]) -> String {
    let mut r = Reader::new(body);
    let text = match kind {
        LogKind::Write => WriteHead::decode(&mut r)
            .map(|head| format!("container {} object {} at {}", head.cont.0, head.oid, head.epoch)),
        LogKind::Prepare => PrepareHead::decode(&mut r).map(|head| {
            let state = if head.committed { "committed" } else { "prepared" };
            format!("{state} at {}, leader {}, {} objects", head.epoch, head.leader.0, head.groups)
        }),
        LogKind::Commit | LogKind::Abort | LogKind::Conclude => {
            decode_tx(&mut r).map(|tx| format!("transaction begun at {}", tx.begin))
        }
        LogKind::Cont => ContEvent::decode(&mut r).map(|(no, event)| format!("container {} {event:?}", no.0)),
        _ => Some(String::new()),
    };
    text.unwrap_or_else(|| "body of an unknown form".to_owned())
}
