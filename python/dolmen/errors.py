"""The exceptions of Dolmen: one class for each thing that a caller does differently.

All are an :class:`Error`, which is an ``OSError``: ``errno`` is the system's number, ``der`` the negative number that DAOS has for
the error, ``name`` its name there, such as ``DER_NONEXIST``. Those that Python has a word for are that, too, so that ``except
KeyError`` and ``except FileNotFoundError`` do what one expects of a dict and of a file.
"""

import errno as _errno

__all__ = [
    "Busy",
    "Canceled",
    "Closed",
    "Conflict",
    "Corrupt",
    "Error",
    "Exists",
    "Forked",
    "InDoubt",
    "Invalid",
    "Io",
    "IsDirectory",
    "NoSpace",
    "NotDirectory",
    "NotEmpty",
    "NotFound",
    "Permission",
    "QuotaLimit",
    "ReadOnly",
    "Retryable",
    "Stale",
    "Timeout",
    "Unreachable",
]


class Error(OSError):
    """Whatever a pool, or the way to it, refuses."""

    #: DAOS's number, negative.
    der: int = -1025
    #: DAOS's name of it.
    name: str = "DER_MISC"
    #: The process that has the pool, of Busy, where that is known.
    pid: int | None = None

    def __new__(cls, *args: object) -> "Error":
        # Of a text alone the class tells the numbers.
        if len(args) != 1:
            return super().__new__(cls, *args)
        made = super().__new__(cls, _ERRNO.get(cls.__name__, _errno.EIO), *args)
        made.der = _DER.get(cls.__name__, cls.der)
        made.name = _NAMES.get(made.der, cls.name)
        return made


class Retryable(Error):
    """What may go well if it is done once more from its beginning: Conflict, Busy, Timeout, Unreachable."""


class Invalid(Error, ValueError):
    """The request is wrong, and will be when it is repeated."""


class NotFound(Error, FileNotFoundError, KeyError):
    """There is no such pool, container, key, file or snapshot."""

    __str__ = OSError.__str__


class Exists(Error, FileExistsError):
    """There is one already."""


class Conflict(Retryable):
    """A transaction has met another; nothing of it was written. Begin it anew, or use ``Container.transact``."""


class InDoubt(Error):
    """It is not known whether a transaction is committed: commit it once more to be told."""


class NoSpace(Error):
    """The pool is full; nothing was changed, but by requests before the one that was refused."""


class QuotaLimit(NoSpace):
    """A limit of the container, or of the user in it, is reached; nothing was changed, but by requests before the one that was refused."""


class Io(Error):
    """A device failed."""


class Corrupt(Io):
    """Stored bytes are not what was written, as their checksum tells; nothing of them was returned."""


class ReadOnly(Error):
    """Nothing can be changed: the pool or the files were opened so, or a failed flush made them so."""


class Stale(Error):
    """What the handle or epoch stands for is not there any more: it was taken away, moved, or aggregated."""


class Closed(Error, ValueError):
    """The handle, or its pool, was closed."""


class Forked(Closed):
    """The handle was inherited by a fork: a child process opens the pool anew."""


class Busy(Retryable):
    """Somebody else has it. ``pid`` is the process that has the directory of a pool, where that is known."""


class Timeout(Retryable, TimeoutError):
    """The time that was given is over, before the operation was begun."""


class Canceled(Error):
    """It was called off."""


class Permission(Error, PermissionError):
    """The caller may not do this."""


class NotEmpty(Error):
    """A directory has entries, or holds what is not a pool's."""


class NotDirectory(Error, NotADirectoryError):
    """A part of a path is no directory."""


class IsDirectory(Error, IsADirectoryError):
    """The path is that of a directory."""


class Unreachable(Retryable, ConnectionError):
    """An engine does not answer, or cannot be reached; whether a change was made is not known."""


# Numbers that Python chooses classes of its own by are those of the classes here, so both agree.
_ERRNO = {
    "Invalid": _errno.EINVAL,
    "NotFound": _errno.ENOENT,
    "Exists": _errno.EEXIST,
    "Conflict": _errno.EAGAIN,
    "InDoubt": _errno.EINPROGRESS,
    "NoSpace": _errno.ENOSPC,
    "QuotaLimit": _errno.EDQUOT,
    "Io": _errno.EIO,
    "Corrupt": _errno.EIO,
    "ReadOnly": _errno.EROFS,
    "Stale": _errno.ESTALE,
    "Closed": _errno.EBADF,
    "Forked": _errno.EBADF,
    "Busy": _errno.EBUSY,
    "Timeout": _errno.ETIMEDOUT,
    "Canceled": _errno.ECANCELED,
    "Permission": _errno.EACCES,
    "NotEmpty": _errno.ENOTEMPTY,
    "NotDirectory": _errno.ENOTDIR,
    "IsDirectory": _errno.EISDIR,
    "Unreachable": _errno.EHOSTUNREACH,
}

# DAOS's numbers of what is refused before an engine is asked.
_DER = {
    "Invalid": -1003,
    "NotFound": -1005,
    "Exists": -1004,
    "Corrupt": -2021,
    "Stale": -2007,
    "Closed": -1002,
    "Forked": -1002,
    "Busy": -1012,
    "Timeout": -1011,
    "Canceled": -1018,
    "Permission": -1001,
    "NotDirectory": -1027,
    "Unreachable": -1006,
}

_NAMES = {
    -1001: "DER_NO_PERM",
    -1002: "DER_NO_HDL",
    -1003: "DER_INVAL",
    -1004: "DER_EXIST",
    -1005: "DER_NONEXIST",
    -1006: "DER_UNREACH",
    -1007: "DER_NOSPACE",
    -1011: "DER_TIMEDOUT",
    -1012: "DER_BUSY",
    -1014: "DER_PROTO",
    -1018: "DER_CANCELED",
    -1025: "DER_MISC",
    -1027: "DER_NOTDIR",
    -1046: "DER_QUOTA_LIMIT",
    -2001: "DER_IO",
    -2007: "DER_STALE",
    -2010: "DER_EP_RO",
    -2011: "DER_EP_OLD",
    -2012: "DER_KEY2BIG",
    -2013: "DER_REC2BIG",
    -2018: "DER_INPROGRESS",
    -2021: "DER_CSUM",
    -2022: "DER_DF_INVAL",
    -2023: "DER_DF_INCOMPT",
    -2024: "DER_REC_SIZE",
    -2025: "DER_TX_RESTART",
    -2037: "DER_NOTSUPPORTED",
    -2043: "DER_NO_CERT",
    -2044: "DER_BAD_CERT",
    -2050: "DER_CONT_NONEXIST",
}


def _of_system(error: OSError, path: str) -> Error:
    """What the system says of a file, as an exception of one of these classes."""
    kinds = (kind for kind, number in _ERRNO.items() if number == error.errno)
    kind = next(kinds, "Io")
    made: Error = globals()[kind](error.errno, error.strerror or str(error), path)
    made.der = _DER.get(kind, -2001)
    made.name = _NAMES[made.der]
    return made


def _make(kind: str, der: int, text: str, pid: int | None) -> Error:
    """An exception of one of these classes; called by the extension module."""
    made: Error = globals()[kind](_ERRNO.get(kind, _errno.EIO), text)
    made.der = der
    made.name = _NAMES.get(der, "DER_UNKNOWN")
    made.pid = pid
    return made
