"""What ends operations on ntuples before they are done: exceptions of functions that are told of progress, and signals."""

import contextlib
import itertools
import os
import signal
import socket
import sys
import threading

import dolmen
import pytest
import uproot
from conftest import COUNT, events, same
from dolmen import rntuple
from dolmen._dolmen import NtupleReader, NtupleTree, NtupleWriter
from dolmen.rntuple import _arrays


@pytest.fixture
def store(local):
    with local.open() as pool:
        yield rntuple.Store(pool.create_container("henge", durability="process"))


@pytest.fixture
def tree(tmp_path):
    """A file with a tree of the same entries."""
    path = tmp_path / "tree.root"
    with uproot.recreate(path) as made:
        data = events()
        made.mktree("events", {"number": "int64", "energy": "float64", "hits": "var * int64"})
        for first in range(0, COUNT, 500):
            some = slice(first, first + 500)
            made["events"].extend({name: data[name][some] for name in ("number", "energy", "hits")})
    return path


class Told(Exception):
    """What a function raises that is told of progress."""


def raises(kind):
    """Such a function, which raises when it is told for the second time."""
    told = []

    def tell(entries):
        told.append(entries)
        if len(told) == 2:
            raise kind(entries)

    return tell


@pytest.mark.parametrize("kind", [Told, KeyboardInterrupt, SystemExit])
def test_what_is_raised_by_who_is_told_of_progress_ends_it_and_nothing_stays(store, file, tree, tmp_path, kind, capfd):
    out = tmp_path / "out.root"
    out.write_bytes(b"before")
    files = sorted(os.listdir(tmp_path))
    for begin in (
        lambda tell: store.import_root(file, progress=tell),
        lambda tell: store.import_ntuple(rntuple.open(file), progress=tell),
        lambda tell: store.import_tree(tree, cluster_bytes=20_000, progress=tell),
        lambda tell: rntuple.open(file).export_root(out, progress=tell),
    ):
        with pytest.raises(kind) as raised:
            begin(raises(kind))
        assert raised.value.args[0] > 0
        assert store.names() == [] and out.read_bytes() == b"before" and sorted(os.listdir(tmp_path)) == files
    stored = store.import_root(file)
    for begin in (
        lambda tell: stored.scrub(progress=tell),
        lambda tell: stored.open().export_root(out, progress=tell),
    ):
        with pytest.raises(kind):
            begin(raises(kind))
        assert stored.version().number == 1 and out.read_bytes() == b"before"
    with pytest.raises(kind):
        stored.reshape(compression="lz4", step_bytes=20_000, progress=raises(kind))
    # What was done until then is versions of the same entries.
    assert stored.version().number == 3 and same(stored.open()["number"], events()["number"])
    assert capfd.readouterr().err == ""


def test_who_is_no_function_is_told_of_no_progress(store, file, tree, tmp_path):
    stored = store.create("there", events(count=3))
    for begin in (
        lambda tell: store.import_root(file, progress=tell),
        lambda tell: store.import_ntuple(rntuple.open(file), progress=tell),
        lambda tell: store.import_tree(tree, progress=tell),
        lambda tell: rntuple.open(file).export_root(tmp_path / "none.root", progress=tell),
        lambda tell: stored.scrub(progress=tell),
        lambda tell: stored.reshape(progress=tell),
    ):
        for wrong in (5, "tell", [print]):
            with pytest.raises(TypeError, match="progress is a function"):
                begin(wrong)
    assert store.names() == ["there"] and not (tmp_path / "none.root").exists()
    assert stored.version().number == 1


@contextlib.contextmanager
def silent(heard):
    """An endpoint that never answers; ``heard`` is called for each that asks."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held = []

        def listen():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    held.append(connection)
                    # With the first bytes of a request, who asks is waiting.
                    connection.recv(1)
                    heard()

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in held:
                connection.close()


HOUR = {"timeout": 3600, "retry_timeout": 3600, "connect_timeout": 3600}
KEYS = {"access_key": "a", "secret_key": "s"}


def asks(options):
    """What asks an endpoint."""
    return [
        lambda: rntuple.Store("s3://events/p", storage_options=options).names(),
        lambda: rntuple.Store("s3://events/p", storage_options=options).create("x", {"x": [1]}),
        lambda: rntuple.open("s3://events/p/x.root", storage_options=options),
        lambda: rntuple.Tree("s3://events/p/x.root", storage_options=options),
        lambda: rntuple.trees("s3://events/p/x.root", storage_options=options),
        lambda: rntuple.write_root("s3://events/p/x.root", "x", {"x": [1]}, storage_options=options),
    ]


def test_a_signal_ends_what_waits_for_an_endpoint_that_does_not_answer():
    with silent(lambda: os.kill(os.getpid(), signal.SIGINT)) as endpoint:
        for ask in asks({"endpoint": endpoint, **KEYS, **HOUR}):
            with pytest.raises(KeyboardInterrupt):
                ask()


def test_a_function_for_a_signal_may_raise_something_else_or_nothing():
    def handle(*_signal):
        told.append(1)
        if len(told) > 1:
            raise Told

    told = []
    before = signal.signal(signal.SIGUSR1, handle)
    again = threading.Event()

    def heard():
        os.kill(os.getpid(), signal.SIGUSR1)
        again.set()

    try:
        with silent(heard) as endpoint:
            options = {"endpoint": endpoint, **KEYS, **HOUR}
            store = rntuple.Store("s3://events/p", storage_options=options)
            watcher = threading.Thread(target=lambda: (again.wait(), wait_for(told), heard()))
            watcher.start()
            with pytest.raises(Told):
                store.names()
            watcher.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(told) == 2


def wait_for(told):
    while not told:
        pass


def test_how_long_an_endpoint_is_waited_for_is_said():
    with silent(lambda: None) as endpoint:
        options = {"endpoint": endpoint, **KEYS, "timeout": 0.2, "retries": 0, "retry_timeout": 0.5, "connect_timeout": 1}
        for ask in asks(options):
            with pytest.raises(dolmen.Unreachable):
                ask()


def test_options_of_an_endpoint_that_can_never_do_are_refused_by_name():
    for options, told in (
        ({"timeout": "soon"}, "timeout is \"soon\", and is to be a number of seconds above 0"),
        ({"timeout": 0}, "timeout is \"0\""),
        ({"connect_timeout": -1}, "connect_timeout"),
        ({"retry_timeout": "inf"}, "retry_timeout"),
        ({"retries": 1.5}, "retries is \"1.5\", and is to be a whole number"),
        ({"anonymous": "maybe"}, "anonymous is \"maybe\", and is to be true or false"),
        ({"key": "x"}, "there is no key; there are endpoint, .*retries"),
    ):
        with pytest.raises(dolmen.Invalid, match=told):
            rntuple.Store("s3://events/p", storage_options={**KEYS, **options})
    with pytest.raises(dolmen.Invalid, match="mapping"):
        rntuple.Store("s3://events/p", storage_options=[("timeout", 1)])


def lets_others_run(call):
    """Whether another thread runs while a call is under way, which is repeated until one has."""
    goes, has_run = threading.Event(), []

    def run():
        goes.wait()
        has_run.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    # With so long a turn no thread but one whose call gives the interpreter up lets another run.
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    try:
        goes.set()
        for _ in range(3000):
            call()
            if has_run:
                break
    finally:
        sys.setswitchinterval(before)
    thread.join()
    return bool(has_run)


def test_other_threads_run_while_a_call_is_under_way(store, file, tree, tmp_path):
    stored, ntuple, opened = store.import_root(file), rntuple.open(file), rntuple.Tree(tree)
    numbers = itertools.count()
    within, reader, of = store._store, ntuple._reader, stored._stored
    flat = [one for one in _arrays.fields_of(events()) if one[0] in ("number", "energy")]
    types = _arrays.types_of(flat)
    writer = NtupleWriter.create(str(tmp_path / "made.root"), "made", types)
    made = store.create("made", {"number": [1], "energy": [1.0]})._stored
    appender = made.append()
    high = [(field.number, 0, COUNT) for field in ntuple.fields.values()]
    for name, call in {
        "open_file": lambda: NtupleReader.open_file(str(file)),
        "read": lambda: reader.read([field for field, _, _ in high], 0, COUNT),
        "stored read": (lambda stored_reader: lambda: stored_reader.read([0, 1], 0, COUNT))(of.open()),
        "prune": (lambda stored_reader: lambda: stored_reader.prune([("number", ">", 7)], 0, COUNT))(of.open()),
        "export": lambda: reader.export_root(str(tmp_path / "out.root")),
        "import": lambda: within.import_ntuple(reader, f"imported-{next(numbers)}"),
        "import tree": lambda: within.import_tree(opened._tree, f"tree-{next(numbers)}"),
        "skim": lambda: within.skim(reader, f"skim-{next(numbers)}", [], [(1, 100)]),
        "skim tree": lambda: within.skim_tree(opened._tree, f"skim-tree-{next(numbers)}", [], [(1, 100)]),
        "tree": lambda: opened._tree.read([0, 1], 0, COUNT),
        "open tree": lambda: NtupleTree(str(tree)),
        "open": of.open,
        "version": of.version,
        "scrub": of.scrub,
        "reshape": lambda: of.reshape(0, 1 << 30),
        "append": of.append,
        "put": lambda: appender.put(flat),
        "put ntuple": lambda: of.append().put_ntuple(reader),
        "write": lambda: writer.append(flat),
        "add columns": lambda: of.add_columns([("other", types[0][1])]),
        "collect": within.collect,
    }.items():
        assert lets_others_run(call), name
