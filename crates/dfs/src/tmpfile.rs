//! Files without a name: made in the list of orphans, and named later if at all.
//!
//! Invariants: the file's record is in the list or in the entry that names it, never in both and never in none while it is
//! open; who dies before it has a name leaves it to the list's.

use crate::access::check_add;
use crate::attr::Stat;
use crate::dir::{Dir, OpenOptions};
use crate::error::{Error, Result, What};
use crate::file::File;
use crate::layout::device_no::DeviceNo;
use crate::layout::inode::Inode;
use crate::layout::{AKEY_HOLDER, holder};
use crate::mount::{FILE_CLASS, Mount};
use crate::node::{Home, InUse, Node, Slot};
use dolmen_client::At;
use dolmen_types::Epoch;
use std::sync::{Arc, PoisonError};

impl Dir {
    /// Makes a file without a name, as `O_TMPFILE` of open(2): owner, class and mode are those of a new entry of this
    /// directory. It goes with its last handle, or by the next mount after a crash, unless [`Dir::link_to`] has given it a
    /// name, which `exclusive` forbids.
    ///
    /// # Errors
    /// `Invalid(Flags)` unless it is opened for writing; `NotFound` if this directory was removed; `NoPermission`,
    /// `ReadOnly`.
    pub fn tmpfile(&self, options: &OpenOptions) -> Result<(File, Stat)> {
        let mount = self.mount();
        let options = &OpenOptions { create: true, truncate: false, no_follow: false, ..*options };
        options.check(mount)?;
        if !options.write && !options.append {
            return Err(What::Flags.into());
        }
        check_add(self.cred.as_deref(), &self.node)?;
        if self.node.is_removed() {
            return Err(Error::NotFound);
        }
        let mut inode = self.file_record(&self.node, options, FILE_CLASS)?;
        let lists = self.inherit(&self.node, &mut inode, options.mode)?;
        let slot = mount.orphan_slot(inode.oid);
        let home = Home { slot: slot.clone(), parent: None };
        let number = mount.holder_number()?.map(holder::to_bytes);
        let mut beside = lists.beside();
        beside.extend(number.as_ref().map(|number| (AKEY_HOLDER, &number[..])));
        mount.put_new_entry(At::Latest, &slot, &inode, &beside)?;
        // Nobody else knows of it yet.
        let (node, _) = mount.nodes.find_or_add(inode.oid, || Node::new(mount, &inode, home));
        mount.holder.note_entry();
        node.set_removed();
        node.set_nameable(!options.exclusive);
        let stat = Stat { links: 0, ..mount.stat_made(&inode, DeviceNo::default()) };
        Ok((File::new(InUse::told(&node, true)?.0, options, self.cred.clone())?, stat))
    }
}

impl Mount {
    /// Gives a file of the orphan list, whose record is in `from`, its first name.
    ///
    /// REQUIRES: the caller has it open, so that nobody frees it meanwhile.
    pub(crate) fn name_orphan(&self, node: &Node, from: &Slot, dir: &Arc<Node>, to: &Slot) -> Result<()> {
        let gate = dir.gate.read().unwrap_or_else(PoisonError::into_inner);
        dir.check_there()?;
        let (removal, alone) = (self.removals.begin(), self.alone());
        let stripes = self.stripes.hold_both(from, to);
        let named = self.transact(|tx| self.name_orphan_in(At::Tx(tx), node, from, dir, to));
        if named.is_ok() {
            node.set_home(Home { slot: to.clone(), parent: None });
            node.set_named();
            self.holder.note_freed();
        }
        drop((stripes, removal, gate, alone));
        named?;
        self.touch(dir);
        Ok(())
    }

    fn name_orphan_in(&self, at: At<'_>, node: &Node, from: &Slot, dir: &Node, to: &Slot) -> Result<()> {
        let inode = self.record_of(at, from, node.oid)?;
        if self.is_shared() {
            self.check_alive(at, dir)?;
        }
        if self.inode(at, to)?.is_some() {
            return Err(Error::Exists);
        }
        let mut extras = self.extras(at, from)?;
        extras.retain(|(akey, _)| akey[..] != *AKEY_HOLDER);
        let now = self.now();
        let inode = Inode { ctime: now, written_at: Epoch::from_unix_ns(now.unix_ns()), ..inode };
        self.put_whole_entry(at, to, &inode, &extras)?;
        self.punch_entry(at, from)
    }
}
