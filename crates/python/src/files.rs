//! Files of a container.

use crate::buffer::Lent;
use crate::error::{Error, Result, Wrong};
use crate::slot::Slot;
use dolmen_dfs::{
    Cookie, Dfs, File as Client, FileKind, Follow, OpenOptions, RenameMode, SetAttrs, SetTime, Stat as Told,
    Time,
};
use pyo3::prelude::{
    Bound, Py, PyAny, PyAnyMethods, PyErr, PyModule, PyModuleMethods, PyResult, Python, pyclass, pymethods,
};
use pyo3::types::{PyBytes, PyDict, PyDictMethods};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Names of one answer to a listing.
const NAMES_MAX: u32 = 1024;
/// What a copy has in memory.
const COPY_BYTES: usize = 8 << 20;
/// Threads of one call that reads parts of many files.
const READERS_MAX: usize = 8;

/// The files of a container, with the operations of a POSIX file system. Made by ``Container.files``. Paths are text, bytes or
/// ``os.PathLike``, from the root of the container, with or without a slash at the beginning. May be used by any number of threads at
/// once.
#[pyclass(frozen, module = "dolmen", name = "Files")]
pub(crate) struct Files {
    slot: Slot<Dfs>,
}

/// What is known of a file, directory or link.
#[pyclass(frozen, module = "dolmen", name = "Stat")]
pub(crate) struct Stat(Told);

/// An open file, read and written at offsets. Made by ``Files.open_raw``; ``Files.open`` gives one with a position.
#[pyclass(frozen, module = "dolmen", name = "File")]
pub(crate) struct File {
    slot: Slot<Client>,
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "link",
        FileKind::Pipe => "pipe",
        FileKind::Socket => "socket",
        FileKind::CharDevice | FileKind::BlockDevice => "device",
    }
}

fn ns(time: Time) -> i64 {
    time.s.saturating_mul(1_000_000_000).saturating_add(i64::from(time.ns))
}

fn follow(links: bool) -> Follow {
    if links { Follow::Yes } else { Follow::No }
}

#[pymethods]
impl Stat {
    /// ``file``, ``directory``, ``link``, ``pipe``, ``socket`` or ``device``.
    #[getter]
    fn kind(&self) -> &'static str {
        kind(self.0.kind)
    }

    /// Bytes of a file or of a link's target; 0 for a directory.
    #[getter]
    fn size(&self) -> u64 {
        self.0.size_bytes
    }

    /// Kind and permissions, as ``os.stat`` has them.
    #[getter]
    fn mode(&self) -> u32 {
        self.0.mode()
    }

    /// Owner.
    #[getter]
    fn uid(&self) -> u32 {
        self.0.uid
    }

    /// Group.
    #[getter]
    fn gid(&self) -> u32 {
        self.0.gid
    }

    /// A number that no other file of the container has.
    #[getter]
    fn ino(&self) -> u64 {
        self.0.ino
    }

    /// Names of the file.
    #[getter]
    fn links(&self) -> u64 {
        self.0.links
    }

    /// The last change of content, in nanoseconds since 1970.
    #[getter]
    fn mtime_ns(&self) -> i64 {
        ns(self.0.mtime)
    }

    /// The last change of content or attributes, in nanoseconds since 1970.
    #[getter]
    fn ctime_ns(&self) -> i64 {
        ns(self.0.ctime)
    }

    /// Bytes that lie together: the preferred size of reads and writes.
    #[getter]
    fn chunk(&self) -> u64 {
        self.0.chunk_bytes
    }

    fn __repr__(&self) -> String {
        format!("<dolmen.Stat {} of {} bytes>", kind(self.0.kind), self.0.size_bytes)
    }
}

impl Files {
    pub(crate) fn new(slot: Slot<Dfs>) -> Self {
        Self { slot: slot.called("the handle that `files` gave") }
    }

    fn on<R: Send>(
        &self,
        py: Python<'_>,
        path: &Path,
        body: impl FnOnce(&Dfs, &[u8]) -> dolmen_dfs::Result<R> + Send,
    ) -> PyResult<R> {
        self.slot.run(py, |files| Ok(body(files, bytes(path))?)).map_err(|error| named(py, error, path))
    }

    /// The same for two paths, both of which errors name.
    fn between(
        &self,
        py: Python<'_>,
        old: &Path,
        new: &Path,
        body: impl FnOnce(&Dfs, &[u8], &[u8]) -> Result<()> + Send,
    ) -> PyResult<()> {
        let done = self.slot.run(py, |files| body(files, bytes(old), bytes(new)));
        done.map_err(|error| {
            let error = named(py, error, old);
            match error.value(py).setattr("filename2", new.as_os_str()) {
                Ok(()) => error,
                Err(other) => other,
            }
        })
    }
}

/// The exception of an error with the file that it is about.
fn named(py: Python<'_>, error: Error, path: &Path) -> PyErr {
    let error = PyErr::from(error);
    match error.value(py).setattr("filename", path.as_os_str()) {
        Ok(()) => error,
        Err(other) => other,
    }
}

#[pymethods]
impl Files {
    /// Records the times of what was changed, and gives the files up. Closing again does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(files) = self.slot.take_all(py) {
            py.detach(|| if files.is_read_only() { Ok(()) } else { files.sync() }).map_err(Error::from)?;
        }
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    /// What is known of a path; raises NotFound.
    ///
    /// links
    ///     Whether a symbolic link at its end is followed.
    #[pyo3(signature = (path, *, links=true))]
    fn stat(&self, py: Python<'_>, path: PathBuf, links: bool) -> PyResult<Stat> {
        self.on(py, &path, |files, path| files.stat_with(path, follow(links))).map(Stat)
    }

    /// Whether there is anything at a path.
    fn exists(&self, py: Python<'_>, path: PathBuf) -> PyResult<bool> {
        let found = self.slot.run(py, |files| match files.stat(bytes(&path)) {
            Ok(_) => Ok(true),
            Err(dolmen_dfs::Error::NotFound | dolmen_dfs::Error::NotDirectory) => Ok(false),
            Err(other) => Err(other.into()),
        });
        found.map_err(|error| named(py, error, &path))
    }

    /// The entries of a directory, of the root without a path, as pairs of name and Stat, in no order. Names that are no text have their bytes escaped as
    /// ``os.fsdecode`` does it.
    #[pyo3(signature = (path=None))]
    fn list(&self, py: Python<'_>, path: Option<PathBuf>) -> PyResult<Vec<(std::ffi::OsString, Stat)>> {
        let path = path.unwrap_or_else(|| PathBuf::from("/"));
        let all = self.on(py, &path, |files, path| {
            let dir = files.open_dir(path)?;
            let (mut cookie, mut all) = (Cookie::default(), Vec::new());
            while !cookie.is_end() {
                for entry in dir.list_plus(&mut cookie, NAMES_MAX)? {
                    match entry.stat {
                        Ok(stat) => all.push((entry.name, stat)),
                        // It was removed meanwhile.
                        Err(dolmen_dfs::Error::NotFound) => {}
                        Err(other) => return Err(other),
                    }
                }
            }
            Ok(all)
        })?;
        let named = |name: Box<[u8]>| std::ffi::OsStr::from_bytes(&name).to_owned();
        Ok(all.into_iter().map(|(name, stat)| (named(name), Stat(stat))).collect())
    }

    /// Makes a directory. Raises Exists, unless ``exist_ok`` is set and a directory has the name; NotFound if the one above is not
    /// there, unless ``parents`` is set.
    #[pyo3(signature = (path, *, mode=0o755, parents=false, exist_ok=false))]
    fn mkdir(&self, py: Python<'_>, path: PathBuf, mode: u32, parents: bool, exist_ok: bool) -> PyResult<()> {
        self.on(py, &path, |files, path| {
            if parents {
                let slashes = path.iter().enumerate().filter(|(at, byte)| **byte == b'/' && *at > 0);
                for (end, _) in slashes {
                    made(files.mkdir(&path[..end], mode), || files.open_dir(&path[..end]).map(drop))?;
                }
            }
            match files.mkdir(path, mode) {
                Err(error) if exist_ok => made(Err(error), || files.open_dir(path).map(drop)),
                other => other,
            }
        })
    }

    /// Removes an empty directory; raises NotEmpty for another.
    fn rmdir(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.on(py, &path, |files, path| files.rmdir(path))
    }

    /// Removes what is no directory.
    fn unlink(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.on(py, &path, |files, path| files.unlink(path))
    }

    /// Removes a directory with everything in it; of the root what is in it. Raises NotDirectory for anything else, also for a symbolic link that
    /// leads to a directory.
    fn remove_tree(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let options = dolmen_dfs::tree::Options::default();
        let remove = |files: &Dfs, path: &[u8]| dolmen_dfs::tree::remove(files, path, &options).map(drop);
        self.on(py, &path, |files, path| {
            let found = files.stat_with(path, Follow::No)?;
            if found.kind != FileKind::Directory {
                return Err(dolmen_dfs::Error::NotDirectory);
            }
            if found.oid != files.stat("/")?.oid {
                return remove(files, path);
            }
            for name in files.open_dir("/")?.names()? {
                let path = [b"/", &*name].concat();
                match files.stat_with(&path, Follow::No)?.kind {
                    FileKind::Directory => remove(files, &path)?,
                    _ => files.unlink(&path)?,
                }
            }
            Ok(())
        })
    }

    /// Gives something another path, in one step. What has that is replaced, unless ``replace`` is False: then Exists is raised.
    #[pyo3(signature = (old, new, *, replace=true))]
    fn rename(&self, py: Python<'_>, old: PathBuf, new: PathBuf, replace: bool) -> PyResult<()> {
        let mode = if replace { RenameMode::Replace } else { RenameMode::NoReplace };
        self.between(py, &old, &new, |files, old, new| Ok(files.rename(old, files, new, mode)?))
    }

    /// Copies a file, through the memory of this process, to a path at which there may be another, which is cut first. Raises Invalid where both are one.
    fn copy(&self, py: Python<'_>, old: PathBuf, new: PathBuf) -> PyResult<()> {
        self.between(py, &old, &new, |files, old, new| {
            let from = files.open(old, &OpenOptions::READ)?;
            let to = files.open(new, &OpenOptions::CREATE)?;
            if from.stat()?.oid == to.stat()?.oid {
                return Err(Error::Argument(Wrong::SameFile));
            }
            to.set_len(0)?;
            let (mut part, mut offset) = (vec![0; COPY_BYTES], 0);
            loop {
                let len = from.read_at(offset, &mut part)?;
                to.write_at(offset, &part[..len])?;
                offset += len as u64;
                if len < part.len() {
                    return Ok(to.close()?);
                }
            }
        })
    }

    /// Makes a symbolic link at ``path`` that leads to ``target``.
    fn symlink(&self, py: Python<'_>, target: PathBuf, path: PathBuf) -> PyResult<()> {
        self.on(py, &path, |files, path| files.symlink(bytes(&target), path))
    }

    /// Where a symbolic link leads; raises Invalid for anything else.
    fn readlink(&self, py: Python<'_>, path: PathBuf) -> PyResult<std::ffi::OsString> {
        let target = self.on(py, &path, |files, path| files.readlink(path))?;
        Ok(std::ffi::OsStr::from_bytes(&target).to_owned())
    }

    /// Gives a file a second name.
    fn link(&self, py: Python<'_>, old: PathBuf, new: PathBuf) -> PyResult<()> {
        self.between(py, &old, &new, |files, old, new| Ok(files.link(old, files, new)?))
    }

    /// Sets the permission bits.
    fn chmod(&self, py: Python<'_>, path: PathBuf, mode: u32) -> PyResult<()> {
        self.on(py, &path, |files, path| files.chmod(path, mode))
    }

    /// Sets the time of the last change of content, in nanoseconds since 1970; to now without one.
    #[pyo3(signature = (path, mtime_ns=None))]
    fn touch(&self, py: Python<'_>, path: PathBuf, mtime_ns: Option<i64>) -> PyResult<()> {
        let mtime = match mtime_ns {
            None => SetTime::Now,
            Some(ns) => SetTime::To(Time {
                s: ns.div_euclid(1_000_000_000),
                ns: u32::try_from(ns.rem_euclid(1_000_000_000))
                    .map_err(|_never| Error::Argument(Wrong::Seconds))?,
            }),
        };
        let attrs = SetAttrs { mtime, ..SetAttrs::KEEP };
        self.on(py, &path, |files, path| files.set_attrs(path, &attrs, Follow::Yes))
    }

    /// The contents of a file, or of a part of it, as bytes. Offsets are those of slices: negative ones count from the end.
    #[pyo3(signature = (path, start=None, end=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        start: Option<i64>,
        end: Option<i64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let found = self.slot.run(py, |files| {
            let file = files.open(bytes(&path), &OpenOptions::READ)?;
            part(&file, start, end)
        });
        let found = found.map_err(|error| named(py, error, &path))?;
        Ok(PyBytes::new(py, &found))
    }

    /// Parts of files, triples of path, start and end, in the order asked for; several are read side by side, and a file is opened
    /// once. In place of a part that cannot be read is its exception.
    fn read_parts<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<(PathBuf, Option<i64>, Option<i64>)>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let all = self.slot.run(py, |files| Ok(parts_of(files, &parts)))?;
        let all = all.into_iter().zip(&parts).map(|(found, (path, ..))| match found {
            Ok(bytes) => PyBytes::new(py, &bytes).into_any(),
            Err(error) => named(py, error, path).into_value(py).into_bound(py).into_any(),
        });
        Ok(all.collect())
    }

    /// Makes a file with these contents, or replaces those of one that is there, which is cut first: in a full pool they may be gone. A small one that is
    /// new is made whole or not at all.
    fn write(&self, py: Python<'_>, path: PathBuf, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let lent = Lent::to_read(data)?;
        let data = lent.bytes();
        self.on(py, &path, |files, path| {
            if data.len() <= dolmen_dfs::WHOLE_BYTES_MAX {
                match files.put_whole(path, data, &SetAttrs { mode: Some(0o644), ..SetAttrs::KEEP }) {
                    Err(dolmen_dfs::Error::Exists) => {}
                    other => return other,
                }
            }
            let file = files.open(path, &OpenOptions { truncate: true, ..OpenOptions::CREATE })?;
            file.write_at(0, data)?;
            file.close()
        })
    }

    /// Opens a file for reads and writes at offsets.
    ///
    /// mode
    ///     ``r``; ``r+`` reads and writes; ``w`` and ``w+`` make it or cut it to nothing; ``x`` and ``x+`` make it and raise Exists if it is
    ///     there; ``a`` and ``a+`` append. A ``b`` in it means nothing.
    #[pyo3(signature = (path, mode="r"))]
    fn open_raw(&self, py: Python<'_>, path: PathBuf, mode: &str) -> PyResult<File> {
        let options = options_of(mode)?;
        let file = self.on(py, &path, |files, path| files.open(path, &options))?;
        Ok(File { slot: self.slot.hold(file)?.called("the file") })
    }

    /// Opens a file as the builtin ``open`` does, with the same arguments: what is returned is one of the classes of ``io``.
    #[pyo3(signature = (path, mode="r", **arguments))]
    fn open<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        mode: &str,
        arguments: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let file = Py::new(py, self.open_raw(py, path.clone(), mode)?)?;
        py.import("dolmen._io")?.getattr("opened")?.call((file, path, mode), arguments)
    }

    /// Space: a dict with ``total``, ``free`` and ``used`` in bytes.
    fn space<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let space = self.slot.run(py, |files| Ok(files.statfs()?))?;
        let told = PyDict::new(py);
        told.set_item("total", space.total_bytes)?;
        told.set_item("free", space.free_bytes)?;
        told.set_item("used", space.used_bytes)?;
        Ok(told)
    }

    /// Records the times of what was changed, and makes everything durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.slot.run(py, |files| {
            files.sync()?;
            Ok(files.flush()?)
        })?)
    }
}

/// Takes a directory that is there for one that was made.
fn made(
    done: dolmen_dfs::Result<()>,
    is_directory: impl FnOnce() -> dolmen_dfs::Result<()>,
) -> dolmen_dfs::Result<()> {
    match done {
        Err(dolmen_dfs::Error::Exists) => is_directory().map_err(|_other_kind| dolmen_dfs::Error::Exists),
        other => other,
    }
}

fn options_of(mode: &str) -> Result<OpenOptions> {
    let plain: String = mode.chars().filter(|letter| !matches!(letter, 'b' | 't' | '+')).collect();
    let both = mode.contains('+');
    Ok(match plain.as_str() {
        "r" if both => OpenOptions::WRITE,
        "r" => OpenOptions::READ,
        "w" => OpenOptions { read: both, truncate: true, ..OpenOptions::CREATE },
        "x" => OpenOptions { read: both, ..OpenOptions::CREATE_NEW },
        "a" => OpenOptions { read: both, ..OpenOptions::APPEND },
        _ => return Err(Error::Argument(Wrong::Mode)),
    })
}

/// A part of a file between two offsets of a slice.
fn part(file: &Client, start: Option<i64>, end: Option<i64>) -> Result<Vec<u8>> {
    let start = start.unwrap_or(0);
    // What is known without asking needs no question for the size.
    let (start, end) = match (u64::try_from(start), end.map(u64::try_from)) {
        (Ok(start), Some(Ok(end))) => (start, end),
        _ => {
            let size = file.size()?;
            let place = |at: i64| match u64::try_from(at) {
                Ok(at) => at.min(size),
                Err(_from_the_end) => size.saturating_sub(at.unsigned_abs()),
            };
            (place(start), end.map_or(size, place))
        }
    };
    let mut len = end.saturating_sub(start);
    if len > COPY_BYTES as u64 {
        // More memory than the file has bytes is not taken.
        len = len.min(file.size()?.saturating_sub(start));
    }
    let mut bytes = room(len)?;
    let found = file.read_at(start, &mut bytes)?;
    bytes.truncate(found);
    Ok(bytes)
}

/// Zeros. Who asks for more than there is memory for gets an error, and not the end of the process.
fn room(len: u64) -> Result<Vec<u8>> {
    let none = Error::Argument(Wrong::Memory);
    let Ok(len) = usize::try_from(len) else { return Err(none) };
    if len > COPY_BYTES && Vec::<u8>::new().try_reserve_exact(len).is_err() {
        return Err(none);
    }
    Ok(vec![0; len])
}

type Part = (PathBuf, Option<i64>, Option<i64>);

/// Parts of files, by several threads if there are several.
fn parts_of(files: &Dfs, parts: &[Part]) -> Vec<Result<Vec<u8>>> {
    let open = |path: &Path| files.open(bytes(path), &OpenOptions::READ);
    let some = |parts: &[Part]| {
        let mut last: Option<(PathBuf, dolmen_dfs::Result<Client>)> = None;
        let one = |(path, start, end): &Part| {
            if last.as_ref().is_none_or(|(known, _)| known != path) {
                last = Some((path.clone(), open(path)));
            }
            match &last {
                Some((_, Ok(file))) => part(file, *start, *end),
                Some((_, Err(error))) => Err(error.clone().into()),
                None => Err(dolmen_dfs::Error::NotFound.into()),
            }
        };
        parts.iter().map(one).collect::<Vec<_>>()
    };
    if parts.len() < 2 {
        return some(parts);
    }
    let share = parts.len().div_ceil(READERS_MAX);
    dolmen_env::scope(|scope| {
        let readers: Vec<_> = parts.chunks(share).map(|parts| scope.spawn(move || some(parts))).collect();
        let joined = readers.into_iter().zip(parts.chunks(share));
        let lost =
            |parts: &[Part]| parts.iter().map(|_| Err(dolmen_dfs::Error::Worker.into())).collect::<Vec<_>>();
        joined.flat_map(|(reader, parts)| reader.join().unwrap_or_else(|_panic| lost(parts))).collect()
    })
}

#[pymethods]
impl File {
    /// Closes the file; what was written is in the pool already, its time is recorded now. Closing again does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(file) = self.slot.take(py) {
            py.detach(|| file.close()).map_err(Error::from)?;
        }
        Ok(())
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.slot.is_closed(py)?)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    /// Reads at most ``size`` bytes at an offset; fewer only at the end of the file.
    fn read_at<'py>(&self, py: Python<'py>, offset: u64, size: usize) -> PyResult<Bound<'py, PyBytes>> {
        let found = self.slot.run(py, |file| {
            let place = |at: u64| Some(i64::try_from(at).unwrap_or(i64::MAX));
            part(file, place(offset), place(offset.saturating_add(size as u64)))
        })?;
        Ok(PyBytes::new(py, &found))
    }

    /// Reads at an offset into a writable contiguous buffer, without a copy, and returns the number of bytes, fewer than there is
    /// room for only at the end of the file. What is left of the buffer then may have become zeros.
    fn read_into(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut lent = Lent::to_fill(buffer)?;
        let place = lent.bytes_mut();
        Ok(self.slot.run(py, |file| Ok(file.read_at(offset, place)?))?)
    }

    /// Writes all of the data at an offset and returns their length. Each chunk is written atomically.
    fn write_at(&self, py: Python<'_>, offset: u64, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let lent = Lent::to_read(data)?;
        let data = lent.bytes();
        self.slot.run(py, |file| Ok(file.write_at(offset, data)?))?;
        Ok(data.len())
    }

    /// Writes all of the data at the end of the file, wherever that is by then, and returns the offset at which they begin.
    fn append(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let lent = Lent::to_read(data)?;
        let data = lent.bytes();
        Ok(self.slot.run(py, |file| Ok(file.append(data)?))?)
    }

    /// The size of the file in bytes.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.slot.run(py, |file| Ok(file.size()?))?)
    }

    /// Cuts the file, or makes it longer with zeros.
    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        Ok(self.slot.run(py, |file| Ok(file.set_len(size)?))?)
    }

    /// Makes what was written durable, and records its time.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.slot.run(py, |file| {
            file.sync()?;
            Ok(file.flush()?)
        })?)
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Files>()?;
    module.add_class::<File>()?;
    module.add_class::<Stat>()
}
