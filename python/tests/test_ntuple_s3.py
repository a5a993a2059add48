"""Ntuples in an object store: in one that runs here (SeaweedFS, from PyPI)."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap

import dolmen
import numpy as np
import pytest
import uproot
from conftest import COUNT, events, same
from dolmen import rntuple

KEYS = {"access_key": "owner", "secret_key": "owner-secret"}
IDENTITIES = {
    "identities": [
        {
            "name": "owner",
            "credentials": [{"accessKey": "owner", "secretKey": "owner-secret"}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
    ]
}
#: What the server says when it listens.
LISTENS = "Start Seaweed S3 API Server"


def free_ports(count):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


class Weed:
    """A server of the S3 protocol with one bucket, ``events``."""

    def __init__(self, directory):
        (directory / "data").mkdir()
        (directory / "identities.json").write_text(json.dumps(IDENTITIES))
        ports = free_ports(8)
        program = pathlib.Path(sys.executable).parent / "weed"
        words = [program, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false", "-s3"]
        words += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=0", "-master.volumeSizeLimitMB=64"]
        words += [f"-dir={directory / 'data'}", f"-s3.config={directory / 'identities.json'}"]
        for at, name in enumerate(("s3", "master", "volume", "filer")):
            words += [f"-{name}.port={ports[2 * at]}", f"-{name}.port.grpc={ports[2 * at + 1]}"]
        words += [f"-{name}.localSocket={directory / name}" for name in ("filer", "s3")]
        self.log = (directory / "log").open("w+")
        self.process = subprocess.Popen(
            words, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        for line in self.process.stderr:
            if LISTENS in line:
                break
        assert self.process.poll() is None, line
        # What it says later is of no interest, and may not stop it.
        self.sink = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=self.log)
        self.endpoint = f"http://127.0.0.1:{ports[0]}"
        self.options = {"endpoint": self.endpoint, **KEYS}
        self.environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEYS["access_key"],
            "AWS_SECRET_ACCESS_KEY": KEYS["secret_key"],
        }
        self.make_bucket(ports[6])

    def make_bucket(self, files):
        """A bucket is a folder of the server's files; it listens before all of it is ready."""
        while True:
            with socket.create_connection(("127.0.0.1", files)) as to:
                to.sendall(b"POST /buckets/events/ HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
                while to.recv(4096):
                    pass
            try:
                self.store("first").create("one", {"x": np.arange(3)})
                return
            except dolmen.Error as error:
                assert self.process.poll() is None, error

    def store(self, prefix):
        return rntuple.Store(f"s3://events/{prefix}", storage_options=self.options)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.sink.wait()
        self.process.stderr.close()
        self.log.close()


@pytest.fixture(scope="module")
def weed(tmp_path_factory):
    server = Weed(tmp_path_factory.mktemp("weed"))
    yield server
    server.end()


def test_a_store_in_a_bucket_is_what_one_in_a_container_is(weed, file):
    store = weed.store("a/store")
    assert store.names() == []
    stored = store.import_root(file)
    with pytest.raises(dolmen.Exists):
        store.import_root(file)
    for name, values in events().items():
        assert same(stored.open()[name], values), name
    first = stored.version()
    stored.tag("first")
    second = stored.append(events(COUNT, 100))
    stored.add_column("double", np.arange(COUNT + 100) * 2)
    assert same(stored.open()["double"], np.arange(COUNT + 100) * 2)
    before = stored.open(tag="first")
    assert len(before) == COUNT and "double" not in before.fields and stored.tags() == {"first": first.number}
    assert len(stored.open(time=(first.time + second.time) / 2)) == COUNT
    few = stored.open().arrays(["number"], filter=[("number", ">=", COUNT + 90)], library="np")
    assert few["number"].tolist() == list(range(COUNT + 90, COUNT + 100))
    skimmed = store.skim(stored.open(), "some", ["number"], 10, 50)
    assert skimmed.open()["number"].tolist() == list(range(10, 50))
    store.clone(stored, "part", ["energy"])
    stored.reshape(compression="lz4", cluster_bytes=200_000)
    assert len(stored.open().clusters) < 5
    for name, values in events(0, COUNT + 100).items():
        assert same(weed.store("a/store/")["events"].open()[name], values), name
    scrubbed = stored.scrub()
    assert scrubbed.pages > 10 and not scrubbed.bad
    store.destroy("events", force=True)
    assert store.names() == ["part", "some"]
    assert same(store["part"].open()["energy"], np.arange(COUNT + 100) * 0.5)
    store.collect()


def test_ntuples_go_between_containers_buckets_and_files_with_their_pages_as_they_are(
    weed, place, cont, file, tmp_path
):
    here, far, other = rntuple.Store(cont), weed.store(f"{place.kind}/moved"), weed.store(f"{place.kind}/again")
    here.import_root(file)
    far.import_ntuple(here["events"].open())
    told = []
    other.import_ntuple(far["events"].open(), progress=told.append)
    assert told[-1] == COUNT
    here.import_ntuple(other["events"].open(), "back")
    paths = [tmp_path / place / "same.root" for place in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
    address = "s3://events/files/same.root"
    rntuple.open(file).export_root(paths[0], time=0)
    other["events"].open().export_root(address, time=0, storage_options=weed.options)
    assert rntuple.ntuples(address, storage_options=weed.options) == ["events"]
    remote = rntuple.open(address, storage_options=weed.options)
    assert same(remote["hits"], events()["hits"])
    remote.export_root(paths[1], time=0)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert same(uproot.open(paths[1])["events"]["name"].array(), events()["name"])
    assert same(here["back"].open()["name"], events()["name"])


WRITER = """
import sys
import numpy as np
from dolmen import rntuple
stored = rntuple.Store(sys.argv[1])["events"]
for turn in range(int(sys.argv[3])):
    first = int(sys.argv[2]) + turn * 1000
    with stored.appender() as appender:
        for part in range(2):
            appender.put({"x": np.arange(first + part * 500, first + part * 500 + 500)})
    print(turn, flush=True)
"""


def writer(weed, prefix, first, turns):
    words = [sys.executable, "-c", textwrap.dedent(WRITER), f"s3://events/{prefix}", str(first), str(turns)]
    return subprocess.Popen(words, env=weed.environment, stdout=subprocess.PIPE, text=True)


def test_several_processes_append_at_once_and_nothing_is_lost(weed):
    store = weed.store("several")
    store.create("events", {"x": np.arange(0)})
    writers = [writer(weed, "several", at * 100_000, 4) for at in range(3)]
    for one in writers:
        assert one.stdout.read().split() == ["0", "1", "2", "3"]
        assert one.wait() == 0
        one.stdout.close()
    found = store["events"].open()["x"]
    wanted = np.concatenate([np.arange(at * 100_000, at * 100_000 + 4000) for at in range(3)])
    assert np.array_equal(np.sort(found), wanted)
    assert (np.diff(found.reshape(-1, 1000)) == 1).all(), "what is put together is next to each other"


@pytest.mark.parametrize("count", [1, 3])
def test_a_writer_that_is_killed_leaves_whole_versions(weed, count):
    store = weed.store(f"killed/{count}")
    store.create("events", {"x": np.arange(0)})
    one = writer(weed, f"killed/{count}", 0, 1000)
    for _ in range(count):
        one.stdout.readline()
    one.send_signal(signal.SIGKILL)
    one.wait()
    one.stdout.close()
    stored = store["events"]
    for version in stored.versions():
        found = stored.open(version=version.number)["x"]
        assert len(found) % 1000 == 0 and np.array_equal(found, np.arange(len(found)))
    assert len(stored.open()) >= count * 1000
    stored.append({"x": np.arange(5)})
    assert stored.open()["x"][-5:].tolist() == list(range(5)) and not stored.scrub().bad


#: What a process and its child do with a store in a bucket: each has its own connections.
FORK = """
import os, sys
import dolmen
from dolmen import rntuple

store = rntuple.Store(sys.argv[1])
ntuple = store["forked"].open()
assert len(ntuple) == 10
child = os.fork()
if child == 0:
    for use in [store.names, lambda: store["forked"].version(), lambda: ntuple["x"]]:
        try:
            use()
        except dolmen.Forked as error:
            if str(os.getppid()) not in str(error):
                os._exit(2)
        else:
            os._exit(1)
    own = rntuple.Store(sys.argv[1])
    if own["forked"].open()["x"].tolist() != list(range(10)):
        os._exit(3)
    own["forked"].tag("of the child")
    # Everything that the child has inherited is dropped here.
    del store, ntuple, own
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert ntuple["x"].tolist() == list(range(10))
assert list(store["forked"].tags()) == ["of the child"]
"""


def test_a_forked_child_opens_a_store_anew_and_leaves_its_parents_alone(weed):
    store = weed.store("forks")
    store.create("forked", {"x": np.arange(10)})
    done = subprocess.run(
        [sys.executable, "-c", FORK, "s3://events/forks"], env=weed.environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_what_is_wrong_with_a_bucket_is_told(weed):
    def refused(error, address, **options):
        with pytest.raises(error) as told:
            rntuple.Store(address, storage_options={**weed.options, **options}).names()
        return str(told.value)

    assert "AWS_SECRET_ACCESS_KEY" in refused(dolmen.Permission, "s3://events/x", secret_key="wrong")
    refused(dolmen.NotFound, "s3://nowhere-at-all/x")
    (port,) = free_ports(1)
    assert "AWS_ENDPOINT_URL" in refused(dolmen.Unreachable, "s3://events/x", endpoint=f"http://127.0.0.1:{port}")
    assert "s3://bucket" in refused(dolmen.Invalid, "events/x")
    assert "there is no key; there are endpoint, " in refused(dolmen.Invalid, "s3://events/x", key="value")
    with pytest.raises(dolmen.NotFound):
        rntuple.open("s3://events/none.root", storage_options=weed.options)
    weed.store("stored").create("one", {"x": np.arange(3)})
    with pytest.raises(dolmen.NotFound, match=r"Store\('s3://events/stored'\)\['one'\]"):
        rntuple.open("s3://events/stored", "one", storage_options=weed.options)
    with pytest.raises(dolmen.Invalid):
        rntuple.open("none.root", storage_options=weed.options)
    with pytest.raises(dolmen.NotFound, match="ntuple"):
        weed.store("empty")["events"]


def test_the_command_line_has_buckets_for_pools_and_prefixes_for_containers(weed, place, file, tmp_path):
    def run(*words, code=0):
        words = [os.environ["DOLMEN"], "ntuple", *map(str, words)]
        done = subprocess.run(words, env=weed.environment, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    name = place.kind
    bucket = ("s3://events", f"cli/{name}")
    assert "no ntuples" in run("list", *bucket)
    run("import", *bucket, file)
    assert "events" in run("list", *bucket)
    run("append", *bucket, "events", file)
    run("tag", *bucket, "events", "twice")
    assert "twice" in run("versions", *bucket, "events")
    assert "energy" in run("show", *bucket, "events")
    with place.open() as pool:
        pool.create_container("far")
    where = place.address.removeprefix("file:")
    run("copy", *bucket, "events", where, "far", "--name", "copied")
    run("copy", where, "far", "copied", *bucket)
    run("export", *bucket, "copied", "--to", f"s3://events/cli/{name}.root")
    run("export", f"s3://events/cli/{name}.root", "--to", tmp_path / "copied.root")
    assert len(uproot.open(tmp_path / "copied.root")["copied"].arrays()) == 2 * COUNT
    run("scrub", *bucket, "copied")
    run("destroy", *bucket, "copied")
    assert "no ntuple" in run("show", *bucket, "copied", code=3)
    run("gc", *bucket)


def test_files_of_root_are_written_to_a_bucket_and_trees_read_there(weed, tmp_path):
    address = "s3://events/made/large.root"
    numbers = np.arange(3_000_000)
    with rntuple.RootWriter(address, "events", compression=None, storage_options=weed.options) as writer:
        for first in range(0, len(numbers), 1_000_000):
            writer.append({"x": numbers[first : first + 1_000_000]})
    found = rntuple.open(address, storage_options=weed.options)
    assert found.name == "events" and np.array_equal(found["x"], numbers)
    with pytest.raises(KeyError), rntuple.RootWriter(address, "others", storage_options=weed.options) as writer:
        writer.append({"y": numbers})
        raise KeyError
    assert rntuple.ntuples(address, storage_options=weed.options) == ["events"], "what was there stays"
    wrong = {**weed.options, "secret_key": "wrong"}
    with pytest.raises(dolmen.Permission, match="s3://events/made/none.root: "):
        rntuple.write_root("s3://events/made/none.root", "events", {"x": [1]}, storage_options=wrong)
    with pytest.raises(dolmen.Permission, match="s3://events/made/none.root: "):
        found.export_root("s3://events/made/none.root", storage_options=wrong)
    path = tmp_path / "tree.root"
    with uproot.recreate(path) as made:
        made.mktree("one", {"x": "int64"})
        made["one"].extend({"x": np.arange(10)})
        made.mktree("two", {"y": "float64"})
        made["two"].extend({"y": np.arange(4.0)})
    words = ["curl", "--silent", "--fail", "--user", f"{KEYS['access_key']}:{KEYS['secret_key']}", "--aws-sigv4"]
    words += ["aws:amz:us-east-1:s3", "--upload-file", str(path), f"{weed.endpoint}/events/made/tree.root"]
    subprocess.run(words, check=True)
    address = "s3://events/made/tree.root"
    assert rntuple.trees(address, storage_options=weed.options) == ["one", "two"]
    tree = rntuple.Tree(address, "two", storage_options=weed.options)
    assert tree["y"].tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(dolmen.Invalid, match="one, two"):
        rntuple.Tree(address, storage_options=weed.options)
    with pytest.raises(dolmen.NotFound, match="which Tree reads: one, two"):
        rntuple.open(address, "one", storage_options=weed.options)
    store = weed.store("trees")
    assert store.import_tree(address, "one", storage_options=weed.options).open()["x"].tolist() == list(range(10))


def test_fields_that_were_added_are_filled_in_a_bucket_too(weed, file):
    stored = weed.store("filled").import_root(file)
    count = len(stored.open())
    stored.add_column("weight", np.ones(count))
    with pytest.raises(dolmen.Invalid, match='missing: "weight"'):
        stored.append_root(file)
    stored.append_root(file, fill={"weight": 2})
    now = stored.open()
    assert len(now) == 2 * count and now["weight"].tolist() == [1.0] * count + [2.0] * count
    assert not stored.scrub().bad


def test_what_is_written_to_a_bucket_spares_the_stores_there(weed, file, monkeypatch):
    stored = weed.store("spared/store").import_root(file)
    ntuple = stored.open()
    for key in ("root", "conditions", "c/1/2", "deep/er/out.root"):
        for call in (
            lambda key=key: ntuple.export_root(f"s3://events/spared/store/{key}", storage_options=weed.options),
            lambda key=key: rntuple.write_root(f"s3://events/spared/store/{key}", "events", {"x": [1]}, storage_options=weed.options),
        ):
            with pytest.raises(dolmen.Invalid, match="lies within the store of ntuples s3://events/spared/store.*another prefix"):
                call()
    with monkeypatch.context() as patch:
        for name, value in weed.environment.items():
            patch.setenv(name, value)
        with pytest.raises(dolmen.Invalid, match="within the store of ntuples s3://events/spared/store"):
            ntuple.to_parquet("s3://events/spared/store/root")
    ntuple.export_root("s3://events/spared/root.d/out.root", storage_options=weed.options)
    assert len(rntuple.open("s3://events/spared/root.d/out.root", storage_options=weed.options)) == len(ntuple)
    assert weed.store("spared/store").names() == ["events"] and not stored.scrub().bad
