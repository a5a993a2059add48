//! Drafts: versions on their way into the log, validated, checksummed, their bulk space taken.

use crate::bulk::BulkPlace;
use crate::path::Depth;
use dolmen_codec::digest::WriteDigest;
use dolmen_codec::quota::{Charge, charge_of};
use dolmen_codec::verb::{NewValue, Payload, Punch, PunchScope, Update};
use dolmen_codec::version::{ValuePlace, Version, VersionKind, chunk_bytes};
use dolmen_types::{Cond, ContNo, Credentials, Error, Invalid, Key, Oid, Recx, crc32c, limits};
use smallvec::SmallVec;

/// The bytes of a draft.
#[derive(Debug)]
pub(crate) enum DraftData<'a> {
    /// A punch, removal or hole.
    None,
    /// To be written into the log record.
    Inline(&'a [u8]),
    /// The same, kept by an operation that waits for its bulk writes.
    Kept(Vec<u8>),
    /// Still to be written to bulk.
    Large(&'a [u8]),
    /// Written to bulk.
    Bulk(BulkPlace),
}

/// One version to be.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    pub(crate) depth: Depth,
    pub(crate) akey: Key,
    /// Conditions of its akey: those of the call or its own.
    pub(crate) cond: Cond,
    pub(crate) kind: VersionKind,
    pub(crate) recx: Recx,
    pub(crate) record_bytes: u32,
    pub(crate) value_bytes: u32,
    pub(crate) data: DraftData<'a>,
    pub(crate) sums: SmallVec<[u8; 8]>,
}

/// Everything that one mutation writes under one dkey.
#[derive(Debug)]
pub(crate) struct Drafts<'a> {
    pub(crate) dkey: Key,
    pub(crate) cond: Cond,
    /// The punch of an object or dkey must find it.
    pub(crate) must_exist: Option<Depth>,
    pub(crate) items: SmallVec<[Draft<'a>; 1]>,
    /// What is asked, where the result is retained; 0 elsewhere.
    pub(crate) digest: u32,
    /// The user to whom it is charged, if not who asks.
    pub(crate) charged: Option<u32>,
}

fn akey_cond(call: Cond, own: Cond) -> Cond {
    if call.has(Cond::PER_AKEY) { own } else { call }
}

/// Validates an update of at most `iods_max` akeys and turns it into drafts. `inline_max` is the largest value that goes
/// into the log.
#[inline]
pub(crate) fn of_update<'a>(
    update: &'a Update<'_>,
    iods_max: usize,
    inline_max: usize,
) -> Result<Drafts<'a>, Error> {
    let count = update.iods.len();
    if count == 0 || count > iods_max {
        return Err(Invalid::Count.into());
    }
    if count > 1 {
        refuse_twins(update.iods.iter().map(|iod| &iod.akey[..]))?;
    }
    let mut items = SmallVec::new();
    for iod in &update.iods {
        let cond = akey_cond(update.cond, iod.cond);
        match &iod.value {
            NewValue::Single(payload) => items.push(single(copy_of(&iod.akey), cond, payload, inline_max)?),
            NewValue::NoSingle => {
                items.push(empty(Depth::Akey, iod.akey.clone(), cond, VersionKind::Single, Recx::default()))
            }
            NewValue::Array { record_bytes, extents, data } => {
                array(&mut items, &iod.akey, cond, *record_bytes, extents, data, inline_max)?;
            }
            NewValue::Hole { extents } => {
                check_extents(extents, u64::MAX)?;
                for &recx in extents {
                    let kind = VersionKind::of_extent(recx.count);
                    items.push(empty(Depth::Akey, iod.akey.clone(), cond, kind, recx));
                }
            }
        }
    }
    let (dkey, cond, charged) = (copy_of(&update.dkey), update.cond, update.charged);
    Ok(Drafts { dkey, cond, must_exist: None, items, digest: 0, charged })
}

/// Turns a gift into drafts: none, if it names nobody.
pub(crate) fn of_gift<'a>(update: &Update<'_>) -> Result<Drafts<'a>, Error> {
    if !update.dkey.is_empty() || !update.cond.is_none() {
        return Err(Invalid::Count.into());
    }
    let charged = update.charged;
    let gift = || empty(Depth::Object, Key::new(), Cond::NONE, VersionKind::Single, Recx::default());
    let items = charged.iter().map(|_| gift()).collect();
    Ok(Drafts { dkey: Key::new(), cond: Cond::NONE, must_exist: None, items, digest: 0, charged })
}

/// Turns a punch into drafts.
pub(crate) fn of_punch<'a>(punch: &Punch) -> Result<Drafts<'a>, Error> {
    let must = punch.cond.has(Cond::PUNCH);
    let mut items = SmallVec::new();
    let kind = VersionKind::Punch;
    let (dkey, must_exist) = match &punch.scope {
        PunchScope::Object => {
            items.push(empty(Depth::Object, Key::new(), Cond::NONE, kind, Recx::default()));
            (Key::new(), Depth::Object)
        }
        PunchScope::Dkey(dkey) => {
            items.push(empty(Depth::Dkey, Key::new(), Cond::NONE, kind, Recx::default()));
            (dkey.clone(), Depth::Dkey)
        }
        PunchScope::Akeys(dkey, akeys) => {
            if akeys.is_empty() || akeys.len() > limits::IODS_MAX {
                return Err(Invalid::Count.into());
            }
            refuse_twins(akeys.iter().map(|akey| &akey[..]))?;
            let cond = if must { Cond::AKEY_UPDATE } else { Cond::NONE };
            items.extend(
                akeys.iter().map(|akey| empty(Depth::Akey, akey.clone(), cond, kind, Recx::default())),
            );
            (dkey.clone(), Depth::Akey)
        }
    };
    let must_exist = (must && must_exist != Depth::Akey).then_some(must_exist);
    Ok(Drafts { dkey, cond: Cond::NONE, must_exist, items, digest: 0, charged: None })
}

/// `clone` of a small vector goes byte by byte.
#[inline]
fn copy_of(key: &Key) -> Key {
    Key::from_slice(key)
}

fn refuse_twins<'k>(keys: impl Iterator<Item = &'k [u8]>) -> Result<(), Error> {
    let mut keys: Vec<&[u8]> = keys.collect();
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) { Err(Invalid::Count.into()) } else { Ok(()) }
}

fn empty<'a>(depth: Depth, akey: Key, cond: Cond, kind: VersionKind, recx: Recx) -> Draft<'a> {
    Draft {
        depth,
        akey,
        cond,
        kind,
        recx,
        record_bytes: 0,
        value_bytes: 0,
        data: DraftData::None,
        sums: SmallVec::new(),
    }
}

fn single<'a>(
    akey: Key,
    cond: Cond,
    payload: &'a Payload<'_>,
    inline_max: usize,
) -> Result<Draft<'a>, Error> {
    let bytes = payload.bytes();
    if bytes.is_empty() || bytes.len() > limits::SINGLE_BYTES_MAX {
        return Err(Invalid::Payload.into());
    }
    let sums = payload.sums(0..bytes.len());
    Ok(with_data(akey, cond, VersionKind::Single, Recx::default(), 0, (bytes, sums), inline_max))
}

/// With the bytes come the sums of their chunks, if these are as long as most values have them and were summed on their way.
fn with_data<'a>(
    akey: Key,
    cond: Cond,
    kind: VersionKind,
    recx: Recx,
    record_bytes: u32,
    (bytes, known): (&'a [u8], Option<&[u32]>),
    inline_max: usize,
) -> Draft<'a> {
    let value_bytes = u32::try_from(bytes.len()).expect("payload is limited to a few MiB");
    let data = if bytes.len() <= inline_max { DraftData::Inline(bytes) } else { DraftData::Large(bytes) };
    let mut sums = SmallVec::new();
    let (chunk_bytes, mut add) =
        (chunk_bytes(record_bytes, value_bytes), |sum: u32| sums.extend_from_slice(&sum.to_le_bytes()));
    match known.filter(|_| chunk_bytes == limits::CSUM_CHUNK_BYTES) {
        Some(known) => known.iter().copied().for_each(&mut add),
        None => bytes.chunks(chunk_bytes).map(crc32c).for_each(&mut add),
    }
    Draft { depth: Depth::Akey, akey, cond, kind, recx, record_bytes, value_bytes, data, sums }
}

fn array<'a>(
    items: &mut SmallVec<[Draft<'a>; 1]>,
    akey: &Key,
    cond: Cond,
    record_bytes: u64,
    extents: &[Recx],
    data: &'a Payload<'_>,
    inline_max: usize,
) -> Result<(), Error> {
    if record_bytes == 0 || record_bytes > limits::RECORD_BYTES_MAX {
        return Err(Invalid::RecordSize.into());
    }
    check_extents(extents, limits::WINDOW_RECORDS)?;
    let bytes = data.bytes();
    let record = u32::try_from(record_bytes).expect("checked above");
    let mut at = 0usize;
    for &recx in extents {
        let len = recx.count.checked_mul(record_bytes).and_then(|len| usize::try_from(len).ok());
        let part = len.and_then(|len| bytes.get(at..at.checked_add(len)?)).ok_or(Invalid::Payload)?;
        if part.len() > limits::PAYLOAD_BYTES_MAX {
            return Err(Invalid::Payload.into());
        }
        let sums = data.sums(at..at + part.len());
        at += part.len();
        let kind = VersionKind::of_extent(recx.count);
        items.push(with_data(copy_of(akey), cond, kind, recx, record, (part, sums), inline_max));
    }
    if at == bytes.len() { Ok(()) } else { Err(Invalid::Payload.into()) }
}

/// Extents must be there, not empty, not overflow, not overlap, and each lie inside one window of `window`
/// records.
fn check_extents(extents: &[Recx], window: u64) -> Result<(), Error> {
    if extents.is_empty() || extents.len() > limits::EXTENTS_MAX {
        return Err(Invalid::Count.into());
    }
    for recx in extents {
        let end = recx.end().filter(|_| recx.count > 0).ok_or(Invalid::Extent)?;
        if window != u64::MAX && recx.index / window != (end - 1) / window {
            return Err(Invalid::Extent.into());
        }
    }
    if extents.len() > 1 {
        let mut sorted: Vec<Recx> = extents.to_vec();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0].index + pair[0].count > pair[1].index) {
            return Err(Invalid::Extent.into());
        }
    }
    Ok(())
}

impl Draft<'_> {
    /// What it counts against limits.
    #[inline]
    pub(crate) fn charge(&self, dkey: &[u8]) -> Charge {
        charge_of(dkey, &self.akey, self.recx.index, self.value_bytes)
    }

    /// The version record that the log holds of it.
    pub(crate) fn version<'v>(&'v self, dkey: &'v [u8], minor: u16, cred: u32) -> Version<'v> {
        let place = match &self.data {
            DraftData::None => ValuePlace::None,
            DraftData::Inline(_) | DraftData::Kept(_) => ValuePlace::Inline,
            DraftData::Bulk(place) => ValuePlace::Bulk { segment: place.segment, unit: place.unit },
            DraftData::Large(_) => unreachable!("bulk space is taken before a draft is written"),
        };
        Version {
            kind: self.kind,
            minor,
            cred,
            dkey: if self.depth == Depth::Object { &[] } else { dkey },
            akey: &self.akey,
            recx: self.recx,
            record_bytes: self.record_bytes,
            value_bytes: self.value_bytes,
            place,
            sums: &self.sums,
        }
    }

    /// The bytes that follow the version record in the log.
    pub(crate) fn inline(&self) -> &[u8] {
        match &self.data {
            DraftData::Inline(bytes) => bytes,
            DraftData::Kept(bytes) => bytes,
            DraftData::None | DraftData::Large(_) | DraftData::Bulk(_) => &[],
        }
    }

    /// Whether its bytes stand in the log record.
    #[inline]
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self.data, DraftData::Inline(_) | DraftData::Kept(_))
    }

    /// Its bulk units.
    pub(crate) fn bulk(&self) -> Option<(BulkPlace, u32)> {
        match self.data {
            DraftData::Bulk(place) => Some((place, crate::bulk::units(u64::from(self.value_bytes)))),
            DraftData::None | DraftData::Inline(_) | DraftData::Kept(_) | DraftData::Large(_) => None,
        }
    }

    /// The same without borrowed bytes.
    ///
    /// REQUIRES: its bulk space is taken.
    pub(crate) fn into_owned(self) -> Draft<'static> {
        let data = match self.data {
            DraftData::None => DraftData::None,
            DraftData::Inline(bytes) => DraftData::Kept(bytes.to_vec()),
            DraftData::Kept(bytes) => DraftData::Kept(bytes),
            DraftData::Bulk(place) => DraftData::Bulk(place),
            DraftData::Large(_) => unreachable!("bulk space is taken before a draft is kept"),
        };
        Draft {
            depth: self.depth,
            akey: self.akey,
            cond: self.cond,
            kind: self.kind,
            recx: self.recx,
            record_bytes: self.record_bytes,
            value_bytes: self.value_bytes,
            data,
            sums: self.sums,
        }
    }
}

impl Drafts<'_> {
    /// On record of what it writes, where `asks` has asked for it.
    #[inline]
    pub(crate) fn cred(&self, asks: Credentials) -> Credentials {
        Credentials { uid: self.charged.unwrap_or(asks.uid), ..asks }
    }

    /// An upper bound of what the drafts take in a log body.
    pub(crate) fn log_bytes(&self) -> usize {
        let each = |d: &Draft<'_>| {
            Version::LOGGED_HEAD_BYTES_MAX + self.dkey.len() + d.akey.len() + d.sums.len() + d.inline().len()
        };
        self.items.iter().map(each).sum()
    }

    /// Whether it gives what there is of an object.
    #[inline]
    pub(crate) fn is_gift(&self) -> bool {
        self.items.first().is_some_and(|draft| draft.depth.is_gift(draft.kind))
    }

    /// The same without borrowed bytes.
    pub(crate) fn into_owned(self) -> Drafts<'static> {
        Drafts {
            dkey: self.dkey,
            cond: self.cond,
            must_exist: self.must_exist,
            items: self.items.into_iter().map(Draft::into_owned).collect(),
            digest: self.digest,
            charged: self.charged,
        }
    }

    /// Notes what is asked.
    #[inline]
    pub(crate) fn digest_of(&mut self, cont: ContNo, oid: Oid) {
        let mut digest = WriteDigest::of(cont, oid, &self.dkey);
        for draft in &self.items {
            let Draft { kind, akey, recx, record_bytes, value_bytes, sums, .. } = draft;
            digest.version(*kind, akey, *recx, *record_bytes, *value_bytes, sums);
        }
        self.digest = digest.value();
    }
}
