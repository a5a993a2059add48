//! Whatever an entry names, opened with one look: for doors whose handles stand for files, directories and symbolic
//! links alike, and travel to other processes.

use crate::attr::{NewTimes, Stat};
use crate::dir::{Dir, OPEN_RETRIES, OpenOptions, check_mode};
use crate::error::{Error, Result, What};
use crate::file::File;
use crate::layout::NAME_BYTES_MAX;
use crate::layout::inode::{FileKind, Inode, Time};
use crate::layout::superblock::{Superblock, is_chunk};
use crate::mount::{Dfs, FILE_CLASS, Mount};
use crate::node::{Home, InUse, NO_OWNER, Node, Slot};
use crate::path::check_name;
use crate::resolve::Follow;
use dolmen_client::At;
use dolmen_types::{Epoch, ObjectClass, Oid};
use std::sync::Arc;

/// An open file or directory, or where a symbolic link points.
#[derive(Clone, Debug)]
pub enum Opened {
    /// A file, open as asked.
    File(File),
    /// A directory.
    Dir(Dir),
    /// The target of a symbolic link.
    Symlink(Vec<u8>),
}

/// What a path led to, and where its entry is.
#[derive(Clone, Debug)]
pub struct Located {
    /// What the entry names.
    pub opened: Opened,
    parent: Option<Dir>,
    slot: Slot,
    entry: Inode,
    mount: Arc<Mount>,
}

/// What new entries of a directory get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForNewEntries {
    /// The class of files; `SX` stands for as many shards as the pool has targets.
    pub file_class: ObjectClass,
    /// The class of directories.
    pub dir_class: ObjectClass,
    /// Bytes in a chunk of files.
    pub chunk_bytes: u64,
}

impl Located {
    /// The directory that has the entry; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<&Dir> {
        self.parent.as_ref()
    }

    /// The entry's name; `/` for the root.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.slot.dkey
    }

    /// The object.
    #[must_use]
    pub fn oid(&self) -> Oid {
        self.entry.oid
    }

    /// Kind and permissions of the entry in one number.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.entry.mode()
    }

    /// Attributes as the look found them; the size of a file is asked for.
    ///
    /// # Errors
    /// Those of the store.
    pub fn stat(&self) -> Result<Stat> {
        match (self.mount.stat_entry(&self.slot, &self.entry), &self.opened) {
            // Another one has its name by now.
            (Err(Error::Stale), Opened::File(file)) => file.stat(),
            (told, _) => told,
        }
    }
}

impl Dir {
    /// Opens what `path` leads to, whatever it is: a file as `options` say, which make and cut nothing here. One fetch,
    /// and one more for a symbolic link.
    ///
    /// # Errors
    /// As `open` and `open_dir`.
    pub fn locate(&self, path: impl AsRef<[u8]>, options: &OpenOptions, follow: Follow) -> Result<Located> {
        let options = &OpenOptions { create: false, exclusive: false, truncate: false, ..*options };
        options.check(self.mount())?;
        for _ in 0..OPEN_RETRIES {
            let found = self.start().find(path.as_ref(), follow)?;
            let opened = match found.inode.kind {
                FileKind::File => {
                    let (inode, _, home) =
                        match self.mount().attributes(At::Latest, &found.slot, &found.inode) {
                            // Replaced since it was found.
                            Err(Error::Stale) => continue,
                            told => told?,
                        };
                    self.mount().check(self.cred.as_deref(), &home, &inode, options.rights())?;
                    let Some(node) = self.mount().file_node(&found, &inode, home)? else { continue };
                    let in_use = match InUse::told(&node, false) {
                        // Gone since it was found.
                        Err(Error::Stale) => continue,
                        told => told?.0,
                    };
                    Opened::File(File::new(in_use, options, self.cred.clone())?)
                }
                FileKind::Directory => Opened::Dir(self.with_node(match self.start().as_dir(&found) {
                    Err(Error::Stale) => continue,
                    node => node?,
                })),
                FileKind::Symlink => match self.mount().target(At::Latest, &found.slot, &found.inode) {
                    Err(Error::Stale) => continue,
                    target => Opened::Symlink(target?),
                },
                // Only the system can open what it stands for.
                _ => return Err(What::Kind.into()),
            };
            let parent = found.dir.map(|node| self.with_node(node));
            let mount = Arc::clone(self.mount());
            return Ok(Located { opened, parent, slot: found.slot, entry: found.inode, mount });
        }
        Err(Error::Contended)
    }

    fn with_node(&self, node: Arc<Node>) -> Self {
        Self { node, cred: self.cred.clone() }
    }

    /// The path of this directory from the root, as far as this mount knows: another one may have moved it.
    ///
    /// # Errors
    /// `NotFound` if it was removed; `NameTooLong` if it lies deeper than a path is long.
    pub fn path(&self) -> Result<Vec<u8>> {
        self.path_by(|node| Ok(node.home()))
    }

    /// As [`Dir::path`], for a process that was forked off, in which nobody gives back what a thread had locked.
    ///
    /// # Errors
    /// Those of [`Dir::path`]; `Contended` if a thread was about to move a directory of the path.
    pub fn path_if_free(&self) -> Result<Vec<u8>> {
        self.path_by(Node::home_if_free)
    }

    fn path_by(&self, home: impl Fn(&Node) -> Result<Home>) -> Result<Vec<u8>> {
        if self.node.is_removed() {
            return Err(Error::NotFound);
        }
        let (mut names, mut at) = (Vec::new(), home(&self.node)?);
        while let Some(parent) = at.parent {
            names.push(at.slot.dkey);
            if names.len() > crate::layout::PATH_BYTES_MAX {
                return Err(Error::NameTooLong);
            }
            at = home(&parent)?;
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(path)
    }

    /// Kind and permissions of this directory, as last seen.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.node.mode()
    }

    /// Class and chunk that new entries get of this directory; zero of each says "the container's".
    #[must_use]
    pub fn placement(&self) -> (ObjectClass, u64) {
        self.node.placement()
    }

    /// Class and chunk of what is made in this directory if nobody names others: those set for it, else the container's,
    /// else those that there are without anybody's choice.
    #[must_use]
    pub fn for_new_entries(&self) -> ForNewEntries {
        let mount = self.mount();
        let chunk_bytes = match self.node.placement().1 {
            0 => mount.superblock.chunk_bytes,
            of_dir => of_dir,
        };
        ForNewEntries {
            file_class: mount.file_class(&self.node, ObjectClass::UNKNOWN, FILE_CLASS),
            dir_class: mount.dir_class(),
            chunk_bytes,
        }
    }

    /// Sets the class or chunk that entries made from now on get of this directory.
    ///
    /// # Errors
    /// `Invalid(Placement)` for what no file can have; `Stale`, `ReadOnly`.
    pub fn set_placement(&self, class: Option<ObjectClass>, chunk_bytes: Option<u64>) -> Result<()> {
        let mount = self.mount();
        mount.check_writable()?;
        if chunk_bytes.is_some_and(|bytes| bytes != 0 && !is_chunk(bytes)) {
            return Err(What::Placement.into());
        }
        if let Some(class) = class.filter(|class| *class != ObjectClass::UNKNOWN) {
            mount.container.oid(dolmen_types::ObjectType::ArrayByte, class, 0, 0)?;
        }
        mount.at_home(&self.node, |slot| {
            mount.amend(slot, self.node.oid, (NewTimes::default(), false), |inode, _| {
                inode.class = class.unwrap_or(inode.class);
                inode.chunk_bytes = chunk_bytes.unwrap_or(inode.chunk_bytes);
                Ok(())
            })
        })
    }

    /// Takes note that the entry of this directory is now `name` of `dir`: another mount has moved it there.
    ///
    /// # Errors
    /// `Stale` if that entry names something else.
    pub fn found_at(&self, dir: &Self, name: impl AsRef<[u8]>) -> Result<()> {
        let slot = self.mount().moved_to(&self.node, dir, name.as_ref())?.0;
        self.node.set_home(Home { slot, parent: Some(Arc::clone(&dir.node)) });
        Ok(())
    }
}

impl File {
    /// The same file, open as `options` say.
    ///
    /// # Errors
    /// `Invalid(Flags)`, `ReadOnly`.
    pub fn reopen(&self, options: &OpenOptions) -> Result<Self> {
        let options = &OpenOptions { create: false, exclusive: false, truncate: false, ..*options };
        options.check(&self.node.mount)?;
        Self::new(InUse::told(&self.node, true)?.0, options, self.cred.clone())
    }

    /// Takes note that the entry of this file is now `name` of `dir`: another mount has moved it there.
    ///
    /// # Errors
    /// `Stale` if that entry names something else.
    pub fn found_at(&self, dir: &Dir, name: impl AsRef<[u8]>) -> Result<()> {
        let (slot, linked) = dir.mount().moved_to(&self.node, dir, name.as_ref())?;
        let slot = if linked { Mount::companion_slot(self.node.oid) } else { slot };
        self.node.set_home(Home { slot, parent: None });
        Ok(())
    }
}

/// A file, by what whoever has it open knows of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownFile {
    /// Its object.
    pub oid: Oid,
    /// The object with its record.
    pub dir: Oid,
    /// The key of that.
    pub name: Vec<u8>,
    /// Bytes in a chunk of it.
    pub chunk_bytes: u64,
    /// Permission bits.
    pub permissions: u32,
}

impl File {
    /// What it takes to open it in another mount of the container, whatever becomes of its entry: [`Dfs::reopen`].
    #[must_use]
    pub fn known(&self) -> KnownFile {
        self.known_at(self.node.slot())
    }

    /// As [`File::known`], for a process that was forked off, in which nobody gives back what a thread had locked.
    ///
    /// # Errors
    /// `Contended` if a thread was about to move it.
    pub fn known_if_free(&self) -> Result<KnownFile> {
        Ok(self.known_at(self.node.home_if_free()?.slot))
    }

    fn known_at(&self, slot: Slot) -> KnownFile {
        let (node, permissions) = (&self.node, self.mode() & 0o7777);
        let chunk_bytes = node.chunk_bytes;
        KnownFile { oid: node.oid, dir: slot.oid, name: slot.dkey.to_vec(), chunk_bytes, permissions }
    }
}

impl Dfs {
    /// Opens a file that another mount has open. If its record is elsewhere by now, it is as if it had been open here, too, when
    /// that was moved or removed.
    ///
    /// # Errors
    /// `Invalid` for what no file has; `ReadOnly`; those of the store.
    pub fn reopen(&self, known: &KnownFile, options: &OpenOptions) -> Result<File> {
        let options = &OpenOptions { create: false, exclusive: false, truncate: false, ..*options };
        let mount = self.mount();
        options.check(mount)?;
        check_mode(known.permissions)?;
        if known.name.is_empty() || known.name.len() > NAME_BYTES_MAX {
            return Err(What::Name.into());
        }
        if !is_chunk(known.chunk_bytes) {
            return Err(What::Placement.into());
        }
        mount.object(known.oid)?;
        let slot = Slot::new(known.dir, &known.name);
        let is_it = |inode: &Inode| inode.oid == known.oid && inode.kind == FileKind::File;
        let inode = mount.inode(At::Latest, &slot)?.filter(is_it).unwrap_or_else(|| Inode {
            kind: FileKind::File,
            permissions: known.permissions,
            oid: known.oid,
            mtime: Time::default(),
            ctime: Time::default(),
            chunk_bytes: known.chunk_bytes,
            class: known.oid.class(),
            uid: NO_OWNER,
            gid: 0,
            link_bytes: 0,
            linked: false,
            written_at: Epoch::ZERO,
        });
        let make = || Node::new(mount, &inode, Home { slot, parent: None });
        let (node, _) = mount.nodes.find_or_add(known.oid, make);
        File::new(InUse::told(&node, true)?.0, options, self.cred.clone())
    }

    /// What the container says about itself.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        self.mount().superblock
    }

    /// The size of the file whose data is `oid`, in chunks of `chunk_bytes`.
    ///
    /// # Errors
    /// `Invalid(Placement)` for a chunk that no file has; those of the store.
    pub fn size_of(&self, oid: Oid, chunk_bytes: u64) -> Result<u64> {
        if !is_chunk(chunk_bytes) {
            return Err(What::Placement.into());
        }
        self.mount().size(At::Latest, oid, chunk_bytes)
    }
}

impl Mount {
    /// The entry `name` of `dir`, if it names the object of `node`, and whether it is a linked file's.
    fn moved_to(&self, node: &Node, dir: &Dir, name: &[u8]) -> Result<(Slot, bool)> {
        check_name(name)?;
        let slot = Slot::new(dir.node.oid, name);
        match self.inode(At::Latest, &slot)? {
            Some(inode) if inode.oid == node.oid => Ok((slot, inode.linked)),
            _ => Err(Error::Stale),
        }
    }
}
