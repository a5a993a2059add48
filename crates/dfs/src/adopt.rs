//! Names for objects that have none: what a check found leaked is looked at before it is removed.

use crate::dir::Dir;
use crate::error::Result;
use crate::layout;
use crate::layout::inode::{FileKind, Inode, Time};
use crate::mount::Mount;
use crate::node::Slot;
use dolmen_client::{At, Page};
use dolmen_types::{Anchor, Epoch, ObjectClass, ObjectType, Oid};
use std::collections::BTreeSet;

/// Nobody but their owner: nobody knows who might use them.
const MODE: u32 = 0o600;

impl Dir {
    /// Makes entries, named by their numbers, for objects that [`Dfs::check`](crate::Dfs::check) found leaked: files with
    /// the container's chunk, and directories, but for what one of these directories has an entry of.
    ///
    /// # Errors
    /// `Exists` if a number is a name here already; `ReadOnly`; those of the store.
    pub fn adopt(&self, leaked: &[Oid]) -> Result<()> {
        let mount = self.mount();
        mount.check_writable()?;
        let mut named = BTreeSet::new();
        let dirs = leaked.iter().filter(|oid| oid.object_type() == Some(ObjectType::MultiHashed));
        for &dir in dirs.filter(|oid| !layout::is_companion(**oid)) {
            mount.named_in(dir, &mut named)?;
        }
        for oid in leaked.iter().filter(|oid| !named.contains(oid) && !layout::is_companion(**oid)) {
            let kind = match oid.object_type() {
                Some(ObjectType::ArrayByte) => FileKind::File,
                Some(ObjectType::MultiHashed) => FileKind::Directory,
                _ => continue,
            };
            let inode = self.adopted(kind, *oid);
            mount.insert(&self.node, &Slot::new(self.node.oid, format!("{oid}").as_bytes()), &inode, &[])?;
        }
        Ok(())
    }

    fn adopted(&self, kind: FileKind, oid: Oid) -> Inode {
        let now_ns = self.mount().now_ns();
        let now = Time::from_unix_ns(now_ns);
        let (uid, gid) = self.owner_of_entries();
        let is_file = kind == FileKind::File;
        Inode {
            kind,
            permissions: if is_file { MODE } else { MODE | 0o100 },
            oid,
            mtime: now,
            ctime: now,
            chunk_bytes: if is_file { self.mount().superblock.chunk_bytes } else { 0 },
            class: if is_file { oid.class() } else { ObjectClass::UNKNOWN },
            uid,
            gid,
            link_bytes: 0,
            linked: false,
            written_at: Epoch::from_unix_ns(now_ns),
        }
    }
}

impl Mount {
    /// Adds what the entries of a directory name.
    fn named_in(&self, dir: Oid, named: &mut BTreeSet<Oid>) -> Result<()> {
        let object = self.object(dir)?;
        let mut anchor = Anchor::default();
        while !anchor.is_eof() {
            for name in object.list_dkeys(At::Latest, &mut anchor, Page::default())?.iter() {
                match self.inode(At::Latest, &Slot::new(dir, name)) {
                    Err(error) if error.is_damage() => {}
                    inode => named.extend(inode?.map(|inode| inode.oid)),
                }
            }
        }
        Ok(())
    }
}
