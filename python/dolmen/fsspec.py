"""Files of containers for fsspec, and so for pandas, pyarrow, dask, zarr and whatever else reads ``protocol://``.

    import pandas

    frame.to_parquet("dolmen://file:/data/pool//henge/stones.parquet")
    pandas.read_parquet("dolmen://unix:/run/dolmen.sock/stones//henge/stones.parquet")

A URL is ``dolmen://ADDRESS//CONTAINER/PATH``: the address of a pool as ``dolmen.open`` takes it, two slashes, and a container that was
made with ``files=True``. A file system object stands for one container, and its own paths begin there, with a slash.

A pool is opened once a process, at the first use, and stays open until ``close_all`` or the end of the process. A file system may
be used by any number of threads, and is opened anew in a forked child, and wherever it is unpickled.
"""

import datetime
import io
import os
import shutil
import threading
import uuid
from collections.abc import Iterable
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.utils import stringify_path

import dolmen
from dolmen._dolmen import near
from dolmen._io import RawFile, opened

__all__ = ["DolmenFileSystem", "close_all", "split_url"]

_PROTOCOL = "dolmen://"

_OWN_OPTIONS = ("address", "container", "snapshot", "read_only", "auto_mkdir", "create")
# What fsspec gives any file system, or whoever works with several: nothing here depends on them.
_COMMON_OPTIONS = {
    "add_aliases",
    "add_docs",
    "asynchronous",
    "batch_size",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "skip_instance_cache",
    "use_listings_cache",
}

# Guards the pools that file systems of a process have open, by process, address and whether they are read-only.
_LOCK = threading.Lock()
_POOLS: dict[tuple[int, str, bool], dolmen.Pool] = {}


def split_url(url: str) -> tuple[str, str, str]:
    """Address, container and path (with a slash at its beginning) of a URL. Raises Invalid for anything else."""
    rest = url.removeprefix(_PROTOCOL)
    scheme = "tcp://" if rest.startswith("tcp://") else ""
    address, slashes, rest = rest.removeprefix(scheme).partition("//")
    container, _, path = rest.partition("/")
    if not (url.startswith(_PROTOCOL) and address and slashes and container):
        raise dolmen.Invalid(f"{url!r} is not dolmen://ADDRESS//CONTAINER/PATH")
    return scheme + address, container, "/" + path.strip("/")


def close_all() -> None:
    """Closes the pools that file systems of this process have opened. File systems that are used again open them anew."""
    with _LOCK:
        # Pools of a process that this one was forked from are that one's.
        pools = [pool for (pid, _, _), pool in _POOLS.items() if pid == os.getpid()]
        _POOLS.clear()
    for pool in pools:
        pool.close()


def _pool(address: str, read_only: bool) -> dolmen.Pool:
    key = (os.getpid(), address, read_only)
    with _LOCK:
        pool = _POOLS.get(key)
        if pool is None or pool.closed:
            pool = _POOLS[key] = dolmen.open(address, read_only=read_only)
        return pool


def _but_missing(error: OSError) -> None:
    """Raises what tells something else than that there is nothing."""
    if not isinstance(error, (dolmen.NotFound, dolmen.NotDirectory)):
        raise error


class _Reader(io.BufferedReader):
    """A file that is read, with what fsspec asks such a one for."""

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.raw.size  # type: ignore[attr-defined, no-any-return]


class _Writer(io.BufferedWriter):
    """A file that is written under another name until it is committed."""

    def __init__(self, files: dolmen.Files, path: str, mode: str, size: int) -> None:
        self._files = files
        self._path = path
        self._replace = "x" not in mode
        if not self._replace and files.exists(path):
            raise dolmen.Exists(f"{path!r} is there already")
        parent, _, name = path.rpartition("/")
        self._own = f"{parent}/.{name}.{uuid.uuid4().hex}"
        super().__init__(RawFile(files.open_raw(self._own, "x"), path, mode), size)

    def commit(self) -> None:
        """Gives the file its name, in one step; raises Exists where mode "x" finds another."""
        self.close()
        self._files.rename(self._own, self._path, replace=self._replace)

    def discard(self) -> None:
        """Forgets the file."""
        try:
            self.close()
        finally:
            self._files.unlink(self._own)


class DolmenFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The files of a container.

    address
        The pool, as ``dolmen.open`` takes it; from the URL, if one is opened.
    container
        Label or UUID of a container with files; from the URL, if one is opened.
    snapshot
        Name or epoch of a snapshot, to see the files as they were.
    read_only
        Nothing may be changed.
    auto_mkdir
        Directories above a file that is written are made.
    create
        The container is made if it is not there; the pool never is.

    Options of fsspec itself are taken as well, any other raises Invalid. In a transaction the files that ``open``, ``pipe``, ``put``,
    ``cp`` and ``touch`` write get their names at its end; what moves and removes does so at once.
    """

    protocol = "dolmen"
    root_marker = "/"
    cachable = True

    def __init__(
        self,
        address: str,
        container: str,
        *,
        snapshot: str | int | None = None,
        read_only: bool = False,
        auto_mkdir: bool = True,
        create: bool = False,
        **options: Any,
    ) -> None:
        for unknown in options.keys() - _COMMON_OPTIONS:
            meant = near(unknown, _OWN_OPTIONS)
            hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(_OWN_OPTIONS)}"
            raise dolmen.Invalid(f"the file system has no option {unknown!r}: {hint}")
        super().__init__(**options)
        self.address = address
        self.container = container
        self.snapshot = snapshot
        self.read_only = read_only
        self.auto_mkdir = auto_mkdir
        self.create = create
        self._opening = threading.Lock()
        self._opened: tuple[dolmen.Pool, dolmen.Container, dolmen.Files] | None = None

    @property
    def files(self) -> dolmen.Files:
        """What the file system works on."""
        with self._opening:
            pool = _pool(self.address, self.read_only)
            if self._opened is None or self._opened[0] is not pool:
                cont = self._container(pool)
                files = cont.files(read_only=self.read_only)
                self._opened = (pool, cont, files)
            return self._opened[2]

    def _container(self, pool: dolmen.Pool) -> dolmen.Container:
        try:
            cont = pool.container(self.container)
        except dolmen.NotFound:
            if not self.create:
                told = f"there is no container {self.container!r} in the pool {self.address}"
                raise dolmen.NotFound(f"{told}: create=True makes one") from None
            try:
                cont = pool.create_container(self.container, files=True)
            except dolmen.Exists:
                cont = pool.container(self.container)
        return cont if self.snapshot is None else cont.at(self.snapshot)

    @property
    def fsid(self) -> str:
        """Tells file systems apart."""
        return f"dolmen-{self.address}-{self.container}-{self.snapshot}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        if path.startswith(_PROTOCOL):
            path = split_url(path)[2]
        return "/" + path.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        if not path.startswith(_PROTOCOL):
            return {}
        address, container, _ = split_url(path)
        return {"address": address, "container": container}

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path."""
        return f"{_PROTOCOL}{self.address}//{self.container}{self._strip_protocol(name)}"

    def _told(self, path: str, stat: dolmen.Stat) -> dict[str, Any]:
        kind = stat.kind if stat.kind in ("file", "directory") else "other"
        return {
            "name": path,
            "size": stat.size,
            "type": kind,
            "created": stat.ctime_ns / 1e9,
            "mtime": stat.mtime_ns / 1e9,
            "mode": stat.mode,
            "uid": stat.uid,
            "gid": stat.gid,
            "ino": stat.ino,
            "nlink": stat.links,
            "islink": stat.kind == "link",
        }

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        """What is known of a path; a link is followed, if it leads anywhere."""
        path = self._strip_protocol(path)
        try:
            stat = self.files.stat(path)
        except (dolmen.NotFound, dolmen.NotDirectory, dolmen.Invalid):
            # Invalid: it leads to itself.
            stat = self.files.stat(path, links=False)
        return self._told(path, stat)

    def ls(self, path: str, detail: bool = True, **_options: Any) -> list[Any]:
        """The entries of a directory, by name; of a file, the file."""
        path = self._strip_protocol(path)
        try:
            above = "" if path == "/" else path
            found = [self._told(f"{above}/{name}", stat) for name, stat in self.files.list(path)]
        except dolmen.NotDirectory:
            found = [self.info(path)]
        for entry in found:
            if entry["islink"]:
                entry.update(self.info(entry["name"]), islink=True)
        found.sort(key=lambda entry: str(entry["name"]))
        return found if detail else [entry["name"] for entry in found]

    def exists(self, path: str, **_options: Any) -> bool:
        """Whether there is anything at a path."""
        return self.files.exists(self._strip_protocol(path))

    def isdir(self, path: str) -> bool:
        """Whether a directory is at a path; raises what tells that this cannot be known."""
        return bool(self._kind(path) == "directory")

    def isfile(self, path: str) -> bool:
        """Whether a file is at a path; raises what tells that this cannot be known."""
        return bool(self._kind(path) == "file")

    def _kind(self, path: str) -> Any:
        # That there is no such container tells nothing of the path.
        self.files  # noqa: B018
        try:
            return self.info(path)["type"]
        except (dolmen.NotFound, dolmen.NotDirectory):
            return None

    def walk(self, path: str, maxdepth: int | None = None, topdown: bool = True, on_error: Any = "omit", **options: Any) -> Any:
        """Directories with what is in them, as ``os.walk``; what is not there is left out, any other error raised."""
        self.files  # noqa: B018
        on_error = _but_missing if on_error == "omit" else on_error
        yield from super().walk(path, maxdepth=maxdepth, topdown=topdown, on_error=on_error, **options)

    def lexists(self, path: str, **_options: Any) -> bool:
        """The same, of a link itself."""
        try:
            self.files.stat(self._strip_protocol(path), links=False)
        except (dolmen.NotFound, dolmen.NotDirectory):
            return False
        return True

    def created(self, path: str) -> datetime.datetime:
        """The time of the last change of content or attributes: when a file was made is not kept."""
        return datetime.datetime.fromtimestamp(self.info(path)["created"], tz=datetime.timezone.utc)

    def modified(self, path: str) -> datetime.datetime:
        """The time of the last change of content."""
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    def mkdir(self, path: str, create_parents: bool = True, **_options: Any) -> None:
        """Makes a directory; raises Exists."""
        self.files.mkdir(self._strip_protocol(path), parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes a directory and those above it."""
        path = self._strip_protocol(path)
        if path == "/":
            if not exist_ok:
                raise dolmen.Exists("the root of the container is there")
            return
        self.files.mkdir(path, parents=True, exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        self.files.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        """Removes a file, or an empty directory."""
        path = self._strip_protocol(path)
        try:
            self.files.unlink(path)
        except dolmen.IsDirectory:
            self.files.rmdir(path)

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files; with ``recursive`` also directories with everything in them. Of a link itself, and not what it leads to."""
        for one in [path] if isinstance(path, (str, os.PathLike)) else path:
            one = self._strip_protocol(one)
            if maxdepth is not None:
                super().rm(one, recursive=recursive, maxdepth=maxdepth)
                continue
            is_pattern = any(letter in one for letter in "*?[") and not self.lexists(one)
            found = self.glob(one) if is_pattern else [one]
            if not found:
                raise dolmen.NotFound(f"nothing fits {one!r}")
            for name in found:
                if recursive and self.files.stat(name, links=False).kind == "directory":
                    self.files.remove_tree(name)
                else:
                    self.files.unlink(name)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **_options: Any) -> None:
        """Gives a file or directory another path, in one step; a file that has that is replaced."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        self._made(path2, lambda: self.files.rename(path1, path2))

    def cp_file(self, path1: str, path2: str, **_options: Any) -> None:
        """Copies a file, or makes a directory like another."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
        elif self._intrans:
            with self.open(path1, "rb") as old, self.open(path2, "wb") as new:
                shutil.copyfileobj(old, new, 1 << 20)
        else:
            self._made(path2, lambda: self.files.copy(path1, path2))

    def touch(self, path: str, truncate: bool = True, **_options: Any) -> None:
        """Makes an empty file, or cuts one to nothing; without ``truncate`` one that is there gets the time of now."""
        path = self._strip_protocol(path)
        if self._intrans and (truncate or not self.files.exists(path)):
            self.open(path, "wb").close()
        elif truncate or not self.files.exists(path):
            self._made(path, lambda: self.files.open_raw(path, "w").close())
        else:
            self.files.touch(path)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_options: Any) -> bytes:
        """The contents of a file, or a part of them."""
        return self.files.read(self._strip_protocol(path), start, end)

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **_options: Any,
    ) -> list[Any]:
        """Parts of files, all in one call, read side by side."""
        if not isinstance(paths, list):
            raise TypeError("a list of paths is needed")
        count = len(paths)
        starts = list(starts) if isinstance(starts, Iterable) else [starts] * count
        ends = list(ends) if isinstance(ends, Iterable) else [ends] * count
        if len(starts) != count or len(ends) != count:
            raise ValueError("there must be as many starts and ends as paths")
        found = self.files.read_parts(list(zip(map(self._strip_protocol, paths), starts, ends)))
        if on_error == "raise":
            for part in found:
                if isinstance(part, Exception):
                    raise part
        return list(found)

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **_options: Any) -> None:
        """Makes or replaces a file with these contents; with ``mode="create"`` it must not be there."""
        path = self._strip_protocol(path)
        if self._intrans:
            value = memoryview(value)
            with self.open(path, "xb" if mode == "create" else "wb") as whole:
                whole.write(value)
            return

        def create() -> None:
            with self.files.open_raw(path, "x") as file:
                file.write_at(0, value)

        self._made(path, create if mode == "create" else lambda: self.files.write(path, value))

    def _made(self, path: str, write: Any) -> Any:
        """Does something that makes a file, with the directories above it if need be."""
        try:
            return write()
        except dolmen.NotFound:
            above = self._parent(path)
            if not self.auto_mkdir or above == "/":
                raise
            self.makedirs(above, exist_ok=True)
        return write()

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **_options: Any,
    ) -> Any:
        path = self._strip_protocol(path)
        size = block_size if block_size and block_size > 1 else 1 << 20
        if not autocommit and mode != "rb":
            if mode not in ("wb", "xb"):
                raise dolmen.Invalid(f"mode {mode!r} in a transaction: files are written there as a whole, with 'wb' or 'xb'")
            return self._made(path, lambda: _Writer(self.files, path, mode, size))
        file = self.files.open_raw(path, mode) if mode[0] == "r" else self._made(path, lambda: self.files.open_raw(path, mode))
        return _Reader(RawFile(file, path, mode), size) if mode == "rb" else opened(file, path, mode, size)

    def sync(self) -> None:
        """Makes everything durable."""
        self.files.sync()

    def close(self) -> None:
        """Closes the handles of this file system, not its pool: see ``close_all``. It opens itself anew when it is used."""
        with self._opening:
            opened_, self._opened = self._opened, None
        if opened_ is not None and not opened_[0].closed:
            opened_[2].close()
            opened_[1].close()
