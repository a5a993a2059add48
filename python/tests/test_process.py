"""Threads, forks, signals: what a process does around the calls."""

import os
import signal
import subprocess
import sys
import threading

import dolmen
import numpy
import pytest


def test_other_threads_run_while_a_call_asks_a_pool(cont):
    array = cont.create_array("u1")
    data = numpy.zeros(1 << 20, "u1")
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
        for _ in range(10_000):
            array.write(0, data)
            if has_run:
                break
        assert has_run
    finally:
        sys.setswitchinterval(before)
    thread.join()


def test_handles_are_used_by_many_threads(cont):
    kv, array = cont.create_kv(), cont.create_array("u4", chunk=64)
    failures = []

    def work(number):
        try:
            for turn in range(50):
                kv[f"{number}-{turn}"] = b"%d" % turn
                array.write(number * 50 + turn, [number])
                assert kv[f"{number}-{turn}"] == b"%d" % turn
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sum(1 for _ in kv) == 400
    assert array[:].tolist() == [number for number in range(8) for _ in range(50)]


def test_a_pool_is_closed_under_threads_that_use_it(place):
    pool = place.open()
    kv = pool.create_container("henge", durability="process").create_kv()
    begun, ended = threading.Barrier(5), []

    def work():
        begun.wait()
        try:
            while True:
                kv["a"] = b"1"
        except dolmen.Closed:
            ended.append(True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    begun.wait()
    pool.close()
    for thread in threads:
        thread.join()
    assert ended == [True] * 4
    with place.open() as pool:
        assert pool.query()["containers"] == 1


FORK = """
import os, sys
import dolmen

pool = dolmen.open(sys.argv[1])
cont = pool.create_container("henge")
kv = cont.create_kv()
kv["a"] = b"parent"
with cont.transaction() as tx:
    tx.kv(kv)["b"] = b"1"
    child = os.fork()
    if child == 0:
        for use in [lambda: kv["a"], pool.query, tx.commit, lambda: list(kv), cont.create_kv]:
            try:
                use()
            except dolmen.Forked as error:
                assert str(os.getppid()) in str(error)
            else:
                os._exit(1)
        pool.close()
        if sys.argv[1].startswith("file:"):
            try:
                dolmen.open(sys.argv[1])
            except dolmen.Busy:
                pass
            else:
                os._exit(2)
        else:
            with dolmen.open(sys.argv[1]) as own:
                assert own.container("henge").kv(kv.oid)["a"] == b"parent"
        # Everything that the child has inherited is collected here, as at the end of a process.
        del use, kv, cont, pool, tx
        import gc
        gc.collect()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert kv["b"] == b"1"
pool.close()
print("done")
"""


def test_a_forked_child_is_refused_and_opens_anew(place):
    done = subprocess.run([sys.executable, "-c", FORK, place.address], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_signal_is_heard_between_two_operations(place):
    with place.open() as pool:
        cont = pool.create_container("henge", durability="process")
        kv = cont.create_kv()
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        done = 0
        try:
            with pytest.raises(KeyboardInterrupt):
                while True:
                    kv[f"{done}"] = b"1"
                    done += 1
                    if done == 20:
                        os.kill(os.getpid(), signal.SIGINT)
        finally:
            signal.signal(signal.SIGINT, handler)
        assert sum(1 for _ in kv) in (done, done + 1)


def test_what_was_acknowledged_survives_a_kill(place):
    script = (
        "import dolmen, os, sys\n"
        "kv = dolmen.open(sys.argv[1]).create_container('henge').create_kv()\n"
        "kv['a'] = b'1'\n"
        "print(kv.oid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, place.address], capture_output=True, text=True, timeout=100)
    assert done.returncode == -9, done.stderr
    with place.open() as pool:
        assert pool.container("henge").kv(dolmen.Oid.parse(done.stdout.strip()))["a"] == b"1"
