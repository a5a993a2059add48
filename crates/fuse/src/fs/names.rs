//! Names: found, made, removed, moved.

use super::{Done, Fs, Reply};
use crate::abi::ROOT;
use crate::abi::reply::{self, OpenAs};
use crate::abi::request::{Caller, Op};
use crate::fs::attrs::attrs_of;
use crate::fs::files::note_read;
use crate::handles::Open;
use crate::table::{Node, View, What};
use dolmen_dfs::{
    DeviceNo, Dir, File, FileKind, Leased, New, Obj, OpenOptions, RenameMode, Stat, errno as number,
    number_of,
};
use dolmen_types::Oid;
use std::sync::Arc;

const PERMISSIONS: u32 = 0o7777;
const O_EXCL: u32 = 0o200;
const O_TRUNC: u32 = 0o1000;

impl Fs {
    pub(super) fn lookup(&self, dir: u64, caller: Caller, name: &[u8], reply: &mut Reply) -> Done {
        let node = self.node(dir)?;
        if let What::Snapshots = node.what {
            return self.lookup_snapshot(name, reply);
        }
        if dir == ROOT && self.is_snapshots(name) {
            return self.found_snapshots(reply);
        }
        if let Some(file) = number_in(name)
            && let Some((view, obj)) = self.file_of(node.view, file)?
        {
            return self.lookup_number(view, obj, caller, reply);
        }
        let dir = self.dir(dir)?;
        let (found, leased) = self.look(node.view, || dir.lookup_to_open(name));
        let (obj, stat) = self.done(found)?;
        self.found(node.view, obj, (&stat, &leased), reply);
        Ok(())
    }

    /// The file of a number, which the kernel remembers, or who has it open without the kernel has had whoever took its name leave.
    fn file_of(&self, view: View, file: Oid) -> Result<Option<(View, Obj)>, i32> {
        match self.table.find_ino(view, number_of(file)) {
            Some(Node { view, what: What::Obj(obj) })
                if obj.kind() == FileKind::File && obj.oid() == file =>
            {
                Ok(Some((view, obj)))
            }
            _ if view == 0 => Ok(self.done(self.dfs.left_file(file))?.map(|obj| (0, obj))),
            _ => Ok(None),
        }
    }

    /// A file by its number, for its owner, who has it open without the kernel and knows no name of it any more.
    fn lookup_number(&self, view: View, obj: Obj, caller: Caller, reply: &mut Reply) -> Done {
        let stat = self.done(obj.stat())?;
        if caller.uid != 0 && caller.uid != stat.uid {
            return Err(number::EACCES);
        }
        self.found(view, obj, (&stat, &Leased::default()), reply);
        Ok(())
    }

    /// Tells the kernel of something, which it remembers from now on: with the leases on all that was read for it, if any was.
    pub(super) fn found(
        &self,
        view: View,
        obj: Obj,
        (stat, leased): (&Stat, &Leased),
        reply: &mut Reply,
    ) -> u64 {
        let number = self.table.remember(Node { view, what: What::Obj(obj) }, stat.ino);
        reply.looked_up.push(number);
        let timeouts = self.timeouts_under(number, view, leased);
        reply::entry(&mut reply.out, number, &attrs_of(view, stat), timeouts);
        number
    }

    /// Makes an entry of any kind but an open file.
    pub(super) fn make(&self, dir: u64, caller: Caller, op: &Op<'_>, reply: &mut Reply) -> Done {
        if let Op::Link { old, name } = op {
            let (obj, dir) = (self.obj(*old)?, self.dir(dir)?);
            self.refuse_reserved(&dir, name)?;
            let stat = self.done(dir.link_to(&obj, name))?;
            self.found(0, obj, (&stat, &Leased::default()), reply);
            return Ok(());
        }
        let (name, new, mode, umask) = match op {
            Op::SymLink { name, target } => (name, New::Symlink(target), 0o777, 0),
            Op::MkDir { name, mode, umask } => (name, New::Directory, *mode, *umask),
            Op::MkNod { name, mode, rdev, umask } => (name, special(*mode, *rdev)?, *mode, *umask),
            _ => return Err(number::EINVAL),
        };
        let dir = self.dir_of(dir, caller, umask)?;
        self.refuse_reserved(&dir, name)?;
        let (obj, stat) = self.done(dir.make(name, new, mode & PERMISSIONS))?;
        self.found(0, self.kept(&obj), (&stat, &Leased::default()), reply);
        Ok(())
    }

    /// A name by which the root shows something else.
    pub(super) fn refuse_reserved(&self, dir: &Dir, name: &[u8]) -> Done {
        if self.is_snapshots(name) && dir.oid() == self.dfs.oid() { Err(number::EPERM) } else { Ok(()) }
    }

    /// Makes a file and opens it.
    pub(super) fn create(&self, dir: Dir, name: &[u8], flags: u32, mode: u32, reply: &mut Reply) -> Done {
        self.refuse_reserved(&dir, name)?;
        let options = OpenOptions {
            exclusive: flags & O_EXCL != 0,
            truncate: flags & O_TRUNC != 0,
            mode: mode & PERMISSIONS,
            ..OpenOptions::CREATE
        };
        let (file, stat) = self.done(dir.create(name, &options))?;
        self.made_open(file, &stat, flags, reply);
        Ok(())
    }

    /// Makes a file without a name and opens it.
    pub(super) fn tmpfile(&self, dir: &Dir, flags: u32, mode: u32, reply: &mut Reply) -> Done {
        let exclusive = flags & O_EXCL != 0;
        let options = OpenOptions { exclusive, mode: mode & PERMISSIONS, ..OpenOptions::CREATE };
        let (file, stat) = self.done(dir.tmpfile(&options))?;
        self.made_open(file, &stat, flags, reply);
        Ok(())
    }

    /// Tells the kernel of a new file that is open.
    fn made_open(&self, file: File, stat: &Stat, flags: u32, reply: &mut Reply) {
        let obj = self.kept(&file);
        // The kernel looks at its mode before it hands it out: what it is not told under leases it would ask for at once.
        let looked = self.takes_leases(0).then(|| self.look(0, || obj.stat()));
        let number = match looked {
            Some((Ok(stat), leased)) => self.found(0, obj, (&stat, &leased), reply),
            _ => self.found(0, obj, (stat, &Leased::default()), reply),
        };
        let as_what = self.open_as(flags, OpenAs::Fresh);
        let open = self.open_file(file, (number, 0), (flags, as_what));
        let handle = self.opened(Open::File(Arc::new(open)), reply);
        reply::open(&mut reply.out, handle, as_what);
    }

    pub(super) fn readlink(&self, node: u64, reply: &mut Reply) -> Done {
        let obj = self.obj(node)?;
        let target = self.done(obj.readlink())?;
        note_read(&obj);
        reply.out.bytes(&target);
        Ok(())
    }

    pub(super) fn unlink(&self, dir: u64, name: &[u8]) -> Done {
        let dir = self.dir(dir)?;
        self.done(dir.unlink(name))
    }

    pub(super) fn rmdir(&self, dir: u64, name: &[u8]) -> Done {
        let dir = self.dir(dir)?;
        self.done(dir.rmdir(name))
    }

    pub(super) fn rename(
        &self,
        (old_dir, old): (u64, &[u8]),
        (new_dir, new): (u64, &[u8]),
        flags: u32,
    ) -> Done {
        let mode = match flags {
            0 => RenameMode::Replace,
            1 => RenameMode::NoReplace,
            2 => RenameMode::Exchange,
            _ => return Err(number::EINVAL),
        };
        let (old_dir, new_dir) = (self.dir(old_dir)?, self.dir(new_dir)?);
        self.refuse_reserved(&old_dir, old)?;
        self.refuse_reserved(&new_dir, new)?;
        self.done(old_dir.rename(old, &new_dir, new, mode))
    }
}

/// The number in a name that stands for a file, whatever it is called now: 32 digits to base 16.
fn number_in(name: &[u8]) -> Option<Oid> {
    let digits = core::str::from_utf8(name.strip_prefix(b".dolmen-number-")?).ok()?;
    let (hi, lo) = digits.split_at_checked(16).filter(|(_, lo)| lo.len() == 16)?;
    Some(Oid { hi: u64::from_str_radix(hi, 16).ok()?, lo: u64::from_str_radix(lo, 16).ok()? })
}

/// What mknod(2) makes.
fn special<'a>(mode: u32, rdev: u32) -> Done<New<'a>> {
    let device = DeviceNo::from_linux(rdev);
    match FileKind::of_mode(mode) {
        Some(FileKind::File) => Ok(New::File),
        Some(FileKind::Pipe) => Ok(New::Pipe),
        Some(FileKind::Socket) => Ok(New::Socket),
        Some(FileKind::CharDevice) => Ok(New::CharDevice(device)),
        Some(FileKind::BlockDevice) => Ok(New::BlockDevice(device)),
        _ => Err(number::EINVAL),
    }
}
