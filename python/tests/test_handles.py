"""Handles of a pool in this process: when they end, and for whom. No daemon is needed."""

import os
import pathlib
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import dolmen
import pytest
from dolmen import rntuple

FORKED = """
import os, sys
import dolmen

kv = dolmen.open(sys.argv[1]).create_container("henge").create_kv()
kv["a"] = b"1"
child = os.fork()
if child == 0:
    try:
        kv["a"] = b"2"
    except dolmen.Forked:
        os._exit(7)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert kv["a"] == b"1"
"""


def test_a_forked_child_is_refused(local):
    done = subprocess.run([sys.executable, "-c", FORKED, local.address], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_block_that_raises_is_aborted(local):
    with local.open() as pool:
        cont = pool.create_container("henge")
        kv = cont.create_kv()
        with pytest.raises(ZeroDivisionError):
            with cont.transaction() as tx:
                tx.kv(kv)["a"] = b"1"
                raise ZeroDivisionError
        assert "a" not in kv


def test_a_conflict_is_tried_again(local):
    with local.open() as pool:
        cont = pool.create_container("henge")
        kv = cont.create_kv()
        kv["n"] = b"0"
        attempts = []

        def body(tx):
            attempts.append(tx.kv(kv)["n"])
            if len(attempts) == 1:
                kv["n"] = b"5"
            tx.kv(kv)["n"] = b"6"

        cont.transact(body)
        assert (attempts, kv["n"]) == ([b"0", b"5"], b"6")


def test_what_was_opened_from_a_container_is_closed_with_it(local):
    with local.open() as pool:
        cont = pool.create_container("files", files=True)
        files = cont.files()
        file = files.open_raw("f", "w")
        cont.close()
        for use in [file.size, lambda: files.exists("f")]:
            with pytest.raises(dolmen.Closed):
                use()
        assert pool.container("files").files().exists("f")


def test_a_pool_is_free_when_it_is_closed_whoever_has_handles(local):
    pool = local.open()
    kv = pool.create_container("henge").create_kv()
    pool.close()
    script = "import dolmen, sys; dolmen.open(sys.argv[1]).close()"
    subprocess.run([sys.executable, "-c", script, local.address], check=True, timeout=60)
    with pytest.raises(dolmen.Closed):
        kv["a"]


def test_what_is_read_and_served_of_an_ntuple_is_closed_with_its_container_and_its_pool(local):
    pool = local.open()
    cont = pool.create_container("henge")
    rntuple.Store(cont).create("events", {"x": [1, 2]})
    # Nobody has handles on what is between.
    ntuple, other = rntuple.Store(cont)["events"].open(), rntuple.Store(pool.container("henge"))["events"].open()
    servers = [ntuple.serve(), other.serve()]
    for server in servers:
        assert urllib.request.urlopen(server.url, timeout=60).read(4) == b"root"
    cont.close()
    with pytest.raises(dolmen.Closed):
        ntuple["x"]
    assert other["x"].tolist() == [1, 2]
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(servers[0].url, timeout=60)
    pool.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(servers[1].url, timeout=60)
    script = "import dolmen, sys; dolmen.open(sys.argv[1]).close()"
    subprocess.run([sys.executable, "-c", script, local.address], check=True, timeout=60)
    for server in servers:
        server.close()


def test_a_buffer_outlives_its_pool(local):
    with local.open() as pool:
        kv = pool.create_container("henge").create_kv()
        kv["a"] = os.urandom(100_000)
        view, value = memoryview(kv.view("a")), kv["a"]
    assert view == value


CLOSING = """
import sys
import dolmen
from dolmen import rntuple

pool = dolmen.open(sys.argv[1])
cont = pool.create_container("henge")
store = rntuple.Store(cont)
stored = store.import_root(sys.argv[2])
for close in [pool.close, cont.close]:
    told = []

    def progress(entries):
        try:
            close()
        except dolmen.Busy as error:
            told.append(str(error))

    stored.append_root(sys.argv[2], progress=progress)
    assert told and "under way" in told[0], told

def progress(entries):
    pool.close()

try:
    stored.append_root(sys.argv[2], progress=progress)
except dolmen.Busy:
    pass
else:
    raise AssertionError("it was not told")
assert len(stored.open()) == 12000
pool.close()
assert pool.closed
"""


def test_what_an_operation_needs_is_not_closed_by_who_is_told_of_it(local, file):
    done = subprocess.run([sys.executable, "-c", CLOSING, local.address, file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_an_ntuple_of_a_view_is_not_changed_and_is_cloned_as_it_is_shown(local, file):
    with local.open() as pool:
        cont = pool.create_container("henge")
        store = rntuple.Store(cont)
        stored = store.import_root(file)
        cont.create_snapshot("then")
        stored.append_root(file)
        then = rntuple.Store(cont.at("then"))
        old = then["events"]
        assert (len(old.open()), len(stored.open())) == (4000, 8000)
        assert len(store.clone(old, "cloned").open()) == 4000
        assert len(store.clone(stored, "now").open()) == 8000
        for change in [
            lambda: old.append_root(file),
            lambda: old.tag("a"),
            lambda: old.keep(0),
            lambda: then.create("new", {"x": [1]}),
            lambda: then.destroy("events"),
        ]:
            with pytest.raises(dolmen.ReadOnly, match="view of a past state"):
                change()
        store.import_ntuple(old.open(), "taken")
        assert sorted(store) == ["cloned", "events", "now", "taken"] and len(store["taken"].open()) == 4000


def test_a_pool_is_closed_by_its_last_close_whoever_lets_go_of_something_meanwhile(local):
    """Its directory is anybody's then: to open elsewhere, or to remove."""

    def is_open():
        # That by which they are listed is gone then.
        links = [link for link in pathlib.Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return any(str(link.readlink()).startswith(str(local.directory)) for link in links)

    with local.open() as pool:
        pool.create_container("henge", durability="process")
        pool.create_container("files", files=True)
    for _ in range(100):
        pool = local.open()
        things = [pool.container("henge").create_kv(), pool.container("files").files()]
        both = threading.Barrier(2)

        def let_go(both=both, things=things):
            both.wait()
            things.clear()

        other = threading.Thread(target=let_go)
        other.start()
        both.wait()
        pool.close()
        assert not is_open()
        other.join()


PARENT_WRITES = """
import os, sys, urllib.request
import dolmen
from dolmen import rntuple

writer = rntuple.RootWriter(sys.argv[1], "events")
writer.append({"x": [1.0, 2.0]})
server = rntuple.open(sys.argv[2]).serve()
child = os.fork()
if child == 0:
    try:
        writer.append({"x": [7.0]})
    except dolmen.Forked:
        writer.close()
        server.close()
        del writer, server
        sys.exit(7)
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
writer.append({"x": [3.0]})
writer.close()
writer.close()
assert rntuple.open(sys.argv[1])["x"].tolist() == [1, 2, 3]
assert urllib.request.urlopen(server.url).read(4) == b"root"
try:
    writer.append({"x": [4.0]})
except dolmen.Closed as error:
    assert sys.argv[1] in str(error), error
else:
    raise AssertionError("it is written on")
"""


def test_a_forked_child_has_no_part_in_what_its_parent_writes_and_serves(tmp_path):
    rntuple.write_root(tmp_path / "served.root", "served", {"x": [5.0]})
    words = [sys.executable, "-c", PARENT_WRITES, str(tmp_path / "made.root"), str(tmp_path / "served.root")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
