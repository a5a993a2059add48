"""Ntuples in containers: in this process, at a daemon, and over TCP."""

import datetime
import subprocess
import sys
import textwrap
import time

import awkward as ak
import dolmen
import numpy as np
import pandas
import pyarrow as pa
import pytest
import uproot
from conftest import COUNT, events, same
from dolmen import rntuple

def test_an_ntuple_is_imported_read_and_exported_as_it_was(cont, file, tmp_path):
    store = rntuple.Store(cont)
    assert store.names() == []
    store.import_root(file)
    stored, source = rntuple.open(cont), rntuple.open(file)
    assert rntuple.Store(cont).names() == ["events"] and "events" in store
    assert stored.clusters == source.clusters and len(source.clusters) > 3
    for name, values in events().items():
        assert same(stored[name], values), name
    copy, back = tmp_path / "copy.root", tmp_path / "back.root"
    told = []
    stored.export_root(back, time=0, progress=told.append)
    source.export_root(copy, time=0)
    assert told == [end for _, end in source.clusters]
    theirs = uproot.open(back)["events"]
    for name, values in events().items():
        assert same(theirs[name].array(), values), name
    # The name is in the file, and nothing else is other than in an export of the file itself.
    assert back.stat().st_size == copy.stat().st_size
    with pytest.raises(dolmen.Exists):
        store.import_root(file)
    for name in ("x y", "a/b", ""):
        with pytest.raises(dolmen.Invalid, match=f'cannot have the name "{name}"'):
            store.import_root(file, name=name)
    store.destroy("events")
    with pytest.raises(dolmen.NotFound):
        rntuple.open(cont, "events")


def test_versions_tags_and_times_show_what_was(cont):
    stored = rntuple.Store(cont).create("events", events(count=100))
    first = stored.version()
    stored.tag("first")
    between = time.time()
    second = stored.append(events(100, 50))
    assert (first.entries, second.entries, second.number) == (100, 150, first.number + 1)
    assert same(stored.open()["number"], np.arange(150))
    for older in (stored.open(tag="first"), stored.open(version=first.number), stored.open(time=between)):
        assert same(older["number"], np.arange(100))
    assert [version.made for version in stored.versions()] == ["Created", "Appended"]
    assert stored.tags() == {"first": first.number}
    with pytest.raises(dolmen.Exists, match="a tag 'first' already; move=True has it keep this version"):
        stored.tag("first")
    assert stored.tag("first", move=True).number == second.number
    stored.untag("first")
    with pytest.raises(dolmen.NotFound):
        stored.open(tag="first")
    with pytest.raises(dolmen.Invalid, match="one of them"):
        stored.open(tag="a", version=1)
    stored.keep(0)
    assert stored.expire() >= 1
    assert [version.number for version in stored.versions()] == [second.number]


def test_the_time_that_a_version_shows_opens_that_version(cont):
    stored = rntuple.Store(cont).create("events", events(count=10))
    for count in range(11, 25):
        stored.append(events(count - 1, 1))
        last = stored.version()
        assert (last.entries, stored.version(time=last.time).number) == (count, last.number)
    for version in stored.versions():
        assert len(stored.open(time=version.time)) == version.entries, version
    # Floats of today are 238 ns from each other: each stands for what is nearest to it.
    for ns in range(1_795_813_436_123_456_000, 1_795_813_436_123_457_000):
        by = rntuple._when(None, None, rntuple.Version((1, ns, 0, 0, "")).time)[2]
        assert ns <= by <= ns + 239
    whole = 1_795_813_436
    assert [rntuple._when(None, None, of(whole))[2] for of in (int, np.int64)] == [whole * 10**9] * 2
    # A datetime is a microsecond, of any zone but none.
    for ns in range(whole * 10**9 + 123_456_000, whole * 10**9 + 123_460_000, 7):
        at = datetime.datetime.fromtimestamp(rntuple.Version((1, ns, 0, 0, "")).time, datetime.UTC)
        assert ns <= rntuple._when(None, None, at)[2] <= ns + 1620
    at = datetime.datetime.fromtimestamp(stored.versions()[3].time, datetime.timezone(datetime.timedelta(hours=-7)))
    assert len(stored.open(time=at + datetime.timedelta(seconds=600))) == 24
    with pytest.raises(dolmen.NotFound):
        stored.open(time=at - datetime.timedelta(seconds=600))
    for wrong in (at.replace(tzinfo=None), datetime.datetime(1969, 12, 31, tzinfo=datetime.UTC)):
        with pytest.raises(dolmen.Invalid, match="time is"):
            stored.open(time=wrong)
    assert rntuple._when(None, None, np.float32(0.5))[2] == 500_000_000


def test_a_column_is_added_with_values_and_older_versions_do_not_have_it(cont, file, tmp_path):
    stored = rntuple.Store(cont).import_root(file)
    before = stored.version()
    weights = np.arange(COUNT) / 7
    stored.add_columns({"weight": weights, "tags": ak.Array([["x"] * (at % 2) for at in range(COUNT)])})
    now = stored.open()
    assert same(now["weight"], weights) and len(now["tags"]) == COUNT
    assert same(now["hits"], events()["hits"])
    assert "weight" not in stored.open(version=before.number)
    with pytest.raises(dolmen.Exists):
        stored.add_column("weight", weights)
    with pytest.raises(dolmen.Invalid):
        stored.add_column("other", weights[:-1])
    # Who appends has to bring the new fields, too.
    with pytest.raises(dolmen.Invalid, match="weight"):
        stored.append(events(COUNT, 1))
    stored.append({**events(COUNT, 1), "weight": [1.0], "tags": ak.Array([["y"]])})
    path = tmp_path / "with.root"
    stored.open().export_root(path)
    theirs = uproot.open(path)["events"]
    assert same(theirs["weight"].array(), [*weights, 1.0]) and theirs["tags"].array()[-1].to_list() == ["y"]


def test_what_is_put_is_seen_with_the_commit_and_given_up_with_an_exception(cont):
    stored = rntuple.Store(cont).create("events", events(count=10))
    with stored.appender() as appender:
        appender.put(events(10, 10))
        appender.put(events(20, 10))
        assert len(stored.open()) == 10
    assert same(stored.open()["number"], np.arange(30))
    with pytest.raises(ZeroDivisionError), stored.appender() as appender:
        appender.put(events(30, 10))
        raise ZeroDivisionError
    assert len(stored.open()) == 30
    with pytest.raises(dolmen.Closed):
        appender.put(events(30, 10))


WRITER = textwrap.dedent(
    """
    import sys, numpy, dolmen
    from dolmen import rntuple
    address, first, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with dolmen.open(address) as pool:
        stored = rntuple.Store(pool.container("henge"))["events"]
        for at in range(rounds):
            stored.append({"number": numpy.arange(first + at * 10, first + at * 10 + 10)})
    """
)


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_several_processes_append_at_once_and_nothing_is_lost_or_mixed(kind):
    from conftest import placed

    for place in placed(kind):
        with place.open() as pool:
            cont = pool.create_container("henge", durability="process")
            stored = rntuple.Store(cont).create("events", {"number": np.arange(0)})
            words = [sys.executable, "-c", WRITER, place.address]
            writers = [subprocess.Popen([*words, str(1000 * at), "8"]) for at in range(3)]
            seen = 0
            while any(writer.poll() is None for writer in writers):
                numbers = stored.open()["number"]
                assert len(numbers) >= seen and len(numbers) % 10 == 0
                assert (numbers.reshape(-1, 10) - numbers[::10, None] == np.arange(10)).all()
                seen = len(numbers)
            assert [writer.wait() for writer in writers] == [0, 0, 0]
            numbers = stored.open()["number"]
            assert sorted(numbers) == [number for at in range(3) for number in range(1000 * at, 1000 * at + 80)]
            # Each writer's entries are in its order.
            for at in range(3):
                own = numbers[(numbers >= 1000 * at) & (numbers < 1000 * (at + 1))]
                assert (np.diff(own) == 1).all()


def test_a_filter_reads_less_and_finds_the_same(cont):
    stored = rntuple.Store(cont).create("events", events(count=400))
    for first in range(400, COUNT, 400):
        stored.append(events(first, 400), page_bytes=800)
    whole, some = stored.open(), stored.open()
    all_bytes = [ntuple._reader.asked()[1] for ntuple in (whole, some)]
    energy = whole["energy"]
    found = some.arrays(["number", "hits"], filter=[("energy", ">=", 900.0), ("energy", "<", 950)])
    assert same(found["number"], np.flatnonzero((energy >= 900) & (energy < 950)))
    assert same(found["hits"], events()["hits"][1800:1900])
    whole.arrays(["number", "hits", "energy"])
    used = [ntuple._reader.asked()[1] - before for ntuple, before in zip((whole, some), all_bytes)]
    assert used[1] * 4 < used[0], used


def test_skims_clones_and_reshapes_have_what_was_wanted(cont, file):
    store = rntuple.Store(cont)
    told = []
    stored = store.import_root(file, progress=told.append)
    assert told[-1] == COUNT
    some = store.skim(stored.open(), "some", ["number", "hits"], filter=[("energy", ">=", 100), ("number", "!=", 1000)]).open()
    wanted = [number for number in range(200, COUNT) if number != 1000]
    assert same(some["number"], wanted) and same(some["hits"], events()["hits"][wanted]) and some.keys() == ["number", "hits"]
    from_file = store.skim(rntuple.open(file), "from_file", start=10, stop=20).open()
    assert same(from_file["name"], [f"event {number}" for number in range(10, 20)])
    assert len(store.skim(stored.open(), "none", filter=[("energy", "<", 0)]).open()) == 0
    assert store.skim(stored.open(), "fitting", ["n*"]).open().keys() == ["number", "name"]
    clone = store.clone(stored, "clone", ["energy"])
    stored.append(events(COUNT, 1))
    assert same(clone.open()["energy"], events()["energy"]) and clone.open().keys() == ["energy"]
    reading, done = stored.open(), []
    reshaped = stored.reshape(compression="zstd:5", page_bytes=5000, cluster_bytes=50_000, step_bytes=60_000, progress=done.append)
    assert len(done) > 1 and done[-1] == COUNT + 1 and reshaped.made == "Reshaped"
    for ntuple in (reading, stored.open()):
        assert same(ntuple["number"], np.arange(COUNT + 1)) and same(ntuple["hits"], events(0, COUNT + 1)["hits"])
    assert len(stored.open().clusters) < len(reading.clusters)
    stored.pack(reading.order([(["energy", "hits"], 9), (["name"], 1)]))
    with pytest.raises(dolmen.NotFound):
        store.clone(stored, "other", ["none"])


def test_pages_are_scrubbed(cont, file):
    stored = rntuple.Store(cont).import_root(file)
    told = []
    scrubbed = stored.scrub(progress=told.append)
    assert scrubbed.bad == [] and scrubbed.pages > 20 and told[-1] == COUNT
    collected = rntuple.Store(cont).collect()
    assert (collected.versions, collected.kept, collected.clusters, collected.damaged) == (0, 0, 0, {})


def test_a_filter_changes_no_numbers_of_variants(cont):
    big = 2**53 + 1
    values = ak.Array(ak.contents.UnionArray(
        ak.index.Index8(np.array([0, 1] * 10, "i1")),
        ak.index.Index64(np.repeat(np.arange(10), 2)),
        [ak.contents.NumpyArray(np.arange(big, big + 10)), ak.contents.NumpyArray(np.arange(10.0))],
    ))
    events = {"n": np.arange(20), "v": values}
    stored = rntuple.Store(cont).create("events", {name: array[:5] for name, array in events.items()})
    for first in (5, 10, 15):
        stored.append({name: array[first : first + 5] for name, array in events.items()})
    ntuple = stored.open()
    whole = ntuple.arrays(["v"])
    passed = ntuple.arrays(["v"], filter=[("n", ">=", 0)])
    assert passed.type == whole.type and passed["v"].to_list() == values.to_list()
    some = ntuple.arrays(["v"], filter=[("n", ">=", 3), ("n", "!=", 11)])
    assert some["v"].to_list() == [value for at, value in enumerate(values.to_list()) if at >= 3 and at != 11]
    assert len(ntuple.arrays(["v"], filter=[("n", ">", 30)])) == 0
    assert ntuple.arrays(["?", "v"]).fields == ["n", "v"] and ntuple.arrays(["v", "v"]).fields == ["v"]


def test_a_variant_has_one_type_of_arrow_also_where_entries_have_none_of_its_types(cont):
    values = ak.Array(ak.contents.UnionArray(
        ak.index.Index8(np.array([0, 1] * 5, "i1")),
        ak.index.Index64(np.repeat(np.arange(5), 2)),
        [ak.contents.NumpyArray(np.arange(5)), ak.to_layout(ak.Array(["a", "b", "c", "d", "e"]))],
    ))
    store = rntuple.Store(cont)
    stored = store.create("events", {"n": np.arange(10), "v": values})
    stored.append({"n": [10, 11]}, fill={"v": None})
    stored.append({"n": np.arange(12, 22), "v": values})
    ntuple, wanted = stored.open(), [*values.to_list(), None, None, *values.to_list()]
    schema = ntuple.arrow_schema()
    assert [schema.field("v").type[at].name for at in range(schema.field("v").type.num_fields)] == ["_0", "_1"]
    for passing in (None, [("n", ">=", 0)]):
        batches = list(ntuple.batches(step=4, filter=passing))
        assert len(batches) >= 6 and all(batch.schema.equals(schema) for batch in batches)
        for table in (
            pa.Table.from_batches(batches),
            ntuple.arrow_reader(filter=passing).read_all(),
            ntuple.arrays(filter=passing, library="pa"),
            pa.table(ntuple),
        ):
            table.validate(full=True)
            assert table.schema.equals(schema) and table["v"].to_pylist() == wanted
    assert ntuple.arrays("v", filter=[("n", ">", 8), ("n", "<", 13)], library="pa")["v"].to_pylist() == wanted[9:13]


def test_a_filter_looks_at_each_cluster_once(cont, tmp_path, monkeypatch):
    count, path = 200, tmp_path / "made.root"
    rntuple.write_root(path, "events", {"a": np.repeat(np.arange(count) % 2, 4)}, cluster_bytes=32, page_bytes=32)
    stored = rntuple.Store(cont).import_root(path)
    ntuple, filter = stored.open(), [("a", "==", 1)]
    assert len(ntuple.clusters) == count
    looks = 0

    class Looked(list):
        """Counts what is looked at of it."""

        def __getitem__(self, at):
            nonlocal looks
            looks += 1
            return super().__getitem__(at)

        def __iter__(self):
            return (self[at] for at in range(len(self)))

    clusters = rntuple.Ntuple.clusters.fget
    monkeypatch.setattr(rntuple.Ntuple, "clusters", property(lambda self: Looked(clusters(self))))
    for read in (
        lambda: len(ntuple.arrays(filter=filter)),
        lambda: sum(batch.num_rows for batch in ntuple.batches(filter=filter)),
        lambda: sum(batch.num_rows for batch in ntuple.batches(filter=filter, step=3)),
    ):
        looks = 0
        assert read() == 2 * count
        assert looks <= 8 * count


def test_pages_are_put_right_by_what_is_open(cont, file):
    store = rntuple.Store(cont)
    stored = store.import_root(file)
    copied = store.import_root(file, name="copied")
    for right in (rntuple.open(file), copied.open()):
        assert stored.scrub(repair_from=right).bad == []


def test_what_tags_keep_is_destroyed_by_force_alone(cont, file):
    store = rntuple.Store(cont)
    stored = store.import_root(file)
    stored.append({name: stored.open()[name] for name in stored.open()})
    assert stored.keeps() == 86_400
    stored.keep(0.5)
    assert stored.keeps() == 0.5
    stored.tag("paper", 1)
    assert store.collect().kept == 1
    with pytest.raises(dolmen.Busy, match='tag paper keeps version 1 of "events"'):
        store.destroy("events")
    assert store.destroy("events", force=True).clusters >= 1
    with pytest.raises(dolmen.NotFound):
        store.destroy("events")


def test_numbers_become_those_of_their_fields_if_nothing_is_lost(cont):
    stored = rntuple.Store(cont).create("events", {"a": np.arange(2.0), "b": ak.Array([[1], []]), "c": np.arange(2, dtype="i2")})
    stored.append({"a": np.arange(2, dtype="i4"), "b": ak.values_astype(ak.Array([[2], [3]]), "i1"), "c": np.zeros(2, "u1")})
    stored.append({"a": [], "b": ak.Array([]), "c": []})
    now = stored.open()
    assert same(now["a"], [0.0, 1.0, 0.0, 1.0]) and now["a"].dtype == "f8"
    assert same(now["b"], [[1], [], [2], [3]]) and now["c"].dtype == "i2"
    with pytest.raises(dolmen.Invalid, match="'?c'?"):
        stored.append({"a": [1.0], "b": ak.Array([[1]]), "c": [70_000]})
    assert len(stored.open()) == 4


def test_a_closed_pool_closes_what_is_read_through_it(place):
    with place.open() as pool:
        cont = pool.create_container("henge")
        stored = rntuple.Store(cont).create("events", events(count=10))
        ntuple = stored.open()
    for use in (lambda: ntuple["number"], stored.version, lambda: rntuple.open(cont)):
        with pytest.raises(dolmen.Error):
            use()


def test_what_is_not_taken_leaves_no_ntuple_and_no_entries(cont, tmp_path):
    store = rntuple.Store(cont)
    for data in ({"a": [1], "b": [1, 2]}, {"a": np.ma.array([1, 2], mask=[0, 1])}, {"a": np.zeros(2, "M8[s]")}, [{"a": 1}]):
        with pytest.raises(dolmen.Invalid):
            store.create("events", data)
    # Also if it is only found when entries are put.
    with pytest.raises(dolmen.Invalid):
        store.create("events", {"a": [0.5, 5.0]}, precision={"a": "quant:8:0:1"})
    assert store.names() == []
    stored = store.create("events", {"a": [1.0], "n": np.array([1], "i4")})
    for wrong in (np.ma.array([1.0], mask=[1]), [2**53 + 1], pandas.array([None], dtype="Int64"), [2**64 - 1]):
        with pytest.raises(dolmen.Invalid, match="'a'"):
            stored.append({"a": wrong, "n": [1]})
    with pytest.raises(dolmen.Invalid, match="'n'.*int32"):
        stored.append({"a": [1], "n": [2**31]})
    with pytest.raises(dolmen.Invalid, match='missing: "n" '):
        stored.append({"a": [1]})
    with pytest.raises(dolmen.Invalid, match="'c'.*missing"):
        stored.add_column("c", np.ma.array([1.0], mask=[1]))
    stored.append({"a": [2**53], "n": [2]})
    assert same(stored.open()["a"], [1, 2**53]) and same(stored.open()["n"], [1, 2])
    for call in (store.import_root, stored.append_root, lambda path: stored.scrub(repair_from=path)):
        with pytest.raises(FileNotFoundError, match="nowhere.root: "):
            call(tmp_path / "nowhere.root")
    with pytest.raises(dolmen.Invalid, match="Ntuple is needed.*not a Stored"):
        store.skim(stored, "skimmed")
    with pytest.raises(dolmen.Invalid, match="Ntuple is needed.*not a Stored"):
        store.import_ntuple(stored, "copy")
    with pytest.raises(dolmen.Invalid, match="Stored is needed.*not a str"):
        store.clone("events", "clone")


def test_conditions_on_rounded_floats_leave_out_nothing_that_is_kept(cont):
    store = rntuple.Store(cont)
    values = -1.9 - np.arange(3000) / 1e5
    stored = store.create("events", {"x": values[:1000]}, precision={"x": "trunc:12"})
    for first in (1000, 2000):
        stored.append({"x": values[first:first + 1000]})
    stored.add_column("y", values, precision="real16")
    now = stored.open()
    for name in ("x", "y"):
        kept = now[name]
        assert (kept > values).any()
        for bound in np.unique(kept):
            found = now.arrays([name], filter=[(name, "==", bound)], library="np")[name]
            assert len(found) == np.count_nonzero(kept == bound) > 0, (name, bound)
    with pytest.raises(dolmen.NotFound, match="x"):
        stored.add_columns({"z": values}, precision={"x": "real16"})


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "u8", "f4", "f8"])
def test_comparisons_are_those_of_the_numbers_themselves(dtype):
    from fractions import Fraction

    from dolmen.rntuple import _arrays

    numbers = [0, 1, -1, 3, 127, 128, 65535, 2**31 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**53) - 1, -(2**63)]
    floats = [0.1, -0.1, 2.5, 1e-300, 1e300, 3.4e38, float(2**53), float(2**63), float(2**64), 0.30000001192092896]
    if np.dtype(dtype).kind in "fb":
        array = np.array([*numbers, *floats, np.inf, -np.inf, np.nan], "f8")
        with np.errstate(over="ignore"):
            array = array.astype(dtype)
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        array = np.array([number for number in numbers if low <= number <= high], dtype)
    order = {"<": lambda one, two: one < two, "<=": lambda one, two: one <= two, "==": lambda one, two: one == two}
    order |= {">": lambda one, two: two < one, ">=": lambda one, two: two <= one, "!=": lambda one, two: one != two}

    def exact(number):
        return Fraction(number) if isinstance(number, int) or np.isfinite(number) else float(number)

    for value in [*numbers, *floats, np.inf, -np.inf, np.nan, True, np.float32(0.1), np.int64(-3), 10**400, -(10**400)]:
        for op, compare in order.items():
            wanted = [compare(exact(number), exact(value.item() if isinstance(value, np.generic) else value)) for number in array.tolist()]
            assert _arrays.holds(op, array, value).tolist() == wanted, (op, value)


def test_a_filter_passes_the_same_entries_whatever_is_left_out_by_it(cont, tmp_path):
    values = {"f": np.repeat(np.array([0.1, 0.2, 0.3], "f4"), 500), "i": np.arange(1500) + 2**53}
    rntuple.write_root(tmp_path / "in.root", "events", values, cluster_bytes=6000, page_bytes=500)
    file = rntuple.open(tmp_path / "in.root")
    stored = rntuple.Store(cont).import_root(tmp_path / "in.root").open()
    for name, value, counts in [("f", 0.1, (0, 0, 1500, 1500)), ("f", np.float32(0.1), (0, 500, 1500, 1000)),
                                ("i", float(2**53 + 4), (4, 5, 1496, 1495)), ("i", 1e300, (1500, 1500, 0, 0))]:
        for op, count in zip(("<", "<=", ">=", ">"), counts):
            for ntuple in (file, stored):
                assert len(ntuple.arrays([name], filter=[(name, op, value)])) == count, (name, op, value)


def test_plain_lists_are_lists_whatever_their_lengths(cont):
    store = rntuple.Store(cont)
    values = {"n": [[1.5]] * 3, "t": [["a", "b"], ["c", "d"], ["e", "f"]], "d": [[[1, 2]], [[3, 4]], [[5, 6]]], "p": [(1, 2)] * 3}
    stored = store.create("lists", values)
    types = [field.type for field in stored.open().fields.values()]
    assert types == ["std::vector<double>", "std::vector<std::string>", "std::vector<std::vector<std::int64_t>>",
                     "std::vector<std::int64_t>"]
    stored.append({"n": [[]], "t": [["x"]], "d": [[[], [7]]], "p": [[9]]})
    read = stored.open().arrays()
    assert ak.to_list(read) == [{"n": [1.5], "t": values["t"][at], "d": values["d"][at], "p": [1, 2]} for at in range(3)] + [
        {"n": [], "t": ["x"], "d": [[], [7]], "p": [9]}
    ]
    fixed = store.create("fixed", {"a": np.arange(6.0).reshape(3, 2)})
    fixed.append({"a": [[8, 9]]})
    assert fixed.open().fields["a"].type == "std::array<double,2>" and fixed.open()["a"][3].tolist() == [8, 9]


def test_filters_are_of_lengths_too_and_of_batches_and_files_of_parquet(cont, file, tmp_path):
    import pyarrow.parquet as pq

    lengths = ak.to_numpy(ak.num(events()["hits"]))
    wanted = np.flatnonzero((lengths >= 2) & (events()["energy"] > 100))
    filter = [("len(hits)", ">=", 2), ("energy", ">", 100)]
    for ntuple in (rntuple.open(file), rntuple.Store(cont).import_root(file).open()):
        assert same(ntuple.arrays(["number"], filter=filter)["number"], wanted)
        batches = list(ntuple.batches(["number"], step=700, filter=filter))
        assert np.concatenate([batch["number"].to_numpy() for batch in batches]).tolist() == wanted.tolist()
        ntuple.to_parquet(tmp_path / "some.parquet", ["number"], filter=filter)
        assert pq.read_table(tmp_path / "some.parquet")["number"].to_pylist() == wanted.tolist()
        assert ntuple.arrow_reader(["number"], filter=[("energy", "<", -1)]).read_all().num_rows == 0


def test_lists_that_are_all_empty_are_appended_to_a_field_of_any_type(cont):
    store = rntuple.Store(cont)
    with pytest.raises(dolmen.Invalid, match="'tags': its lists are empty"):
        store.create("events", {"tags": [[], []]})
    assert store.names() == []
    stored = store.create("events", {"tags": [["a"]], "deep": [[[["b"]], []]], "n": [1]})
    stored.append(ak.Array([{"tags": [], "deep": [], "n": 2}, {"tags": [], "deep": [[]], "n": 3}]))
    with pytest.raises(dolmen.Invalid, match="'more': its lists are empty"):
        stored.add_column("more", [[], [], []])
    stored.append({"tags": pandas.Series([[], []]), "deep": [[], []], "n": [4, 5]})
    read = stored.open().arrays()
    assert ak.to_list(read["tags"]) == [["a"], [], [], [], []]
    assert ak.to_list(read["deep"]) == [[[["b"]], []], [], [[]], [], []]


@pytest.mark.parametrize("kind", ["lists", "texts"])
def test_a_filter_of_lengths_reads_no_items(cont, kind):
    count, rng = 2000, np.random.default_rng(7)
    lengths = rng.integers(0, 200, count) * (1 if kind == "lists" else 8)
    hits = ak.unflatten(rng.random(lengths.sum()), lengths) if kind == "lists" else ["a" * length for length in lengths]
    stored = rntuple.Store(cont).create("events", {"hits": hits}, compression=None, group_bytes=1 << 15)
    ntuple = stored.open()
    ntuple.record()
    all_bytes = ntuple.estimate(["hits"]).stored_bytes
    before = ntuple._reader.asked()[1]
    ranges = ntuple._passing([("len(hits)", "!=", 3)], None, None)
    read_bytes = ntuple._reader.asked()[1] - before
    assert [entry for first, end in ranges for entry in range(first, end)] == np.flatnonzero(lengths != 3).tolist()
    # Besides the offsets a group has some of what is next to them.
    assert 8 * count <= read_bytes <= 4 * 8 * count < all_bytes / 20
    assert list(ntuple.trace()) == [(["hits"], count)]


def test_what_records_in_lists_have_is_read_by_its_name_as_lists(cont):
    jets = [[{"pt": 10.0 * at + nth, "hits": list(range(nth)), "at": {"x": nth}} for nth in range(at % 4)] for at in range(50)]
    events = ak.Array([{"run": at, "jet": jet} for at, jet in enumerate(jets)])
    stored = rntuple.Store(cont).create("events", events[:20])
    stored.append(events[20:])
    ntuple = stored.open()
    assert len(ntuple.clusters) == 2
    for name in ("jet.pt", "jet._0.pt"):
        assert ntuple[name].to_list() == events["jet", "pt"].to_list(), name
        assert ntuple.field(name).type == "double"
    assert ntuple["jet.at.x"].to_list() == events["jet", "at", "x"].to_list()
    read = ntuple.arrays(["jet.hits", "run"], 15, 30)
    assert read["jet.hits"].to_list() == events["jet", "hits"][15:30].to_list() and read["run"].to_list() == list(range(15, 30))
    assert ntuple.arrays("jet.*").fields == ["jet.pt", "jet.hits", "jet.at"]
    some = ntuple.arrays("jet.pt", filter=[("len(jet)", "==", 3)])
    assert some["jet.pt"].to_list() == [row for row in events["jet", "pt"].to_list() if len(row) == 3]
    two = ntuple.arrays("run", filter=[("len(jet.pt)", "==", 2), ("run", "<", 20)])["run"].to_list()
    assert two == [at for at in range(20) if at % 4 == 2]
    with pytest.raises(dolmen.Invalid, match=r"'jet.pt' has lists, .*'len\(jet.pt\)'"):
        ntuple.arrays("run", filter=[("jet.pt", ">", 5)])
    table = pa.Table.from_batches(ntuple.batches(["jet.pt", "jet.hits"]))
    assert table["jet.pt"].to_pylist() == events["jet", "pt"].to_list()
    assert table["jet.hits"].to_pylist() == events["jet", "hits"].to_list()
    for name in ("jet.pz", "jet.pt.x", "run.x"):
        with pytest.raises(dolmen.NotFound, match=name):
            ntuple[name]


def test_what_nobody_needs_is_freed_where_there_is_no_room_for_a_byte(tmp_path):
    dolmen.create_pool(str(tmp_path / "full"), size=1 << 26, targets=1)
    with dolmen.open(f"file:{tmp_path}/full") as pool:
        cont = pool.create_container("events", durability="process")
        store, bits = rntuple.Store(cont), np.random.default_rng(0)
        names = [f"n{number}" for number in range(70)]
        for name in names:
            store.create(name, {"x": np.arange(10.0)})
        large = store.create("large", {"x": bits.random(1 << 20)})
        kv = cont.create_kv()
        for size in [1 << 20, 1 << 12, 16]:
            with pytest.raises(dolmen.NoSpace):
                for number in range(1 << 20):
                    kv[f"{size}/{number}"] = bits.bytes(size)
        with pytest.raises(dolmen.NoSpace):
            large.append({"x": [1.0]})
        for name in names[:-1]:
            freed = store.destroy(name)
            assert freed.clusters == 1, name
        assert store.destroy("large").clusters == 1 and list(store) == names[-1:]
        assert store[names[-1]].open()["x"].tolist() == list(range(10))
