"""Files with a position, on those of the extension module, which are read and written at offsets."""

import io
import os
from typing import Any

from dolmen._dolmen import File
from dolmen.errors import Invalid


class RawFile(io.RawIOBase):
    """An open file with a position."""

    def __init__(self, file: File, name: str | os.PathLike[str], mode: str) -> None:
        self._file = file
        self.name = os.fspath(name)
        self.mode = mode
        self._offset = 0
        plain = mode.replace("b", "").replace("t", "")
        self._reads = "r" in plain or "+" in plain
        self._writes = plain != "r"
        self._appends = "a" in plain
        if self._appends:
            self._offset = file.size()

    def readable(self) -> bool:
        return self._reads

    def writable(self) -> bool:
        return self._writes

    def seekable(self) -> bool:
        return True

    @property
    def size(self) -> int:
        """Bytes of the file."""
        self._check(True, "size")
        return self._file.size()

    def readinto(self, buffer: Any) -> int:
        self._check(self._reads, "read")
        count = self._file.read_into(self._offset, buffer)
        self._offset += count
        return count

    def readall(self) -> bytes:
        self._check(self._reads, "read")
        found = self._file.read_at(self._offset, max(0, self._file.size() - self._offset))
        self._offset += len(found)
        return found

    def write(self, data: Any) -> int:
        self._check(self._writes, "write")
        if self._appends:
            start = self._file.append(data)
            count = memoryview(data).nbytes
            self._offset = start + count
        else:
            count = self._file.write_at(self._offset, data)
            self._offset += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check(True, "seek")
        base = {os.SEEK_SET: lambda: 0, os.SEEK_CUR: lambda: self._offset, os.SEEK_END: self._file.size}.get(whence)
        if base is None:
            raise ValueError(f"a file knows no whence of {whence}")
        place = base() + offset
        if place < 0:
            raise ValueError("a position before the beginning of the file")
        self._offset = place
        return place

    def tell(self) -> int:
        self._check(True, "tell")
        return self._offset

    def truncate(self, size: int | None = None) -> int:
        self._check(self._writes, "truncate")
        size = self._offset if size is None else size
        self._file.truncate(size)
        return size

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()

    def _check(self, allowed: bool, what: str) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if not allowed:
            raise io.UnsupportedOperation(what)


def opened(
    file: File,
    name: str | os.PathLike[str],
    mode: str,
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> Any:
    """What the builtin ``open`` returns for these arguments, on a file that is open; called by ``Files.open``."""
    is_text = "b" not in mode
    if not is_text and not (encoding is None and errors is None and newline is None):
        raise Invalid("a file of bytes has neither an encoding nor lines")
    raw = RawFile(file, name, mode)
    if buffering == 0:
        if is_text:
            raise Invalid("a file of text cannot be without a buffer")
        return raw
    # A buffer of less than this asks for more parts of a chunk than it must.
    size = buffering if buffering > 1 else 1 << 20
    buffered: io.BufferedRandom | io.BufferedWriter | io.BufferedReader
    if "+" in mode:
        buffered = io.BufferedRandom(raw, size)
    elif raw.writable():
        buffered = io.BufferedWriter(raw, size)
    else:
        buffered = io.BufferedReader(raw, size)
    if not is_text:
        return buffered
    text = io.TextIOWrapper(buffered, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)
    text.mode = mode  # type: ignore[misc]
    return text
