"""Coroutines over ntuples."""

import asyncio
import inspect
import threading

import awkward as ak
import dolmen
import dolmen.aio
import numpy as np
import pytest
import uproot
from conftest import COUNT, events, same
from dolmen.aio import rntuple


def run(place, body):
    async def opened():
        async with await dolmen.aio.open(place.address) as pool:
            return await body(await pool.create_container("henge", durability="process"))

    return asyncio.run(opened())


def test_coroutines_do_what_the_calls_do(place, file, tmp_path):
    async def body(cont):
        store = rntuple.Store(cont)
        assert await store.names() == []
        stored = await store.import_root(file)
        ntuple = await stored.open()
        assert (len(ntuple), ntuple.name, stored.name) == (COUNT, "events", "events") and "hits" in ntuple.fields
        one, two = await asyncio.gather(ntuple.get("number"), ntuple.arrays(["hits"], 10, 20))
        assert same(one, np.arange(COUNT)) and same(two["hits"], events()["hits"][10:20])
        batches = [batch async for batch in ntuple.batches(["energy"])]
        assert [batch.num_rows for batch in batches] == [end - first for first, end in await ntuple.clusters()]
        assert (await ntuple.estimate(["energy"])).entries == COUNT
        await stored.tag("first")
        versions = await asyncio.gather(*(stored.append(events(COUNT, 10)) for _ in range(5)))
        assert sorted(version.number for version in versions) == [2, 3, 4, 5, 6]
        await stored.append_root(file)
        await stored.add_column("weight", np.ones(2 * COUNT + 50))
        async with await stored.appender(fill={"weight": 2}) as appender:
            await appender.put(events(count=5))
            await appender.put_ntuple(ntuple)
        with pytest.raises(KeyError):
            async with await stored.appender(fill={"weight": 2}) as appender:
                await appender.put(events(count=5))
                raise KeyError
        now = await rntuple.open(cont, "events")
        assert len(now) == 3 * COUNT + 55 and (await now.get("weight"))[-1] == 2
        assert len(await rntuple.open(store, tag="first")) == COUNT and await stored.tags() == {"first": 1}
        await stored.reshape(compression="lz4")
        assert (await stored.scrub()).bad == [] and (await stored.version()).made == "Reshaped"
        high = await store.skim(now, "high", ["number"], filter=[("weight", "==", 2)])
        assert len(await high.open()) == COUNT + 5
        slim = await store.clone(stored, "slim", ["energy"])
        assert (await slim.open()).sync.keys() == ["energy"]
        await store.import_ntuple(ntuple, "copy")
        await (await slim.open()).export_root(tmp_path / "out.root")
        await now.to_parquet(tmp_path / "out.parquet", ["number"])
        assert await rntuple.ntuples(tmp_path / "out.root") == ["slim"]
        await stored.keep(0)
        await stored.untag("first")
        assert await stored.expire() > 0 and [version.made for version in await stored.versions()] == ["Reshaped"]
        await store.destroy("copy")
        assert (await store.collect()).damaged == {} and sorted(await store.names()) == ["events", "high", "slim"]
        with pytest.raises(dolmen.NotFound):
            await store.ntuple("copy")
        made = await store.create("made", {"x": np.arange(3)})
        await made.pack([0])
        await made.add_columns({"y": np.arange(3), "z": np.arange(3)})
        assert same(await (await (await store.ntuple("made")).open()).get("z"), np.arange(3))

    run(place, body)


def test_files_and_trees_are_read_and_written_by_coroutines(local, tmp_path):
    async def body(cont):
        path, tree = tmp_path / "made.root", tmp_path / "tree.root"
        await rntuple.write_root(path, "one", {"x": np.arange(3)})
        async with rntuple.RootWriter(path, "two") as writer:
            await writer.append({"x": np.arange(3)})
            await writer.append({"x": np.arange(4)})
        with pytest.raises(KeyError):
            async with rntuple.RootWriter(path, "three") as writer:
                await writer.append({"x": np.arange(3)})
                raise KeyError
        assert same(await (await rntuple.open(path)).get("x"), [0, 1, 2, 0, 1, 2, 3])
        server = await (await rntuple.open(path)).serve()
        assert uproot.open(server.url, handler=uproot.HTTPSource)["two"].num_entries == 7
        await asyncio.to_thread(server.close)
        with uproot.recreate(tree) as made:
            made.mktree("old", {"x": "int64"})
            made["old"].extend({"x": np.arange(5)})
        assert await rntuple.trees(tree) == ["old"]
        opened = await rntuple.Tree.open(tree)
        assert len(opened) == 5 and same(await opened.get("x"), np.arange(5))
        assert ak.to_list((await opened.arrays(None, 1, 3))["x"]) == [1, 2]
        store = rntuple.Store(cont)
        for source, name in ((tree, "a"), (opened, "b")):
            stored = await store.import_tree(source, name=name)
            assert same(await (await stored.open()).get("x"), np.arange(5))

    run(local, body)


def test_a_task_that_is_called_off_ends_its_append_and_leaves_nothing_of_it(local, file):
    begun, go = threading.Event(), threading.Event()

    def slowly(_entries):
        begun.set()
        go.wait()

    async def body(cont):
        store = rntuple.Store(cont)
        stored = await store.import_root(file)
        for call in (
            lambda: stored.append_root([file] * 50, progress=slowly),
            lambda: store.import_root(file, name="other", progress=slowly),
        ):
            begun.clear()
            go.clear()
            task = asyncio.ensure_future(call())
            await asyncio.to_thread(begun.wait)
            task.cancel()
            await asyncio.sleep(0)
            go.set()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (len(await stored.versions()), len(await stored.open())) == (1, COUNT)
        await stored.append_root(file)
        assert len(await stored.open()) == 2 * COUNT

    run(local, body)
    # The pool was closed when all had ended.
    with local.open() as pool, pool.container("henge") as cont:
        assert rntuple._rntuple.Store(cont).names() == ["events"]


def test_every_call_of_the_classes_has_a_coroutine():
    import dolmen.rntuple as sync

    #: What is no coroutine, since nothing is waited for.
    plain = {
        "Ntuple": {"keys", "field", "order", "arrow_schema", "record", "trace"},
        "Tree": {"keys", "arrow_schema"},
        "Store": set(),
        "Stored": set(),
        "Appender": set(),
        "RootWriter": set(),
    }
    for name, others in plain.items():
        of = {word for word, _ in inspect.getmembers(getattr(sync, name), inspect.isfunction) if word[0] != "_"}
        own = {word for word, _ in inspect.getmembers(getattr(rntuple, name), inspect.isroutine) if word[0] != "_"}
        # A stream of another library waits for itself.
        assert of - own <= {"arrow_reader"} and others <= own, name
        for word in own & of:
            function = getattr(getattr(rntuple, name), word)
            waits = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
            assert waits != (word in others), (name, word)
    assert set(sync.__all__) == set(rntuple.__all__)


def test_what_is_had_without_waiting_is_as_it_is_there(local, file, tmp_path):
    path = tmp_path / "tree.root"
    with uproot.recreate(path) as made:
        made.mktree("old", {"x.y": "int64", "z": "int64"}).extend({"x.y": np.arange(5), "z": np.arange(5)})

    async def body(cont):
        store = rntuple.Store(cont)
        stored = await store.import_root(file)
        ntuple, tree = await stored.open(), await rntuple.Tree.open(path)
        assert ntuple.keys() == list(ntuple) == list(events()) and "hits" in ntuple and "none" not in ntuple
        assert ntuple.field("energy").type == "double" and ntuple.arrow_schema(["energy"]).names == ["energy"]
        ntuple.record()
        await ntuple.arrays(["energy"])
        assert list(ntuple.trace()) == [(["energy"], COUNT)] == list(rntuple.Trace([("energy", COUNT)]))
        assert ntuple.order(ntuple.trace()) == ntuple.sync.order(ntuple.trace())
        assert (tree.name, tree.keys(), list(tree), "z" in tree, tree.refused) == ("old", ["x.y", "z"], ["x.y", "z"], True, {})
        assert tree.branches["z"] == "std::int64_t" and tree.arrow_schema().names == ["x.y", "z"]
        assert [one[0] for one in await tree.trees(["z"], 1, 3)] == ["values"]
        old = await store.import_tree(tree)
        assert old.renamed == {"x.y": "x_y"} and old.left_out == [] and repr(old) == "<dolmen.aio of <dolmen.rntuple.Stored 'old'>>"
        number = (await old.version()).number
        async with await old.appender():
            pass
        assert (await old.version()).number == number

    run(local, body)


def test_what_coroutines_make_is_made_of_nothing_else(tmp_path):
    for make, remedy in (
        (rntuple.Tree, r"Tree\('a.root'\): one is had by await Tree.open\(path, name\)"),
        (rntuple.Ntuple, r"Ntuple\('a.root'\): .* await open\("),
        (rntuple.Stored, r"await store.ntuple\(name\)"),
        (rntuple.Appender, r"await stored.appender\("),
        (dolmen.aio.Pool, r"await dolmen.aio.open\("),
        (dolmen.aio.Container, r"await pool.container\("),
        (dolmen.aio.Kv, r"await cont.kv\("),
        (dolmen.aio.Array, r"await cont.array\("),
        (dolmen.aio.Object, r"await cont.object\("),
        (dolmen.aio.Files, r"await cont.files\("),
        (dolmen.aio.File, r"await files.open_raw\("),
    ):
        with pytest.raises(TypeError, match=remedy):
            make("a.root")
        with pytest.raises(TypeError, match=remedy.rpartition("await")[2]):
            type("Own", (make,), {})("a.root")
