"""Transactions and snapshots."""

import threading

import dolmen
import numpy
import pytest


def test_a_block_commits_at_its_end(cont):
    kv = cont.create_kv()
    with cont.transaction() as tx:
        within = tx.kv(kv)
        within["a"] = b"1"
        within["b"] = b"2"
        assert within["a"] == b"1"
        assert kv.get("a") is None
    assert kv.get_many(["a", "b"]) == [b"1", b"2"]
    assert repr(tx) == "<dolmen.Transaction, ended>"


def test_a_block_that_raises_writes_nothing(cont):
    kv = cont.create_kv()
    with pytest.raises(KeyboardInterrupt):
        with cont.transaction() as tx:
            tx.kv(kv)["a"] = b"1"
            raise KeyboardInterrupt
    assert "a" not in kv
    with cont.transaction() as tx:
        tx.kv(kv.oid)["a"] = b"1"
        tx.abort()
    assert "a" not in kv


def test_everything_of_a_container_goes_into_one_commit(cont):
    kv, array, thing = cont.create_kv(), cont.create_array("i4"), cont.create_object()
    with cont.transaction() as tx:
        tx.kv(kv)["a"] = b"1"
        tx.array(array).write(0, [1, 2, 3])
        tx.object(thing).put("d", "k", b"v")
        assert tx.array(array.oid, "i4")[1] == 2
        assert len(array) == 0
        assert tx.epoch > 0
    assert (kv["a"], array[:].tolist(), thing.get("d", "k")) == (b"1", [1, 2, 3], b"v")


def test_a_conflict_is_an_error_that_may_be_retried(cont):
    kv = cont.create_kv()
    kv["n"] = b"0"
    with pytest.raises(dolmen.Conflict) as met:
        with cont.transaction() as tx:
            count = int(tx.kv(kv)["n"])
            kv["n"] = b"7"
            tx.kv(kv)["n"] = b"%d" % (count + 1)
    assert isinstance(met.value, dolmen.Retryable)
    assert (met.value.der, met.value.name) == (-2025, "DER_TX_RESTART")
    assert kv["n"] == b"7"


def test_transact_begins_anew_until_there_is_no_conflict(cont):
    kv = cont.create_kv()
    kv["n"] = b"0"
    attempts = []

    def body(tx):
        attempts.append(tx)
        within = tx.kv(kv)
        count = int(within["n"])
        if len(attempts) < 3:
            kv["n"] = b"%d" % (count + 10)
        within["n"] = b"%d" % (count + 1)
        return count

    assert cont.transact(body) == 20
    assert (len(attempts), kv["n"]) == (3, b"21")
    attempts.clear()
    with pytest.raises(dolmen.Conflict):
        cont.transact(body, attempts=2)
    with pytest.raises(ZeroDivisionError):
        cont.transact(lambda tx: 1 / 0)


def test_counts_of_many_threads_are_all_there(cont):
    kv = cont.create_kv()
    kv["n"] = b"0"

    def count(tx):
        within = tx.kv(kv)
        within["n"] = b"%d" % (int(within["n"]) + 1)

    def work():
        for _ in range(10):
            cont.transact(count, attempts=1000)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kv["n"] == b"40"


def test_a_snapshot_stays_as_it_was(cont):
    kv, array = cont.create_kv(), cont.create_array("u2")
    kv["a"] = b"old"
    array.write(0, [1, 2])
    epoch = cont.create_snapshot("before")
    kv["a"] = b"new"
    array.write(0, [3, 4])
    assert cont.snapshots() == [(epoch, "before")]
    for which in [epoch, "before"]:
        view = cont.at(which)
        assert view.epoch == epoch
        assert view.kv(kv.oid)["a"] == b"old"
        assert view.array(array.oid, "u2")[:].tolist() == [1, 2]
        with pytest.raises(PermissionError):
            view.kv(kv.oid)["a"] = b"x"
    assert kv["a"] == b"new"
    cont.rollback(epoch)
    assert kv["a"] == b"old"
    assert numpy.asarray(array).tolist() == [1, 2]
    cont.destroy_snapshot(epoch)
    assert cont.snapshots() == []
    with pytest.raises(dolmen.NotFound):
        cont.at("before")
