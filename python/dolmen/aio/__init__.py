"""Dolmen for ``asyncio``: the classes of ``dolmen`` under the same names, with coroutines for calls that ask a pool.

    import dolmen.aio

    async with await dolmen.aio.open("file:stones") as pool:
        cont = await pool.create_container("henge")
        kv = await cont.create_kv()
        await kv.put("menhir", b"upright")

Calls run in a pool of at most 32 threads, which ``set_threads`` changes; more calls wait for one to be free. A task that is called off
gets ``CancelledError`` at once, and its operation ends by itself, as soon as it can: what it was to write is written or not, and a buffer
that it reads or fills must be left alone until then. ``Transaction.commit`` is waited for even so, so that what became of it is known: its
own ``CancelledError`` comes after that.

``sync`` of each object is the one of ``dolmen`` behind it. Iterations are ``async for``.
"""

import asyncio
import functools
import itertools
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, get_args, overload

import dolmen
from dolmen import Buffer, Oid, Stat
from dolmen._dolmen import Stop

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Array",
    "Container",
    "File",
    "Files",
    "Kv",
    "Object",
    "Pool",
    "Transaction",
    "create_pool",
    "destroy_pool",
    "list_pools",
    "open",
    "set_threads",
]

T = TypeVar("T")

_threads = 32
_executor: tuple[int, ThreadPoolExecutor] | None = None

# Keys of one step of an iteration: one hop between threads costs as much as some hundred of them.
_KEYS = 512


def set_threads(count: int) -> None:
    """How many calls run at once from now on, at least one; those that run go on where they are."""
    global _threads, _executor
    if count < 1:
        raise dolmen.Invalid("at least one thread is needed")
    _threads, _executor = count, None


def _pool() -> ThreadPoolExecutor:
    global _executor
    # A forked child has none of the threads of its parent.
    if _executor is None or _executor[0] != os.getpid():
        _executor = (os.getpid(), ThreadPoolExecutor(_threads, thread_name_prefix="dolmen"))
    return _executor[1]


#: How long an attempt of a transaction is waited after at least and at most before the next, in seconds.
_PAUSE_MIN, _PAUSE_MAX = 0.0001, 1.0


async def _call(function: Callable[..., T], *arguments: Any, **words: Any) -> T:
    """Calls a function in a thread, which ends as soon as it can if the task is called off."""
    loop, stop = asyncio.get_running_loop(), Stop()
    try:
        return await loop.run_in_executor(_pool(), stop.run, functools.partial(function, *arguments, **words))
    except asyncio.CancelledError:
        stop.set()
        raise


async def _whole(function: Callable[..., T], *arguments: Any) -> T:
    """The same, of what is waited for also by a task that is called off."""
    loop, stop = asyncio.get_running_loop(), Stop()
    running = loop.run_in_executor(_pool(), stop.run, functools.partial(function, *arguments))
    called_off: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError as error:
            called_off = error
            stop.set()
        except BaseException:
            break
    if called_off is not None:
        if not running.cancelled():
            # Its error, if it has one, gives way to that.
            running.exception()
        raise called_off
    return running.result()


async def _each(iterator: Any) -> AsyncIterator[Any]:
    """The items of an iterator, some at a time."""

    def some() -> list[Any]:
        found = []
        for item in iterator:
            found.append(item)
            if len(found) == _KEYS:
                break
        return found

    while found := await _call(some):
        for item in found:
            yield item


S = TypeVar("S")


class _Handle(Generic[S]):
    """Something of ``dolmen``, for coroutines. ``given_by`` of a class says how one is had, where that is waited for."""

    _of: type = object
    _given_by = ""

    def __init_subclass__(cls, given_by: str = "", **words: Any) -> None:
        super().__init_subclass__(**words)
        for base in vars(cls).get("__orig_bases__", ()):
            of = get_args(base)
            if of and isinstance(of[0], type):
                cls._of, cls._given_by = of[0], given_by

    def __init__(self, sync: S, *more: Any, **words: Any) -> None:
        if more or words or not isinstance(sync, self._of):
            raise TypeError(f"{type(self).__name__}({sync!r}): one is had by {self._given_by}")
        #: The one of ``dolmen`` behind it.
        self.sync = sync

    def __repr__(self) -> str:
        return f"<dolmen.aio of {self.sync!r}>"


class _Closes(_Handle[S]):
    async def close(self) -> None:
        """Closes it, when the operations under way have ended."""
        await _whole(self.sync.close)  # type: ignore[attr-defined]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Pool(_Closes[dolmen.Pool], given_by="await dolmen.aio.open(address)"):
    """An open pool: see ``dolmen.Pool``."""

    @property
    def address(self) -> str:
        """The address that it was opened by."""
        return self.sync.address

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self.sync.closed

    async def query(self) -> dict[str, Any]:
        """As ``dolmen.Pool.query``."""
        return await _call(self.sync.query)

    async def containers(self) -> list[tuple[str | None, str]]:
        """As ``dolmen.Pool.containers``."""
        return await _call(self.sync.containers)

    async def create_container(
        self, label: str | None = None, *, files: bool = False, durability: str = "power"
    ) -> "Container":
        """As ``dolmen.Pool.create_container``."""
        return Container(await _call(self.sync.create_container, label, files=files, durability=durability))

    async def container(self, name: str) -> "Container":
        """As ``dolmen.Pool.container``."""
        return Container(await _call(self.sync.container, name))

    async def destroy_container(self, name: str, *, force: bool = False) -> None:
        """As ``dolmen.Pool.destroy_container``."""
        await _call(self.sync.destroy_container, name, force=force)

    async def checkpoint(self) -> None:
        """As ``dolmen.Pool.checkpoint``."""
        await _call(self.sync.checkpoint)

    async def scrub(self) -> list[str]:
        """As ``dolmen.Pool.scrub``."""
        return await _call(self.sync.scrub)


class Container(_Closes[dolmen.Container], given_by="await pool.container(name)"):
    """An open container, or a view of a past state of one: see ``dolmen.Container``."""

    @property
    def label(self) -> str | None:
        """Its label."""
        return self.sync.label

    @property
    def uuid(self) -> str:
        """Its UUID."""
        return self.sync.uuid

    @property
    def epoch(self) -> int | None:
        """The epoch that a view shows."""
        return self.sync.epoch

    async def create_kv(self, *, keys: str = "hashed", object_class: str | None = None) -> "Kv":
        """As ``dolmen.Container.create_kv``."""
        return Kv(await _call(self.sync.create_kv, keys=keys, object_class=object_class))

    async def kv(self, oid: Oid) -> "Kv":
        """As ``dolmen.Container.kv``."""
        return Kv(await _call(self.sync.kv, oid))

    async def create_array(
        self, dtype: Any = None, *, chunk: int | None = None, object_class: str | None = None
    ) -> "Array":
        """As ``dolmen.Container.create_array``."""
        return Array(await _call(self.sync.create_array, dtype, chunk=chunk, object_class=object_class))

    async def array(self, oid: Oid, dtype: Any = None) -> "Array":
        """As ``dolmen.Container.array``."""
        return Array(await _call(self.sync.array, oid, dtype))

    async def create_object(self, *, keys: str = "hashed", object_class: str | None = None) -> "Object":
        """As ``dolmen.Container.create_object``."""
        return Object(await _call(self.sync.create_object, keys=keys, object_class=object_class))

    async def object(self, oid: Oid) -> "Object":
        """As ``dolmen.Container.object``."""
        return Object(await _call(self.sync.object, oid))

    async def files(self, *, shared: bool = True, read_only: bool = False) -> "Files":
        """As ``dolmen.Container.files``."""
        return Files(await _call(self.sync.files, shared=shared, read_only=read_only))

    def transaction(self) -> "Transaction":
        """A transaction for ``async with``, which begins, commits and aborts it; see ``dolmen.Container.transaction``."""
        return Transaction(self.sync)

    async def transact(self, body: "Callable[[Transaction], Awaitable[T]]", *, attempts: int = 64) -> T:
        """Awaits ``body(tx)`` and commits; as ``dolmen.Container.transact`` again after a Conflict."""
        if attempts < 1:
            raise dolmen.Invalid("a transaction is attempted once at least")
        for attempt in itertools.count(1):
            begun = time.monotonic()
            try:
                async with self.transaction() as tx:
                    return await body(tx)
            except dolmen.Conflict:
                if attempt >= attempts:
                    raise
            # As in dolmen: those who have met come again one after the other.
            longest = min(max(time.monotonic() - begun, _PAUSE_MIN) * 2 ** min(attempt, 5), _PAUSE_MAX)
            await asyncio.sleep(random.random() * longest)
        raise AssertionError("it is attempted until it returns or raises")

    async def create_snapshot(self, name: str | None = None) -> int:
        """As ``dolmen.Container.create_snapshot``."""
        return await _call(self.sync.create_snapshot, name)

    async def snapshots(self) -> list[tuple[int, str | None]]:
        """As ``dolmen.Container.snapshots``."""
        return await _call(self.sync.snapshots)

    async def destroy_snapshot(self, epoch: int | str) -> None:
        """As ``dolmen.Container.destroy_snapshot``."""
        await _call(self.sync.destroy_snapshot, epoch)

    async def rollback(self, epoch: int | str) -> int:
        """As ``dolmen.Container.rollback``."""
        return await _call(self.sync.rollback, epoch)

    async def at(self, epoch: int | str) -> "Container":
        """As ``dolmen.Container.at``."""
        return Container(await _call(self.sync.at, epoch))

    async def objects(self) -> AsyncIterator[Oid]:
        """As ``dolmen.Container.objects``."""
        async for oid in _each(await _call(self.sync.objects)):
            yield oid

    async def attribute(self, name: str) -> bytes:
        """As ``dolmen.Container.attribute``."""
        return await _call(self.sync.attribute, name)

    async def attributes(self) -> list[str]:
        """As ``dolmen.Container.attributes``."""
        return await _call(self.sync.attributes)

    async def set_attributes(self, values: dict[str, Any]) -> None:
        """As ``dolmen.Container.set_attributes``."""
        await _call(self.sync.set_attributes, values)

    async def remove_attributes(self, names: Sequence[str]) -> None:
        """As ``dolmen.Container.remove_attributes``."""
        await _call(self.sync.remove_attributes, list(names))

    async def query(self) -> dict[str, int]:
        """As ``dolmen.Container.query``."""
        return await _call(self.sync.query)

    async def flush(self) -> None:
        """As ``dolmen.Container.flush``."""
        await _call(self.sync.flush)


class Transaction:
    """A transaction, in ``async with``: see ``dolmen.Transaction``."""

    def __init__(self, cont: dolmen.Container) -> None:
        self._cont = cont
        self._tx: dolmen.Transaction | None = None
        self._has_ended = False

    @property
    def sync(self) -> dolmen.Transaction:
        """The one of ``dolmen`` behind it, once it is begun."""
        if self._tx is None:
            raise dolmen.Closed("the transaction is begun by `async with`")
        return self._tx

    async def kv(self, which: "Kv | Oid") -> "Kv":
        """As ``dolmen.Transaction.kv``."""
        return Kv(await _call(self.sync.kv, which.sync if isinstance(which, Kv) else which))

    async def array(self, which: "Array | Oid", dtype: Any = None) -> "Array":
        """As ``dolmen.Transaction.array``."""
        return Array(await _call(self.sync.array, which.sync if isinstance(which, Array) else which, dtype))

    async def object(self, which: "Object | Oid") -> "Object":
        """As ``dolmen.Transaction.object``."""
        return Object(await _call(self.sync.object, which.sync if isinstance(which, Object) else which))

    async def commit(self) -> int:
        """As ``dolmen.Transaction.commit``; waited for by a task that is called off, too."""
        epoch = await _whole(self.sync.commit)
        self._has_ended = True
        return epoch

    async def abort(self) -> None:
        """As ``dolmen.Transaction.abort``."""
        self._has_ended = True
        await _whole(self.sync.abort)

    async def __aenter__(self) -> Self:
        if self._tx is not None:
            raise dolmen.Invalid("the transaction was begun before: begin another one")
        self._tx = await _call(self._cont.transaction)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._has_ended:
            return
        if kind is None:
            await self.commit()
        else:
            await self.abort()


class Kv(_Handle[dolmen.Kv], given_by="await cont.kv(oid)"):
    """A key-value store: see ``dolmen.Kv``."""

    @property
    def oid(self) -> Oid:
        """Its id."""
        return self.sync.oid

    @overload
    async def get(self, key: Any) -> bytes | None: ...
    @overload
    async def get(self, key: Any, default: T) -> bytes | T: ...
    async def get(self, key: Any, default: Any = None) -> Any:
        """As ``dolmen.Kv.get``."""
        return await _call(self.sync.get, key, default)

    async def view(self, key: Any) -> Buffer:
        """As ``dolmen.Kv.view``."""
        return await _call(self.sync.view, key)

    async def read_into(self, key: Any, buffer: Any) -> int:
        """As ``dolmen.Kv.read_into``."""
        return await _call(self.sync.read_into, key, buffer)

    async def get_many(self, keys: Iterable[Any]) -> list[bytes | None]:
        """As ``dolmen.Kv.get_many``."""
        return await _call(self.sync.get_many, list(keys))

    async def put(self, key: Any, value: Any, *, exists: bool | None = None) -> None:
        """As ``dolmen.Kv.put``."""
        await _call(self.sync.put, key, value, exists=exists)

    async def put_many(self, values: Mapping[Any, Any]) -> None:
        """As ``dolmen.Kv.put_many``."""
        await _call(self.sync.put_many, dict(values))

    async def remove(self, key: Any) -> None:
        """Removes a key; raises NotFound if it is not there."""
        await _call(self.sync.__delitem__, key)

    async def discard(self, key: Any) -> None:
        """As ``dolmen.Kv.discard``."""
        await _call(self.sync.discard, key)

    async def size(self, key: Any) -> int | None:
        """As ``dolmen.Kv.size``."""
        return await _call(self.sync.size, key)

    async def keys(self) -> AsyncIterator[bytes]:
        """As ``dolmen.Kv.keys``."""
        async for key in _each(await _call(self.sync.keys)):
            yield key

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.keys()

    async def clear(self) -> None:
        """As ``dolmen.Kv.clear``."""
        await _call(self.sync.clear)


class Array(_Handle[dolmen.Array], given_by="await cont.array(oid)"):
    """An array of records: see ``dolmen.Array``."""

    @property
    def oid(self) -> Oid:
        """Its id."""
        return self.sync.oid

    @property
    def dtype(self) -> Any:
        """What numpy takes a record for."""
        return self.sync.dtype

    @property
    def chunk(self) -> int:
        """Records that lie together."""
        return self.sync.chunk

    async def size(self) -> int:
        """The index of the last record plus one: ``len`` of a ``dolmen.Array``."""
        return await _call(len, self.sync)

    async def read(self, start: int = 0, count: int | None = None) -> "np.ndarray[Any, Any]":
        """As ``dolmen.Array.read``."""
        return await _call(self.sync.read, start, count)

    async def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> "np.ndarray[Any, Any]":
        """As ``dolmen.Array.read_ranges``."""
        return await _call(self.sync.read_ranges, list(ranges))

    async def read_into(self, start: int, buffer: Any) -> int:
        """As ``dolmen.Array.read_into``."""
        return await _call(self.sync.read_into, start, buffer)

    async def write(self, start: int, data: Any) -> None:
        """As ``dolmen.Array.write``."""
        await _call(self.sync.write, start, data)

    async def write_ranges(self, ranges: Sequence[tuple[int, int]], data: Any) -> None:
        """As ``dolmen.Array.write_ranges``."""
        await _call(self.sync.write_ranges, list(ranges), data)

    async def resize(self, count: int) -> None:
        """As ``dolmen.Array.resize``."""
        await _call(self.sync.resize, count)

    async def punch(self, start: int, count: int) -> None:
        """As ``dolmen.Array.punch``."""
        await _call(self.sync.punch, start, count)

    async def destroy(self) -> None:
        """As ``dolmen.Array.destroy``."""
        await _call(self.sync.destroy)


class Object(_Handle[dolmen.Object], given_by="await cont.object(oid)"):
    """An object with two levels of keys: see ``dolmen.Object``."""

    @property
    def oid(self) -> Oid:
        """Its id."""
        return self.sync.oid

    async def put(self, dkey: Any, akey: Any, value: Any, *, exists: bool | None = None) -> None:
        """As ``dolmen.Object.put``."""
        await _call(self.sync.put, dkey, akey, value, exists=exists)

    async def put_all(self, dkey: Any, values: Mapping[Any, Any]) -> None:
        """As ``dolmen.Object.put_all``."""
        await _call(self.sync.put_all, dkey, dict(values))

    async def get(self, dkey: Any, akey: Any) -> bytes | None:
        """As ``dolmen.Object.get``."""
        return await _call(self.sync.get, dkey, akey)

    async def view(self, dkey: Any, akey: Any) -> Buffer:
        """As ``dolmen.Object.view``."""
        return await _call(self.sync.view, dkey, akey)

    async def size(self, dkey: Any, akey: Any) -> int:
        """As ``dolmen.Object.size``."""
        return await _call(self.sync.size, dkey, akey)

    async def write(self, dkey: Any, akey: Any, start: int, data: Any, *, record_bytes: int = 1) -> None:
        """As ``dolmen.Object.write``."""
        await _call(self.sync.write, dkey, akey, start, data, record_bytes=record_bytes)

    async def read(self, dkey: Any, akey: Any, start: int, count: int, *, record_bytes: int = 1) -> Buffer:
        """As ``dolmen.Object.read``."""
        return await _call(self.sync.read, dkey, akey, start, count, record_bytes=record_bytes)

    async def extents(self, dkey: Any, akey: Any) -> list[tuple[int, int]]:
        """As ``dolmen.Object.extents``."""
        return await _call(self.sync.extents, dkey, akey)

    async def remove(self, dkey: Any, akeys: Sequence[Any]) -> None:
        """As ``dolmen.Object.remove``."""
        await _call(self.sync.remove, dkey, list(akeys))

    async def remove_dkey(self, dkey: Any) -> None:
        """As ``dolmen.Object.remove_dkey``."""
        await _call(self.sync.remove_dkey, dkey)

    async def destroy(self) -> None:
        """As ``dolmen.Object.destroy``."""
        await _call(self.sync.destroy)

    async def dkeys(self) -> AsyncIterator[bytes]:
        """As ``dolmen.Object.dkeys``."""
        async for key in _each(await _call(self.sync.dkeys)):
            yield key

    async def akeys(self, dkey: Any) -> AsyncIterator[bytes]:
        """As ``dolmen.Object.akeys``."""
        async for key in _each(await _call(self.sync.akeys, dkey)):
            yield key


class Files(_Closes[dolmen.Files], given_by="await cont.files()"):
    """The files of a container: see ``dolmen.Files``."""

    async def stat(self, path: Any, *, links: bool = True) -> Stat:
        """As ``dolmen.Files.stat``."""
        return await _call(self.sync.stat, path, links=links)

    async def exists(self, path: Any) -> bool:
        """As ``dolmen.Files.exists``."""
        return await _call(self.sync.exists, path)

    async def list(self, path: Any = None) -> list[tuple[str, Stat]]:
        """As ``dolmen.Files.list``."""
        return await _call(self.sync.list, path)

    async def mkdir(self, path: Any, *, mode: int = 0o755, parents: bool = False, exist_ok: bool = False) -> None:
        """As ``dolmen.Files.mkdir``."""
        await _call(self.sync.mkdir, path, mode=mode, parents=parents, exist_ok=exist_ok)

    async def rmdir(self, path: Any) -> None:
        """As ``dolmen.Files.rmdir``."""
        await _call(self.sync.rmdir, path)

    async def unlink(self, path: Any) -> None:
        """As ``dolmen.Files.unlink``."""
        await _call(self.sync.unlink, path)

    async def remove_tree(self, path: Any) -> None:
        """As ``dolmen.Files.remove_tree``."""
        await _call(self.sync.remove_tree, path)

    async def rename(self, old: Any, new: Any, *, replace: bool = True) -> None:
        """As ``dolmen.Files.rename``."""
        await _call(self.sync.rename, old, new, replace=replace)

    async def copy(self, old: Any, new: Any) -> None:
        """As ``dolmen.Files.copy``."""
        await _call(self.sync.copy, old, new)

    async def symlink(self, target: Any, path: Any) -> None:
        """As ``dolmen.Files.symlink``."""
        await _call(self.sync.symlink, target, path)

    async def readlink(self, path: Any) -> str:
        """As ``dolmen.Files.readlink``."""
        return await _call(self.sync.readlink, path)

    async def link(self, old: Any, new: Any) -> None:
        """As ``dolmen.Files.link``."""
        await _call(self.sync.link, old, new)

    async def chmod(self, path: Any, mode: int) -> None:
        """As ``dolmen.Files.chmod``."""
        await _call(self.sync.chmod, path, mode)

    async def touch(self, path: Any, mtime_ns: int | None = None) -> None:
        """As ``dolmen.Files.touch``."""
        await _call(self.sync.touch, path, mtime_ns)

    async def read(self, path: Any, start: int | None = None, end: int | None = None) -> bytes:
        """As ``dolmen.Files.read``."""
        return await _call(self.sync.read, path, start, end)

    async def read_parts(self, parts: Sequence[tuple[Any, int | None, int | None]]) -> Sequence[Any]:
        """As ``dolmen.Files.read_parts``."""
        return await _call(self.sync.read_parts, [*parts])

    async def write(self, path: Any, data: Any) -> None:
        """As ``dolmen.Files.write``."""
        await _call(self.sync.write, path, data)

    async def open_raw(self, path: Any, mode: str = "r") -> "File":
        """As ``dolmen.Files.open_raw``."""
        return File(await _call(self.sync.open_raw, path, mode))

    async def space(self) -> dict[str, int]:
        """As ``dolmen.Files.space``."""
        return await _call(self.sync.space)

    async def sync_all(self) -> None:
        """As ``dolmen.Files.sync``."""
        await _call(self.sync.sync)


class File(_Closes[dolmen.File], given_by="await files.open_raw(path)"):
    """An open file: see ``dolmen.File``."""

    async def read_at(self, offset: int, size: int) -> bytes:
        """As ``dolmen.File.read_at``."""
        return await _call(self.sync.read_at, offset, size)

    async def read_into(self, offset: int, buffer: Any) -> int:
        """As ``dolmen.File.read_into``."""
        return await _call(self.sync.read_into, offset, buffer)

    async def write_at(self, offset: int, data: Any) -> int:
        """As ``dolmen.File.write_at``."""
        return await _call(self.sync.write_at, offset, data)

    async def append(self, data: Any) -> int:
        """As ``dolmen.File.append``."""
        return await _call(self.sync.append, data)

    async def size(self) -> int:
        """As ``dolmen.File.size``."""
        return await _call(self.sync.size)

    async def truncate(self, size: int) -> None:
        """As ``dolmen.File.truncate``."""
        await _call(self.sync.truncate, size)

    async def sync_all(self) -> None:
        """As ``dolmen.File.sync``."""
        await _call(self.sync.sync)


async def open(
    address: str,
    *,
    read_only: bool = False,
    patience: float | None = None,
    timeout: float | None = None,
    certs: str | os.PathLike[str] | None = None,
    memory: int | None = None,
    upkeep: bool = False,
) -> Pool:
    """As ``dolmen.open``."""
    return Pool(
        await _call(
            dolmen.open,
            address,
            read_only=read_only,
            patience=patience,
            timeout=timeout,
            certs=certs,
            memory=memory,
            upkeep=upkeep,
        )
    )


async def create_pool(path: str | os.PathLike[str], **options: Any) -> None:
    """As ``dolmen.create_pool``."""
    await _call(dolmen.create_pool, path, **options)


async def destroy_pool(path: str | os.PathLike[str]) -> None:
    """As ``dolmen.destroy_pool``."""
    await _call(dolmen.destroy_pool, path)


async def list_pools(system: str) -> list[tuple[str | None, str]]:
    """As ``dolmen.list_pools``."""
    return await _call(dolmen.list_pools, system)
