"""Physics event data: ntuples (RNTuple 1.0) in files of ROOT, in containers and in object stores.

    from dolmen import rntuple

    events = rntuple.open("events.root", "Events")
    muons = events.arrays(["Muon_pt", "Muon_eta"])

    store = rntuple.Store(container)
    store.import_root("events.root")
    store["Events"].append(muons_of_today)

    far = rntuple.Store("s3://bucket/prefix")
    far.import_ntuple(store["Events"].open())

Of an object store of the S3 kind a bucket and a prefix of keys are what a container is, and files of ROOT are opened as
``s3://bucket/path/file.root``. How it is reached the variables of the environment say that all tools of this kind know
(``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_REGION``), or ``storage_options``: a mapping with some of
``endpoint``, ``region``, ``access_key``, ``secret_key``, ``session_token``, ``anonymous``, ``virtual_host``, ``authorities`` (a file of PEM),
and of times in seconds: ``connect_timeout`` (5) for a connection to be there, ``timeout`` (30) in which something has to come from an
endpoint that was asked, ``retries`` (30) and ``retry_timeout`` (60): how often, and for how long, a request is repeated at most. An
endpoint that never answered is asked once.

What takes long ends with Ctrl-C, and with any exception of a function that is told of its ``progress``: that is raised, and nothing half made
is to be seen.

An ntuple that is open shows one version and may be read by any number of threads at once. Nothing here needs ROOT. numpy is needed;
awkward (``library="ak"``) and pyarrow (``library="pa"``, batches, Parquet) are if they are asked for.
"""

import builtins
import contextlib
import dataclasses
import errno
import ipaddress
import math
import operator
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeVar, overload

import numpy as np

from dolmen import Container
from dolmen._dolmen import (
    NtupleAppender,
    NtupleReader,
    NtupleServer,
    NtupleStore,
    NtupleTree,
    NtupleWriter,
    StoredNtuple,
)
from dolmen._dolmen import near as _near
from dolmen._dolmen import ntuples as _ntuples
from dolmen._dolmen import spare_stores as _spare_stores
from dolmen._dolmen import trees as _trees
from dolmen.errors import Busy, Closed, Corrupt, Error, Exists, Invalid, Io, IsDirectory, NotFound, Stale, _of_system
from dolmen.rntuple import _arrays
from dolmen.rntuple._arrays import Field
from dolmen.rntuple._arrays import utf8 as _utf8
from dolmen.rntuple._root import root_over_http
from dolmen.rntuple._trace import Trace

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
_Path = str | os.PathLike[str]
#: Names of fields, or patterns of such, one or several; None for all.
_Columns = str | Sequence[str] | None
#: How an object store is reached.
_Storage = Mapping[str, Any] | None
#: Paths of files.
_Paths = _Path | Sequence[_Path]
#: Values that fields are filled with.
_Fill = Mapping[str, Any] | None
#: Arrays of numpy by the names of their fields.
_Flat = dict[str, np.ndarray[Any, Any]]
#: A field, or the number of a branch.
_T = TypeVar("_T")
#: What texts are: such, or bytes.
_Strings = Literal["utf8", "binary"]
#: Comparisons of fields.
_Filter = Sequence[tuple[str, str, Any]]

_ALGORITHMS = {"none": 0, "zlib": 1, "lzma": 2, "lz4": 4, "zstd": 5}
_LEVELS_MAX = {"zlib": 9, "lzma": 9, "lz4": 12, "zstd": 19}
_LEVELS = {"none": 0, "zlib": 6, "lzma": 7, "lz4": 1, "zstd": 5}

def _settings(compression: str | None) -> int:
    """The number of a compression: ``none``, ``zstd``, ``zstd:1``, ``lz4``, ``zlib:6``, ``lzma:7``."""
    name, colon, level = str("none" if compression is None else compression).partition(":")
    if name not in _ALGORITHMS or (colon and (name == "none" or not level.isdecimal())):
        raise Invalid(f"{compression!r} is no compression: none, zlib, lzma, lz4 or zstd, with :LEVEL or without")
    number = int(level) if level else _LEVELS[name]
    if name != "none" and not 1 <= number <= _LEVELS_MAX[name]:
        raise Invalid(f"compression {compression!r}: levels of {name} are 1 to {_LEVELS_MAX[name]}")
    return _ALGORITHMS[name] * 100 + (number if name != "none" else 0)


def ntuples(path: _Path, *, storage_options: _Storage = None) -> list[str]:
    """Names of the ntuples in a file of ROOT."""
    with _named(path):
        return _ntuples(os.fspath(path), _storage(storage_options))


def _precision(precision: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """Fields with the precision of their floats."""
    if precision is None:
        return []
    if not isinstance(precision, Mapping):
        raise Invalid(f"precision is a mapping of names of fields to how their floats are kept, as {{'x': 'real16'}}, not {precision!r}")
    return [(_utf8("name of a field", name), _utf8("precision", str(how))) for name, how in precision.items()]


#: The largest numbers of 32 and of 64 bits, and the most bytes of a group.
_U32, _U64, _GROUP = (1 << 32) - 1, (1 << 64) - 1, 64 << 20


def _count(name: str, value: int, low: int, high: int) -> int:
    """A whole number within a range; raises Invalid, which names the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a whole number, not {value!r}") from None
    if not low <= number <= high:
        raise Invalid(f"{name} is {number}, and is to be from {low} to {high}")
    return number


def _count_or_none(name: str, value: int | None, low: int, high: int) -> int | None:
    return None if value is None else _count(name, value, low, high)


def _ns(name: str, seconds: float | None) -> int | None:
    return None if seconds is None else _nanoseconds(name, seconds)


def _nanoseconds(name: str, seconds: float) -> int:
    if not isinstance(seconds, int | float | np.number):
        raise TypeError(f"{name} is a number of seconds, not {seconds!r}")
    if not 0 <= seconds <= _U64 // 10**9:
        raise Invalid(f"{name} is {seconds}, and is to be a number of seconds from 0 to {_U64 // 10**9}")
    return operator.index(seconds) * 10**9 if isinstance(seconds, int | np.integer) else int(seconds * 1e9)


def _order(order: Sequence[int]) -> list[int]:
    return [_count("order", column, 0, _U32) for column in order]


def _how(page_bytes: int, cluster_bytes: int) -> dict[str, Any]:
    """How arrays become pages and clusters."""
    return {
        "page_bytes": _count("page_bytes", page_bytes, 1, _U32),
        "cluster_bytes": _count("cluster_bytes", cluster_bytes, 1, _U64),
    }


def _stored(group_bytes: int | None, keep: float | None, object_class: str | None) -> dict[str, Any]:
    """How an ntuple is stored."""
    return {
        "group_bytes": _count_or_none("group_bytes", group_bytes, 1, _GROUP),
        "keep_ns": _ns("keep", keep),
        "object_class": _utf8("class of objects", object_class),
    }


def _by_ns(time: float | datetime | None) -> int | None:
    """Nanoseconds by which a time is over: a float is between two others, and stands for all that is nearest to it; a datetime is a microsecond."""
    if isinstance(time, datetime):
        if time.utcoffset() is None:
            raise Invalid(f"time is {time!r}, which has no zone: write datetime(..., tzinfo=UTC), or time.astimezone()")
        since = time - datetime(1970, 1, 1, tzinfo=UTC)
        return _nanoseconds("time", since.days * 86400 + since.seconds) + since.microseconds * 1000 + 999
    by = _ns("time", time)
    if time is None or isinstance(time, int | np.integer):
        return by
    (whole, of), (last, of_last) = float(time).as_integer_ratio(), math.ulp(float(time)).as_integer_ratio()
    return (2 * whole * of_last + last * of) * 10**9 // (2 * of * of_last)


def _when(version: int | None, tag: str | None, time: float | datetime | None) -> tuple[int | None, str | None, int | None]:
    return _count_or_none("version", version, 0, _U64), _utf8("name of a tag", tag), _by_ns(time)


def _storage(options: _Storage) -> dict[str, str] | None:
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise Invalid(f"storage_options are a mapping of names to values, not a {type(options).__name__}")
    return {str(name): str(value) for name, value in options.items()}


def _fills(fill: _Fill) -> list[tuple[str, Any]]:
    """Fields with the numbers that they are filled with, or None."""
    if fill is None:
        return []
    if not isinstance(fill, Mapping):
        raise Invalid("fill is a mapping of names of fields to numbers, or to None for zeros and what is empty")
    fills = []
    for name, value in fill.items():
        if isinstance(value, str | list | tuple) and not value:
            value = None
        if isinstance(value, np.generic):
            value = value.item()
        if value is not None and not isinstance(value, int | float):
            raise Invalid(f"fill: field {name!r} is filled with a number, or with None for zeros and what is empty, not with {value!r}")
        fills.append((_utf8("name of a field", str(name)), value))
    return fills


def _progress(progress: Callable[[int], Any] | None) -> None:
    if progress is not None and not callable(progress):
        raise TypeError("progress is a function that is called with a number of entries, or None")


#: What the machine says where a file is opened that is not there.
_NO_FILE = re.compile(r"cannot read or write at offset 0: .*\(os error \d+\)")
#: What it says of one that is opened, and of a place that is none for a server.
_OF_OPENING = re.compile(r"cannot read or write at offset 0: (.*?)(?: \(os error \d+\))?")


@contextlib.contextmanager
def _named(path: _Path, others: tuple[type[Error], ...] = ()) -> Iterator[None]:
    """Has errors tell which file they are about, but for ``others``, which are about something else."""
    try:
        yield
    except others:
        raise
    except Error as error:
        is_none = isinstance(error, NotFound) and _NO_FILE.fullmatch(error.strerror or "")
        is_directory = isinstance(error, IsDirectory)
        known = "there is no such file or directory" if is_none else "is a directory" if is_directory else ""
        _said(error, lambda told: f"{os.fspath(path)}: {known or told}")
        raise


def _said(error: Error, anew: Callable[[str], str]) -> None:
    """Has an error say something else."""
    if len(error.args) > 1:
        error.args = (error.args[0], anew(str(error.args[1])), *error.args[2:])
        error.strerror = error.args[1]


@contextlib.contextmanager
def _hinting(path: _Path, name: str | None, names: Callable[[], list[str]], other: Callable[[], str]) -> Iterator[None]:
    """Has errors of an opening tell what there is: other ``names``, or what ``other`` says."""
    try:
        yield
    except (NotFound, Invalid, Corrupt) as error:
        hint = ""
        # Of what cannot be read now either, nothing more is said.
        with contextlib.suppress(Error, OSError):
            if isinstance(error, Corrupt) and "no file of ROOT" not in str(error):
                with builtins.open(path, "rb") as file:
                    hint = "" if file.read(4) == b"root" else "it is no file of ROOT"
            elif isinstance(error, NotFound):
                hint = other()
            elif name is None:
                hint = ", ".join(names()) or other()
        if hint:
            _said(error, lambda told: f"{told}; {hint}" if name or not isinstance(error, Invalid) else f"{told}: {hint}")
        raise


def _nearest(name: str, names: Iterable[str]) -> str:
    """What is added to an error to tell a name that is almost the one that was given."""
    # A name that UTF-8 does not have is near to none.
    found = None if name != name.encode(errors="ignore").decode() else _near(name, list(names))
    return "" if found is None else f"; {found!r} is one"


def _wanted(value: Any, kind: type, how: str) -> None:
    if not isinstance(value, kind):
        raise Invalid(f"a {kind.__name__} is needed ({how}), not a {type(value).__name__}")


class _Comparison(NamedTuple):
    """What has to hold of an entry: of the number that a field has, or of how long a list or a text is."""

    name: str
    op: str
    value: Any
    of_length: bool


def _comparisons(filter: _Filter) -> list[_Comparison]:
    """The comparisons of a filter; raises Invalid for what is none."""
    how = "a filter is a list of comparisons (field, op, number)"
    if isinstance(filter, str) or not isinstance(filter, Sequence):
        raise Invalid(f"{how}, not a {type(filter).__name__}")
    found = []
    for one in filter:
        if isinstance(one, str) or not isinstance(one, Sequence) or len(one) != 3:
            raise Invalid(f"{how}; {one!r} is none")
        name, op, value = one
        _known(op)
        if not isinstance(value, int | float | np.number | np.bool_):
            raise Invalid(f"{how}: {name!r} is compared with {value!r}")
        of_length = isinstance(name, str) and name.startswith("len(") and name.endswith(")")
        found.append(_Comparison(name[4:-1].strip() if of_length else name, op, value, of_length))
    return found


def _vetted(
    comparisons: Sequence[_Comparison], trees: Sequence[_arrays.Tree], fields: Sequence[Field | None]
) -> list[tuple[str, str, Any]]:
    """The comparisons that zones of pages can tell of; ``trees`` have the types of the fields, where there are such. Raises Invalid for what a
    field does not have.
    """
    zoned = []
    for (name, op, value, of_length), tree, field in zip(comparisons, trees, fields):
        what = "texts" if tree[:2] == ("lists", "text") else "lists" if tree[:2] == ("lists", "items") else ""
        if what and field is not None and field.is_optional and not of_length:
            told = f"field {name!r} ({field.type}) has values that may be missing, which are not compared"
            raise Invalid(f"filter: {told}; ('len({name})', '==', 1) is of whether each is there")
        if what and not of_length:
            told = f"field {name!r} has {what}, which are not compared with a number: ('len({name})', {op!r}, {value!r})"
            raise Invalid(f"filter: {told} is of how long each is")
        if of_length and tree[0] == "values":
            raise Invalid(f"filter: field {name!r} has one number for each entry, and no length: compare {name!r}")
        if not what and tree[0] != "values":
            raise Invalid(f"filter: field {name!r} ({_arrays.type_of(tree)}) has not one number for each entry")
        # What is larger than all that columns have is compared here alone.
        if what != "texts" and not (isinstance(value, int) and not -(2**63) <= value <= _U64):
            zoned.append((name, op, value))
    return zoned


def _passed(comparisons: Sequence[_Comparison], trees: Sequence[_arrays.Tree], count: int) -> np.ndarray[Any, Any]:
    """Which of so many entries pass, by the numbers that each comparison is of, or lists, whose lengths are meant."""
    keep = np.ones(count, bool)
    for (_name, op, value, _of_length), tree in zip(comparisons, trees):
        if tree[0] == "lists":
            numbers = np.diff(_arrays.numpy_of(tree[2], "i8"))
        else:
            numbers = _arrays.numpy_of(tree[2], tree[1])
        keep &= _arrays.holds(op, numbers, value)
    return keep


def _pattern(pattern: str) -> Callable[[str], Any]:
    """Whether a name fits a pattern, in which ``*`` stands for any characters and ``?`` for one."""
    signs = {"*": ".*", "?": "."}
    return re.compile("".join(signs.get(one) or re.escape(one) for one in pattern), re.DOTALL).fullmatch


def _named_or_fitting(
    names: _Columns, exact: Callable[[str], _T], fitting: Callable[[str], list[tuple[str, _T]]], of: str
) -> tuple[list[_T], list[str]]:
    """What has these names, or, of a name that nothing has, what it fits as a pattern, in its order and once."""
    if not isinstance(names, Iterable):
        several = "fields" if of == "field" else "branches"
        raise Invalid(f"{names!r} names no {several}: give a name, or a list of them")
    found: dict[str, _T] = {}
    for name in [names] if isinstance(names, str) else list(names):
        try:
            fits = [(name, exact(name))]
        except NotFound:
            if not {"*", "?"} & set(name):
                raise
            fits = fitting(name)
            if not fits:
                raise NotFound(f"no {of} fits {name!r}") from None
        for path, one in fits:
            found.setdefault(path, one)
    return list(found.values()), list(found)


def _as_one(
    kept: Iterable[tuple[int, int, np.ndarray[Any, Any]]],
) -> Iterator[tuple[int, int, np.ndarray[Any, Any]]]:
    """Ranges of entries, and which of each pass, as one range with all between them."""
    parts = [part for part in kept if part[2].any()]
    if not parts:
        return
    first, end = parts[0][0], parts[-1][1]
    keep = np.zeros(end - first, "?")
    for low, high, passed in parts:
        keep[low - first : high - first] = passed
    yield first, end, keep


def _ranges(kept: Iterable[tuple[int, int, np.ndarray[Any, Any]]]) -> list[tuple[int, int]]:
    """Ranges of the entries that pass, of ranges of entries and which of each do."""
    found: list[tuple[int, int]] = []
    for first, _end, keep in kept:
        edges = np.flatnonzero(np.diff(np.concatenate([[False], keep, [False]]).view("i1")))
        for low, high in edges.reshape(-1, 2) + first:
            if found and found[-1][1] == low:
                found[-1] = (found[-1][0], int(high))
            else:
                found.append((int(low), int(high)))
    return found


def _both(some: Iterable[tuple[int, int]], others: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What each of some ranges has of each of others, both in their order and none over the next."""
    at = 0
    for first, end in some:
        while at < len(others) and others[at][0] < end:
            low, high = max(first, others[at][0]), min(end, others[at][1])
            if low < high:
                yield low, high
            if others[at][1] > end:
                break
            at += 1


#: Entries of a tree that are looked at together.
_LOOKED_ENTRIES = 1 << 16


def open(
    source: "_Path | Container | Store",
    name: str | None = None,
    *,
    version: int | None = None,
    tag: str | None = None,
    time: float | datetime | None = None,
    storage_options: _Storage = None,
) -> "Ntuple":
    """Opens an ntuple for reading.

    source
        The path of a file of ROOT, or ``s3://bucket/path/file``, a container, or a ``Store``.
    name
        Its name; None for the only one that there is.
    version, tag, time
        Of an ntuple in a container, one of them: the number of a version, a tag, or seconds since 1970 (the last version that was made
        until then; the ``time`` of a ``Version`` is that version, and any float stands for all that is nearest to it) or a datetime with a
        zone. None for the current one.

    Raises NotFound if there is no such file, ntuple or version, Corrupt if it is damaged.
    """
    if isinstance(source, Container | Store):
        if storage_options is not None:
            raise Invalid("storage options are for addresses that begin with s3://: a store has its own")
        store = source if isinstance(source, Store) else Store(source)
        if name is None:
            names = store.names()
            if len(names) != 1:
                raise Invalid(f"there are {len(names)} ntuples: name one of {', '.join(names) or 'none'}")
            (name,) = names
        return store[name].open(version=version, tag=tag, time=time)
    if not (version is None and tag is None and time is None):
        raise Invalid("a file has one version of an ntuple")
    path, storage = os.fspath(source), _storage(storage_options)

    def other() -> str:
        try:
            found = ", ".join(_trees(path, storage)[:20])
        except NotFound:
            if str(path).startswith("s3://"):
                return f"of a store at this address: Store({path!r})[{name or 'NAME'!r}].open()"
            raise
        return found and f"it has trees (TTree), which Tree reads: {found}"

    with _named(source), _hinting(path, name, lambda: _ntuples(path, storage)[:20], other):
        made = Ntuple(NtupleReader.open_file(path, _utf8("name of an ntuple", name), storage))
    made._file = _absolute(path)
    return made


def trees(path: _Path, *, storage_options: _Storage = None) -> list[str]:
    """Names of the trees (TTree) in a file of ROOT."""
    with _named(path):
        return _trees(os.fspath(path), _storage(storage_options))


class _Entries:
    """Entries that are read, of an ntuple or of a tree."""

    #: The file that they are read from; none in a store.
    _file: str | None = None

    def __len__(self) -> int:
        raise NotImplementedError

    def _chosen(self, columns: _Columns) -> tuple[list[Field], list[str]]:
        """Fields that are named, or that patterns fit, and how each is called."""
        raise NotImplementedError

    def _trees(self, fields: list[Field], start: int, stop: int) -> list[_arrays.Tree]:
        """What fields have."""
        raise NotImplementedError

    def _steps(self, start: int, stop: int, step: int | None) -> list[tuple[int, int]]:
        """Ranges of entries that are read together."""
        raise NotImplementedError

    def _kept(
        self, filter: _Filter, start: int, stop: int, step: int | None = None
    ) -> Iterator[tuple[int, int, np.ndarray[Any, Any]]]:
        """Ranges of entries that can pass, none over the end of what is read together, and which of each do."""
        raise NotImplementedError

    def _shown(self, fields: list[Field], start: int, stop: int, strings: str) -> list[_arrays.Tree]:
        """What fields have, with texts as they are asked for."""
        if strings not in ("utf8", "binary"):
            raise Invalid(f"strings is {strings!r}: 'utf8' or 'binary'")
        trees = self._trees(fields, start, stop)
        return trees if strings == "utf8" else [_arrays.as_bytes(tree) for tree in trees]

    def _range(self, start: int | None, stop: int | None) -> tuple[int, int]:
        start, stop, _ = slice(start, stop).indices(len(self))
        return start, max(start, stop)

    def _read(
        self, columns: _Columns, start: int | None, stop: int | None, filter: _Filter | None, library: str, strings: str
    ) -> Any:
        fields, names = self._chosen(columns)
        start, stop = self._range(start, stop)
        if filter is not None:
            return self._filtered(fields, names, start, stop, filter, library, strings)
        return _together(fields, names, self._shown(fields, start, stop, strings), (start, stop), library)

    def _filtered(
        self, fields: list[Field], names: list[str], start: int, stop: int, filter: _Filter, library: str, strings: str
    ) -> Any:
        parts: list[Any] = []
        kept = self._kept(filter, start, stop)
        if library == "ak" and any(_arrays.has_variant(field) for field in fields):
            # Parts that are put together would have one type of numbers.
            kept = _as_one(kept)
        for first, _end, keep in kept:
            if keep.any():
                # What is before the first and behind the last is not read.
                places = np.flatnonzero(keep)
                low, high = int(places[0]), int(places[-1]) + 1
                entries = (first + low, first + high)
                trees = self._shown(fields, *entries, strings)
                parts.append(_together(fields, names, trees, entries, library, keep[low:high]))
        if not parts:
            return _together(fields, names, self._shown(fields, 0, 0, strings), (0, 0), library)
        return _joined(parts, library)

    def _passing(self, filter: _Filter | None, start: int | None, stop: int | None) -> list[tuple[int, int]]:
        """Ranges of the entries that pass."""
        start, stop = self._range(start, stop)
        if filter is None:
            return [(start, stop)] if start < stop else []
        return _ranges(self._kept(filter, start, stop))

    def batches(
        self,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        step: int | None = None,
        filter: _Filter | None = None,
        strings: _Strings = "utf8",
    ) -> "Iterator[pa.RecordBatch]":
        """Record batches of Arrow, one after the other: of ``step`` entries, or of the clusters (of a tree 65536 entries); with a ``filter``,
        as of ``arrays``, what passes of each, and none where nothing does. All have the types of ``arrow_schema``; ``strings`` is as of ``arrays``.
        """
        fields, names = self._chosen(columns)
        start, stop = self._range(start, stop)
        if filter is None:
            for first, end in self._steps(start, stop, step):
                yield _arrow_batch(fields, names, self._shown(fields, first, end, strings), first)
            return
        for first, end, keep in self._kept(filter, start, stop, step):
            if keep.any():
                yield _arrow_batch(fields, names, self._shown(fields, first, end, strings), first, keep)

    def arrow_schema(self, columns: _Columns = None, *, strings: _Strings = "utf8") -> "pa.Schema":
        """The schema of what ``batches`` gives."""
        fields, names = self._chosen(columns)
        return _arrow_batch(fields, names, self._shown(fields, 0, 0, strings), 0).schema

    def arrow_reader(
        self,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        step: int | None = None,
        filter: _Filter | None = None,
        strings: _Strings = "utf8",
    ) -> "pa.RecordBatchReader":
        """A ``pyarrow.RecordBatchReader`` over ``batches``."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(
            self.arrow_schema(columns, strings=strings),
            self.batches(columns, start, stop, step=step, filter=filter, strings=strings),
        )

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.arrow_reader().__arrow_c_stream__(requested_schema)

    def to_parquet(
        self,
        path: _Path,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        step: int | None = None,
        filter: _Filter | None = None,
        strings: _Strings = "utf8",
        **options: Any,
    ) -> None:
        """Writes a file of Parquet, a row group for each of ``batches``; ``options`` are those of ``pyarrow.parquet.ParquetWriter``. ``strings``
        is as of ``arrays``.

        The file has its name when it is whole; what was there before stays until then, and if it fails. Raises Invalid for the file that is read, and
        for fields of one of several types, or of records without members, which Parquet does not have.
        """
        import pyarrow.parquet as pq

        _apart(self._file, path)
        schema = self.arrow_schema(columns, strings=strings)
        others = [repr(field.name) for field in schema if not _arrays.has_parquet(field.type)]
        if others:
            raise Invalid(f"no columns of Parquet are as {', '.join(others)}: name those that are wanted (columns)")
        with _whole(path, options) as part, pq.ParquetWriter(part, schema, **options) as writer:
            for batch in self.batches(columns, start, stop, step=step, filter=filter, strings=strings):
                writer.write_batch(batch)


class Tree(_Entries):
    """A tree (TTree) of a file of ROOT, here or at ``s3://bucket/path/file``, that is open for reading: ``len(tree)`` entries of ``tree.branches``, by their paths, the type of
    each as a field of an ntuple would have it. ``tree.refused`` has those that are not read, and why.
    """

    def __init__(self, path: _Path, name: str | None = None, *, storage_options: _Storage = None) -> None:
        told, storage = os.fspath(path), _storage(storage_options)

        def other() -> str:
            found = ", ".join(_ntuples(told, storage)[:20])
            return found and f"it has ntuples, which open reads: {found}"

        with _named(path), _hinting(told, name, lambda: _trees(told, storage)[:20], other):
            self._tree = NtupleTree(told, _utf8("name of a tree", name), storage)
        self._file = _absolute(told)
        self.name, self.title = self._tree.texts()
        self._numbers: dict[str, int] = {}
        self.branches: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self._tops: list[str] = []
        for number, (path, type_, why, parent, _below) in enumerate(self._tree.branches()):
            self._numbers.setdefault(path, number)
            if why is None:
                self.branches[path] = type_
            else:
                self.refused[path] = why
            if parent is None:
                self._tops.append(path)

    def __len__(self) -> int:
        return self._tree.entry_count()

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._tops)

    def __repr__(self) -> str:
        return f"<dolmen.rntuple.Tree {self.name!r}: {len(self)} entries, {len(self._numbers)} branches>"

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._numbers)

    def keys(self) -> list[str]:
        """Paths of the branches at the top."""
        return list(self._tops)

    def trees(
        self, branches: Sequence[str], start: int | None = None, stop: int | None = None
    ) -> list[_arrays.Tree]:
        """What branches have, as the extension module gives it; ``arrays`` makes arrays of it."""
        start, stop, _ = slice(start, stop).indices(len(self))
        return self._tree.read([self._number(name) for name in branches], start, max(start, stop))

    @overload
    def arrays(
        self,
        branches: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _Filter | None = None,
        library: Literal["ak"] = "ak",
        strings: _Strings = "utf8",
    ) -> "ak.Array": ...

    @overload
    def arrays(
        self,
        branches: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _Filter | None = None,
        library: Literal["np"],
        strings: _Strings = "utf8",
    ) -> _Flat: ...

    @overload
    def arrays(
        self,
        branches: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _Filter | None = None,
        library: Literal["pa"],
        strings: _Strings = "utf8",
    ) -> "pa.Table": ...

    @overload
    def arrays(
        self,
        branches: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _Filter | None = None,
        library: str,
        strings: _Strings = "utf8",
    ) -> Any: ...

    def arrays(
        self,
        branches: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _Filter | None = None,
        library: str = "ak",
        strings: _Strings = "utf8",
    ) -> Any:
        """Reads branches of a range of entries, as ``Ntuple.arrays`` does; None for all at the top that are not refused. A pattern
        (``"Muon_*"``) is of paths at the top, or, where it fits none, of all.

        Raises Invalid, which names the branch and its class, for one that is refused.
        """
        return self._read(branches, start, stop, filter, library, strings)

    def _number(self, name: str) -> int:
        if not isinstance(name, str):
            raise Invalid(f"{name!r} is no path of a branch")
        if name not in self._numbers:
            raise NotFound(f"there is no branch {name!r}" + _nearest(name, self._numbers))
        return self._numbers[name]

    def _fitting(self, pattern: str) -> list[tuple[str, int]]:
        fits = _pattern(pattern)
        there = [name for name in self.branches if fits(name)]
        tops = [name for name in self._tops if name in set(there)]
        return [(name, self._numbers[name]) for name in tops or there]

    def _paths(self, columns: _Columns) -> list[str]:
        """Names as they are, which may be those of the fields that branches become, and the paths that patterns fit."""

        def exact(name: str) -> str:
            if not isinstance(name, str) or {"*", "?"} & set(name):
                self._number(name)
            return name

        fitting = lambda pattern: [(name, name) for name, _ in self._fitting(pattern)]
        return _named_or_fitting(columns, exact, fitting, "branch")[1]

    def _chosen(self, columns: _Columns) -> tuple[list[Field], list[str]]:
        if columns is None:
            columns = [name for name in self._tops if name not in self.refused]
        numbers, names = _named_or_fitting(columns, self._number, self._fitting, "branch")
        fields = []
        for number, name, tree in zip(numbers, names, self._tree.read(numbers, 0, 0)):
            field = _arrays.field_like(tree, name)
            field.number = number
            fields.append(field)
        return fields, names

    def _trees(self, fields: list[Field], start: int, stop: int) -> list[_arrays.Tree]:
        return self._tree.read([field.number for field in fields], start, stop)

    def __getitem__(self, name: str) -> Any:
        """All values of a branch: a numpy array if it is flat, an awkward array else."""
        _by_name(name, "branch")
        (tree,) = self.trees([name])
        field = _arrays.field_like(tree, name)
        try:
            return _arrays.to_numpy(field, tree)
        except Invalid:
            import awkward as ak

            return ak.Array(_arrays.to_awkward(field, tree))

    def _steps(self, start: int, stop: int, step: int | None) -> list[tuple[int, int]]:
        step = _LOOKED_ENTRIES if step is None else _count("step", step, 1, _U64)
        return [(first, min(first + step, stop)) for first in range(start, stop, step)]

    def _kept(
        self, filter: _Filter, start: int, stop: int, step: int | None = None
    ) -> Iterator[tuple[int, int, np.ndarray[Any, Any]]]:
        comparisons = _comparisons(filter)
        names = [comparison.name for comparison in comparisons]
        _vetted(comparisons, self.trees(names, 0, 0), [None] * len(names))
        for first, end in _both(self._steps(start, stop, None), self._steps(start, stop, step)):
            yield first, end, _passed(comparisons, self.trees(names, first, end), end - first)


def _amount(name: str, value: float) -> float:
    """A number from 0 on; raises Invalid, which names the argument."""
    if not isinstance(value, int | float | np.number):
        raise TypeError(f"{name} is a number, not {value!r}")
    if not 0 <= value <= sys.float_info.max:
        raise Invalid(f"{name} is {value}, and is to be a number from 0 on")
    return float(value)


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Medium:
    """What a store or a disk takes: latency in seconds, bytes a second, requests at once, and prices in whatever money of a request that
    writes (``put``), one that reads (``get``), 10**9 bytes for a month and 10**9 bytes that leave it. Raises Invalid, which names the argument,
    for one below 0, or of no bandwidth or no request. Those with the same numbers are equal.
    """

    latency: float
    bandwidth: float
    parallel: int
    prices: tuple[float, float, float, float]

    S3: ClassVar["Medium"]
    SSD: ClassVar["Medium"]
    HDD: ClassVar["Medium"]

    def __init__(
        self,
        latency: float,
        bandwidth: float,
        parallel: int = 32,
        *,
        put: float = 0.0,
        get: float = 0.0,
        gigabyte_month: float = 0.0,
        gigabyte_out: float = 0.0,
    ) -> None:
        latency, bandwidth = _amount("latency", latency), _amount("bandwidth", bandwidth)
        if not bandwidth:
            raise Invalid("bandwidth is 0, and is to be more bytes a second than that")
        parallel = _count("parallel", parallel, 1, 2**31)
        prices = (
            _amount("put", put),
            _amount("get", get),
            _amount("gigabyte_month", gigabyte_month),
            _amount("gigabyte_out", gigabyte_out),
        )
        self.__dict__.update(latency=latency, bandwidth=bandwidth, parallel=parallel, prices=prices)

    def __repr__(self) -> str:
        return f"Medium(latency={self.latency}, bandwidth={self.bandwidth:.3g}, parallel={self.parallel})"


#: An object store far away, at list prices in dollars of 2026 for its standard class, read from within its region.
Medium.S3 = Medium(0.015, 1e9, put=5e-6, get=4e-7, gigabyte_month=0.023)
#: A solid-state disk in the machine.
Medium.SSD = Medium(1e-4, 3e9)
#: A disk that turns.
Medium.HDD = Medium(8e-3, 2e8, 1)


@dataclasses.dataclass(init=False, repr=False)
class Estimate:
    """What a reading takes, from page lists alone.

    ``entries``, ``clusters``, ``pages``, ``stored_bytes``, ``memory_bytes``, ``requests`` are exact; of a cluster that is wanted in part, what is
    in collections and variants counts as if all of it were: no more is read. ``seconds`` (and
    ``seconds_page_by_page``, if each page were a request of its own, one after the other), ``money_reading``, ``money_writing`` (in
    blobs of ``blob_bytes``, which suit the medium) and ``money_month`` are by the medium's numbers. ``columns`` has for each column its
    field, pages, stored bytes and bytes in memory. Those that tell the same are equal.
    """

    entries: int
    clusters: int
    pages: int
    stored_bytes: int
    memory_bytes: int
    requests: int
    blob_bytes: int
    seconds: float
    seconds_page_by_page: float
    money_reading: float
    money_writing: float
    money_month: float
    columns: list[tuple[Any, ...]]

    def __init__(self, told: dict[str, Any], names: list[str]) -> None:
        self.__dict__.update(told)
        self.columns = [(names[field], *rest) for _column, field, *rest in told["columns"]]

    def __repr__(self) -> str:
        return (
            f"<Estimate: {self.stored_bytes} bytes in {self.pages} pages by {self.requests} requests, {self.seconds:.3g} s,"
            f" {self.money_reading:.3g} to read>"
        )


class Ntuple(_Entries):
    """An ntuple that is open for reading, of one version: ``len(ntuple)`` entries of ``ntuple.fields``."""

    def __init__(self, reader: NtupleReader) -> None:
        self._reader = reader
        self.name, self.description, self.writer = reader.texts()
        self._all = [Field(number, described) for number, described in enumerate(reader.fields())]
        described = reader.fields()
        #: Fields at the top by their names.
        self.fields = {}
        for field, (_, _, parent, *_) in zip(self._all, described):
            if parent == field.number:
                self.fields[field.name] = field
            else:
                self._all[parent].children.append(field)
        self._parents = [parent for _, _, parent, *_ in described]
        self._names = self._dotted(described)
        self._count = reader.entry_count()

    def _dotted(self, described: Sequence[tuple[Any, ...]]) -> list[str]:
        names: list[str] = []
        for number, (name, _, parent, *_) in enumerate(described):
            names.append(name if parent == number else f"{names[parent]}.{name}")
        return names

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<dolmen.rntuple.Ntuple {self.name!r}: {len(self)} entries, {len(self.fields)} fields>"

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    def keys(self) -> list[str]:
        """Names of the fields at the top."""
        return list(self.fields)

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def field(self, name: str) -> Field:
        """A field by its name, with dots between field and subfield; raises NotFound.

        Of a collection of records that are what its records have: ``jet.pt``.
        """
        if not isinstance(name, str):
            raise Invalid(f"{name!r} is no name of a field")
        path, *rest = name.split(".")
        known, found = self.fields, self.fields.get(path)
        for part in rest:
            if found is None:
                break
            known = {f"{path}.{one}": field for one, field in found.below().items()}
            path = f"{path}.{part}"
            found = known.get(path)
        if found is None:
            raise NotFound(f"there is no field {name!r}" + _nearest(name, known))
        return found

    @property
    def clusters(self) -> list[tuple[int, int]]:
        """The entries of each cluster, as pairs of the first and the one behind the last."""
        return [(first, first + count) for first, count in self._reader.clusters()]

    def _chosen(self, columns: _Columns) -> tuple[list[Field], list[str]]:
        if columns is None:
            return list(self.fields.values()), list(self.fields)
        found, names = _named_or_fitting(columns, self.field, self._fitting, "field")
        return [self._within(field) for field in found], names

    def _within(self, field: Field) -> Field:
        """What an entry has of a field: of one within collections or arrays, lists of it."""
        found, number = field, field.number
        while self._parents[number] != number:
            number = self._parents[number]
            found = self._all[number].having(found)
        return found

    def _fitting(self, pattern: str) -> list[tuple[str, Field]]:
        """Fields that a pattern fits, each part between dots a name."""
        first, *rest = pattern.split(".")
        fits = _pattern(first)
        found = [(name, field) for name, field in self.fields.items() if fits(name)]
        for part in rest:
            fits = _pattern(part)
            found = [
                (f"{path}.{name}", child)
                for path, field in found
                for name, child in field.below().items()
                if fits(name) and (name != "_0" or part == "_0")
            ]
        return found

    def _trees(self, fields: list[Field], start: int, stop: int) -> list[_arrays.Tree]:
        return self._reader.read([field.number for field in fields], start, stop)

    def __getitem__(self, name: str) -> Any:
        """All values of a field: a numpy array if it is flat, an awkward array else."""
        _by_name(name, "field")
        field = self._within(self.field(name))
        (tree,) = self._trees([field], 0, len(self))
        try:
            return _arrays.to_numpy(field, tree)
        except Invalid:
            import awkward as ak

            return ak.Array(_arrays.to_awkward(field, tree))

    @overload
    def arrays(
        self,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _Filter | None = None,
        library: Literal["ak"] = "ak",
        strings: _Strings = "utf8",
    ) -> "ak.Array": ...

    @overload
    def arrays(
        self,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _Filter | None = None,
        library: Literal["np"],
        strings: _Strings = "utf8",
    ) -> _Flat: ...

    @overload
    def arrays(
        self,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _Filter | None = None,
        library: Literal["pa"],
        strings: _Strings = "utf8",
    ) -> "pa.Table": ...

    @overload
    def arrays(
        self,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _Filter | None = None,
        library: str,
        strings: _Strings = "utf8",
    ) -> Any: ...

    def arrays(
        self,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _Filter | None = None,
        library: str = "ak",
        strings: _Strings = "utf8",
    ) -> Any:
        """Reads fields of a range of entries.

        columns
            Names of fields, with dots for subfields, or patterns of such (``"Muon_*"``): ``*`` stands for any characters, ``?`` for one. None
            for all at the top.
        start, stop
            The range of entries, as in slices.
        filter
            Comparisons ``(field, op, value)``, all of which have to hold, of numbers, or of how long lists and texts (in bytes) are:
            ``("len(muon_pt)", ">=", 2)``; ``op`` is one of ``< <= > >= == !=``. Numbers are compared as they are: ``0.1`` is no float of 32 bits.
        library
            ``"np"``: a dict of numpy arrays; of lists and texts arrays of objects, which are arrays (in these, too, of lists in lists) and
            ``str``; records and values that may be missing are refused (Invalid). ``"ak"``: an awkward array of records; ``"pa"``: a table of
            Arrow.
        strings
            ``"utf8"``: texts are such. ``std::string`` may have any bytes: numpy has those that are no UTF-8 as lone surrogates
            (``surrogateescape``), awkward as they are, and Arrow's texts cannot (Invalid, with field and entry). ``"binary"``: all texts are bytes:
            ``bytes``, bytestrings, ``large_binary``.

        Memory is what is read; pages that are stored plainly are read to where they stay. Raises NotFound, Corrupt.
        """
        return self._read(columns, start, stop, filter, library, strings)

    def _kept(
        self, filter: _Filter, start: int, stop: int, step: int | None = None
    ) -> Iterator[tuple[int, int, np.ndarray[Any, Any]]]:
        comparisons = _comparisons(filter)
        fields = [self.field(comparison.name) for comparison in comparisons]
        zoned = [one for one in _vetted(comparisons, self._trees(fields, 0, 0), fields) if self._has_zones(one)]
        possible = _both(self._reader.prune(zoned, start, stop), self.clusters)
        for first, end in possible if step is None else _both(possible, self._steps(start, stop, step)):
            # Of lists and texts how long they are, and nothing of what they have.
            trees = [tree for field in fields for tree in self._reader.read_numbers([field.number], first, end)]
            yield first, end, _passed(comparisons, trees, end - first)

    def _has_zones(self, comparison: tuple[str, str, Any]) -> bool:
        """Whether zones of pages can tell of a comparison: not of what is within lists. Nothing is read for that."""
        try:
            self._reader.prune([comparison], 0, 0)
        except Invalid:
            return False
        return True

    def record(self) -> None:
        """Records from now on which fields are read together, by whatever of its methods: ``trace`` tells it."""
        self._reader.record()

    def trace(self) -> Trace:
        """What was read since ``record``; empty if that was never called."""
        return Trace(self._reader.recorded())

    def order(self, accesses: Trace | Sequence[tuple[_Columns, int]]) -> list[int]:
        """Numbers of columns in the order in which they are best packed: ``accesses`` are fields that are read together, and how often.

        Of a ``Trace`` names are left out that there are not; others raise NotFound.
        """
        if isinstance(accesses, Trace):
            there = set(self._names)
            accesses = [([name for name in names if name in there], count) for names, count in accesses]
        chosen = [([field.number for field in self._chosen(columns)[0]], count) for columns, count in accesses]
        return self._reader.order_of(chosen)

    def _steps(self, start: int, stop: int, step: int | None) -> list[tuple[int, int]]:
        if step is not None:
            step = _count("step", step, 1, _U64)
            return [(first, min(first + step, stop)) for first in range(start, stop, step)]
        return [(max(first, start), min(end, stop)) for first, end in self.clusters if first < stop and end > start]

    def estimate(
        self,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        medium: Medium | None = None,
        blob_bytes: int | None = None,
    ) -> Estimate:
        """What reading would take, see ``Estimate``; nothing but page lists is read."""
        fields, _ = self._chosen(columns)
        start, stop = self._range(start, stop)
        medium = medium or Medium.S3
        _wanted(medium, Medium, "Medium.S3, Medium.SSD, or one with numbers of your own")
        blob_bytes = _count_or_none("blob_bytes", blob_bytes, 1, _U64)
        numbers = [field.number for field in fields]
        told = self._reader.estimate(
            numbers, start, stop, medium.latency, medium.bandwidth, medium.parallel, medium.prices, blob_bytes
        )
        return Estimate(told, self._names)

    def export_root(
        self,
        path: _Path,
        *,
        compression: str | None = "zstd",
        time: float | None = None,
        progress: Callable[[int], Any] | None = None,
        storage_options: _Storage = None,
    ) -> None:
        """Writes a file of ROOT with the pages as they are, bit for bit; raises Corrupt, and leaves no file, if one is damaged, and Invalid for the
        file that is read.

        path
            Of a file, or ``s3://bucket/path/file.root``, which is there when it is whole.
        compression
            Of header, footer and page lists alone.
        time
            Seconds since 1970 that the file tells; None for now. The same ntuple at the same time under the same name is the same file.
        progress
            Called with the number of entries that are written, after each cluster.
        """
        _ns("time", time)
        time_s, storage = None if time is None else int(time), _storage(storage_options)
        _apart(self._file, path)
        with _named(path, _OF_SOURCE):
            self._reader.export_root(os.fspath(path), _settings(compression), time_s, progress, storage)

    def serve(self, name: str | None = None, *, host: str = "127.0.0.1", port: int = 0) -> NtupleServer:
        """Serves it over HTTP as a file of ROOT that is nowhere, to ROOT, uproot and others; ``.url`` says where. ``host`` is an address, or
        ``localhost``, which is 127.0.0.1.

        It ends with ``close()`` or the ``with`` block. Whoever reaches the address reads it: there is no other protection. Of a ``Stored`` it
        is the version that is open, which a tag keeps: one that was expired and collected meanwhile is answered with an error.
        """
        address = "127.0.0.1" if host == "localhost" else host
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise Invalid(f"host is {host!r}, and is to be an address of this machine, as 127.0.0.1, or localhost") from None
        try:
            return self._reader.serve(_utf8("name of a file", name) or f"{self.name}.root", address, _count("port", port, 0, 65535))
        except Io as error:
            _said(error, lambda told: match[1] if (match := _OF_OPENING.fullmatch(told)) else told)
            raise


#: Errors about what is read, also where a file is written of it.
_OF_SOURCE = (Corrupt, Stale, Closed)


def _absolute(path: str) -> str:
    return path if path.startswith("s3://") else os.path.abspath(path)


def _apart(source: str | None, path: Any) -> None:
    """Raises Invalid where a file would be written over the one that is read."""
    if source is None or not isinstance(path, str | os.PathLike):
        return
    is_same = os.fspath(path) == source
    # What cannot be asked is not there, or is told by who writes it.
    with contextlib.suppress(OSError):
        is_same = is_same or os.path.samefile(path, source)
    if is_same:
        raise Invalid(f"{os.fspath(path)}: it is read from that file, which would be replaced; name another file")


@contextlib.contextmanager
def _whole(path: Any, options: Mapping[str, Any]) -> Iterator[Any]:
    """A path beside that of a file, which gets its name at the end, and goes with an exception; what is no file of here stays as it is."""
    told = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if told and told.startswith("s3://"):
        _spare_stores(told)
    if told is None or "://" in told or options.get("filesystem") or (os.path.exists(told) and not os.path.isfile(told)):
        if told and os.path.isdir(told) and not options.get("filesystem"):
            raise _of_system(IsADirectoryError(errno.EISDIR, "is a directory"), told)
        yield path
        return
    told = os.path.realpath(told)
    part = f"{told}.{os.urandom(4).hex()}.part"
    try:
        yield part
        os.replace(part, told)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(part)
        # An error of this package is about what is read, and names that; others may have the name that the file has until it is whole.
        if isinstance(error, OSError) and not isinstance(error, Error) and error.errno:
            raise _of_system(OSError(error.errno, os.strerror(error.errno)), told) from error
        raise


def _some(columns: _Columns, of: _Entries) -> list[str]:
    """Names of the fields that something is made of, of which there are some: none would stand for all."""
    names = of._chosen(columns)[1]
    if not names:
        raise Invalid("columns names no fields: None is all")
    return names


def _by_name(name: Any, of: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"[] takes the name of a {of}, not {name!r}; a range of entries is arrays(start=…, stop=…)")


def _known(op: str) -> str:
    if op not in _arrays.COMPARE:
        raise Invalid(f"{op!r} is no comparison: {' '.join(_arrays.COMPARE)}")
    return op


def _together(
    fields: list[Field],
    names: Sequence[str],
    trees: Sequence[_arrays.Tree],
    entries: tuple[int, int],
    library: str,
    keep: np.ndarray[Any, Any] | None = None,
) -> Any:
    """What fields have of a range of entries, of all of them or of some."""
    if library == "np":
        read = {name: _arrays.to_objects(field, tree) for name, field, tree in zip(names, fields, trees)}
        return read if keep is None else {name: array[keep] for name, array in read.items()}
    if library == "ak":
        import awkward as ak

        contents = [_arrays.to_awkward(field, tree) for field, tree in zip(fields, trees)]
        array = ak.Array(ak.contents.RecordArray(contents, names, length=entries[1] - entries[0]))
        return array if keep is None else array[keep]
    if library == "pa":
        import pyarrow as pa

        return pa.Table.from_batches([_arrow_batch(fields, names, trees, entries[0], keep)])
    raise Invalid(f"{library!r} is no library: np, ak or pa")


def _arrow_batch(
    fields: list[Field],
    names: Sequence[str],
    trees: Sequence[_arrays.Tree],
    first: int,
    keep: np.ndarray[Any, Any] | None = None,
) -> "pa.RecordBatch":
    """What fields have of entries from one on, of all of them or of some; raises Invalid for text that is no UTF-8 in one of these."""
    import pyarrow as pa

    arrays = [_arrays.to_arrow(field, tree) for field, tree in zip(fields, trees)]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(names))
    if keep is not None:
        batch = batch.filter(pa.array(keep))
    for name, tree, array in zip(names, trees, batch.columns):
        bad = _arrays.first_bad(array) if _arrays.has_text(tree) else None
        if bad is not None:
            entry = first + (bad if keep is None else int(np.flatnonzero(keep)[bad]))
            raise Invalid(
                f"field {name!r} has text in entry {entry} that is no UTF-8, as texts of Arrow are: strings='binary' (of arrays, batches,"
                " arrow_reader, to_parquet) has all texts as bytes, and library='np' or 'ak' (of arrays) takes them as they are"
            )
    return batch


def _joined(parts: list[Any], library: str) -> Any:
    if library == "np":
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if library == "ak":
        import awkward as ak

        return ak.concatenate(parts)
    import pyarrow as pa

    return pa.concat_tables(parts)


class RootWriter:
    """Writes an ntuple to a new file of ROOT, here or at ``s3://bucket/path/file``, piece by piece.

    The fields are those of the first piece; ``precision`` has floats of some kept in fewer bits, see ``Store.create``. The file has its name
    when ``close`` or the ``with`` block ends it; with an exception it is given up, and what was there before stays.
    """

    def __init__(
        self,
        path: _Path,
        name: str,
        *,
        description: str = "",
        compression: str | None = "zstd",
        page_bytes: int = 1 << 18,
        cluster_bytes: int = 128 << 20,
        precision: Mapping[str, str] | None = None,
        storage_options: _Storage = None,
    ) -> None:
        self._path, self._name = os.fspath(path), _utf8("name of an ntuple", name)
        self._description = _utf8("description", description)
        self._storage = _storage(storage_options)
        self._settings, self._how = _settings(compression), _how(page_bytes, cluster_bytes)
        self._precision = _precision(precision)
        self._writer: NtupleWriter | None = None
        self._fields: dict[str, Field] = {}
        self._types: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<dolmen.rntuple.RootWriter {self._name!r} of {self._path!r}>"

    def append(self, data: Any) -> None:
        """Appends entries: a mapping of names to arrays, a table of Arrow or pandas (whose index is no field), or an awkward array of records.

        Numbers become those of the fields where nothing is lost by that. Flat arrays are written from where they are: nobody may change
        them meanwhile. Raises Invalid for an array that does not fit its field, and for other fields than those of the first piece.
        """
        fields = _arrays.fields_of(data)
        if self._writer is None:
            with _named(self._path):
                self._writer = self._made(_arrays.types_of(fields))
            self._fields = {name: _arrays.field_like(tree, name) for name, tree in fields}
            self._types = {name: _arrays.type_of(tree) for name, tree in fields}
        self._check(fields)
        fields = _fitted(self._fields, fields)
        with _named(self._path), _fitting(self._fields, fields):
            for block in _arrays.blocks(fields, self._how["cluster_bytes"]):
                self._writer.append(block)

    def _check(self, fields: list[tuple[str, _arrays.Tree]]) -> None:
        given = {name for name, _ in fields}
        missing = [(name, of) for name, of in self._types.items() if name not in given]
        more = [(name, _arrays.type_of(tree)) for name, tree in fields if name not in self._types]
        if missing or more:
            raise Invalid(f"{self._path}: {_unlike(missing, more)}")

    def _made(self, types: list[tuple[str, _arrays.Tree]]) -> NtupleWriter:
        return NtupleWriter.create(
            self._path,
            self._name,
            types,
            description=self._description,
            settings=self._settings,
            **self._how,
            precision=self._precision,
            storage=self._storage,
        )

    def close(self) -> None:
        """Ends the file, which is on the disk then; again it does nothing. Raises Invalid if nothing was ever appended, since then it has no fields."""
        if self._writer is None:
            raise Invalid("an ntuple without fields cannot be written: append something, if only arrays without values")
        with _named(self._path):
            self._writer.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _value: Any, _trace: Any) -> None:
        if kind is None:
            self.close()
        elif self._writer is not None:
            self._writer.discard()


def _fitted(known: Mapping[str, Field], fields: list[tuple[str, _arrays.Tree]]) -> list[tuple[str, _arrays.Tree]]:
    """Arrays with the numbers that fields of these names have."""
    return [
        (name, _arrays.fitted(known[name], tree, f"field {name!r}") if name in known else tree)
        for name, tree in fields
    ]


@contextlib.contextmanager
def _fitting(known: Mapping[str, Field], fields: list[tuple[str, _arrays.Tree]]) -> Iterator[None]:
    """Has errors of arrays that do not fit tell both types."""
    try:
        yield
    except Invalid as error:
        for name, tree in fields:
            if name in known and f'"{name}" is not of its type' in str(error):
                both = f"the field has {known[name].type or known[name].role}, the array {_arrays.type_of(tree)}"
                _said(error, f"{{}}: {both}".format)
        raise


def write_root(path: _Path, name: str, data: Any, **options: Any) -> None:
    """Writes an ntuple to a new file of ROOT, of what ``RootWriter.append`` takes; ``options`` are those of ``RootWriter``."""
    with RootWriter(path, name, **options) as writer:
        writer.append(data)


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Version:
    """A version of an ntuple in a container: its ``number``, its ``time`` (seconds since 1970), ``entries``, ``clusters``, and what
    ``made`` it, by all of which versions are equal. Of one that an append has just made ``left_out`` tells what was left out of the sources, see
    ``Stored.append``.
    """

    number: int
    time: float
    entries: int
    clusters: int
    made: str
    left_out: list[str] = dataclasses.field(compare=False)

    def __init__(self, told: tuple[Any, ...], left_out: Iterable[str] = ()) -> None:
        number, time_ns, entries, clusters, made = told
        # Whole numbers are divided: the float is the one nearest to the time.
        time = time_ns / 10**9
        self.__dict__.update(
            number=number, time=time, entries=entries, clusters=clusters, made=made, left_out=list(left_out)
        )

    def __repr__(self) -> str:
        return f"<Version {self.number}: {self.entries} entries, {self.made}>"


class Scrubbed:
    """What was looked at: ``pages``, ``bytes``, how many pages have no checksum (``unsummed``), and ``bad``: of each damaged page a dict with
    ``field``, ``column``, ``entries`` of its cluster, ``page``, ``damage`` and whether it was ``repaired``.
    """

    def __init__(self, told: tuple[Any, ...]) -> None:
        self.pages, self.unsummed, self.bytes, bad = told
        names = ("field", "column", "entries", "page", "damage", "repaired")
        self.bad = [dict(zip(names, one)) for one in bad]

    def __repr__(self) -> str:
        return f"<Scrubbed: {self.pages} pages, {self.bytes} bytes, {len(self.bad)} damaged>"


class Collected:
    """What was freed: how many ``versions``, ``clusters``, ``ntuples`` without a name, ``writers`` that are gone, and ``uploads`` that nobody
    completed (of a bucket); how many versions that were replaced are ``kept`` still, and how many writers may be ``alive``, of which all is left that
    they have put; and ``damaged``: of each ntuple that cannot be read, of
    which all that might be its own is left, its name and why.
    """

    def __init__(self, told: tuple[Any, ...]) -> None:
        self.versions, self.kept, self.clusters, self.ntuples, self.writers, self.alive, self.uploads, damaged = told
        self.damaged = dict(damaged)

    def __repr__(self) -> str:
        return (
            f"<Collected: {self.versions} versions, {self.clusters} clusters; {self.kept} versions are kept, {len(self.damaged)} ntuples damaged>"
        )


class Store:
    """The ntuples of a container, which can have other things beside them, or of an object store, ``s3://bucket/prefix``: nothing is asked of
    that before something is done with it, and the bucket has to be there.
    """

    def __init__(self, container: Container | str, *, storage_options: _Storage = None) -> None:
        if isinstance(container, str) and container.startswith("s3:"):
            self._store = NtupleStore.remote(container, _storage(storage_options))
        elif not isinstance(container, Container):
            told = "a store is in a container (Store(dolmen.open(POOL).container(NAME))) or at s3://bucket/prefix"
            raise Invalid(f"{container!r} is none: {told}")
        elif storage_options is not None:
            raise Invalid("storage options are for addresses that begin with s3://")
        else:
            self._store = NtupleStore(container)

    def names(self) -> list[str]:
        """Names of all ntuples."""
        return self._store.names()

    def __len__(self) -> int:
        return len(self.names())

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def _ipython_key_completions_(self) -> list[str]:
        return self.names()

    def __getitem__(self, name: str) -> "Stored":
        """An ntuple by its name; raises NotFound."""
        return Stored(self._store.ntuple(_utf8("name of an ntuple", name)))

    def create(
        self,
        name: str,
        data: Any,
        *,
        description: str = "",
        compression: str | None = "zstd:1",
        group_bytes: int | None = None,
        keep: float | None = None,
        object_class: str | None = None,
        precision: Mapping[str, str] | None = None,
    ) -> "Stored":
        """Makes an ntuple with the fields that ``data`` has, and these entries: it is there with all of them, or not. They are a mapping of names to
        arrays, a table of Arrow or pandas, or an awkward array of records. The index of a table of pandas is no field: ``reset_index()`` makes it one.

        group_bytes
            Bytes of columns that are stored as one value, and read by one request; None for what suits where the store is: 1 MiB in a container,
            some MiB in an object store.
        keep
            Seconds for which versions that were replaced are kept; None for a day.
        object_class
            How clusters are spread and protected, as for other objects.
        precision
            How floats are kept that need not be exact, by the names of their fields (of lists it is what is in them, of records
            ``record.field``): ``"real32"`` and ``"real16"`` with 32 and 16 bits, ``"trunc:BITS"`` with the first 10 to 31 bits of 32,
            ``"quant:BITS:LOW:HIGH"`` as the nearest of 2**BITS values from LOW to HIGH, both of which are some; values beyond are refused.
            What 16 or 32 bits are too few for (beyond 65,504, or 3.4e38) becomes infinite.

        Raises Exists.
        """
        fields = _arrays.fields_of(data)
        stored = self._store.create(
            _utf8("name of an ntuple", name),
            _arrays.types_of(fields),
            fields,
            description=_utf8("description", description),
            settings=_settings(compression),
            **_stored(group_bytes, keep, object_class),
            precision=_precision(precision),
        )
        return Stored(stored)

    def import_root(
        self,
        path: _Path,
        ntuple: str | None = None,
        name: str | None = None,
        *,
        group_bytes: int | None = None,
        keep: float | None = None,
        object_class: str | None = None,
        order: Trace | Sequence[int] = (),
        progress: Callable[[int], Any] | None = None,
        storage_options: _Storage = None,
    ) -> "Stored":
        """Imports an ntuple of a file of ROOT, here or at ``s3://bucket/path/file``, its pages bit for bit as they are, under its own name or another.

        order
            Numbers of columns in the order in which they are packed, since those that are read together belong together: see
            ``Ntuple.order``. Of a ``Trace`` it is found out.
        progress
            Called with the number of entries that are in the container.

        Each page is compared with its checksum; raises Corrupt, and imports nothing, if one is damaged.
        """
        source = open(os.fspath(path), ntuple, storage_options=storage_options)
        with _named(path):
            return self.import_ntuple(
                source,
                name,
                group_bytes=group_bytes,
                keep=keep,
                object_class=object_class,
                order=order,
                progress=progress,
            )

    def import_ntuple(
        self,
        source: Ntuple,
        name: str | None = None,
        *,
        group_bytes: int | None = None,
        keep: float | None = None,
        object_class: str | None = None,
        order: Trace | Sequence[int] = (),
        progress: Callable[[int], Any] | None = None,
    ) -> "Stored":
        """Imports an ntuple that is open, wherever it is, its pages bit for bit as they are: so it goes from one store to another, of any
        kind. Arguments and errors are those of ``import_root``; what is known of its pages goes with them.
        """
        _wanted(source, Ntuple, "what open gives, of a file or of a Stored")
        return Stored(
            self._store.import_ntuple(
                source._reader,
                _utf8("name of an ntuple", name),
                **_stored(group_bytes, keep, object_class),
                order=source.order(order) if isinstance(order, Trace) else _order(order),
                progress=progress,
            )
        )

    def import_tree(
        self,
        source: _Path | Tree,
        tree: str | None = None,
        name: str | None = None,
        columns: _Columns = None,
        *,
        leave_out: bool = False,
        compression: str | None = "zstd:1",
        page_bytes: int = 1 << 18,
        cluster_bytes: int = 128 << 20,
        group_bytes: int | None = None,
        keep: float | None = None,
        object_class: str | None = None,
        progress: Callable[[int], Any] | None = None,
        storage_options: _Storage = None,
    ) -> "Stored":
        """Imports a tree (TTree) of a file of ROOT, or one that is open, under its own name or another: each branch as a field.

        source, tree
            A path, here or ``s3://bucket/path/file``, and the name of the tree, None for the only one; or a ``Tree``.
        columns
            Paths of branches, or patterns of such (``"Muon_*"``), or names of the fields that they become; None for all at the top. A field has the
            name of its branch, without brackets and what is behind them, and with ``_`` for each dot: ``renamed`` of what is returned tells those whose names are
            not the same, ``{branch: field}``.
        leave_out
            Whether branches that are not read (``Tree.refused``) are left out, and told in ``left_out`` of what is returned; else one of them
            is an error.
        cluster_bytes
            Memory that it takes, about: so many bytes of entries are read at a time and become a cluster.
        progress
            Called with the number of entries that are in the store; nobody else sees any of them before all are there.

        Raises Exists; Invalid, which names branch and class, for a branch that is not read; Corrupt.
        """
        of = source if isinstance(source, Tree) else Tree(source, tree, storage_options=storage_options)
        with contextlib.nullcontext() if isinstance(source, Tree) else _named(source):
            stored, left_out, renamed = self._store.import_tree(
                of._tree,
                _utf8("name of an ntuple", name),
                None if columns is None else of._paths(columns),
                leaves_out=leave_out,
                settings=_settings(compression),
                **_how(page_bytes, cluster_bytes),
                **_stored(group_bytes, keep, object_class),
                progress=progress,
            )
        return Stored(stored, left_out, renamed)

    def skim(
        self,
        source: Ntuple | Tree,
        name: str,
        columns: _Columns = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        filter: _Filter | None = None,
        leave_out: bool = False,
        compression: str | None = "zstd:1",
        group_bytes: int | None = None,
        keep: float | None = None,
        object_class: str | None = None,
    ) -> "Stored":
        """Makes an ntuple of some fields and entries of another one, wherever that is; ``filter`` as for ``Ntuple.arrays``.

        Clusters all of whose entries are wanted are taken as they are, without being decompressed; others are written anew with
        ``compression``. ``columns`` are fields at the top, or patterns (``"Muon_*"``). Raises Exists.

        Of a ``Tree`` (TTree) they are paths of branches, as are the names of the filter, and all is written as by ``import_tree``, of which
        ``leave_out`` is.
        """
        if not isinstance(source, Tree):
            _wanted(source, Ntuple, "what open gives, of a file or of a Stored, or a Tree")
        names = [] if columns is None else _some(columns, source)
        if isinstance(source, Tree):
            made = self._store.skim_tree(
                source._tree,
                _utf8("name of an ntuple", name),
                names,
                source._passing(filter, start, stop),
                leaves_out=leave_out,
                settings=_settings(compression),
                **_stored(group_bytes, keep, object_class),
            )
            return Stored(*made)
        stored, _passed, _written = self._store.skim(
            source._reader,
            _utf8("name of an ntuple", name),
            names,
            source._passing(filter, start, stop),
            settings=_settings(compression),
            **_stored(group_bytes, keep, object_class),
        )
        return Stored(stored)

    def clone(
        self,
        stored: "Stored",
        name: str,
        columns: _Columns = None,
        *,
        version: int | None = None,
        tag: str | None = None,
    ) -> "Stored":
        """Makes an ntuple of some fields, all unless they are named, of a version of another one of this container. No page is written:
        both have the same ones, and what is done with one is not seen in the other. ``columns`` are fields at the top, or patterns
        (``"Muon_*"``). Raises Exists.
        """
        _wanted(stored, Stored, "store[name]")
        names = [] if columns is None else _some(columns, stored.open(version=version, tag=tag))
        made = self._store.clone(stored._stored, _utf8("name of an ntuple", name), names, *_when(version, tag, None)[:2])
        return Stored(made)

    def collect(self, *, alone: bool = False) -> Collected:
        """Frees what no version needs, and what writers have left that were silent for ten minutes; what was freed.

        With ``alone`` nobody writes: what is left of writers who died just now is freed, too. One who lives in spite of it loses what it has
        not committed, and is told so (Stale).
        """
        return Collected(self._store.collect(alone))

    def destroy(self, name: str, *, force: bool = False) -> Collected:
        """Removes an ntuple with all of its versions, and frees what nobody else needs.

        Raises Busy if tags keep versions of it, Corrupt if it is damaged, unless ``force`` is set.
        """
        try:
            return Collected(self._store.destroy(_utf8("name of an ntuple", name), force))
        except Busy as error:
            _said(error, lambda told: f"{told}; force=True destroys it all the same, untag of the ntuple removes a tag")
            raise


class Stored:
    """An ntuple in a container: its versions and tags, and who appends to it. Of one that ``Store.import_tree`` has just made ``left_out`` tells
    which branches it has not, and ``renamed`` those whose fields have other names, ``{branch: field}``.
    """

    def __init__(
        self, stored: StoredNtuple, left_out: Iterable[str] = (), renamed: Iterable[tuple[str, str]] = ()
    ) -> None:
        self._stored = stored
        self.left_out, self.renamed = list(left_out), dict(renamed)
        self.name = stored.name()

    def __repr__(self) -> str:
        # More would have to be asked of the store, which may be far, or closed.
        return f"<dolmen.rntuple.Stored {self.name!r}>"

    def open(
        self, *, version: int | None = None, tag: str | None = None, time: float | datetime | None = None
    ) -> Ntuple:
        """Opens a version for reading, the current one unless another is told; see ``open`` of this module."""
        return Ntuple(self._stored.open(*_when(version, tag, time)))

    def version(
        self, version: int | None = None, *, tag: str | None = None, time: float | datetime | None = None
    ) -> Version:
        """The current version, or another."""
        return Version(self._stored.version(*_when(version, tag, time)))

    def versions(self) -> list[Version]:
        """All versions that are there, the oldest first. Raises NotFound if the ntuple was removed."""
        found = [Version(told) for told in self._stored.versions()]
        if not found:
            raise NotFound(f"there is no ntuple {self.name!r} any more")
        return found

    def tags(self) -> dict[str, int]:
        """The number of the version that each tag keeps. Raises NotFound if the ntuple was removed."""
        found = dict(self._stored.tags())
        return found if found or self.versions() else {}

    def tag(self, name: str, version: int | None = None, *, move: bool = False) -> Version:
        """Has a tag keep a version, the current one unless its number is told. With ``move`` also a tag that is there; else Exists is raised.

        Names of tags have up to 72 bytes, and no control characters (Invalid).
        """
        number = _count_or_none("version", version, 0, _U64)
        try:
            return Version(self._stored.tag(_utf8("name of a tag", name), number, move=move))
        except Exists as error:
            _said(error, lambda _told: f"there is a tag {name!r} already; move=True has it keep this version")
            raise

    def untag(self, name: str) -> None:
        """Removes a tag."""
        self._stored.untag(_utf8("name of a tag", name))

    def keeps(self) -> float:
        """For how many seconds versions that were replaced are kept."""
        return self._stored.keeps() / 1e9

    def keep(self, seconds: float) -> None:
        """Sets for how long versions that were replaced are kept."""
        self._stored.keep(_nanoseconds("seconds", seconds))

    def expire(self) -> int:
        """Removes versions that no tag keeps and that were kept for long enough; how many. ``Store.collect`` frees their pages."""
        return self._stored.expire()

    def appender(
        self,
        *,
        compression: str | None = "zstd:1",
        page_bytes: int = 1 << 18,
        cluster_bytes: int = 128 << 20,
        fill: _Fill = None,
        leave_out: bool = False,
    ) -> "Appender":
        """Who appends in several pieces that are seen at once: see ``Appender``.

        fill
            Names and values of fields that are filled where the data have none, also of those that others add meanwhile: numbers (0, NaN, …)
            of fields of one number, None for zeros, empty texts and collections, whatever a field is. The values are stored as if they had
            been given. What is no field of the ntuple is refused at the commit (Invalid), and by ``append`` and ``append_root`` at once; so
            are numbers that the field's type has not, and data with none of the ntuple's fields.
        leave_out
            Whether fields of the data, and branches, are left out that the ntuple has not, and branches that are not read; ``left_out`` of the
            version tells which. Else they are refused (Invalid).
        """
        appender = self._stored.append(
            settings=_settings(compression), **_how(page_bytes, cluster_bytes), fill=_fills(fill), leaves_out=leave_out
        )
        return Appender(appender, self, frozenset(map(str, fill or ())), leave_out)

    def append(self, data: Any, *, progress: Callable[[int], Any] | None = None, **options: Any) -> Version:
        """Appends entries, which are seen at once, behind what others have appended; ``options`` as of ``appender``. The new version.

        ``data`` are arrays by the names of their fields, or where entries are: an ``Ntuple``, a ``Stored`` (its current version) or a ``Tree``, or
        the path of a file of ROOT, or a list of some of these, which are appended all or not at all: see ``append_root``. The index of a table of
        pandas is no field: ``reset_index()`` makes it one. ``progress`` is called with the number of entries that are stored, of arrays once.

        Raises Invalid, which names fields that are missing and not filled (``fill``), or too many and not left out (``leave_out``), or filled
        and none of the ntuple, and arrays that do not fit their fields.
        """
        if isinstance(data, _SOURCES):
            return self._append_all([data], progress=progress, **options)
        if isinstance(data, list | tuple) and all(isinstance(one, _SOURCES) for one in data):
            return self._append_all(data, progress=progress, **options)
        return self._append(_arrays.fields_of(data), progress=progress, **options)

    def _append(
        self,
        fields: list[tuple[str, _arrays.Tree]],
        *,
        progress: Callable[[int], Any] | None = None,
        ntuple: None = None,
        storage_options: None = None,
        **options: Any,
    ) -> Version:
        _progress(progress)
        if not (ntuple is None and storage_options is None):
            raise Invalid("ntuple and storage_options are of files: arrays have the names of their fields, and are here")

        def put(appender: Appender) -> None:
            appender._put(fields)
            if progress is not None:
                progress(_arrays.length(fields[0][1]))

        return self._appended(self.appender(**options), put)

    def _append_all(
        self,
        sources: Sequence[Any],
        ntuple: str | None = None,
        *,
        progress: Callable[[int], Any] | None = None,
        storage_options: _Storage = None,
        **options: Any,
    ) -> Version:
        """Appends all entries of several sources, once it is known that all of them can be."""
        if not sources:
            raise Invalid("nothing is given to be appended: the list is empty")
        _progress(progress)
        opened: dict[int, Ntuple | Tree] = {}

        def source(place: int) -> Ntuple | Tree:
            given = sources[place]
            return opened[place] if place in opened else _source(given, ntuple, storage_options)

        def put(appender: Appender) -> None:
            for place, given in enumerate(sources):
                of = source(place)
                with _about(given):
                    appender._check(of, given)
                if len(opened) < _OPEN_MAX or not isinstance(given, str | os.PathLike):
                    opened[place] = of
            before = 0
            for place, given in enumerate(sources):
                of = source(place)
                with _about(given):
                    before += appender._put_from(of, _told_behind(progress, before))

        return self._appended(self.appender(**options), put)

    def _appended(self, appender: "Appender", put: Callable[["Appender"], None]) -> Version:
        try:
            # One call waits for nobody who adds fields: what is none is told before all is put.
            appender._appender.check()
            put(appender)
            return appender.commit()
        except BaseException:
            # What was put is freed at once; the error that there is says more than one of this.
            with contextlib.suppress(Error):
                appender.discard()
            raise

    def add_column(
        self,
        name: str,
        values: Any,
        *,
        compression: str | None = "zstd:1",
        page_bytes: int = 1 << 18,
        precision: str | None = None,
    ) -> Version:
        """Adds a field with a value for each entry that there is; nothing that is stored is written anew. The new version.

        ``precision`` is that of its floats, see ``Store.create``.

        Raises Exists if there is such a field, Conflict if others have added fields or entries meanwhile.
        """
        kept = None if precision is None else {name: precision}
        return self.add_columns({name: values}, compression=compression, page_bytes=page_bytes, precision=kept)

    def add_columns(
        self,
        data: Any,
        *,
        compression: str | None = "zstd:1",
        page_bytes: int = 1 << 18,
        precision: Mapping[str, str] | None = None,
    ) -> Version:
        """As ``add_column``, several fields at once: a mapping of names to arrays, a table, or an awkward array of records."""
        fields = _arrays.fields_of(data, "no columns are given, and one at least is to be added")
        types = _arrays.types_of(fields)
        adder = self._stored.add_columns(
            types,
            settings=_settings(compression),
            page_bytes=_count("page_bytes", page_bytes, 1, _U32),
            precision=_precision(precision),
        )
        try:
            with self._counting(_arrays.length(fields[0][1])):
                adder.put(fields)
            return Version(adder.commit())
        except BaseException:
            adder.discard()
            raise

    @contextlib.contextmanager
    def _counting(self, count: int) -> Iterator[None]:
        """Has an error about too few or too many values tell the version that has as many entries, as others may have appended since."""
        try:
            yield
        except Invalid as error:
            if "a value is needed for each" in str(error):
                with contextlib.suppress(Error):
                    before = [version.number for version in self.versions() if version.entries == count]
                    if before:
                        _said(error, f"{{}}, as version {before[-1]} has entries: others may have appended since".format)
            raise

    def reshape(
        self,
        *,
        compression: str | None = "zstd:1",
        page_bytes: int = 1 << 18,
        cluster_bytes: int = 128 << 20,
        step_bytes: int = 1 << 30,
        progress: Callable[[int], Any] | None = None,
    ) -> Version:
        """Writes all clusters anew with another compression, other pages or clusters, while others read and append.

        It is done in steps of about ``step_bytes`` before compression, each a version; what was there before stays as long as versions have
        it. ``progress`` is called with the number of entries that are done.
        """
        _progress(progress)
        step_bytes = _count("step_bytes", step_bytes, 1, _U64)
        done, settings, how = 0, _settings(compression), _how(page_bytes, cluster_bytes)
        while True:
            reshaped = self._stored.reshape(done, step_bytes, settings=settings, **how)
            if reshaped is None:
                return self.version()
            done = reshaped[1][1]
            if progress is not None:
                progress(done)

    def pack(self, order: Trace | Sequence[int], *, group_bytes: int | None = None) -> None:
        """Has what is written from now on packed in this order of columns (see ``Ntuple.order``), or in that which follows from a ``Trace``,
        and what is there when it is reshaped. ``group_bytes`` are as for ``Store.create``; None for those that it has.
        """
        packed = self.open().order(order) if isinstance(order, Trace) else _order(order)
        self._stored.pack(packed, _count_or_none("group_bytes", group_bytes, 1, _GROUP))

    def scrub(
        self,
        *,
        version: int | None = None,
        tag: str | None = None,
        repair_from: "_Path | Ntuple | None" = None,
        ntuple: str | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> Scrubbed:
        """Looks at all pages of a version: whether they are there and have the bytes of their checksums; see ``Scrubbed``.

        repair_from
            A file of ROOT with the same pages, by which those that are damaged are put right, or what is open and has them: another version, a
            copy.
        progress
            Called with the number of entries that were looked at.
        """
        when = _when(version, tag, None)[:2]
        if isinstance(repair_from, Ntuple):
            return Scrubbed(self._stored.scrub(*when, reader=repair_from._reader, progress=progress))
        path = None if repair_from is None else os.fspath(repair_from)
        with contextlib.nullcontext() if repair_from is None else _named(repair_from):
            return Scrubbed(self._stored.scrub(*when, path=path, ntuple=ntuple, progress=progress))

    def append_root(
        self,
        path: _Paths,
        ntuple: str | None = None,
        *,
        fill: _Fill = None,
        leave_out: bool = False,
        progress: Callable[[int], Any] | None = None,
        storage_options: _Storage = None,
    ) -> Version:
        """Appends all entries of an ntuple of a file of ROOT, here or at ``s3://bucket/path/file``, with the same fields and columns, its
        pages as they are; or of a tree (TTree), of the branches that are the fields. Of several files, of which a list is given, all are appended
        in one version, or nothing: what they have is looked at before anything is stored.

        ntuple
            The name of the ntuple, or of the tree; None for the only ntuple, or else the only tree.
        fill, leave_out
            As of ``appender``: for files that lack fields, or have others. ``left_out`` of the version tells what was left out of which file.
        progress
            Called with the number of entries, of all files, that are stored.

        Raises Invalid, which names the file and fields that are missing, new or of another type; what is only stored in other columns ``append``
        takes: ``append(open(path).arrays())``.
        """
        paths = [path] if isinstance(path, str | os.PathLike) else list(path)
        return self._append_all(
            paths, ntuple, fill=fill, leave_out=leave_out, progress=progress, storage_options=storage_options
        )


class Appender:
    """Appends to an ntuple of a container. What is put is stored at once and seen with ``commit``, all of it or nothing; others may
    append at the same time, from here or elsewhere. A ``with`` block commits at its end, if anything was put, and gives up with an exception. If
    others add fields meanwhile, the commit raises Invalid, which names them, unless they are filled: see ``Stored.appender``.
    """

    def __init__(
        self, appender: NtupleAppender, stored: Stored, filled: Collection[str] = (), leave_out: bool = False
    ) -> None:
        self._appender = appender
        self._stored = stored
        self._filled = filled
        self._leave_out = leave_out
        self._left_out: dict[str, None] = {}
        self._fields: Mapping[str, Field] = stored.open().fields
        #: Whether these may be fewer than there are, as a commit finds out what others have added.
        self._are_fewer = False
        #: Whether anything was put since the last commit.
        self._has_put = False
        #: Why nothing can be put any more, if so.
        self._ended: Error | None = None

    def __repr__(self) -> str:
        return f"<dolmen.rntuple.Appender {self._stored.name!r}>"

    def put(self, data: Any) -> None:
        """Puts entries: a mapping of names to arrays, a table of Arrow or pandas (whose index is no field), or an awkward array of records.

        Numbers become those of the fields where nothing is lost by that. Flat arrays are written from where they are: nobody may change
        them meanwhile. Raises Invalid for an array that does not fit its field, and for fields that are missing and not filled, or too many.
        """
        if isinstance(data, _SOURCES):
            others = "put_root all entries of a file" if isinstance(data, str | os.PathLike) else "put_ntuple all entries of what is stored or open"
            raise Invalid(f"put takes arrays, and {others}")
        self._put(_arrays.fields_of(data))

    def _check_goes_on(self) -> None:
        """Raises what a commit has raised that none after it does better, or that it was given up."""
        if self._ended is not None:
            raise type(self._ended)(self._ended.strerror)

    def _put(self, fields: list[tuple[str, _arrays.Tree]]) -> None:
        self._check_goes_on()
        if self._are_fewer and any(name not in self._fields for name, _ in fields):
            self._fields, self._are_fewer = self._stored.open().fields, False
        if not self._leave_out:
            _check_names(self._fields, fields, self._filled)
        else:
            more = [(name, tree) for name, tree in fields if name not in self._fields]
            fields = [(name, tree) for name, tree in fields if name in self._fields]
            if more and not fields:
                raise Invalid("none of the fields is one of the ntuple, and entries are not made of what is filled alone")
            told = (f'"{name}" ({_arrays.type_of(tree)}) is no field of the ntuple' for name, tree in more)
            self._left_out.update(dict.fromkeys(told))
        fields = _fitted(self._fields, fields)
        with _fitting(self._fields, fields):
            self._has_put = True
            self._appender.put(fields)

    def put_root(self, path: _Path, ntuple: str | None = None, *, storage_options: _Storage = None) -> None:
        """Puts all entries of an ntuple or a tree of a file of ROOT; see ``Stored.append_root``."""
        source = _source(path, ntuple, storage_options)
        with _about(path):
            self._check(source, path)
            self._put_from(source, None)

    def put_ntuple(self, source: "Ntuple | Stored | Tree") -> None:
        """Puts all entries of an ntuple that is open, wherever it is, or of a Stored, with the same fields and columns, its pages as they are; or of a
        tree.
        """
        if not isinstance(source, Ntuple | Stored | Tree):
            _wanted(source, Ntuple, "what open gives, of a file or of a Stored, or a Stored or Tree")
        of = _source(source, None, None)
        self._check(of, source)
        self._put_from(of, None)

    def _check(self, source: "Ntuple | Tree", given: Any) -> None:
        """Whether it can be put; what is left out of it is told."""
        self._check_goes_on()
        if isinstance(source, Tree):
            left_out = self._appender.check_tree(source._tree)
        else:
            left_out = self._appender.check_ntuple(source._reader)
        name = given.name if isinstance(given, Ntuple | Stored | Tree) else os.fspath(given)
        self._left_out.update((f"{name}: {why}", None) for why in left_out)

    def _put_from(self, source: "Ntuple | Tree", progress: Callable[[int], Any] | None) -> int:
        """Puts all entries; how many."""
        self._has_put = True
        if isinstance(source, Tree):
            self._appender.put_tree(source._tree, progress=progress)
        else:
            self._appender.put_ntuple(source._reader, progress=progress)
        return len(source)

    def commit(self) -> Version:
        """Makes what was put part of the ntuple; the new version.

        Raises Stale if what was put was freed meanwhile, NotFound if the ntuple was destroyed: nothing can be put then, another appender goes on.
        """
        self._check_goes_on()
        try:
            version = Version(self._appender.commit(), self._left_out)
        except (Stale, NotFound) as error:
            if isinstance(error, Stale):
                _said(error, lambda told: f"{told}; begin again with another appender, and all that was put")
            self._ended = error
            raise
        self._left_out, self._has_put, self._are_fewer = {}, False, True
        return version

    def discard(self) -> None:
        """Gives up what was put since the last commit, and ends the appender: another one goes on."""
        self._appender.discard()
        self._has_put = False
        if self._ended is None:
            self._ended = Closed(f"{self._stored.name}: what was put was given up; begin again with another appender")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _value: Any, _trace: Any) -> None:
        if kind is None and self._has_put:
            self.commit()
            return
        try:
            if kind is None and self._ended is None:
                # Nothing new makes no version; what is filled and is no field is told even so.
                self._appender.check()
        finally:
            self.discard()


#: Fields that an error names at most, of each kind.
_TOLD_MAX = 12


def _check_names(known: Mapping[str, Field], fields: list[tuple[str, _arrays.Tree]], filled: Collection[str]) -> None:
    """Raises Invalid for fields that there are not, with those that are missing, in the words that there are for a file with such."""
    more = [(name, _arrays.type_of(tree)) for name, tree in fields if name not in known]
    if not more:
        return
    given = {name for name, _ in fields}
    own = [(name, _arrays.type_in_words(field)) for name, field in known.items() if not field.projected]
    are_all = not any(name in given for name, _ in own)
    missing = [(name, of) for name, of in own if are_all or not (name in given or name in filled)]
    if are_all:
        remedies = "; these are all that it has, and entries are not made of what is filled alone"
    else:
        remedies = "; `fill` gives what is missing a value" if missing else ""
        remedies += "; `leave_out` leaves out what the ntuple has not"
    raise Invalid(_unlike(missing, more) + remedies)


def _unlike(missing: list[tuple[str, str]], more: list[tuple[str, str]]) -> str:
    """How fields are other ones than those of the ntuple: names and types."""
    kinds = [("missing", missing), ("not in the ntuple", more)]
    return "; ".join(["the fields are not those of the ntuple", *(f"{kind}: {_listed(some)}" for kind, some in kinds if some)])


def _listed(fields: list[tuple[str, str]]) -> str:
    others = [f"and {len(fields) - _TOLD_MAX} others"] if len(fields) > _TOLD_MAX else []
    return ", ".join([f'"{name}" ({of})' for name, of in fields[:_TOLD_MAX]] + others)


#: What has entries that can be appended, beside arrays.
_SOURCES = (str, os.PathLike, Ntuple, Stored, Tree)
#: Files at most that stay open between a look at what they have and the reading of their entries; others are opened once more.
_OPEN_MAX = 64


def _about(given: Any) -> contextlib.AbstractContextManager[None]:
    """Has errors tell which source they are about."""
    return _named(given.name if isinstance(given, Ntuple | Stored | Tree) else given)


def _told_behind(progress: Callable[[int], Any] | None, before: int) -> Callable[[int], Any] | None:
    """What is told of progress behind so many entries."""
    return None if progress is None else lambda done: progress(before + done)


def _source(source: "_Path | Ntuple | Stored | Tree", name: str | None, storage_options: _Storage) -> Ntuple | Tree:
    """What is open, or an ntuple or a tree of a file: the only ntuple, or else the only tree, if there is no name."""
    if isinstance(source, Stored):
        return source.open()
    if isinstance(source, Ntuple | Tree):
        return source
    path, storage = os.fspath(source), _storage(storage_options)
    with _named(source):
        names, trees = _ntuples(path, storage), _trees(path, storage)
    if (name in trees and name not in names) or (name is None and trees and not names):
        return Tree(path, name, storage_options=storage_options)
    return open(path, name, storage_options=storage_options)
