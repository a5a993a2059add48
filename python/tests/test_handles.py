"""Handles of a pool in this process: when they end, and for whom. No daemon is needed."""

import os
import subprocess
import sys

import dolmen
import pytest

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


def test_a_buffer_outlives_its_pool(local):
    with local.open() as pool:
        kv = pool.create_container("henge").create_kv()
        kv["a"] = os.urandom(100_000)
        view, value = memoryview(kv.view("a")), kv["a"]
    assert view == value
