"""What was read of ntuples, by which their columns are packed."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from dolmen._dolmen import parse_trace, trace_text
from dolmen.errors import Invalid, _of_system
from dolmen.rntuple._arrays import utf8

#: Names of fields that were read together, and of how many entries.
Reading = tuple[list[str], int]


class Trace:
    """Which fields were read together, and of how many entries: what ``Ntuple.record`` has seen, or what ``readings`` tell.

    Traces of several ntuples and days are added (``+``) and kept as files. ``Store.import_root(..., order=trace)`` and
    ``Stored.pack(trace)`` place columns by them; names that an ntuple does not have are left out then.
    """

    def __init__(self, readings: Iterable[tuple[Sequence[str], int]] = ()) -> None:
        given = [([names] if isinstance(names, str) else list(names), count) for names, count in readings]
        for names, count in given:
            if not isinstance(count, int) or not 0 <= count < 1 << 64:
                raise Invalid(f"{count!r} is no number of entries that were read of {', '.join(map(str, names))}")
            for name in names:
                utf8("name of a field", name)
        self._readings = parse_trace(trace_text(given))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A trace that was saved; raises Invalid, with the line, for a file of something else."""
        try:
            with open(path, "rb") as file:
                text = file.read()
        except OSError as error:
            raise _of_system(error, os.fspath(path)) from error
        try:
            return cls(parse_trace(text.decode()))
        except UnicodeDecodeError:
            raise Invalid(f"{os.fspath(path)!r}: this is no trace, since it is no text of UTF-8") from None
        except Invalid as error:
            raise Invalid(f"{os.fspath(path)!r}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as text, a line for each set of fields: of how many entries, and their names, with tabs between."""
        part = f"{os.fspath(path)}.{os.urandom(4).hex()}.part"
        try:
            with open(part, "x", encoding="utf-8", newline="\n") as file:
                file.write(trace_text(self._readings))
            os.replace(part, path)
        except BaseException as error:
            if os.path.exists(part):
                os.remove(part)
            if isinstance(error, OSError) and error.errno:
                raise _of_system(OSError(error.errno, os.strerror(error.errno)), os.fspath(path)) from error
            raise

    def __iter__(self) -> Iterator[Reading]:
        return iter(self._readings)

    def __len__(self) -> int:
        return len(self._readings)

    def __add__(self, other: "Trace") -> "Trace":
        return Trace([*self, *other])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self._readings == other._readings

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<dolmen.rntuple.Trace: {len(self)} sets of fields, {sum(count for _, count in self)} entries>"
