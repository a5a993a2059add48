"""Dolmen from Python: pools, containers, objects, key-value stores, arrays, files, transactions, snapshots.

    import dolmen

    dolmen.create_pool("stones", size=1 << 28)
    with dolmen.open("file:stones") as pool:
        cont = pool.create_container("henge")
        kv = cont.create_kv()
        kv["menhir"] = b"upright"

``docs/python.md`` in the repository is the guide. ``dolmen.aio`` has the same as coroutines, ``dolmen.fsspec`` makes files
available to pandas, pyarrow, dask and zarr under ``dolmen://``, ``dolmen.errors`` has all exceptions, which are here, too.

Every handle may be used by any number of threads at once, and no call keeps the interpreter from running others. A process that was
forked gets ``Forked`` from the handles that it inherits, and opens the pool anew. An interrupt from the keyboard is raised when the
operation that is under way has ended: no operation is done by half.
"""

from dolmen.errors import (
    Busy,
    Canceled,
    Closed,
    Conflict,
    Corrupt,
    Error,
    Exists,
    Forked,
    InDoubt,
    Invalid,
    Io,
    IsDirectory,
    NoSpace,
    NotDirectory,
    NotEmpty,
    NotFound,
    Permission,
    QuotaLimit,
    ReadOnly,
    Retryable,
    Stale,
    Timeout,
    Unreachable,
)

# isort: split
from dolmen._dolmen import (
    Array,
    Buffer,
    Container,
    File,
    Files,
    Kv,
    Object,
    Oid,
    Pool,
    Stat,
    Transaction,
    __version__,
    create_pool,
    destroy_pool,
    list_pools,
    open,
)

__all__ = [
    "Array",
    "Buffer",
    "Busy",
    "Canceled",
    "Closed",
    "Conflict",
    "Container",
    "Corrupt",
    "Error",
    "Exists",
    "File",
    "Files",
    "Forked",
    "InDoubt",
    "Invalid",
    "Io",
    "IsDirectory",
    "Kv",
    "NoSpace",
    "NotDirectory",
    "NotEmpty",
    "NotFound",
    "Object",
    "Oid",
    "Permission",
    "Pool",
    "QuotaLimit",
    "ReadOnly",
    "Retryable",
    "Stale",
    "Stat",
    "Timeout",
    "Transaction",
    "Unreachable",
    "create_pool",
    "destroy_pool",
    "list_pools",
    "open",
]
