"""Coroutines."""

import asyncio
import threading

import dolmen
import dolmen.aio
import dolmen.aio.rntuple
import numpy
import pytest


def run(place, body):
    async def opened():
        async with await dolmen.aio.open(place.address) as pool:
            return await body(pool)

    return asyncio.run(opened())


def test_coroutines_do_what_the_calls_do(place):
    async def body(pool):
        assert (await dolmen.aio.list_pools(place.system()))[0][0] == "stones"
        cont = await pool.create_container("henge", durability="process")
        assert (await pool.containers())[0][0] == "henge"
        kv = await cont.create_kv()
        await asyncio.gather(*(kv.put(f"{number}", b"%d" % number) for number in range(100)))
        assert await kv.get("7") == b"7"
        assert await kv.get("none", b"-") == b"-"
        assert await kv.get_many(["1", "none"]) == [b"1", None]
        assert len([key async for key in kv]) == 100
        await kv.remove("7")
        with pytest.raises(KeyError):
            await kv.remove("7")
        array = await cont.create_array("f4")
        await array.write(0, [1.0, 2.0, 3.0])
        assert (await array.read()).tolist() == [1.0, 2.0, 3.0]
        place_ = numpy.zeros(2, "f4")
        assert await array.read_into(1, place_) == 2
        assert (await array.size(), place_.tolist()) == (3, [2.0, 3.0])
        thing = await cont.create_object()
        await thing.put_all("d", {"a": b"1", "b": b"2"})
        assert sorted([key async for key in thing.akeys("d")]) == [b"a", b"b"]
        assert {oid async for oid in cont.objects()} == {kv.oid, array.oid, thing.oid}
        epoch = await cont.create_snapshot("before")
        await kv.put("1", b"new")
        assert await (await (await cont.at(epoch)).kv(kv.oid)).get("1") == b"1"
        assert (await pool.query())["label"] == "stones"

    run(place, body)


def test_files_are_read_and_written_by_coroutines(place):
    async def body(pool):
        cont = await pool.create_container("files", files=True)
        async with await cont.files() as files:
            await files.mkdir("a")
            await asyncio.gather(*(files.write(f"a/{number}", b"%d" % number) for number in range(20)))
            assert len(await files.list("a")) == 20
            assert await files.read_parts([("a/7", None, None), ("a/12", 1, None)]) == [b"7", b"2"]
            async with await files.open_raw("f", "w") as file:
                await file.write_at(0, b"123")
            assert (await files.stat("f")).size == 3
            with pytest.raises(FileNotFoundError):
                await files.read("none")

    run(place, body)


def test_transactions_of_coroutines_commit_abort_and_begin_anew(place):
    async def body(pool):
        cont = await pool.create_container("henge", durability="process")
        kv = await cont.create_kv()
        async with cont.transaction() as tx:
            await (await tx.kv(kv)).put("n", b"0")
            assert await kv.get("n") is None
        with pytest.raises(ZeroDivisionError):
            async with cont.transaction() as tx:
                await (await tx.kv(kv)).put("n", b"7")
                raise ZeroDivisionError
        assert await kv.get("n") == b"0"

        async def count(tx):
            within = await tx.kv(kv)
            number = int(await within.get("n"))
            await within.put("n", b"%d" % (number + 1))
            return number

        counts = await asyncio.gather(*(cont.transact(count) for _ in range(20)))
        assert sorted(counts) == list(range(20))
        assert await kv.get("n") == b"20"
        with pytest.raises(dolmen.Invalid, match="once at least"):
            await cont.transact(count, attempts=0)
        # One is not begun twice: what the second block wrote would be nobody's.
        tx = cont.transaction()
        async with tx:
            await (await tx.kv(kv)).put("n", b"21")
        with pytest.raises(dolmen.Invalid, match="begin another one"):
            async with tx:
                pass
        assert await kv.get("n") == b"21"

    run(place, body)


def test_a_task_that_is_called_off_leaves_whole_operations(local):
    async def body(pool):
        cont = await pool.create_container("henge", durability="process")
        kv = await cont.create_kv()
        begun, goes_on = threading.Event(), threading.Event()
        commit = dolmen.Transaction.commit

        class Slow:
            """A transaction whose commit goes on when the test says so."""

            def __init__(self, sync):
                self.sync = sync

            def kv(self, which):
                return self.sync.kv(which)

            def commit(self):
                begun.set()
                goes_on.wait()
                return commit(self.sync)

        async def work():
            async with cont.transaction() as tx:
                tx._tx = Slow(tx._tx)
                await (await tx.kv(kv)).put("a", b"1")

        task = asyncio.create_task(work())
        await asyncio.get_running_loop().run_in_executor(None, begun.wait)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=0)
        assert not done
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        # It was under way, so what became of it is known when the task ends.
        assert await kv.get("a") == b"1"

        async def broken_off():
            async with cont.transaction() as tx:
                await (await tx.kv(kv)).put("b", b"1")
                await asyncio.Event().wait()

        task = asyncio.create_task(broken_off())
        await asyncio.wait([task], timeout=0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await kv.get("b") is None

    run(local, body)


def test_calls_wait_for_a_thread(local):
    async def body(pool):
        cont = await pool.create_container("henge", durability="process")
        kv = await cont.create_kv()
        await asyncio.gather(*(kv.put(f"{number}", b"1") for number in range(50)))
        names = [thread.name for thread in threading.enumerate() if thread.name.startswith("dolmen")]
        assert 1 <= len(names) <= 2
        with pytest.raises(dolmen.Invalid):
            dolmen.aio.set_threads(0)

    dolmen.aio.set_threads(2)
    try:
        run(local, body)
    finally:
        dolmen.aio.set_threads(32)


def test_ntuples_of_a_store_are_gone_through(local):
    async def body(pool):
        store = dolmen.aio.rntuple.Store(await pool.create_container("henge"))
        for name in ["a", "b"]:
            await store.create(name, {"x": numpy.zeros(2)})
        assert [name async for name in store] == ["a", "b"]

    run(local, body)


def test_classes_say_how_one_is_had():
    for make, told in [
        (lambda: dolmen.aio.rntuple.Tree("t.root", "T"), "await Tree.open"),
        (lambda: dolmen.aio.Kv("a"), "await cont.kv"),
    ]:
        with pytest.raises(TypeError, match=told):
            make()
