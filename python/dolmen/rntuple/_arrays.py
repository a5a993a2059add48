"""Arrays between ntuples and numpy, awkward and Arrow.

Between here and the extension module an array is a tree of tuples with memory at its leaves:
``("values", dtype, memory)``, ``("lists", "items" | "text" | "streamed", offsets, content)``, ``("repeated", count, length, content)``,
``("record", length, [(name, content), ...])``, ``("variant", tags, index, [content, ...])``.
"""

import datetime
import numbers
from collections import UserList, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from dolmen.errors import Invalid

#: An array as the extension module has it.
Tree = tuple[Any, ...]
#: A field, the part of a record that it names, and its array.
Part = tuple[str, "Field", Tree]

_DTYPES = {"?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"}
_OPTIONAL = "std::optional<"
#: How deep the extension module looks into an array.
_DEPTH_MAX = 64
#: What has no values, and what lists have that are all empty, where nothing says what it would be. It is known by being this, and is else as what numpy makes of nothing.
_UNKNOWN: Tree = ("values", "f8", b"")


def _invalid(text: str) -> Invalid:
    return Invalid(text)


def utf8(what: str, text: Any) -> Any:
    """A text as it is; raises Invalid for one that UTF-8 does not have, as that of bytes that are none."""
    try:
        str(text).encode()
    except UnicodeEncodeError:
        raise _invalid(f"{text!r} is no {what}: it has characters that UTF-8 does not have") from None
    return text


def numpy_of(memory: Any, dtype: str) -> np.ndarray[Any, Any]:
    """A numpy array on memory of the extension module; no copy is made."""
    return np.frombuffer(memory, dtype=dtype)


class Field:
    """A field of an ntuple: its ``name``, its ``type`` in C++ (empty if it has none), a ``description`` and its subfields, the ``children``."""

    __slots__ = {
        "children": "Its subfields.",
        "description": "What it is, for people.",
        "name": "Its name, without those above it.",
        "number": "Its number in the ntuple.",
        "projected": "Whether it shows the values of another.",
        "repetition": "How many values each has, of one with a fixed number.",
        "role": "plain, collection, record, variant or streamer.",
        "type": "Its type in C++; empty if it has none.",
    }

    name: str
    type: str
    description: str
    role: str
    repetition: int | None
    children: list["Field"]

    def __init__(self, number: int, described: tuple[Any, ...]) -> None:
        self.number = number
        self.name, self.type, _parent, self.role, self.repetition, source, self.description = described
        self.projected = source is not None
        self.children = []

    def __repr__(self) -> str:
        return f"<dolmen.rntuple.Field {self.name!r}: {self.type or self.role}>"

    def inner(self) -> "Field":
        """The field whose values it has: a plain one with one subfield and nothing of its own stands for that."""
        field = self
        while field.role == "plain" and field.repetition is None and len(field.children) == 1:
            field = field.children[0]
        return field

    def below(self) -> dict[str, "Field"]:
        """Its subfields by the names that they are asked for by: of a collection and an array also those of its items."""
        found = {child.name: child for child in self.children}
        if list(found) == ["_0"] and self.role in ("collection", "plain"):
            return found["_0"].below() | found
        return found

    def having(self, part: "Field") -> "Field":
        """What it has of a field within it; of what has one of each, that field."""
        if self.role != "collection" and self.repetition is None:
            return part
        found = Field(part.number, (self.name, self.type, 0, self.role, self.repetition, None, self.description))
        found.children = [part]
        return found

    @property
    def is_optional(self) -> bool:
        """Whether a value may be missing."""
        return self.role == "collection" and self.type.startswith(_OPTIONAL)


def has_variant(field: Field) -> bool:
    """Whether it, or what is within it, is of one of several types."""
    return field.role == "variant" or any(has_variant(child) for child in field.children)


def field_like(tree: Tree, name: str = "") -> Field:
    """A field that has what a tree of arrays has, for what comes without a schema."""
    roles = {"values": "plain", "repeated": "plain", "record": "record", "variant": "variant"}
    role = roles.get(tree[0]) or ("collection" if tree[1] == "items" else "plain")
    repetition = tree[1] if tree[0] == "repeated" else None
    type_ = _NAMES[tree[1]] if tree[0] == "values" else "std::string" if tree[:2] == ("lists", "text") else ""
    field = Field(0, (name, type_, 0, role, repetition, None, ""))
    if tree[0] == "record":
        field.children = [field_like(part, name) for name, part in tree[2]]
    elif tree[0] == "variant":
        field.children = [field_like(part, f"_{at}") for at, part in enumerate(tree[3])]
    elif tree[0] == "repeated" or role == "collection":
        field.children = [field_like(tree[3], "_0")]
    return field


def type_in_words(field: Field) -> str:
    """The type of a field in C++, or what it is, where it has none."""
    if field.type or field.role == "record":
        return field.type or f"a record of {', '.join(child.name for child in field.children)}"
    kinds = {"collection": "a collection ", "variant": "a variant "}
    return f"{kinds.get(field.role, '')}without a name of its type"


def type_of(tree: Tree) -> str:
    """The type in C++ of what a tree has, in words where it has none."""
    kind = tree[0]
    if tree is _UNKNOWN:
        return "nothing"
    if kind == "values":
        return _NAMES[tree[1]]
    if kind == "lists":
        return f"std::vector<{type_of(tree[3])}>" if tree[1] == "items" else "std::string"
    if kind == "repeated":
        return f"std::array<{type_of(tree[3])},{tree[1]}>"
    if kind == "record":
        return f"a record of {', '.join(name for name, _ in tree[2])}"
    return f"one of {', '.join(type_of(part) for part in tree[3])}"


def _item(field: Field) -> Field | None:
    """The field of what a collection has, or none if several stand for a record."""
    return field.children[0] if len(field.children) == 1 else None


def _parts(field: Field, tree: Tree) -> list[Part]:
    """Subfields of a record, by the names that the tree has."""
    by_name = {child.name: child for child in field.children}
    return [(name, by_name[name], part) for name, part in tree[2]]


def _option_index(offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where the values of optional fields are; -1 of those that are not there."""
    return np.where(np.diff(offsets) > 0, offsets[:-1], -1)


def to_numpy(field: Field, tree: Tree) -> np.ndarray[Any, Any]:
    """A numpy array of a flat field, or of one with the same number of values in each entry."""
    field = field.inner()
    kind = tree[0]
    if kind == "values":
        return numpy_of(tree[2], tree[1])
    if kind == "repeated":
        content = to_numpy(field.children[0] if field.children else field, tree[3])
        return content.reshape((tree[2], tree[1]) + content.shape[1:])
    what = field.type or field.role
    raise _invalid(f"field {field.name!r} ({what}) is not flat: ask for library='ak' or 'pa'")


def to_objects(field: Field, tree: Tree, top: Field | None = None) -> np.ndarray[Any, Any]:
    """A numpy array of a field: of lists and texts one of objects, which are numpy arrays (of lists in lists again of such) and ``str``.

    Raises Invalid, which names ``top``, the field that this one is in, for what has no such.
    """
    top, field = top or field, field.inner()
    if tree[0] == "repeated" and field.children:
        content = to_objects(field.children[0], tree[3], top)
        return content.reshape((tree[2], tree[1]) + content.shape[1:])
    if tree[0] != "lists":
        if tree[0] in ("record", "variant"):
            raise _no_objects(top, "its members by their names ('field.member'), or " if top.inner() is field and tree[0] == "record" else "")
        return to_numpy(field, tree)
    offsets = numpy_of(tree[2], "i8")
    objects = np.empty(len(offsets) - 1, object)
    edges = zip(offsets[:-1].tolist(), offsets[1:].tolist())
    if tree[1] != "items":
        memory = memoryview(tree[3][2]).cast("B")
        parts = [bytes(memory[start:end]) for start, end in edges]
        # What is no text is shown as such.
        objects[:] = parts if tree[1] != "text" else [part.decode("utf-8", "surrogateescape") for part in parts]
        return objects
    item = _item(field)
    if item is None or field.is_optional:
        raise _no_objects(top, "")
    content = to_objects(item, tree[3], top)
    for at, (start, end) in enumerate(edges):
        objects[at] = content[start:end]
    return objects


def _no_objects(field: Field, other: str) -> Invalid:
    return _invalid(f"field {field.name!r} ({field.type or field.role}) is no array of numpy: ask for {other}library='ak' or 'pa'")


def to_awkward(field: Field, tree: Tree) -> Any:
    """The layout of an awkward array."""
    import awkward as ak

    field = field.inner()
    kind = tree[0]
    if kind == "values":
        return ak.contents.NumpyArray(numpy_of(tree[2], tree[1]))
    if kind == "repeated":
        content = to_awkward(field.children[0], tree[3]) if field.children else _bits(tree[3])
        return ak.contents.RegularArray(content, tree[1], zeros_length=tree[2])
    if kind == "record":
        return _awkward_record(_parts(field, tree), tree[1])
    if kind == "variant":
        return _awkward_variant(field, tree)
    offsets = numpy_of(tree[2], "i8")
    if tree[1] != "items":
        inner, outer = ("char", "string") if tree[1] == "text" else ("byte", "bytestring")
        bytes_ = ak.contents.NumpyArray(numpy_of(tree[3][2], "u1"), parameters={"__array__": inner})
        return ak.contents.ListOffsetArray(ak.index.Index64(offsets), bytes_, parameters={"__array__": outer})
    item = _item(field)
    if item is None:
        content = _awkward_record(_parts(field, tree[3]), tree[3][1])
    else:
        content = to_awkward(item, tree[3])
    if field.is_optional:
        return ak.contents.IndexedOptionArray.simplified(ak.index.Index64(_option_index(offsets)), content)
    return ak.contents.ListOffsetArray(ak.index.Index64(offsets), content)


def _bits(tree: Tree) -> Any:
    import awkward as ak

    return ak.contents.NumpyArray(numpy_of(tree[2], tree[1]))


def _awkward_record(parts: list[Part], length: int) -> Any:
    import awkward as ak

    names: list[str] | None = [name for name, _, _ in parts]
    contents = [to_awkward(child, part) for _, child, part in parts]
    if names and names == [f"_{at}" for at in range(len(names))]:
        names = None
    return ak.contents.RecordArray(contents, names, length=length)


def _awkward_variant(field: Field, tree: Tree) -> Any:
    import awkward as ak

    tags, index = numpy_of(tree[1], "i1"), numpy_of(tree[2], "i8")
    contents = [to_awkward(child, part) for child, part in zip(field.children, tree[3])]
    if (tags >= 0).all():
        return _union(tags, index, contents)
    # What has none of the alternatives is missing.
    there = tags >= 0
    if len(contents) == 1:
        content = contents[0]
        return ak.contents.IndexedOptionArray.simplified(ak.index.Index64(np.where(there, index, -1)), content)
    union = _union(tags[there], index[there], contents)
    places = np.where(there, np.cumsum(there) - 1, -1)
    return ak.contents.IndexedOptionArray.simplified(ak.index.Index64(places), union)


def _union(tags: Any, index: Any, contents: list[Any]) -> Any:
    import awkward as ak

    tags, index = ak.index.Index8(tags), ak.index.Index64(index)
    if any(content.is_option or content.is_indexed or content.is_union for content in contents):
        return ak.contents.UnionArray.simplified(tags, index, contents)
    # Numbers of different kinds stay what they are.
    return ak.contents.UnionArray(tags, index, contents)


def has_text(tree: Tree) -> bool:
    """Whether something in it is text."""
    kind = tree[0]
    if kind == "record":
        return any(has_text(part) for _, part in tree[2])
    if kind == "variant":
        return any(has_text(part) for part in tree[3])
    return tree[:2] == ("lists", "text") or (kind in ("lists", "repeated") and has_text(tree[3]))


def as_bytes(tree: Tree) -> Tree:
    """The same with bytes where it has text."""
    kind = tree[0]
    if kind == "record":
        return (*tree[:2], [(name, as_bytes(part)) for name, part in tree[2]])
    if kind == "variant":
        return (*tree[:3], [as_bytes(part) for part in tree[3]])
    if tree[:2] == ("lists", "text"):
        return (kind, "streamed", *tree[2:])
    return (*tree[:3], as_bytes(tree[3])) if kind in ("lists", "repeated") else tree


def has_parquet(kind: Any) -> bool:
    """Whether columns of Parquet are as an Arrow type is: what has one of several types, or no members, has none."""
    import pyarrow.types as pt

    if pt.is_union(kind) or (pt.is_struct(kind) and not kind.num_fields):
        return False
    return all(has_parquet(kind.field(at).type) for at in range(kind.num_fields))


def first_bad(array: Any) -> int | None:
    """The first of an Arrow array that has text that is no UTF-8."""
    import pyarrow as pa

    def is_valid(some: Any) -> bool:
        try:
            some.validate(full=True)
        except pa.ArrowInvalid as error:
            if "UTF8" not in str(error):
                raise
            return False
        return True

    if is_valid(array):
        return None
    first, end = 0, len(array)
    while end - first > 1:
        middle = (first + end) // 2
        # A slice is looked at with all that is beside it, and what is taken alone.
        if is_valid(array.take(pa.array(range(first, middle), pa.int64()))):
            first = middle
        else:
            end = middle
    return first


def to_arrow(field: Field, tree: Tree) -> Any:
    """An Arrow array, whose type the field alone says; offsets are of 64 bits. Whether texts are UTF-8 is not looked at: see ``first_bad``."""
    import pyarrow as pa

    field = field.inner()
    kind = tree[0]
    if kind == "values":
        return _arrow_values(tree)
    if kind == "repeated":
        content = to_arrow(field.children[0], tree[3]) if field.children else _arrow_values(tree[3])
        return pa.FixedSizeListArray.from_arrays(content, tree[1])
    if kind == "record":
        return _arrow_record(_parts(field, tree), tree[1])
    if kind == "variant":
        return _arrow_variant(field, tree)
    offsets = numpy_of(tree[2], "i8")
    if tree[1] != "items":
        buffers = [None, pa.py_buffer(tree[2]), pa.py_buffer(tree[3][2])]
        return pa.Array.from_buffers(pa.large_string() if tree[1] == "text" else pa.large_binary(), len(offsets) - 1, buffers)
    item = _item(field)
    content = _arrow_record(_parts(field, tree[3]), tree[3][1]) if item is None else to_arrow(item, tree[3])
    if field.is_optional:
        index = _option_index(offsets)
        return content.take(pa.array(index, mask=index < 0))
    return pa.LargeListArray.from_arrays(pa.array(offsets), content)


def _arrow_values(tree: Tree) -> Any:
    import pyarrow as pa

    values = numpy_of(tree[2], tree[1])
    if tree[1] == "?":
        return pa.array(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(tree[2])])


def _arrow_record(parts: list[Part], length: int) -> Any:
    import pyarrow as pa

    if not parts:
        return pa.array([{}] * length, type=pa.struct([]))
    return pa.StructArray.from_arrays(
        [to_arrow(child, part) for _, child, part in parts], names=[name for name, _, _ in parts]
    )


def _arrow_variant(field: Field, tree: Tree) -> Any:
    import pyarrow as pa

    tags, index = numpy_of(tree[1], "i1"), numpy_of(tree[2], "i8")
    contents = [to_arrow(child, part) for child, part in zip(field.children, tree[3])]
    names = [child.name for child in field.children]
    if (tags < 0).any():
        # What has none of the alternatives is a null of the first, in its place there, so that the type is the same.
        of_first, tags = tags <= 0, np.where(tags < 0, 0, tags).astype("i1")
        places = index[of_first]
        contents[0] = contents[0].take(pa.array(places, mask=(numpy_of(tree[1], "i1") < 0)[of_first]))
        index = index.copy()
        index[of_first] = np.arange(len(places))
    offsets = pa.array(index.astype("i4"))
    return pa.UnionArray.from_dense(pa.array(tags), offsets, contents, names)


def tree_of(value: Any, what: str) -> Tree:
    """The tree of an array of numpy, awkward or Arrow, of lists, or of anything that numpy makes an array of; ``what`` it is, for errors."""
    package = _package_of(type(value))
    if package == "awkward" and not _is_record(value):
        return _of_awkward(_packed(value), what)
    if package == "pyarrow":
        return _of_arrow(value, what)
    if package == "pandas" and hasattr(value, "isna"):
        return _of_pandas(value, what)
    if isinstance(value, np.ndarray):
        array = _unmasked(value, what)
    elif isinstance(value, list | tuple | deque | UserList):
        return _of_list(list(value), what)
    else:
        try:
            array = np.asarray(value) if not package else np.empty((), object)
        except (ValueError, TypeError, OverflowError) as error:
            raise _invalid(f"{what}: a {type(value).__name__} is no array: {error}") from None
    if array.ndim == 0:
        raise _invalid(f"{what}: a single value ({type(value).__name__}) is no array of entries")
    return _of_numpy(array, what)


def _package_of(kind: type) -> str | None:
    """Which package a type is of whose arrays are taken as they are, or else what it is made of."""
    roots = (base.__module__.partition(".")[0] for base in kind.__mro__)
    return next((root for root in roots if root in ("awkward", "pyarrow", "pandas")), None)


def _is_record(value: Any) -> bool:
    import awkward as ak

    return isinstance(value, ak.Record)


def _unmasked(value: Any, what: str) -> Any:
    """An array without its mask, which must not hide anything."""
    if not isinstance(value, np.ma.MaskedArray):
        return value
    mask = np.ma.getmaskarray(value)
    if any(_parts_of_mask(mask)):
        raise _missing(what, "fill them (filled)")
    return np.ma.getdata(value)


def _parts_of_mask(mask: np.ndarray[Any, Any]) -> Iterator[bool]:
    """Whether anything is hidden, of each part of a record."""
    if mask.dtype.names:
        for name in mask.dtype.names:
            yield from _parts_of_mask(mask[name])
    else:
        yield bool(mask.any())


def _missing(what: str, remedy: str = "fill them", why: str = "") -> Invalid:
    return _invalid(f"{what}: some values are missing{why}; {remedy} or have lists of none or one")


def _of_pandas(value: Any, what: str) -> Tree:
    """Of a column or an index; NaN is a number where the type is one of numbers of numpy, and else a value that is missing."""
    plain = isinstance(getattr(value, "dtype", None), np.dtype) and value.dtype != object
    # Of an index of several levels pandas does not say what is missing: that is in its tuples.
    if not plain and not any(base.__name__ == "MultiIndex" for base in type(value).__mro__) and np.any(value.isna()):
        raise _missing(what, "fill them (fillna)")
    return tree_of(value.to_numpy(), what)


def _of_list(values: list[Any], what: str, has_tuples: bool = False) -> Tree:
    """Of whatever lists have. Tuples are lists where numpy makes one array of all, unless it is said that they stay what they are."""
    try:
        return _of_one_type(_of_values(values, what, cache(lambda: not has_tuples and _is_even(values))), what)
    except RecursionError:
        raise _invalid(f"{what}: its lists are too deep, or have themselves") from None


def _of_one_type(tree: Tree, what: str) -> Tree:
    """The same; raises Invalid where values are of several types."""
    if _has_alternatives(tree):
        # What is a mistake far more often than a field of several types is one only where that is said.
        raise _invalid(
            f"{what}: its values are of several types ({type_of(tree)}); have them of one, or, for a field of type std::variant, give an awkward"
            " array (ak.Array) of them"
        )
    return tree


def _is_even(values: list[Any]) -> bool:
    """Whether lists and tuples are equally long everywhere, and as deep."""
    for _ in range(64):
        types = set(map(type, values))
        deep = {one for one in types if issubclass(one, Sequence | np.ndarray) and not issubclass(one, str | bytes | bytearray)}
        if not deep:
            return True
        has_scalars = deep != types or (np.ndarray in deep and any(isinstance(one, np.ndarray) and one.ndim == 0 for one in values))
        if has_scalars or len(set(map(len, values))) > 1:
            return False
        values = list(chain.from_iterable(values))
    return False


#: What values are, by their types; the first that fits.
_KINDS: tuple[tuple[Any, str], ...] = (
    ((type(None), type(np.ma.masked)), "missing"),
    ((bool, np.bool_), "truth"),
    ((np.datetime64, np.timedelta64), "none"),
    ((int, np.integer), "whole"),
    ((float, np.floating), "float"),
    (str, "text"),
    ((bytes, bytearray), "bytes"),
    (Mapping, "record"),
    (tuple, "tuple"),
    (list, "list"),
    (np.ndarray, "array"),
)


def _kind_of(type_: type) -> str:
    """What values of a type are: "none" if no field has such, "other" what is first to be made something else."""
    if type_.__name__ in ("NAType", "NaTType") and _package_of(type_) == "pandas":
        return "missing"
    found = next((kind for types, kind in _KINDS if issubclass(type_, types)), None)
    if found:
        return found
    is_other = issubclass(type_, Iterable | np.void) or any(hasattr(type_, name) for name in ("__array__", "as_py", "to_list"))
    return "other" if is_other and not issubclass(type_, np.generic) or issubclass(type_, np.void) else "none"


def _of_values(values: list[Any], what: str, tuples_are_lists: Callable[[], bool]) -> Tree:
    """Of values that are in the same place, each of which is looked at alike, wherever that is: it is the values that say of what type they are,
    and none of them becomes another by that. Where they are of several, the tree says of which, and has nothing else.
    """
    if not values:
        return _UNKNOWN
    kinds = {type_: _kind_of(type_) for type_ in dict.fromkeys(map(type, values))}
    if "array" in kinds.values():
        values = [_unmasked(one, what) if kinds[type(one)] == "array" else one for one in values]
        if len(set(kinds.values())) == 1 and (tree := _of_array_list(values, what)):
            return tree
    if {"array", "other"} & set(kinds.values()):
        plain = [_plain(one, what) if kinds[type(one)] in ("array", "other") else one for one in values]
        return _of_values(plain, what, tuples_are_lists)
    found = dict.fromkeys(kinds.values())
    if "missing" in found:
        raise _missing(what)
    if "none" in found:
        raise _no_such(next(type_ for type_, kind in kinds.items() if kind == "none"), what)
    if "text" in found and "bytes" in found:
        raise _invalid(f"{what}: texts and bytes are mixed in it; have one of them: .encode() makes bytes of a text, .decode() a text of bytes")
    if "tuple" in found and tuples_are_lists():
        found = {"list": None}
    if found.keys() <= {"whole", "float"}:
        return _of_numpy(_numbers(values, "float" in found, what), what)
    if len(found) == 1:
        return _of_kind(next(iter(found)), values, what, tuples_are_lists)
    apart: dict[str, list[Any]] = {}
    for one in values:
        kind = kinds[type(one)]
        apart.setdefault("number" if kind in ("whole", "float") else kind, []).append(one)
    return ("variant", b"", b"", [_of_values(some, what, tuples_are_lists) for some in apart.values()])


def _of_kind(kind: str, values: list[Any], what: str, tuples_are_lists: Callable[[], bool]) -> Tree:
    """Of values of one kind that is none of numbers."""
    if kind == "truth":
        return _of_numpy(np.asarray(values, bool), what)
    if kind == "text":
        return _of_encoded(values, what)
    if kind == "bytes":
        return ("lists", "items", *_of_texts(values)[2:])
    if kind == "list":
        content = _of_values(list(chain.from_iterable(values)), what, tuples_are_lists)
        return ("lists", "items", _offsets(values), content)
    if kind == "tuple":
        if len(set(map(len, values))) > 1:
            raise _invalid(f"{what}: its tuples have not all as many members; give lists")
        members = [(f"_{at}", at) for at in range(len(values[0]))]
    else:
        members = _members(values, what)
    parts = []
    for name, key in members:
        of = f"{what} ({name!r} of its records)"
        parts.append((name, _of_one_type(_of_values([one[key] for one in values], of, lambda: False), of)))
    return ("record", len(values), parts)


def _members(values: list[Mapping[Any, Any]], what: str) -> list[tuple[str, Any]]:
    """Names and keys of what records have, all of them."""
    keys = values[0].keys()
    for one in values:
        if one.keys() != keys:
            name = next(key for key in [*keys, *one] if key not in keys or key not in one)
            raise _missing(what, why=f" (not all of its records have {name!r})")
    for key in keys:
        if not isinstance(key, str):
            raise _invalid(f"{what}: members of records have names, which are texts, and not {key!r}")
    return [(utf8("name of a field", key), key) for key in keys]


def _offsets(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Where each of some lists begins, if they are one behind the other, and where the last ends."""
    offsets = np.zeros(len(values) + 1, "i8")
    np.cumsum(np.fromiter(map(len, values), "i8", len(values)), out=offsets[1:])
    return offsets


def _rounded(what: str) -> Invalid:
    return _invalid(f"{what}: no type holds all of its whole numbers; some would be rounded")


def _numbers(values: list[Any], has_floats: bool, what: str) -> np.ndarray[Any, Any]:
    """What numpy makes of numbers, none of which becomes another; of whole numbers that need it such of 64 bits without a sign."""
    array = np.asarray(values)
    if array.dtype.kind in ("f" if has_floats else "iu"):
        # Of floats shorter than 64 bits numpy makes whole numbers only that they hold; what is rounded is no less than the first that may be.
        if not has_floats or array.dtype.itemsize < 8 or not (np.abs(array) >= 2**53).any():
            return array
    whole = [int(one) for one in values if isinstance(one, int | np.integer)]
    if has_floats:
        if any(abs(one) > 2**64 or int(float(one)) != one for one in whole):
            raise _rounded(what)
        return np.asarray(values, "f8") if array.dtype == object else array
    low, high = min(whole), max(whole)
    if low < -(2**63) or high >= 2**64:
        raise _invalid(f"{what}: some of its whole numbers fit no type of 64 bits")
    if low < 0 and high >= 2**63:
        raise _rounded(what)
    return np.asarray(whole, "i8" if high < 2**63 else "u8")


def _of_array_list(arrays: list[np.ndarray[Any, Any]], what: str) -> Tree | None:
    """Of arrays of numpy, if all are of numbers or all of the same records; none if they are to be looked at one value after the other."""
    dtypes = {one.dtype for one in arrays}
    if any(one.ndim == 0 for one in arrays) or len({one.shape[1:] for one in arrays}) > 1:
        return None
    if len(dtypes) > 1:
        # What has no values says nothing about them.
        dtypes = {one.dtype for one in arrays if one.size}
        if not dtypes or (len(dtypes) > 1 and any(dtype.kind not in "iuf" for dtype in dtypes)):
            return None
    if any(dtype.kind not in "biuf" and not dtype.names for dtype in dtypes):
        return None
    offsets = _offsets(arrays)
    if len(dtypes) > 1:
        arrays = _of_one_dtype([one for one in arrays if one.size], dtypes, what)
    elif any(one.size for one in arrays):
        arrays = [one for one in arrays if one.size]
    return ("lists", "items", offsets, _of_numpy(np.concatenate(arrays), what))


def _of_one_dtype(arrays: list[Any], dtypes: set[Any], what: str) -> list[Any]:
    """Arrays of numbers of several types as numpy puts them together, or as such of one type where that would round some."""
    wanted = np.result_type(*dtypes)
    if wanted.kind in "iu" or all(dtype.kind == "f" for dtype in dtypes):
        return arrays
    if wanted.kind == "f" and all(dtype.kind in "iu" for dtype in dtypes):
        wanted = np.dtype("i8" if any(one.min() < 0 for one in arrays) else "u8")
    made = [_kept(one, f"{wanted.kind}{wanted.itemsize}") for one in arrays]
    if any(one is None for one in made):
        raise _rounded(what)
    return made


def _plain(one: Any, what: str) -> Any:
    """What has values as lists, records and numbers, or as an array of numpy."""
    if isinstance(one, np.ndarray):
        if one.ndim == 0:
            return one[()]
        # Dates would be whole numbers.
        return list(one) if one.dtype.kind in "mMV" else one.tolist()
    if isinstance(one, np.void) and one.dtype.names:
        return {name: one[name] for name in one.dtype.names}
    if hasattr(one, "as_py"):
        return one.as_py()
    package = _package_of(type(one))
    if package == "awkward" and hasattr(one, "to_list"):
        return np.asarray(one) if not _is_record(one) and one.layout.is_numpy else one.to_list()
    if package == "pyarrow" and hasattr(one, "to_pylist"):
        array = np.asarray(one) if getattr(one, "null_count", 1) == 0 else None
        return array if array is not None and array.dtype.kind in "biuf" else one.to_pylist()
    if isinstance(one, memoryview):
        return np.asarray(one)
    if hasattr(one, "__array__") and not isinstance(one, np.void):
        array = np.asarray(one)
        if array.ndim or array.dtype != object:
            return array
    elif isinstance(one, Iterable) and not isinstance(one, np.void):
        return list(one)
    raise _no_such(type(one), what)


def _no_such(type_: type, what: str) -> Invalid:
    """Of values of a type that no field has, with what they may be instead."""
    remedy = ""
    if issubclass(type_, complex | np.complexfloating):
        remedy = "; have their real and imaginary parts"
    elif issubclass(type_, datetime.date | datetime.time | datetime.timedelta | np.datetime64 | np.timedelta64):
        remedy = "; have numbers, as of seconds"
    elif issubclass(type_, numbers.Number):
        remedy = "; have whole numbers, or floats (float), which are rounded"
    return _invalid(f"{what}: no field has values of {type_.__name__}{remedy}")


def _has_alternatives(tree: Tree) -> bool:
    """Whether something in it is of one of several types."""
    if tree[0] == "record":
        return any(_has_alternatives(part) for _, part in tree[2])
    return tree[0] == "variant" or (tree[0] in ("lists", "repeated") and _has_alternatives(tree[3]))


def _of_text_array(array: np.ndarray[Any, Any], what: str) -> Tree:
    if array.ndim > 1:
        count = array.shape[1]
        flat = array.reshape((len(array) * count,) + array.shape[2:])
        return ("repeated", count, len(array), _of_text_array(flat, what))
    texts = array.tolist()
    if not all(issubclass(type_, str) for type_ in set(map(type, texts))):
        raise _missing(what)
    return _of_encoded(texts, what)


def _of_encoded(texts: list[str], what: str) -> Tree:
    try:
        return _of_texts([text.encode() for text in texts])
    except UnicodeEncodeError:
        raise _invalid(f"{what}: some of its texts have characters that UTF-8 does not have") from None


def _of_texts(encoded: Sequence[bytes]) -> Tree:
    offsets = np.zeros(len(encoded) + 1, "i8")
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return ("lists", "text", offsets, ("values", "u1", b"".join(encoded)))


def _of_numpy(array: np.ndarray[Any, Any], what: str) -> Tree:
    if array.ndim == 0:
        raise _invalid(f"{what}: a single value is no array of entries")
    if array.dtype.names:
        fields = [(utf8("name of a field", name), _of_numpy(array[name], what)) for name in array.dtype.names]
        return ("record", len(array), fields)
    is_object = array.dtype == object
    if array.dtype.kind in "UT" or (is_object and array.ndim > 1 and array.size and all(isinstance(one, str) for one in array.ravel())):
        return _of_text_array(array, what)
    if is_object or array.dtype.kind == "S":
        return _of_list(array.tolist(), what, has_tuples=True)
    if array.ndim > 1:
        count = array.shape[1]
        flat = np.ascontiguousarray(array).reshape((len(array) * count,) + array.shape[2:])
        return ("repeated", count, len(array), _of_numpy(flat, what))
    if array.dtype.kind == "f" and array.dtype.itemsize == 2:
        # No field has such, and one of floats has their values as they are.
        array = array.astype("f4")
    native = array.dtype.newbyteorder("=")
    code = "?" if native == np.bool_ else f"{native.kind}{native.itemsize}"
    if code not in _DTYPES:
        raise _invalid(f"{what}: no field has values of {array.dtype}")
    return ("values", code, np.ascontiguousarray(array, dtype=native.newbyteorder("<")))


def _packed(array: Any) -> Any:
    import awkward as ak

    return ak.to_layout(ak.to_packed(array))


def _of_awkward(layout: Any, what: str) -> Tree:
    import awkward as ak

    if layout.is_numpy:
        return _of_numpy(np.asarray(layout.data), what)
    if layout.is_list:
        parameter = layout.parameter("__array__")
        if layout.is_regular and parameter is None:
            return ("repeated", layout.size, len(layout), _of_awkward(layout.content[: layout.size * len(layout)], what))
        layout = layout.to_ListOffsetArray64(True)
        offsets = np.asarray(layout.offsets.data)
        content = layout.content[: offsets[-1]]
        of = "text" if parameter == "string" else "items"
        return ("lists", of, offsets, _of_awkward(content, what))
    if layout.is_record:
        names = layout.fields if not layout.is_tuple else [f"_{at}" for at in range(len(layout.contents))]
        contents = [content[: len(layout)] for content in layout.contents]
        parts = [(name, _of_awkward(content, what)) for name, content in zip(names, contents)]
        return ("record", len(layout), parts)
    if layout.is_union:
        return _of_union(layout, what)
    if layout.is_indexed and not layout.is_option:
        return _of_awkward(layout.project(), what)
    if layout.is_option:
        if not np.asarray(ak.is_none(ak.Array(layout))).any():
            return _of_awkward(layout.project(), what)
        raise _missing(what, "fill them (ak.fill_none)")
    if layout.is_unknown:
        return _UNKNOWN
    raise _invalid(f"{what}: no field has values of {layout.form.type}")


def _of_union(layout: Any, what: str) -> Tree:
    tags = np.asarray(layout.tags.data)
    index = np.asarray(layout.index.data)[: len(tags)]
    # Values of each alternative one behind the other, in the order of the entries.
    places = np.empty(len(tags), "i8")
    contents = []
    for at, content in enumerate(layout.contents):
        of_this = tags == at
        places[of_this] = np.arange(np.count_nonzero(of_this))
        contents.append(_of_awkward(_packed_layout(content, index[of_this]), what))
    return ("variant", np.ascontiguousarray(tags, "i1"), places, contents)


def _packed_layout(content: Any, index: Any) -> Any:
    import awkward as ak

    return ak.to_layout(ak.to_packed(ak.Array(content)[index]))


def _of_arrow(value: Any, what: str) -> Tree:
    import pyarrow as pa
    import pyarrow.types as pt

    if not isinstance(value, pa.Array | pa.ChunkedArray):
        raise _invalid(f"{what}: a {type(value).__name__} is no array")
    array = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    kind = array.type
    if array.null_count:
        raise _missing(what, "fill them (fill_null)")
    if pt.is_null(kind):
        return _UNKNOWN
    if pt.is_dictionary(kind):
        return _of_arrow(array.dictionary_decode(), what)
    if pt.is_boolean(kind) or pt.is_integer(kind) or pt.is_floating(kind):
        return _of_numpy(array.to_numpy(zero_copy_only=False), what)
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_binary(kind) or pt.is_large_binary(kind):
        if pt.is_binary(kind) or pt.is_large_binary(kind):
            bytes_ = array.cast(pa.large_binary())
        else:
            bytes_ = array.cast(pa.large_string()).cast(pa.large_binary())
        return _of_texts([one.as_py() for one in bytes_])
    if pt.is_list(kind) or pt.is_large_list(kind):
        offsets = array.offsets.to_numpy().astype("i8")
        return ("lists", "items", offsets - offsets[0], _of_arrow(array.flatten(), what))
    if pt.is_fixed_size_list(kind):
        return ("repeated", kind.list_size, len(array), _of_arrow(array.flatten(), what))
    if pt.is_struct(kind):
        parts = [(kind.field(at).name, _of_arrow(part, what)) for at, part in enumerate(array.flatten())]
        return ("record", len(array), parts)
    raise _invalid(f"{what}: no field has values of Arrow's {kind}")


def types_of(fields: list[tuple[str, Tree]]) -> list[tuple[str, Tree]]:
    """Fields without values, for a schema; raises Invalid where a type is not known."""
    for name, tree in fields:
        if tree is _UNKNOWN:
            raise _invalid(
                f"field {name!r}: it has no values, so that nothing says of what type they would be; give the type, as in np.array([], 'f8'),"
                " pa.array([], pa.string()) or ak.enforce_type(ak.Array([]), 'string')"
            )
    return [(name, _emptied(tree, f"field {name!r}")) for name, tree in fields]


def _emptied(tree: Tree, what: str) -> Tree:
    """A tree of the same types without values; raises Invalid where a type is not known. ``what`` it is, for errors."""
    kind = tree[0]
    if tree is _UNKNOWN:
        raise _invalid(
            f"{what}: its lists are empty, so that nothing says what they would have; give the type, as in"
            " pa.array(lists, pa.list_(pa.string())) or ak.enforce_type(ak.Array(lists), 'var * string')"
        )
    if kind == "values":
        return (kind, tree[1], b"")
    if kind == "lists":
        return (kind, tree[1], np.zeros(1, "i8"), _emptied(tree[3], what))
    if kind == "repeated":
        if tree[1] == 0:
            raise _invalid(
                f"{what}: its arrays have no elements in each entry ({type_of(tree)}), which neither Arrow nor uproot reads; leave it out, or give"
                " lists, as by ak.from_regular(ak.Array(arrays), axis=None)"
            )
        return (kind, tree[1], 0, _emptied(tree[3], what))
    if kind == "record":
        return (kind, 0, [(name, _emptied(part, what)) for name, part in tree[2]])
    return (kind, b"", b"", [_emptied(part, what) for part in tree[3]])


def blocks(fields: list[tuple[str, Tree]], block_bytes: int) -> Iterator[list[tuple[str, Tree]]]:
    """The same entries in blocks of about so many bytes, if all fields are flat arrays of numpy; else all at once."""
    arrays = [(name, tree[1], tree[2]) for name, tree in fields if tree[0] == "values"]
    lengths = {len(array) for _, _, array in arrays if isinstance(array, np.ndarray)}
    if len(arrays) < len(fields) or len(lengths) != 1 or not all(isinstance(one, np.ndarray) for _, _, one in arrays):
        yield fields
        return
    (count,) = lengths
    step = max(1, block_bytes // max(1, sum(array.itemsize for _, _, array in arrays)))
    for first in range(0, max(count, 1), step):
        yield [(name, ("values", dtype, array[first : first + step])) for name, dtype, array in arrays]


#: What values of a type in C++ are for numpy.
_TYPES = {
    "bool": "?",
    "char": "i1",
    "std::byte": "u1",
    "float": "f4",
    "double": "f8",
    **{f"std::int{bits}_t": f"i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"std::uint{bits}_t": f"u{bits // 8}" for bits in (8, 16, 32, 64)},
}
#: The type in C++ of values of numpy.
_NAMES = {code: name for name, code in _TYPES.items() if name not in ("char", "std::byte")}


def _kept(array: np.ndarray[Any, Any], wanted: str) -> np.ndarray[Any, Any] | None:
    """Values as another type has them; none if one of them would be another number then."""
    if array.size == 0 or np.can_cast(array.dtype, wanted, "safe"):
        made = array.astype(wanted)
        if array.dtype.kind not in "iu" or made.dtype.kind != "f":
            return made
    elif array.dtype.kind == "f" and wanted[0] == "f":
        with np.errstate(over="ignore"):
            made = array.astype(wanted)
        return made if ((made == array) | np.isnan(array)).all() else None
    elif array.dtype.kind not in "iu" or wanted == "?":
        return None
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if wanted[0] in "iu":
        held = np.iinfo(wanted)
        return array.astype(wanted) if held.min <= low and high <= held.max else None
    made = array.astype(wanted)
    if max(-low, high) <= 2 ** (np.finfo(wanted).nmant + 1):
        return made
    # What is rounded up may be too large to be compared as what it was.
    fits = made < 2.0 ** (8 * array.itemsize - (array.dtype.kind == "i"))
    return made if fits.all() and (made.astype(array.dtype) == array).all() else None


def fitted(field: Field, tree: Tree, what: str) -> Tree:
    """A tree whose values are of the field's types, if nothing is lost by that: raises Invalid else. What is of another shape stays, and is
    refused by who writes it.
    """
    field = field.inner()
    kind = tree[0]
    if tree is _UNKNOWN:
        return _nothing(field)
    if kind == "values":
        wanted = _TYPES.get(field.type)
        if not wanted or wanted == tree[1]:
            return tree
        array = numpy_of(tree[2], tree[1])
        made = _kept(array, wanted)
        if made is None:
            why = f"it has values of {array.dtype} that {field.type}, the type of the field, does not hold as they are"
            if array.dtype.kind == "f" and wanted[0] != "?":
                rounds = "rounds them" if wanted[0] == "f" else "cuts them to whole numbers, and such alone are taken"
                why += f"; .astype('{wanted}') {rounds}"
            raise _invalid(f"{what}: {why}")
        return ("values", wanted, made)
    if kind == "repeated" and field.role == "collection" and not field.is_optional:
        # Lists that happen to be of one length.
        tree = ("lists", "items", np.arange(tree[2] + 1, dtype="i8") * tree[1], tree[3])
    elif kind == "lists" and tree[1] == "items" and field.repetition is not None:
        offsets = numpy_of(tree[2], "i8")
        if (np.diff(offsets) == field.repetition).all() and field.children:
            tree = ("repeated", field.repetition, len(offsets) - 1, tree[3])
    kind = tree[0]
    if kind == "lists" and tree[1] == "items":
        item = _item(field)
        if item or tree[3] is _UNKNOWN:
            return (*tree[:3], fitted(item, tree[3], what) if item else _no_record(field))
        return tree
    if kind == "repeated" and field.children:
        return (*tree[:3], fitted(field.children[0], tree[3], what))
    if kind == "record":
        children = {child.name: child for child in field.children}
        parts = [(name, fitted(children[name], part, what) if name in children else part) for name, part in tree[2]]
        return ("record", tree[1], parts)
    if kind == "variant" and len(tree[3]) == len(field.children):
        return (*tree[:3], [fitted(child, part, what) for child, part in zip(field.children, tree[3])])
    return tree


def _nothing(field: Field) -> Tree:
    """No value of a field."""
    field = field.inner()
    if field.repetition is not None:
        content = _nothing(field.children[0]) if field.children else ("values", "?", b"")
        return ("repeated", field.repetition, 0, content)
    if field.role == "record":
        return _no_record(field)
    if field.role == "variant":
        return ("variant", b"", b"", [_nothing(child) for child in field.children])
    if field.role == "collection":
        item = _item(field)
        return ("lists", "items", np.zeros(1, "i8"), _nothing(item) if item else _no_record(field))
    if field.role == "streamer" or field.type == "std::string":
        of = "streamed" if field.role == "streamer" else "text"
        return ("lists", of, np.zeros(1, "i8"), ("values", "u1", b""))
    return ("values", _TYPES.get(field.type, "f8"), b"")


def _no_record(field: Field) -> Tree:
    return ("record", 0, [(child.name, _nothing(child)) for child in field.children])


#: What the fields of an ntuple are made of.
_TAKEN = (
    "give a mapping of names to arrays, a table or batch of Arrow, a table of pandas, a structured array of numpy, or an awkward array of"
    " records"
)


def fields_of(
    data: Any, none: str = "the data have no fields, and entries are made of values of fields"
) -> list[tuple[str, Tree]]:
    """Names and trees of fields: of a mapping, a table of Arrow or pandas, whose index is none of them, or an awkward array of records. All have
    as many entries. Raises Invalid, which says ``none`` where there are none.
    """
    fields = [(utf8("name of a field", name), tree_of(value, f"field {name!r}")) for name, value in _columns_of(data)]
    if not fields:
        raise _invalid(none)
    for name, tree in fields:
        if _depth(tree) > _DEPTH_MAX:
            raise _invalid(f"field {name!r}: its lists and records are more than {_DEPTH_MAX} deep")
    for name, tree in fields[1:]:
        if length(tree) != length(fields[0][1]):
            first, count = fields[0][0], length(fields[0][1])
            raise _invalid(f"field {name!r} has {length(tree)} entries where field {first!r} has {count}")
    return fields


def _name(name: Any) -> str:
    """The name of a field: text, or the number that pandas gives a column without one."""
    if isinstance(name, str) or (isinstance(name, int | np.integer) and not isinstance(name, bool)):
        return str(name)
    raise _invalid(f"the name of a field is text, and not {name!r} ({type(name).__name__})")


def _depth(tree: Tree) -> int:
    """How many lists, arrays and records are around what is deepest in it."""
    if tree[0] == "values":
        return 0
    if tree[0] == "record":
        return 1 + max((_depth(part) for _, part in tree[2]), default=0)
    return 1 + max(map(_depth, tree[3] if tree[0] == "variant" else [tree[3]]))


def _columns_of(data: Any) -> list[tuple[str, Any]]:
    kind = type(data).__name__
    module = _package_of(type(data))
    if module == "awkward":
        if _is_record(data) or not data.fields:
            raise _invalid("an array of records is needed: its fields are those of the ntuple")
        return [(name, data[name]) for name in data.fields]
    if module == "pyarrow":
        if kind == "RecordBatchReader":
            raise _invalid(f"a {kind} has one batch after the other: give each of them, or read_all()")
        if not hasattr(data, "schema") or not hasattr(data, "columns"):
            raise _invalid(f"a {kind} has no fields: {_TAKEN}")
        return list(zip(data.schema.names, data.columns))
    if isinstance(data, np.ndarray) and data.dtype.names:
        return [(name, data[name]) for name in data.dtype.names]
    if isinstance(data, Mapping) or (hasattr(data, "items") and hasattr(data, "keys") and kind != "Series"):
        return [(_name(name), value) for name, value in data.items()]
    if isinstance(data, list | tuple) and all(isinstance(one, tuple) and len(one) == 2 for one in data):
        return [(_name(name), value) for name, value in dict(data).items()]
    raise _invalid(f"{kind} has no fields: {_TAKEN}")


def length(tree: Tree) -> int:
    """How many entries a tree has."""
    if tree[0] == "values":
        return len(numpy_of(tree[2], tree[1]))
    if tree[0] == "lists":
        return len(tree[2]) - 1
    if tree[0] == "variant":
        return len(tree[1])
    return int(tree[2] if tree[0] == "repeated" else tree[1])


#: Comparisons that a filter may have.
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def holds(op: str, array: np.ndarray[Any, Any], value: Any) -> np.ndarray[Any, Any]:
    """For which numbers of an array a comparison with a number holds, neither of them rounded, as pages are left out by it."""
    value = value.item() if isinstance(value, np.generic) else value
    near: Any
    if array.dtype.kind == "f":
        array, near = array.astype("f8", copy=False), _float(value)
        if near == value or near != near:
            return _array(COMPARE[op](array, near))
    else:
        array, near = array.view("u1") if array.dtype.kind == "b" else array, _whole(value)
        low, high = (int(bound) for bound in (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max))
        if near is None:
            return np.full(array.shape, op == "!=")
        if near == value and low <= near <= high:
            return _array(COMPARE[op](array, array.dtype.type(near)))
        if not low <= near <= high:
            # All of the numbers are on one side of it.
            return np.full(array.shape, COMPARE[op](0, 1 if near > high else -1))
        near = array.dtype.type(near)
    # The number itself is none that the array could have: all is below or above it.
    if op in ("==", "!="):
        return np.full(array.shape, op == "!=")
    is_above = near > value
    if op in ("<", "<="):
        return _array(array < near if is_above else array <= near)
    return _array(array >= near if is_above else array > near)


def _array(found: Any) -> np.ndarray[Any, Any]:
    return np.asarray(found, bool)


def _float(value: Any) -> float:
    """The float next to a number."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _whole(value: Any) -> int | None:
    """A whole number next to a number, below it; one that is beyond all for infinity, None for what is none."""
    if value != value:
        return None
    if value in (float("inf"), float("-inf")):
        return 1 << 70 if value > 0 else -(1 << 70)
    return int(value // 1)
