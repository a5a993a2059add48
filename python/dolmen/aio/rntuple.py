"""Ntuples for ``asyncio``: the classes of ``dolmen.rntuple`` under the same names, with coroutines for calls that read or write.

    from dolmen.aio import rntuple

    store = rntuple.Store(cont)
    stored = await store.import_root("events.root")
    ntuple = await stored.open()
    muons = await ntuple.arrays(["muon_pt"])
    async for batch in ntuple.batches(["met"]):
        ...

Calls run in the threads of ``dolmen.aio``. A task that is called off gets ``CancelledError`` at once, and its operation ends as soon as it can, as
with Ctrl-C in ``dolmen.rntuple``: within about a tenth of a second, nothing half made. The end of what makes a version of what was put (``append``,
``commit``, …) is waited for: the version is there then, or never will be. ``progress`` is called in the thread of the operation.

What is no call to wait for, since nothing is read for it, is as it is there: ``len(ntuple)``, ``ntuple.keys()``, ``ntuple.field(name)``. ``sync`` of
each object is the one of ``dolmen.rntuple`` behind it. Arguments and errors are those of ``dolmen.rntuple``.
"""

import functools
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import dolmen.aio
from dolmen import rntuple as _rntuple
from dolmen.aio import _call, _Handle, _whole
from dolmen.rntuple import Collected, Estimate, Field, Medium, Scrubbed, Trace, Version, _arrays, root_over_http

if TYPE_CHECKING:
    import awkward as ak
    import pyarrow as pa

__all__ = [
    "Appender",
    "Collected",
    "Estimate",
    "Field",
    "Medium",
    "Ntuple",
    "RootWriter",
    "Scrubbed",
    "Store",
    "Stored",
    "Trace",
    "Tree",
    "Version",
    "ntuples",
    "open",
    "root_over_http",
    "trees",
    "write_root",
]

#: Path of a file.
_Path = _rntuple._Path
#: Names of fields, one or several; None for all.
_Columns = str | Sequence[str] | None


async def ntuples(path: _Path, **options: Any) -> list[str]:
    """As ``dolmen.rntuple.ntuples``."""
    return await _call(_rntuple.ntuples, path, **options)


async def trees(path: _Path, **options: Any) -> list[str]:
    """As ``dolmen.rntuple.trees``."""
    return await _call(_rntuple.trees, path, **options)


async def open(source: "_Path | dolmen.aio.Container | Store", name: str | None = None, **options: Any) -> "Ntuple":
    """As ``dolmen.rntuple.open``, also of a container or a store of ``dolmen.aio``."""
    return Ntuple(await _call(_rntuple.open, _sync(source), name, **options))


async def write_root(path: _Path, name: str, data: Any, **options: Any) -> None:
    """As ``dolmen.rntuple.write_root``."""
    await _whole(functools.partial(_rntuple.write_root, path, name, data, **options))


def _sync(source: Any) -> Any:
    """What is behind something of ``dolmen.aio``; all else as it is."""
    return source.sync if isinstance(source, _Handle) else source


class Ntuple(_Handle[_rntuple.Ntuple], given_by="await open(source, name)"):
    """An ntuple that is open for reading: see ``dolmen.rntuple.Ntuple``."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.sync.name

    @property
    def fields(self) -> Mapping[str, Field]:
        """Fields at the top by their names."""
        return self.sync.fields

    def __len__(self) -> int:
        return len(self.sync)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        return name in self.sync

    def __iter__(self) -> Iterator[str]:
        return iter(self.sync)

    def keys(self) -> list[str]:
        """Names of the fields at the top."""
        return self.sync.keys()

    def field(self, name: str) -> Field:
        """As ``dolmen.rntuple.Ntuple.field``."""
        return self.sync.field(name)

    def record(self) -> None:
        """As ``dolmen.rntuple.Ntuple.record``."""
        self.sync.record()

    def trace(self) -> Trace:
        """As ``dolmen.rntuple.Ntuple.trace``."""
        return self.sync.trace()

    def order(self, accesses: Trace | Sequence[tuple[_Columns, int]]) -> list[int]:
        """As ``dolmen.rntuple.Ntuple.order``."""
        return self.sync.order(accesses)

    def arrow_schema(self, columns: _Columns = None, *, strings: _rntuple._Strings = "utf8") -> "pa.Schema":
        """As ``dolmen.rntuple.Ntuple.arrow_schema``."""
        return self.sync.arrow_schema(columns, strings=strings)

    async def get(self, name: str) -> Any:
        """All values of a field: ``ntuple[name]`` of ``dolmen.rntuple``."""
        return await _call(self.sync.__getitem__, name)

    @overload
    async def arrays(
        self,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _rntuple._Filter | None = None,
        library: Literal["ak"] = "ak",
        strings: _rntuple._Strings = "utf8",
    ) -> "ak.Array": ...

    @overload
    async def arrays(
        self,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _rntuple._Filter | None = None,
        library: Literal["np"],
        strings: _rntuple._Strings = "utf8",
    ) -> _rntuple._Flat: ...

    @overload
    async def arrays(
        self,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _rntuple._Filter | None = None,
        library: Literal["pa"],
        strings: _rntuple._Strings = "utf8",
    ) -> "pa.Table": ...

    @overload
    async def arrays(
        self,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _rntuple._Filter | None = None,
        library: str,
        strings: _rntuple._Strings = "utf8",
    ) -> Any: ...

    async def arrays(
        self, columns: _Columns = None, start: int | None = None, stop: int | None = None, **options: Any
    ) -> Any:
        """As ``dolmen.rntuple.Ntuple.arrays``."""
        return await _call(self.sync.arrays, columns, start, stop, **options)

    async def batches(
        self, columns: _Columns = None, start: int | None = None, stop: int | None = None, **options: Any
    ) -> "AsyncIterator[pa.RecordBatch]":
        """As ``dolmen.rntuple.Ntuple.batches``: each batch is read when it is asked for."""
        batches = self.sync.batches(columns, start, stop, **options)
        while (batch := await _call(next, batches, None)) is not None:
            yield batch

    async def clusters(self) -> list[tuple[int, int]]:
        """The entries of each cluster."""
        return await _call(lambda: self.sync.clusters)

    async def estimate(
        self, columns: _Columns = None, start: int | None = None, stop: int | None = None, **options: Any
    ) -> Estimate:
        """As ``dolmen.rntuple.Ntuple.estimate``."""
        return await _call(self.sync.estimate, columns, start, stop, **options)

    async def to_parquet(
        self, path: _Path, columns: _Columns = None, start: int | None = None, stop: int | None = None, **options: Any
    ) -> None:
        """As ``dolmen.rntuple.Ntuple.to_parquet``."""
        await _call(self.sync.to_parquet, path, columns, start, stop, **options)

    async def export_root(self, path: _Path, **options: Any) -> None:
        """As ``dolmen.rntuple.Ntuple.export_root``."""
        await _call(self.sync.export_root, path, **options)

    async def serve(self, name: str | None = None, **options: Any) -> Any:
        """As ``dolmen.rntuple.Ntuple.serve``; what is returned is that of ``dolmen.rntuple``, and closes with ``close()``."""
        return await _call(self.sync.serve, name, **options)


class Tree(_Handle[_rntuple.Tree], given_by="await Tree.open(path, name)"):
    """A tree that is open for reading: see ``dolmen.rntuple.Tree``."""

    @classmethod
    async def open(cls, path: _Path, name: str | None = None, **options: Any) -> "Tree":
        """Opens a tree: ``Tree(path, name)`` of ``dolmen.rntuple``."""
        return cls(await _call(_rntuple.Tree, path, name, **options))

    @property
    def name(self) -> str:
        """Its name."""
        return self.sync.name

    @property
    def branches(self) -> Mapping[str, str]:
        """The types of the branches by their paths."""
        return self.sync.branches

    @property
    def refused(self) -> Mapping[str, str]:
        """The branches that are not read, and why."""
        return self.sync.refused

    def __len__(self) -> int:
        return len(self.sync)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        return name in self.sync

    def __iter__(self) -> Iterator[str]:
        return iter(self.sync)

    def keys(self) -> list[str]:
        """Paths of the branches at the top."""
        return self.sync.keys()

    def arrow_schema(self, columns: _Columns = None, *, strings: _rntuple._Strings = "utf8") -> "pa.Schema":
        """As ``dolmen.rntuple.Tree.arrow_schema``."""
        return self.sync.arrow_schema(columns, strings=strings)

    async def trees(
        self, branches: Sequence[str], start: int | None = None, stop: int | None = None
    ) -> list[_arrays.Tree]:
        """As ``dolmen.rntuple.Tree.trees``."""
        return await _call(self.sync.trees, branches, start, stop)

    async def get(self, name: str) -> Any:
        """All values of a branch: ``tree[name]`` of ``dolmen.rntuple``."""
        return await _call(self.sync.__getitem__, name)

    @overload
    async def arrays(
        self,
        branches: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _rntuple._Filter | None = None,
        library: Literal["ak"] = "ak",
        strings: _rntuple._Strings = "utf8",
    ) -> "ak.Array": ...

    @overload
    async def arrays(
        self,
        branches: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _rntuple._Filter | None = None,
        library: Literal["np"],
        strings: _rntuple._Strings = "utf8",
    ) -> _rntuple._Flat: ...

    @overload
    async def arrays(
        self,
        branches: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _rntuple._Filter | None = None,
        library: Literal["pa"],
        strings: _rntuple._Strings = "utf8",
    ) -> "pa.Table": ...

    @overload
    async def arrays(
        self,
        branches: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _rntuple._Filter | None = None,
        library: str,
        strings: _rntuple._Strings = "utf8",
    ) -> Any: ...

    async def arrays(
        self, branches: _Columns = None, start: int | None = None, stop: int | None = None, **options: Any
    ) -> Any:
        """As ``dolmen.rntuple.Tree.arrays``."""
        return await _call(self.sync.arrays, branches, start, stop, **options)

    async def batches(
        self, columns: _Columns = None, start: int | None = None, stop: int | None = None, **options: Any
    ) -> "AsyncIterator[pa.RecordBatch]":
        """As ``dolmen.rntuple.Tree.batches``: each batch is read when it is asked for."""
        batches = self.sync.batches(columns, start, stop, **options)
        while (batch := await _call(next, batches, None)) is not None:
            yield batch

    async def to_parquet(
        self, path: _Path, columns: _Columns = None, start: int | None = None, stop: int | None = None, **options: Any
    ) -> None:
        """As ``dolmen.rntuple.Tree.to_parquet``."""
        await _call(self.sync.to_parquet, path, columns, start, stop, **options)


class Store(_Handle[_rntuple.Store]):
    """The ntuples of a container or an object store: see ``dolmen.rntuple.Store``, whose ``store[name]`` is ``await store.ntuple(name)`` here.
    Nothing is asked before something is done with it.
    """

    def __init__(self, container: "dolmen.aio.Container | dolmen.Container | str", **options: Any) -> None:
        super().__init__(_rntuple.Store(_sync(container), **options))

    async def names(self) -> list[str]:
        """As ``dolmen.rntuple.Store.names``."""
        return await _call(self.sync.names)

    async def __aiter__(self) -> AsyncIterator[str]:
        for name in await self.names():
            yield name

    async def ntuple(self, name: str) -> "Stored":
        """An ntuple by its name: ``store[name]`` of ``dolmen.rntuple``."""
        return Stored(await _call(self.sync.__getitem__, name))

    async def create(self, name: str, data: Any, **options: Any) -> "Stored":
        """As ``dolmen.rntuple.Store.create``."""
        return Stored(await _whole(functools.partial(self.sync.create, name, data, **options)))

    async def import_root(self, path: _Path, ntuple: str | None = None, name: str | None = None, **options: Any) -> "Stored":
        """As ``dolmen.rntuple.Store.import_root``."""
        return Stored(await _call(self.sync.import_root, path, ntuple, name, **options))

    async def import_ntuple(self, source: Ntuple | _rntuple.Ntuple, name: str | None = None, **options: Any) -> "Stored":
        """As ``dolmen.rntuple.Store.import_ntuple``."""
        return Stored(await _call(self.sync.import_ntuple, _sync(source), name, **options))

    async def import_tree(
        self,
        source: _Path | Tree | _rntuple.Tree,
        tree: str | None = None,
        name: str | None = None,
        columns: _Columns = None,
        **options: Any,
    ) -> "Stored":
        """As ``dolmen.rntuple.Store.import_tree``."""
        return Stored(await _call(self.sync.import_tree, _sync(source), tree, name, columns, **options))

    async def skim(
        self, source: Ntuple | Tree | _rntuple.Ntuple | _rntuple.Tree, name: str, *columns: Any, **options: Any
    ) -> "Stored":
        """As ``dolmen.rntuple.Store.skim``."""
        return Stored(await _call(self.sync.skim, _sync(source), name, *columns, **options))

    async def clone(
        self, stored: "Stored | _rntuple.Stored", name: str, columns: _Columns = None, **options: Any
    ) -> "Stored":
        """As ``dolmen.rntuple.Store.clone``."""
        return Stored(await _whole(functools.partial(self.sync.clone, _sync(stored), name, columns, **options)))

    async def collect(self, *, alone: bool = False) -> Collected:
        """As ``dolmen.rntuple.Store.collect``."""
        return await _call(functools.partial(self.sync.collect, alone=alone))

    async def destroy(self, name: str, *, force: bool = False) -> Collected:
        """As ``dolmen.rntuple.Store.destroy``."""
        return await _whole(functools.partial(self.sync.destroy, name, force=force))


class Stored(_Handle[_rntuple.Stored], given_by="await store.ntuple(name)"):
    """An ntuple in a store: see ``dolmen.rntuple.Stored``."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.sync.name

    @property
    def left_out(self) -> Sequence[str]:
        """Of one that ``Store.import_tree`` has just made, the branches that it has not, and why."""
        return self.sync.left_out

    @property
    def renamed(self) -> Mapping[str, str]:
        """Of one that ``Store.import_tree`` has just made, the names of fields that are not those of their branches, by these."""
        return self.sync.renamed

    async def open(self, **when: Any) -> Ntuple:
        """As ``dolmen.rntuple.Stored.open``."""
        return Ntuple(await _call(self.sync.open, **when))

    async def version(self, version: int | None = None, **when: Any) -> Version:
        """As ``dolmen.rntuple.Stored.version``."""
        return await _call(self.sync.version, version, **when)

    async def versions(self) -> list[Version]:
        """As ``dolmen.rntuple.Stored.versions``."""
        return await _call(self.sync.versions)

    async def tags(self) -> dict[str, int]:
        """As ``dolmen.rntuple.Stored.tags``."""
        return await _call(self.sync.tags)

    async def tag(self, name: str, version: int | None = None, *, move: bool = False) -> Version:
        """As ``dolmen.rntuple.Stored.tag``."""
        return await _whole(functools.partial(self.sync.tag, name, version, move=move))

    async def untag(self, name: str) -> None:
        """As ``dolmen.rntuple.Stored.untag``."""
        await _whole(self.sync.untag, name)

    async def keeps(self) -> float:
        """As ``dolmen.rntuple.Stored.keeps``."""
        return await _call(self.sync.keeps)

    async def keep(self, seconds: float) -> None:
        """As ``dolmen.rntuple.Stored.keep``."""
        await _whole(self.sync.keep, seconds)

    async def expire(self) -> int:
        """As ``dolmen.rntuple.Stored.expire``."""
        return await _call(self.sync.expire)

    async def append(self, data: Any, **options: Any) -> Version:
        """As ``dolmen.rntuple.Stored.append``."""
        data = [_sync(one) for one in data] if isinstance(data, list) else _sync(data)
        return await _whole(functools.partial(self.sync.append, data, **options))

    async def append_root(self, path: _rntuple._Paths, ntuple: str | None = None, **options: Any) -> Version:
        """As ``dolmen.rntuple.Stored.append_root``."""
        return await _whole(functools.partial(self.sync.append_root, path, ntuple, **options))

    async def appender(self, **options: Any) -> "Appender":
        """As ``dolmen.rntuple.Stored.appender``."""
        return Appender(await _call(self.sync.appender, **options))

    async def add_column(self, name: str, values: Any, **options: Any) -> Version:
        """As ``dolmen.rntuple.Stored.add_column``."""
        return await _whole(functools.partial(self.sync.add_column, name, values, **options))

    async def add_columns(self, data: Any, **options: Any) -> Version:
        """As ``dolmen.rntuple.Stored.add_columns``."""
        return await _whole(functools.partial(self.sync.add_columns, data, **options))

    async def reshape(self, **options: Any) -> Version:
        """As ``dolmen.rntuple.Stored.reshape``."""
        return await _call(self.sync.reshape, **options)

    async def pack(self, order: Any, **options: Any) -> None:
        """As ``dolmen.rntuple.Stored.pack``."""
        await _whole(functools.partial(self.sync.pack, order, **options))

    async def scrub(self, **options: Any) -> Scrubbed:
        """As ``dolmen.rntuple.Stored.scrub``."""
        return await _call(self.sync.scrub, **{name: _sync(option) for name, option in options.items()})


class Appender(_Handle[_rntuple.Appender], given_by="await stored.appender()"):
    """Appends in several pieces that are seen at once: see ``dolmen.rntuple.Appender``. An ``async with`` block commits at its end, and gives up
    with an exception, ``CancelledError`` included.
    """

    async def put(self, data: Any) -> None:
        """As ``dolmen.rntuple.Appender.put``; waited for also by a task that is called off, as its memory is written from where it is."""
        await _whole(self.sync.put, data)

    async def put_root(self, path: _Path, ntuple: str | None = None, **options: Any) -> None:
        """As ``dolmen.rntuple.Appender.put_root``."""
        await _whole(functools.partial(self.sync.put_root, path, ntuple, **options))

    async def put_ntuple(
        self, source: "Ntuple | Stored | Tree | _rntuple.Ntuple | _rntuple.Stored | _rntuple.Tree"
    ) -> None:
        """As ``dolmen.rntuple.Appender.put_ntuple``."""
        await _whole(self.sync.put_ntuple, _sync(source))

    async def commit(self) -> Version:
        """As ``dolmen.rntuple.Appender.commit``."""
        return await _whole(self.sync.commit)

    async def discard(self) -> None:
        """As ``dolmen.rntuple.Appender.discard``."""
        await _whole(self.sync.discard)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _whole(self.sync.__exit__, kind, error, trace)


class RootWriter(_Handle[_rntuple.RootWriter]):
    """Writes an ntuple to a file of ROOT, piece by piece: see ``dolmen.rntuple.RootWriter``."""

    def __init__(self, path: _Path, name: str, **options: Any) -> None:
        super().__init__(_rntuple.RootWriter(path, name, **options))

    async def append(self, data: Any) -> None:
        """As ``dolmen.rntuple.RootWriter.append``."""
        await _whole(self.sync.append, data)

    async def close(self) -> None:
        """As ``dolmen.rntuple.RootWriter.close``."""
        await _whole(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _whole(self.sync.__exit__, kind, error, trace)
