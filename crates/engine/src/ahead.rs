//! Looking ahead: what a batch of operations will touch is brought near before the first of them runs.
//!
//! An operation on a random key waits for memory a handful of times, each time for an address that the load
//! before it gave. Operations of a batch do not wait for each other, so taking each step for all of them before
//! the next step lets their misses overlap.
//!
//! Invariants: only hints are given, and paths made ready; nothing of what an operation does depends on it.

use crate::index::prefix_hash;
use crate::log::LogPlace;
use crate::path::Path;
use crate::store::HEAD_BYTES_MIN;
use crate::target::Target;
use dolmen_codec::Op;
use dolmen_codec::verb::{NewValue, Punch, PunchScope, Verb, Want};
use dolmen_codec::version::VersionKind;
use dolmen_types::{Cond, Epoch, Error, Oid, Stamp};

/// Operations looked ahead at once: more than the misses that a core has under way, and few enough that what was
/// brought near first is still there.
pub(crate) const WINDOW: usize = 16;
/// Cache lines of a record in the log: its head, keys, and 64 bytes of value.
const RECORD_LINES: usize = 4;
/// Of the next operation's value so much is brought near while the present one runs: the largest that is small, and
/// an eighth of a small L1 data cache.
const VALUE_BYTES_MAX: usize = 4096;
const LINE_BYTES: usize = 64;

/// What is known of one operation so far.
#[derive(Default)]
pub(crate) struct Ahead {
    path: Box<Path>,
    hash: u64,
    step: Step,
    /// What a fetch has room for.
    room_bytes: usize,
    /// Whether an update asks if its akey is there.
    is_insert: bool,
}

#[derive(Default, Clone, Copy)]
enum Step {
    /// Nothing to look ahead for.
    #[default]
    None,
    Update(VersionKind, u64),
    /// Of a dkey or an object.
    Punch,
    Fetch(VersionKind, u64),
    /// A leaf of the delta.
    Leaf(u32),
}

impl Target {
    /// Brings near what the next operations will touch.
    pub(crate) fn look_ahead(&mut self, ops: &[Op<'_>], window: &mut [Ahead]) {
        for (op, ahead) in ops.iter().zip(&mut *window) {
            ahead.step = Step::None;
            match &op.verb {
                Verb::Punch(punch) => self.find_punched(op, punch, ahead),
                _ if self.find_hash(op, ahead).is_ok() => self.store.hot.prefetch(ahead.hash),
                _ => {}
            }
        }
        for ahead in &mut *window {
            match ahead.step {
                Step::None | Step::Leaf(_) => {}
                Step::Punch => ahead.step = self.find_leaf(&mut ahead.path, VersionKind::Punch, 0),
                Step::Update(kind, index) => {
                    if ahead.is_insert {
                        self.store.index.prefetch_filters(ahead.path.key.as_bytes());
                    }
                    ahead.step = self.find_leaf(&mut ahead.path, kind, index);
                }
                Step::Fetch(kind, index) => {
                    if !self.prefetch_records(ahead.hash) {
                        self.prefetch_filters(&ahead.path, kind);
                        ahead.step = self.find_leaf(&mut ahead.path, kind, index);
                    }
                }
            }
        }
        for ahead in window {
            if let Step::Leaf(leaf) = ahead.step {
                self.store.index.delta.prefetch_leaf(leaf);
            }
        }
    }

    /// Brings the rest of a value near that the next operation reads: its head is there by now.
    #[inline]
    pub(crate) fn prefetch_value(&self, ahead: &Ahead) {
        const HEAD: usize = RECORD_LINES * LINE_BYTES;
        if !matches!(ahead.step, Step::Fetch(..)) || ahead.room_bytes <= LINE_BYTES {
            return;
        }
        for place in self.store.hot.candidates(ahead.hash) {
            if let Some(rest) = self.store.log.mapped(place).and_then(|record| record.get(HEAD..)) {
                dolmen_env::prefetch(rest, ahead.room_bytes.min(VALUE_BYTES_MAX) / LINE_BYTES);
            }
        }
    }

    /// Gives an operation the path that was made ready for it.
    #[inline]
    pub(crate) fn lend_path(&mut self, ahead: &mut Ahead) {
        self.store.put_path(core::mem::take(&mut ahead.path));
    }

    /// Takes the path back.
    #[inline]
    pub(crate) fn take_back_path(&mut self, ahead: &mut Ahead) {
        ahead.path = self.store.take_path();
    }

    /// Goes down to the first value that an operation touches.
    fn find_hash(&self, op: &Op<'_>, ahead: &mut Ahead) -> Result<(), Error> {
        let (oid, dkey, akey, kind, index): (Oid, &[u8], &[u8], _, _) = match &op.verb {
            Verb::Update(update) => match update.iods.first() {
                Some(iod) => {
                    let (kind, index) = match &iod.value {
                        NewValue::Array { extents, .. } | NewValue::Hole { extents } => {
                            extents.first().map_or((VersionKind::Array1, 0), |recx| {
                                (VersionKind::of_extent(recx.count), recx.index)
                            })
                        }
                        NewValue::Single(_) | NewValue::NoSingle => (VersionKind::Single, 0),
                    };
                    ahead.step = Step::Update(kind, index);
                    ahead.is_insert = [update.cond, iod.cond].iter().any(|cond| cond.has(Cond::AKEY_INSERT));
                    (update.oid, &update.dkey, &iod.akey, kind, index)
                }
                None => return Ok(()),
            },
            Verb::Fetch(fetch) => match fetch.iods.first() {
                Some(iod) => {
                    ahead.room_bytes = fetch.buf.len();
                    let (kind, index) = match &iod.want {
                        Want::Array { extents, .. } => {
                            extents.first().map_or((VersionKind::Array1, 0), |recx| {
                                (VersionKind::of_extent(recx.count), recx.index)
                            })
                        }
                        Want::Single { .. } | Want::Size => (VersionKind::Single, 0),
                    };
                    ahead.step = Step::Fetch(kind, index);
                    (fetch.oid, &fetch.dkey, &iod.akey, kind, index)
                }
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        let went_down = self.go_down(op, &mut ahead.path, oid, dkey, akey);
        match &went_down {
            Ok(()) if kind == VersionKind::Single || kind == VersionKind::Array1 => {
                ahead.hash = ahead.path.hot_hash(kind, index);
            }
            Ok(()) => ahead.hash = ahead.path.sole_hash(),
            Err(_) => ahead.step = Step::None,
        }
        went_down
    }

    /// Goes down to the dkey or object that is removed.
    fn find_punched(&self, op: &Op<'_>, punch: &Punch, ahead: &mut Ahead) {
        let went_down = self.go_to_object(op, &mut ahead.path, punch.oid).and_then(|()| match &punch.scope {
            PunchScope::Object => Ok(true),
            PunchScope::Dkey(dkey) => ahead.path.dkey(dkey).map(|()| true),
            PunchScope::Akeys(..) => Ok(false),
        });
        if went_down == Ok(true) {
            ahead.step = Step::Punch;
        }
    }

    fn go_to_object(&self, op: &Op<'_>, path: &mut Path, oid: Oid) -> Result<(), Error> {
        path.object(op.cont, self.conts.find(op.cont)?.state.spec.hash_key, oid)
    }

    fn go_down(&self, op: &Op<'_>, path: &mut Path, oid: Oid, dkey: &[u8], akey: &[u8]) -> Result<(), Error> {
        self.go_to_object(op, path, oid)?;
        path.dkey(dkey)?;
        path.akey(akey)
    }

    /// The leaf of the delta that a version goes into.
    fn find_leaf(&self, path: &mut Path, kind: VersionKind, index: u64) -> Step {
        let akey = path.key.mark();
        path.key.tail(kind, index, Stamp { epoch: Epoch::MAX, minor: u16::MAX });
        let leaf = self.store.index.delta.find_leaf(path.key.as_bytes());
        path.key.rewind(akey);
        Step::Leaf(leaf)
    }

    /// Brings records near that the short way leads to; `false` if it leads nowhere.
    fn prefetch_records(&self, hash: u64) -> bool {
        let mut is_known = false;
        for place in self.store.hot.candidates(hash) {
            let offset = place.offset.saturating_sub(HEAD_BYTES_MIN);
            if let Some(record) = self.store.log.mapped(LogPlace { offset, ..place }) {
                dolmen_env::prefetch(record, RECORD_LINES);
                is_known = true;
            }
        }
        is_known
    }

    /// Brings near what tells whether runs have an akey.
    fn prefetch_filters(&self, path: &Path, kind: VersionKind) {
        let runs = &self.store.index.runs;
        if !runs.is_empty() {
            let hash = prefix_hash(path.key.as_bytes(), kind);
            runs.iter().for_each(|run| run.prefetch(hash));
        }
    }
}
