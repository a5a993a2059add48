//! `.snapshots` in the root: each snapshot under its name, read-only. It is found by name and in no listing of the root, so
//! that whoever copies the tree does not copy all of its past; it lists the names of the snapshots itself.

use super::{Done, Fs, Reply};
use crate::abi::reply::{self, Attrs};
use crate::fs::attrs::attrs_of;
use crate::options::Timeouts;
use crate::table::{Node, View, What};
use core::time::Duration;
use dolmen_dfs::{Dfs, Leased, MountOptions, Rights, check_name, errno as number};
use dolmen_types::Epoch;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

const NAME: &[u8] = b".snapshots";

/// Nothing changes in a snapshot; but it may be destroyed.
pub(super) const TIMEOUTS: Timeouts =
    Timeouts { names: Duration::from_secs(1), attrs: Duration::from_secs(60) };

/// The number of the directory of snapshots: no file has it, as numbers of files come from counters that begin low.
pub(super) const INO: u64 = u64::MAX - 1;

/// The number that something has in a view, so that programs that compare numbers do not take it for what it is now.
pub(super) fn ino_in(view: View, ino: u64) -> u64 {
    ino ^ u64::from(view) << 40
}

/// Snapshots that somebody has looked into.
#[derive(Debug)]
pub(super) struct Snapshots {
    /// Guards: views by epoch; held while one is mounted.
    views: Mutex<BTreeMap<Epoch, (View, Dfs)>>,
    /// Whether there are any to be shown: not in a snapshot itself.
    has_any: bool,
}

impl Snapshots {
    pub(super) fn new(dfs: &Dfs) -> Self {
        Self { views: Mutex::default(), has_any: dfs.container().view_epoch().is_none() }
    }
}

impl Fs {
    pub(super) fn is_snapshots(&self, name: &[u8]) -> bool {
        self.snapshots.has_any && name == NAME
    }

    pub(super) fn snapshots_attrs(&self) -> Done<Attrs> {
        let root = self.done(self.dfs.obj().stat())?;
        Ok(Attrs { ino: INO, mode: root.mode() & !0o222, size: 0, blocks: 0, links: 2, ..attrs_of(0, &root) })
    }

    /// Snapshots lie in the root: who may not pass through it comes to none, whatever they would allow him.
    fn check_root(&self, rights: Rights) -> Done {
        self.done(self.dfs.obj().check_access(rights))
    }

    pub(super) fn found_snapshots(&self, reply: &mut Reply) -> Done {
        self.check_root(Rights::EXECUTE)?;
        let attrs = self.snapshots_attrs()?;
        let number = self.table.remember(Node { view: 0, what: What::Snapshots }, INO);
        reply.looked_up.push(number);
        reply::entry(&mut reply.out, number, &attrs, self.timeouts(0));
        Ok(())
    }

    /// The names of the snapshots that have one which a directory can have, in order.
    pub(super) fn snapshot_names(&self) -> Done<Arc<[Box<[u8]>]>> {
        self.check_root(Rights::READ)?;
        let container = self.dfs.container();
        let snapshots = self.done(container.snapshots().map_err(dolmen_dfs::Error::from))?;
        let named = snapshots.iter().filter_map(|snapshot| snapshot.name.as_deref().map(str::as_bytes));
        let mut names: Vec<Box<[u8]>> =
            named.filter(|name| check_name(name).is_ok()).map(Box::from).collect();
        names.sort_unstable();
        Ok(names.into())
    }

    /// The root of a snapshot.
    pub(super) fn lookup_snapshot(&self, name: &[u8], reply: &mut Reply) -> Done {
        self.check_root(Rights::EXECUTE)?;
        let container = self.dfs.container();
        let snapshots = self.done(container.snapshots().map_err(dolmen_dfs::Error::from))?;
        let named =
            snapshots.iter().find(|snapshot| snapshot.name.as_deref().map(str::as_bytes) == Some(name));
        let epoch = named.ok_or(number::ENOENT)?.epoch;
        let mut views = self.snapshots.views.lock().unwrap_or_else(PoisonError::into_inner);
        let (view, dfs) = match views.get(&epoch) {
            Some((view, dfs)) => (*view, dfs.clone()),
            None => {
                // Lists decide for whom nobody else has looked at them.
                let options = MountOptions { read_only: true, acls: true, ..MountOptions::default() };
                let dfs = self.done(Dfs::mount(&container.at(epoch), &options))?;
                let view = View::try_from(views.len() + 1).map_err(|_too_many| number::EMFILE)?;
                views.insert(epoch, (view, dfs.clone()));
                (view, dfs)
            }
        };
        drop(views);
        let obj = self.kept(&dfs.obj());
        let stat = self.done(obj.stat())?;
        self.found(view, obj, (&stat, &Leased::default()), reply);
        Ok(())
    }
}
