//! Replies, as bytes.

pub use crate::options::Timeouts;
use dolmen_dfs::Time;

/// Bytes of a reply without its head, built field by field.
#[derive(Debug, Default)]
pub struct Out(Vec<u8>);

impl Out {
    /// Adds a field.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Adds a field.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Adds a field.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Adds bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// What was built.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Begins anew, with the room that there was.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Room for so many bytes at the end.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        let start = self.0.len();
        self.0.resize(start + len, 0);
        &mut self.0[start..]
    }

    /// Keeps the first bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Bytes before the part that each reply has of its own.
pub const HEAD_BYTES: u32 = 16;

/// The head of a reply: `errno` is 0 or positive.
#[must_use]
pub fn head(unique: u64, errno: i32, own_bytes: usize) -> [u8; HEAD_BYTES as usize] {
    let len = HEAD_BYTES.saturating_add(u32::try_from(own_bytes).unwrap_or(u32::MAX));
    let mut head = [0; HEAD_BYTES as usize];
    head[..4].copy_from_slice(&len.to_le_bytes());
    head[4..8].copy_from_slice(&errno.saturating_neg().to_le_bytes());
    head[8..].copy_from_slice(&unique.to_le_bytes());
    head
}

/// Attributes as the kernel has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attrs {
    /// Its number, as `stat` tells it.
    pub ino: u64,
    /// Length in bytes.
    pub size: u64,
    /// Units of 512 bytes that it takes.
    pub blocks: u64,
    /// Time of the last access.
    pub atime: Time,
    /// Time of the last change of content.
    pub mtime: Time,
    /// Time of the last change of any kind.
    pub ctime: Time,
    /// Kind and permission bits.
    pub mode: u32,
    /// Names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The device that it stands for.
    pub rdev: u32,
    /// Bytes that are best read at once.
    pub block_bytes: u32,
}

impl Attrs {
    fn put(&self, out: &mut Out) {
        let times = [self.atime, self.mtime, self.ctime];
        out.u64(self.ino).u64(self.size).u64(self.blocks);
        for time in times {
            out.u64(time.s.cast_unsigned());
        }
        for time in times {
            out.u32(time.ns);
        }
        out.u32(self.mode).u32(self.links).u32(self.uid).u32(self.gid).u32(self.rdev);
        out.u32(self.block_bytes).u32(0);
    }
}

/// A node that was found or made; the kernel remembers it from now on.
pub fn entry(out: &mut Out, node: u64, attrs: &Attrs, timeouts: Timeouts) {
    let (name_s, name_ns) = parts(timeouts.names);
    let (attr_s, attr_ns) = parts(timeouts.attrs);
    // Numbers are never used twice, so one generation does.
    out.u64(node).u64(0).u64(name_s).u64(attr_s).u32(name_ns).u32(attr_ns);
    attrs.put(out);
}

/// Bytes of `entry`.
pub(crate) const ENTRY_BYTES: usize = 128;

/// Attributes of a node that the kernel knows.
pub fn attrs(out: &mut Out, attrs: &Attrs, timeouts: Timeouts) {
    let (s, ns) = parts(timeouts.attrs);
    out.u64(s).u32(ns).u32(0);
    attrs.put(out);
}

fn parts(time: core::time::Duration) -> (u64, u32) {
    (time.as_secs(), time.subsec_nanos())
}

/// How the kernel treats an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenAs {
    /// Every read and write comes here.
    Direct,
    /// What it remembers of the contents is forgotten now.
    Fresh,
    /// What it remembers of the contents is true.
    Kept,
}

/// What was opened: a number for it, and how the kernel treats it.
pub fn open(out: &mut Out, handle: u64, open_as: OpenAs) {
    const DIRECT_IO: u32 = 1;
    const KEEP_CACHE: u32 = 1 << 1;
    let flags = match open_as {
        OpenAs::Direct => DIRECT_IO,
        OpenAs::Fresh => 0,
        OpenAs::Kept => KEEP_CACHE,
    };
    out.u64(handle).u32(flags).u32(0);
}

/// Room that an entry of a listing takes.
#[must_use]
pub fn dirent_bytes(name: &[u8]) -> usize {
    (24 + name.len()).next_multiple_of(8)
}

/// An entry of a listing; `next` is where the one after it begins.
pub fn dirent(out: &mut Out, ino: u64, next: u64, kind: u32, name: &[u8]) {
    let len = u32::try_from(name.len()).unwrap_or(0);
    out.u64(ino).u64(next).u32(len).u32(kind).bytes(name);
    out.bytes(&[0; 7][..dirent_bytes(name) - 24 - name.len()]);
}

/// The space of the whole.
pub(crate) fn statfs(out: &mut Out, space: &dolmen_dfs::Statfs) {
    const UNIT_BYTES: u32 = 4096;
    let units = |bytes: u64| bytes / u64::from(UNIT_BYTES);
    let (total, free) = (units(space.total_bytes), units(space.free_bytes));
    // What is neither taken nor free to be taken is kept in reserve, or others have it on the device: `df` counts it as neither.
    let left = total.saturating_sub(space.taken_bytes.div_ceil(u64::from(UNIT_BYTES)));
    out.u64(total).u64(left.max(free)).u64(free);
    // Without a limit nobody counts them, and it is said as other file systems without one say it: none, of none.
    let (files, files_free) = space.files.unwrap_or((0, 0));
    out.u64(files).u64(files_free);
    out.u32(UNIT_BYTES).u32(u32::try_from(space.name_bytes_max).unwrap_or(255)).u32(UNIT_BYTES).u32(0);
    out.bytes(&[0; 24]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_the_lengths_that_the_kernel_expects() {
        let timeouts = Timeouts { names: core::time::Duration::ZERO, attrs: core::time::Duration::ZERO };
        let built = |build: &dyn Fn(&mut Out)| {
            let mut out = Out::default();
            build(&mut out);
            out.len()
        };
        assert_eq!(built(&|out| entry(out, 1, &Attrs::default(), timeouts)), ENTRY_BYTES);
        assert_eq!(built(&|out| attrs(out, &Attrs::default(), timeouts)), 104);
        assert_eq!(built(&|out| open(out, 1, OpenAs::Fresh)), 16);
        for name in [&b"a"[..], b"12345678", b"123456789"] {
            assert_eq!(built(&|out| dirent(out, 1, 2, 8, name)), dirent_bytes(name));
            assert_eq!(dirent_bytes(name) % 8, 0);
        }
        let space = dolmen_dfs::Statfs {
            block_bytes: 1,
            total_bytes: 1,
            taken_bytes: 1,
            free_bytes: 1,
            files: Some((1, 1)),
            used_bytes: 1,
            value_bytes: 1,
            versions: 1,
            name_bytes_max: 255,
        };
        assert_eq!(built(&|out| statfs(out, &space)), 80);
    }

    #[test]
    fn an_error_is_negative_in_the_head() {
        assert_eq!(head(3, 2, 0), [16, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 3, 0, 0, 0, 0, 0, 0, 0]);
    }
}
