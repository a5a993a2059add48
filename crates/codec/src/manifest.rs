//! The manifest: everything a target must know at open besides its log and its runs.
//!
//! Written whole at each checkpoint; the superblock names it and holds its checksum.

use crate::bytes::{Reader, put_len};
use crate::log_body::{TX_BYTES, decode_tx, encode_tx};
use crate::order::HashKey;
use crate::quota::{Charge, Charges};
use crate::verb::{ContSpec, Usage};
use dolmen_types::{ContNo, Credentials, Durability, Epoch, TargetNo, TxId, limits};

const MAGIC: u64 = 0x5453_4654_4e4d_4c44;
const VERSION: u32 = 4;
/// As it is but for the number: logs and runs of targets that it is of have no gifts.
const VERSION_WITHOUT_GIFTS: u32 = 3;

/// Frames that a log has had at the most when it is opened: a million of them a second for a hundred thousand years.
pub const LOG_SEQUENCE_MAX: u64 = u64::MAX / 4;
/// The largest number of a run. After it they begin anew, without those that runs have.
pub const RUN_NUMBER_MAX: u32 = u32::MAX / 2;
/// The largest number of a segment of the log or of bulk. They are taken again once removed.
pub const SEGMENT_NUMBER_MAX: u32 = u32::MAX / 2;
/// Versions, or bytes, of a container on one target when it is opened, at the most: 4 PiB. Sums over a pool's targets
/// and what comes on top overflow nothing.
pub const USAGE_MAX: u64 = 1 << 52;
const _: () = assert!((limits::TARGETS_MAX as u64) < u64::MAX / USAGE_MAX / 2);

/// The state of a target at a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Manifest {
    /// The target, as in the superblock.
    pub target_id: u128,
    /// Epochs up to here may have been given out.
    pub ceiling: Epoch,
    /// The first log frame that is not in a run.
    pub log_start: LogStart,
    /// Where the log leaves its frames and goes on in another segment, after a recovery that discarded an
    /// interrupted write: sequence number of the first frame there, and the segment. Ascending; the last of
    /// equal ones counts.
    pub splices: Vec<(u64, u32)>,
    /// The number that the next run gets.
    pub next_run: u32,
    /// Runs, newest first.
    pub runs: Vec<RunInfo>,
    /// Log segments that hold values of runs, or are part of the log.
    pub log_segments: Vec<LogSegmentInfo>,
    /// Bulk segments.
    pub bulk_segments: Vec<BulkSegmentInfo>,
    /// Containers.
    pub conts: Vec<ContState>,
    /// Clients with their retained results; those of one user in the order in which they were heard of last.
    pub clients: Vec<ClientInfo>,
    /// How far clients had come that are forgotten, in the order in which they were.
    pub floors: Vec<FloorInfo>,
    /// Credentials by number.
    pub creds: Vec<(u32, Credentials)>,
    /// Transactions committed here, oldest first, but for `unconcluded` ones.
    pub decided: Vec<TxId>,
    /// Transactions committed here as their leader of which a participant may not know.
    pub unconcluded: Vec<Unconcluded>,
}

/// A committed transaction of several targets, kept by its leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unconcluded {
    /// The transaction.
    pub tx: TxId,
    /// The epoch of its writes.
    pub epoch: Epoch,
    /// Who takes part.
    pub participants: Vec<TargetNo>,
}

/// A place in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogStart {
    /// Segment number.
    pub segment: u32,
    /// Byte offset.
    pub offset: u32,
    /// Sequence number of the frame there.
    pub sequence: u64,
}

/// A run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunInfo {
    /// File number.
    pub number: u32,
    /// Bytes of the file.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
}

/// A log segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSegmentInfo {
    /// File number.
    pub number: u32,
    /// Bytes of values in it that runs refer to.
    pub live_bytes: u64,
}

/// A bulk segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BulkSegmentInfo {
    /// File number.
    pub number: u32,
    /// One bit a unit, set if it is in use.
    pub bitmap: Vec<u64>,
}

/// A container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContState {
    /// Its number.
    pub no: ContNo,
    /// Its key hash and durability.
    pub spec: ContSpec,
    /// No write at or below.
    pub floor: Epoch,
    /// Nothing below is kept, but for snapshots.
    pub aggregated: Epoch,
    /// Whether it waits for its space to be freed.
    pub destroyed: bool,
    /// Usage.
    pub usage: Usage,
    /// What counts against limits, by the number of the credentials that wrote it.
    pub charges: Charges,
    /// Snapshots, ascending.
    pub snapshots: Vec<Epoch>,
    /// Rollbacks `(to, at)`, ascending by `at`.
    pub rollbacks: Vec<(Epoch, Epoch)>,
}

/// A client and the results retained for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientInfo {
    /// Its number on this target.
    pub number: u32,
    /// Whose it is: another user's with the same id is another client.
    pub uid: u32,
    /// Its id.
    pub client: u128,
    /// Requests before this sequence number are not sent again.
    pub oldest: u64,
    /// What its requests have done, ascending.
    pub results: Vec<ResultInfo>,
}

/// What a request has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResultInfo {
    /// Its sequence number.
    pub sequence: u64,
    /// The epoch of its commit.
    pub epoch: Epoch,
    /// What was asked ([`WriteDigest`](crate::digest::WriteDigest)).
    pub digest: u32,
}

/// How far a client had come that is forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FloorInfo {
    /// Whose it was.
    pub uid: u32,
    /// Its id.
    pub client: u128,
    /// Its requests before this sequence number may have run.
    pub oldest: u64,
}

impl Manifest {
    /// Encodes; the caller stores length and checksum in the superblock.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.target_id.to_le_bytes());
        out.extend_from_slice(&self.ceiling.0.to_le_bytes());
        out.extend_from_slice(&self.log_start.segment.to_le_bytes());
        out.extend_from_slice(&self.log_start.offset.to_le_bytes());
        out.extend_from_slice(&self.log_start.sequence.to_le_bytes());
        put_list(&mut out, &self.splices, |out, splice| {
            out.extend_from_slice(&splice.0.to_le_bytes());
            out.extend_from_slice(&splice.1.to_le_bytes());
        });
        out.extend_from_slice(&self.next_run.to_le_bytes());
        put_list(&mut out, &self.runs, |out, run| {
            out.extend_from_slice(&run.number.to_le_bytes());
            out.extend_from_slice(&run.bytes.to_le_bytes());
            out.extend_from_slice(&run.entries.to_le_bytes());
        });
        put_list(&mut out, &self.log_segments, |out, segment| {
            out.extend_from_slice(&segment.number.to_le_bytes());
            out.extend_from_slice(&segment.live_bytes.to_le_bytes());
        });
        put_list(&mut out, &self.bulk_segments, |out, segment| {
            out.extend_from_slice(&segment.number.to_le_bytes());
            put_list(out, &segment.bitmap, |out, word| out.extend_from_slice(&word.to_le_bytes()));
        });
        put_list(&mut out, &self.conts, put_cont);
        put_list(&mut out, &self.clients, |out, client| {
            out.extend_from_slice(&client.number.to_le_bytes());
            out.extend_from_slice(&client.uid.to_le_bytes());
            out.extend_from_slice(&client.client.to_le_bytes());
            out.extend_from_slice(&client.oldest.to_le_bytes());
            put_list(out, &client.results, |out, result| {
                put_pair(out, &(result.sequence, result.epoch));
                out.extend_from_slice(&result.digest.to_le_bytes());
            });
        });
        put_list(&mut out, &self.floors, |out, floor| {
            out.extend_from_slice(&floor.uid.to_le_bytes());
            out.extend_from_slice(&floor.client.to_le_bytes());
            out.extend_from_slice(&floor.oldest.to_le_bytes());
        });
        put_list(&mut out, &self.creds, |out, (number, cred)| {
            for word in [*number, cred.uid, cred.gid, cred.project] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        });
        put_list(&mut out, &self.decided, |out, &tx| encode_tx(tx, out));
        put_list(&mut out, &self.unconcluded, |out, one| {
            encode_tx(one.tx, out);
            out.extend_from_slice(&one.epoch.0.to_le_bytes());
            put_list(out, &one.participants, |out, target| out.extend_from_slice(&target.0.to_le_bytes()));
        });
        out
    }

    /// Decodes; `None` if the bytes are no manifest of this version, or one with numbers that no target gets to: what
    /// goes on from them would overflow.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader::new(bytes);
        if r.u64()? != MAGIC || !(VERSION_WITHOUT_GIFTS..=VERSION).contains(&r.u32()?) {
            return None;
        }
        let target_id = r.u128()?;
        let ceiling = Epoch(r.u64()?);
        let log_start = LogStart { segment: r.u32()?, offset: r.u32()?, sequence: r.u64()? };
        let manifest = Self {
            target_id,
            ceiling,
            log_start,
            splices: list(&mut r, 12, |r| Some((r.u64()?, r.u32()?)))?,
            next_run: r.u32()?,
            runs: list(&mut r, 20, |r| {
                Some(RunInfo { number: r.u32()?, bytes: r.u64()?, entries: r.u64()? })
            })?,
            log_segments: list(&mut r, 12, |r| {
                Some(LogSegmentInfo { number: r.u32()?, live_bytes: r.u64()? })
            })?,
            bulk_segments: list(&mut r, 8, |r| {
                Some(BulkSegmentInfo { number: r.u32()?, bitmap: list(r, 8, |r| r.u64())? })
            })?,
            conts: list(&mut r, 68, cont)?,
            clients: list(&mut r, 36, client)?,
            floors: list(&mut r, 28, |r| {
                Some(FloorInfo { uid: r.u32()?, client: r.u128()?, oldest: r.u64()? })
            })?,
            creds: list(&mut r, 16, |r| {
                Some((r.u32()?, Credentials { uid: r.u32()?, gid: r.u32()?, project: r.u32()? }))
            })?,
            decided: list(&mut r, TX_BYTES, decode_tx)?,
            unconcluded: list(&mut r, TX_BYTES + 12, |r| {
                Some(Unconcluded {
                    tx: decode_tx(r)?,
                    epoch: Epoch(r.u64()?),
                    participants: list(r, 2, |r| r.u16().map(TargetNo))?,
                })
            })?,
        };
        (r.remaining() == 0 && manifest.is_within_bounds()).then_some(manifest)
    }

    fn is_within_bounds(&self) -> bool {
        let counts = |usage: &Usage| [usage.versions, usage.value_bytes, usage.bulk_bytes, usage.small_bytes];
        let logs = self.splices.iter().map(|splice| splice.1).chain([self.log_start.segment]);
        let mut segments = logs
            .chain(self.log_segments.iter().map(|segment| segment.number))
            .chain(self.bulk_segments.iter().map(|segment| segment.number));
        self.log_start.sequence <= LOG_SEQUENCE_MAX
            && self.next_run <= RUN_NUMBER_MAX
            && self.runs.iter().all(|run| run.number <= RUN_NUMBER_MAX)
            && segments.all(|number| number <= SEGMENT_NUMBER_MAX)
            // Offsets in a segment have four bytes.
            && self.log_segments.iter().all(|segment| segment.live_bytes <= u64::from(u32::MAX))
            && self.conts.iter().all(|cont| counts(&cont.usage).iter().all(|&count| count <= USAGE_MAX))
    }
}

fn put_list<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    put_len(out, items.len());
    for item in items {
        put(out, item);
    }
}

fn put_pair(out: &mut Vec<u8>, pair: &(u64, Epoch)) {
    out.extend_from_slice(&pair.0.to_le_bytes());
    out.extend_from_slice(&pair.1.0.to_le_bytes());
}

fn put_cont(out: &mut Vec<u8>, cont: &ContState) {
    out.extend_from_slice(&cont.no.0.to_le_bytes());
    out.extend_from_slice(&cont.spec.hash_key.0);
    out.push(cont.spec.durability as u8);
    out.push(u8::from(cont.destroyed));
    out.extend_from_slice(&cont.floor.0.to_le_bytes());
    out.extend_from_slice(&cont.aggregated.0.to_le_bytes());
    for count in [cont.usage.versions, cont.usage.value_bytes, cont.usage.bulk_bytes, cont.usage.small_bytes]
    {
        out.extend_from_slice(&count.to_le_bytes());
    }
    put_list(out, cont.charges.list(), |out, (cred, charge)| {
        out.extend_from_slice(&cred.to_le_bytes());
        out.extend_from_slice(&charge.bytes.to_le_bytes());
        out.extend_from_slice(&charge.files.to_le_bytes());
    });
    put_list(out, &cont.snapshots, |out, epoch| out.extend_from_slice(&epoch.0.to_le_bytes()));
    put_list(out, &cont.rollbacks, |out, &(to, at)| put_pair(out, &(to.0, at)));
}

fn list<T>(
    r: &mut Reader<'_>,
    each_bytes: usize,
    one: impl Fn(&mut Reader<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = r.count(each_bytes)?;
    (0..count).map(|_| one(r)).collect()
}

fn client(r: &mut Reader<'_>) -> Option<ClientInfo> {
    Some(ClientInfo {
        number: r.u32()?,
        uid: r.u32()?,
        client: r.u128()?,
        oldest: r.u64()?,
        results: list(r, 20, |r| {
            Some(ResultInfo { sequence: r.u64()?, epoch: Epoch(r.u64()?), digest: r.u32()? })
        })?,
    })
}

fn cont(r: &mut Reader<'_>) -> Option<ContState> {
    let no = ContNo(r.u32()?);
    let hash_key = HashKey(r.take(16)?.try_into().ok()?);
    let durability = Durability::from_number(u64::from(r.u8()?))?;
    let destroyed = r.u8()? == 1;
    Some(ContState {
        no,
        spec: ContSpec { hash_key, durability },
        destroyed,
        floor: Epoch(r.u64()?),
        aggregated: Epoch(r.u64()?),
        usage: Usage {
            versions: r.u64()?,
            value_bytes: r.u64()?,
            bulk_bytes: r.u64()?,
            small_bytes: r.u64()?,
        },
        charges: Charges::of_list(
            list(r, 20, |r| Some((r.u32()?, Charge { bytes: r.u64()?, files: r.u64()? })))?,
            USAGE_MAX,
        )?,
        snapshots: list(r, 8, |r| r.u64().map(Epoch))?,
        rollbacks: list(r, 16, |r| Some((Epoch(r.u64()?), Epoch(r.u64()?))))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn charges(cred: u32, bytes: u64, files: u64) -> Charges {
        let mut charges = Charges::default();
        charges.add(cred, Charge { bytes, files });
        charges
    }

    fn example() -> Manifest {
        Manifest {
            target_id: 1,
            ceiling: Epoch(2),
            log_start: LogStart { segment: 3, offset: 4, sequence: 5 },
            splices: vec![(36, 37)],
            next_run: 6,
            runs: vec![RunInfo { number: 7, bytes: 8, entries: 9 }],
            log_segments: vec![LogSegmentInfo { number: 10, live_bytes: 11 }],
            bulk_segments: vec![BulkSegmentInfo { number: 12, bitmap: vec![13, 14] }],
            conts: vec![ContState {
                no: ContNo(15),
                spec: ContSpec { hash_key: HashKey([16; 16]), durability: Durability::Process },
                floor: Epoch(17),
                aggregated: Epoch(18),
                destroyed: true,
                usage: Usage { versions: 19, value_bytes: 20, bulk_bytes: 21, small_bytes: 22 },
                charges: charges(49, 50, 51),
                snapshots: vec![Epoch(23)],
                rollbacks: vec![(Epoch(24), Epoch(25))],
            }],
            clients: vec![ClientInfo {
                number: 26,
                uid: 44,
                client: 27,
                oldest: 38,
                results: vec![ResultInfo { sequence: 28, epoch: Epoch(29), digest: 45 }],
            }],
            floors: vec![FloorInfo { uid: 46, client: 47, oldest: 48 }],
            creds: vec![(30, Credentials { uid: 31, gid: 32, project: 33 })],
            decided: vec![TxId { client: 34, begin: Epoch(35) }],
            unconcluded: vec![Unconcluded {
                tx: TxId { client: 39, begin: Epoch(40) },
                epoch: Epoch(41),
                participants: vec![TargetNo(42), TargetNo(43)],
            }],
        }
    }

    #[test]
    fn manifest_round_trips_and_refuses_every_truncation() {
        let bytes = example().encode();
        assert_eq!(crate::bytes::golden(&bytes), 0x84cc_1b75_528d_d53d);
        assert_eq!(Manifest::decode(&bytes), Some(example()));
        let mut older = bytes.clone();
        older[8..12].copy_from_slice(&VERSION_WITHOUT_GIFTS.to_le_bytes());
        assert_eq!(crate::bytes::golden(&older), 0x34fb_e8d6_aa85_be02);
        assert_eq!(Manifest::decode(&older), Some(example()));
        for version in [VERSION_WITHOUT_GIFTS - 1, VERSION + 1] {
            older[8..12].copy_from_slice(&version.to_le_bytes());
            assert_eq!(Manifest::decode(&older), None, "version {version}");
        }
        for len in 0..bytes.len() {
            assert_eq!(Manifest::decode(&bytes[..len]), None, "length {len}");
        }
    }

    #[test]
    fn numbers_that_no_target_gets_to_are_refused() {
        let refused = |change: fn(&mut Manifest, u64), most: u64| {
            let decoded = |number| {
                let mut manifest = example();
                change(&mut manifest, number);
                Manifest::decode(&manifest.encode()) == Some(manifest)
            };
            decoded(most) && !decoded(most + 1)
        };
        assert!(refused(|manifest, number| manifest.log_start.sequence = number, LOG_SEQUENCE_MAX));
        let most = u64::from(RUN_NUMBER_MAX);
        assert!(refused(|manifest, number| manifest.next_run = number.try_into().unwrap(), most));
        assert!(refused(|manifest, number| manifest.runs[0].number = number.try_into().unwrap(), most));
        let most = u64::from(SEGMENT_NUMBER_MAX);
        assert!(refused(|manifest, number| manifest.log_start.segment = number.try_into().unwrap(), most));
        assert!(refused(|manifest, number| manifest.splices[0].1 = number.try_into().unwrap(), most));
        assert!(refused(
            |manifest, number| manifest.log_segments[0].number = number.try_into().unwrap(),
            most
        ));
        assert!(refused(
            |manifest, number| manifest.bulk_segments[0].number = number.try_into().unwrap(),
            most
        ));
        let most = u64::from(u32::MAX);
        assert!(refused(|manifest, number| manifest.log_segments[0].live_bytes = number, most));
        assert!(refused(|manifest, number| manifest.conts[0].usage.versions = number, USAGE_MAX));
        assert!(refused(|manifest, number| manifest.conts[0].usage.value_bytes = number, USAGE_MAX));
        assert!(refused(|manifest, number| manifest.conts[0].usage.bulk_bytes = number, USAGE_MAX));
        assert!(refused(|manifest, number| manifest.conts[0].usage.small_bytes = number, USAGE_MAX));
        assert!(refused(|manifest, number| manifest.conts[0].charges = charges(1, number, 0), USAGE_MAX));
        assert!(refused(|manifest, number| manifest.conts[0].charges = charges(1, 0, number), USAGE_MAX));
    }

    proptest! {
        #[test]
        fn decoding_damaged_bytes_never_panics(at in 0usize..400, byte: u8) {
            let mut bytes = example().encode();
            let at = at % bytes.len();
            bytes[at] = byte;
            prop_assert!(Manifest::decode(&bytes).is_none_or(|m| m.runs.len() <= bytes.len()));
        }
    }
}
