"""What the tests share: places to keep a pool in, of each kind, and the program `dolmen` of the build."""

import os
import pathlib
import signal
import subprocess
import tempfile

import awkward as ak
import dolmen
import numpy as np
import pytest
from dolmen import rntuple

# Whoever runs the tests may ignore it, as nohup does.
signal.signal(signal.SIGINT, signal.default_int_handler)

PROGRAM = os.environ["DOLMEN"]
#: Of a pool that a test makes: room for its logs and a few hundred MiB.
SIZE = 1 << 29


class Place:
    """A system with one pool, and how it is reached."""

    def __init__(self, kind, directory):
        self.kind = kind
        self.directory = directory
        self.daemon = None
        dolmen.create_pool(directory / "pool", label="stones", size=SIZE, targets=2, memory=64 << 20)
        self.address = f"file:{directory / 'pool'}"
        if kind != "file":
            self.serve()

    def serve(self):
        """Starts a daemon, which says where it is reached."""
        assert os.path.exists(PROGRAM), f"there is no {PROGRAM}: build it with `cargo build -p dolmen-cli`"
        words = [PROGRAM, "serve", str(self.directory)]
        words += ["--tcp", "127.0.0.1:0", "--insecure-tcp"] if self.kind == "tcp" else []
        self.daemon = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        said = self.daemon.stdout.readline()
        assert self.daemon.poll() is None, said
        self.said = said
        self.address = f"{self.system()}/stones"

    def system(self):
        if self.kind == "file":
            return f"file:{self.directory}"
        if self.kind == "unix":
            return f"unix:{self.directory / 'dolmen.sock'}"
        (address,) = [word for word in self.said.replace(",", " ").split() if "tcp://" in word]
        return address[address.index("tcp://") :].strip('"]},')

    def open(self, **options):
        return dolmen.open(self.address, **options)

    def end(self):
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait(timeout=60)
            self.daemon.stdout.close()


@pytest.fixture(params=["file", "unix", "tcp"])
def place(request):
    """A pool of each kind."""
    yield from placed(request.param)


@pytest.fixture
def local():
    """A pool in this process."""
    yield from placed("file")


def placed(kind):
    # The path of a socket has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="dolmen-", dir="/var/tmp") as directory:
        made = Place(kind, pathlib.Path(directory))
        try:
            yield made
        finally:
            made.end()


@pytest.fixture
def pool(place):
    """An open pool of each kind."""
    with place.open() as pool:
        yield pool


@pytest.fixture
def cont(pool):
    """A container of a pool of each kind."""
    return pool.create_container("henge", durability="process")


#: Entries of an ntuple that a test makes.
COUNT = 4000


def events(first=0, count=COUNT):
    """Entries of such an ntuple: flat, nested, and texts."""
    numbers = np.arange(first, first + count)
    return {
        "number": numbers,
        "energy": numbers * 0.5,
        "hits": ak.Array([list(range(number % 4)) for number in numbers]),
        "name": [f"event {number}" for number in numbers],
    }


def same(one, other):
    return ak.to_list(one) == ak.to_list(other)


@pytest.fixture
def file(tmp_path):
    """A file of ROOT with several clusters."""
    path = tmp_path / "events.root"
    rntuple.write_root(path, "events", events(), page_bytes=2000, cluster_bytes=20_000)
    return path
