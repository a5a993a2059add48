//! Attributes, extended attributes, and the space of the whole.

use super::{Done, Fs, Reply};
use crate::abi::op::{NewAttrs, NewTime};
use crate::abi::reply::{self, Attrs};
use crate::abi::{ROOT, errno};
use crate::fs::{quota, snapshots};
use crate::table::{Node, View, What};
use dolmen_dfs::{FileKind, Obj, OpenOptions, SetAttrs, SetTime, Stat, Time, XattrCond, errno as number};

/// What the root says of who serves it; in no list.
pub(crate) const ABOUT: &[u8] = b"user.dolmen.mount";

/// The kernel asks for it before each write; files here have no rights of their own to lose.
const CAPABILITY: &[u8] = b"security.capability";

/// Names of attributes that are root's to see and to change, and to change.
const TRUSTED: &[u8] = b"trusted.";
const SECURITY: &[u8] = b"security.";

/// Names of those that mean something to the system.
const SYSTEM: &[u8] = b"system.";

/// Attributes as the kernel has them.
pub(super) fn attrs_of(view: View, stat: &Stat) -> Attrs {
    /// The preferred size of reads and writes; larger ones are not faster.
    const BLOCK_BYTES: u32 = 1 << 20;
    Attrs {
        ino: snapshots::ino_in(view, stat.ino),
        size: stat.size_bytes,
        blocks: stat.blocks,
        atime: stat.atime,
        mtime: stat.mtime,
        ctime: stat.ctime,
        mode: stat.mode(),
        links: u32::try_from(stat.links).unwrap_or(u32::MAX),
        uid: stat.uid,
        gid: stat.gid,
        rdev: stat.device.to_linux(),
        block_bytes: BLOCK_BYTES,
    }
}

impl Fs {
    pub(super) fn getattr(&self, node: u64, reply: &mut Reply) -> Done {
        let Node { view, what } = self.node(node)?;
        match what {
            What::Obj(obj) => self.tell_attrs(node, view, &obj, reply),
            What::Snapshots => {
                reply::attrs(&mut reply.out, &self.snapshots_attrs()?, self.timeouts(0));
                Ok(())
            }
        }
    }

    fn tell_attrs(&self, number: u64, view: View, obj: &Obj, reply: &mut Reply) -> Done {
        let (stat, leased) = self.look(view, || obj.stat());
        let stat = self.done(stat)?;
        reply::attrs(&mut reply.out, &attrs_of(view, &stat), self.timeouts_under(number, view, &leased));
        Ok(())
    }

    pub(super) fn setattr(&self, node: u64, new: &NewAttrs, reply: &mut Reply) -> Done {
        let view = self.node(node)?.view;
        let obj = self.obj(node)?;
        if let Some(size) = new.size {
            match new.handle {
                Some(handle) => self.done(self.handles.file(handle)?.file.set_len(size))?,
                None => {
                    // Who may write it need not be able to read it.
                    let read = self.user.is_none();
                    let file = self.done(obj.open(&OpenOptions { read, ..OpenOptions::WRITE }))?;
                    self.done(file.set_len(size))?;
                }
            }
        }
        let atime = new.atime.map_or(SetTime::Keep, set_time);
        let mtime = new.mtime.map_or(SetTime::Keep, set_time);
        let set = SetAttrs { mode: new.mode, uid: new.uid, gid: new.gid, atime, mtime };
        // What the kernel sets with the length is that the change is now, as it is anyhow.
        let is_only_size = new.size.is_some() && SetAttrs { mtime: SetTime::Keep, ..set } == SetAttrs::KEEP;
        let says_now = mtime == SetTime::Now || mtime == SetTime::Keep;
        if set != SetAttrs::KEEP && !(is_only_size && says_now) {
            self.done(obj.set_attrs(&set))?;
        }
        self.tell_attrs(node, view, &obj, reply)
    }

    pub(super) fn statfs(&self, reply: &mut Reply) -> Done {
        let space = self.done(self.dfs.statfs())?;
        reply::statfs(&mut reply.out, &space);
        Ok(())
    }

    pub(super) fn getxattr(&self, node: u64, name: &[u8], room_bytes: u32, reply: &mut Reply) -> Done {
        if node == ROOT && name == ABOUT {
            return self.about.tell(room_bytes, reply);
        }
        if name == CAPABILITY {
            return Err(number::ENODATA);
        }
        refuse_system(name)?;
        let mut obj = self.obj(node).map_err(|_snapshots| number::ENODATA)?;
        if self.is_guest() {
            if name.starts_with(TRUSTED) {
                return Err(number::ENODATA);
            }
            if name.starts_with(SECURITY) {
                // Everybody may know them.
                obj = obj.unchecked();
            }
        }
        let value = self.done(obj.xattr(name))?;
        tell_sized(&value, room_bytes, reply)
    }

    pub(super) fn listxattr(&self, node: u64, room_bytes: u32, reply: &mut Reply) -> Done {
        let names = match self.node(node)?.what {
            What::Obj(obj) => self.done(obj.xattr_names())?,
            What::Snapshots => Vec::new(),
        };
        let mut list = Vec::new();
        let is_told = |name: &[u8]| name != quota::NAME && (!self.is_guest() || !name.starts_with(TRUSTED));
        for name in names.iter().filter(|name| is_told(name)) {
            list.extend_from_slice(name);
            list.push(0);
        }
        tell_sized(&list, room_bytes, reply)
    }

    pub(super) fn setxattr(&self, node: u64, name: &[u8], value: &[u8], flags: u32) -> Done {
        let cond = match flags {
            0 => XattrCond::Any,
            1 => XattrCond::Create,
            2 => XattrCond::Replace,
            _ => return Err(number::EINVAL),
        };
        if name == CAPABILITY || name == quota::NAME || (node == ROOT && name == ABOUT) {
            return Err(errno::EOPNOTSUPP);
        }
        refuse_system(name)?;
        let obj = self.obj(node)?;
        self.refuse_guest(&obj, name)?;
        self.done(obj.set_xattr(name, value, cond))
    }

    pub(super) fn removexattr(&self, node: u64, name: &[u8]) -> Done {
        if name == quota::NAME {
            return Err(errno::EOPNOTSUPP);
        }
        refuse_system(name)?;
        let obj = self.obj(node)?;
        self.refuse_guest(&obj, name)?;
        self.done(obj.remove_xattr(name))
    }

    /// Attributes that somebody may not change, where the kernel has not looked at that: those that are root's; of what is neither
    /// file nor directory, to whose bits everybody may have a right; and of others' sticky directories.
    fn refuse_guest(&self, obj: &Obj, name: &[u8]) -> Done {
        const STICKY: u32 = 0o1000;
        let Some(user) = self.user.as_ref().filter(|_| self.is_guest()) else { return Ok(()) };
        let is_roots = name.starts_with(TRUSTED) || name.starts_with(SECURITY);
        let is_list = name.starts_with(SYSTEM);
        let may = match obj.kind() {
            _ if is_roots => false,
            // Who may change lists is looked at with them.
            _ if is_list => true,
            FileKind::File => true,
            FileKind::Directory => {
                let stat = self.done(obj.stat())?;
                stat.permissions & STICKY == 0 || stat.uid == user.uid
            }
            _ => false,
        };
        if may { Ok(()) } else { Err(number::EPERM) }
    }
}

/// Those of the system have to mean something: access control lists do.
fn refuse_system(name: &[u8]) -> Done {
    let is_list = matches!(name, b"system.posix_acl_access" | b"system.posix_acl_default");
    if name.starts_with(SYSTEM) && !is_list { Err(errno::EOPNOTSUPP) } else { Ok(()) }
}

/// Tells bytes, or how many there are if there is no room yet.
pub(crate) fn tell_sized(bytes: &[u8], room_bytes: u32, reply: &mut Reply) -> Done {
    let len = u32::try_from(bytes.len()).map_err(|_too_long| number::E2BIG)?;
    match room_bytes {
        0 => {
            reply.out.u32(len).u32(0);
            Ok(())
        }
        room_bytes if len > room_bytes => Err(errno::ERANGE),
        _ => {
            reply.out.bytes(bytes);
            Ok(())
        }
    }
}

fn set_time(time: NewTime) -> SetTime {
    match time {
        NewTime::Now => SetTime::Now,
        NewTime::At(s, ns) => SetTime::To(Time { s, ns }),
    }
}
