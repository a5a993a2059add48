"""Transactions and snapshots."""

import concurrent.futures
import threading
import time

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
        with pytest.raises(dolmen.ReadOnly):
            view.kv(kv.oid)["a"] = b"x"
    assert kv["a"] == b"new"
    cont.rollback(epoch)
    assert kv["a"] == b"old"
    assert numpy.asarray(array).tolist() == [1, 2]
    cont.destroy_snapshot(epoch)
    assert cont.snapshots() == []
    with pytest.raises(dolmen.NotFound):
        cont.at("before")


def test_nothing_is_changed_through_a_view(cont):
    kv, array, thing = cont.create_kv(), cont.create_array("u2"), cont.create_object()
    kv["a"] = b"1"
    array.write(0, [1, 2])
    thing.put("d", "k", b"1")
    cont.set_attributes({"who": "mason"})
    epoch = cont.create_snapshot("before")
    view = cont.at("before")
    old_kv, old_array, old_thing = view.kv(kv.oid), view.array(array.oid, "u2"), view.object(thing.oid)
    for change in [
        lambda: old_kv.put("a", b"2"),
        lambda: old_kv.put_many({"a": b"2"}),
        lambda: old_kv.__delitem__("a"),
        lambda: old_kv.discard("a"),
        old_kv.clear,
        lambda: old_array.write(0, [3]),
        lambda: old_array.resize(1),
        lambda: old_array.punch(0, 1),
        old_array.destroy,
        lambda: old_thing.put("d", "k", b"2"),
        lambda: old_thing.put_all("d", {"k": b"2"}),
        lambda: old_thing.write("d", "n", 0, b"2"),
        lambda: old_thing.remove("d", ["k"]),
        lambda: old_thing.remove_dkey("d"),
        old_thing.destroy,
        view.create_kv,
        view.create_array,
        view.create_object,
        view.transaction,
        lambda: view.transact(lambda tx: None),
        lambda: view.create_snapshot("other"),
        lambda: view.destroy_snapshot("before"),
        lambda: view.rollback("before"),
        lambda: view.set_attributes({"who": "smith"}),
        lambda: view.remove_attributes(["who"]),
    ]:
        with pytest.raises(dolmen.ReadOnly, match=f"view of a past state .epoch {epoch}"):
            change()
    assert (kv["a"], array[:].tolist(), thing.get("d", "k")) == (b"1", [1, 2], b"1")
    assert (cont.snapshots(), cont.attribute("who"), len(list(cont.objects()))) == ([(epoch, "before")], b"mason", 3)


def test_snapshots_are_told_by_their_names_everywhere(cont):
    kv = cont.create_kv()
    kv["a"] = b"old"
    cont.create_snapshot("before")
    kv["a"] = b"new"
    cont.rollback("before")
    assert kv["a"] == b"old"
    cont.destroy_snapshot("before")
    assert cont.snapshots() == []
    for use in [cont.at, cont.rollback, cont.destroy_snapshot]:
        with pytest.raises(dolmen.NotFound, match='no snapshot "before".*`snapshots`'):
            use("before")
        with pytest.raises(TypeError, match="its name or its epoch"):
            use(1.5)
    for use in [cont.rollback, cont.destroy_snapshot]:
        with pytest.raises(dolmen.NotFound, match="no snapshot of epoch 3"):
            use(3)


def test_a_transaction_takes_handles_of_its_container_alone(pool, cont):
    other = pool.create_container("other")
    own, foreign = cont.create_kv(), other.create_kv()
    assert own.oid == foreign.oid
    for kv in [own, foreign]:
        kv["balance"] = b"5"
    cont.create_snapshot("then")
    view = cont.at("then")
    array, thing = cont.create_array("i4"), cont.create_object()
    foreign_array, foreign_thing = other.create_array("i4"), other.create_object()
    again = pool.container("henge")
    with cont.transaction() as tx:
        for take in [lambda: tx.kv(foreign), lambda: tx.array(foreign_array), lambda: tx.object(foreign_thing)]:
            with pytest.raises(dolmen.Invalid, match="of the container other, and the transaction of the container henge"):
                take()
        with pytest.raises(dolmen.Invalid, match="a view of a past state"):
            tx.kv(view.kv(own.oid))
        # Another handle on the same container is as good, and one of another transaction.
        tx.kv(again.kv(own.oid))["a"] = b"1"
        tx.array(again.array(array.oid, "i4")).write(0, [7])
        tx.object(again.object(thing.oid)).put("d", "k", b"1")
        with cont.transaction() as second:
            second.kv(tx.kv(own))["b"] = b"1"
    assert (own["a"], own["b"], array[0], thing.get("d", "k")) == (b"1", b"1", 7, b"1")
    assert (own["balance"], foreign["balance"]) == (b"5", b"5")


def test_what_comes_after_the_end_of_a_transaction_is_told_so(cont):
    kv = cont.create_kv()
    for end, told in [("commit", "is committed"), ("abort", "was aborted")]:
        tx = cont.transaction()
        within = tx.kv(kv)
        within[end] = b"1"
        getattr(tx, end)()
        for use in [
            lambda: within["commit"],
            lambda: within.put("a", b"1"),
            lambda: list(within),
            lambda: tx.kv(kv),
            lambda: tx.object(cont.create_object()),
            tx.commit,
            tx.__enter__,
        ]:
            with pytest.raises(dolmen.Invalid, match=f"the transaction {told}"):
                use()
        tx.abort()
    assert list(kv) == [b"commit"]


def test_reads_of_a_transaction_come_before_what_changed_them(cont):
    kv = cont.create_kv()
    kv["a"] = kv["b"] = b"old"
    # What was only read may have been changed since.
    with cont.transaction() as tx:
        assert tx.kv(kv)["a"] == b"old"
        kv["a"] = b"new"
        tx.kv(kv)["c"] = b"of old"
    assert (kv["a"], kv["c"]) == (b"new", b"of old")
    # What it writes may not.
    with pytest.raises(dolmen.Conflict):
        with cont.transaction() as tx:
            tx.kv(kv)["b"] = b"mine"
            kv["b"] = b"new"
    # Nor may a later transaction have read that.
    with pytest.raises(dolmen.Conflict):
        with cont.transaction() as tx:
            tx.kv(kv)["b"] = b"mine"
            with cont.transaction() as later:
                later.kv(kv)["d"] = later.kv(kv)["b"]
    assert kv["b"] == b"new"


def test_many_that_meet_come_one_after_the_other(cont):
    """Each reads, takes a while, and writes what it has read: only one of those who begin together goes through."""
    kv = cont.create_kv()
    kv["n"] = b"0"

    def count(tx):
        within = tx.kv(kv)
        number = int(within["n"])
        time.sleep(0.002)
        within["n"] = b"%d" % (number + 1)

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(cont.transact, count) for _ in range(24)]:
            done.result()
    assert kv["n"] == b"24"
