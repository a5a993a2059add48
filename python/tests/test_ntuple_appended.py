"""What is appended to ntuples has other fields than they, and what is done then; trees that are imported."""

import math

import awkward as ak
import dolmen
import numpy as np
import pandas
import pyarrow as pa
import pytest
import uproot
from conftest import COUNT, events, same
from dolmen import rntuple


def test_a_file_with_other_fields_is_refused_by_their_names_and_types(cont, tmp_path):
    stored = rntuple.Store(cont).create("events", {"x": np.arange(3), "y": np.arange(3.0)})
    path = tmp_path / "other.root"
    rntuple.write_root(path, "events", {"x": np.arange(3.0), "z": ["a", "b", "c"]}, compression="zstd")
    with pytest.raises(dolmen.Invalid) as raised:
        stored.append_root(path)
    told = str(raised.value)
    assert not isinstance(raised.value, dolmen.Retryable)
    assert str(path) in told and 'missing: "y" (double)' in told and 'not in the ntuple: "z" (std::string)' in told
    assert '"x" (the ntuple has std::int64_t, given is double)' in told and "`fill`" not in told
    with pytest.raises(dolmen.Invalid, match='missing: "y" .*; `fill` gives what is missing a value$'):
        stored.append({"x": np.arange(3)})
    with pytest.raises(dolmen.Invalid, match=r'not in the ntuple: "z" \(std::int64_t\); `leave_out` leaves out what the ntuple has not$'):
        stored.append({"x": np.arange(3), "y": np.arange(3.0), "z": np.arange(3)})
    assert stored.version().number == 1


def test_arrays_with_other_fields_are_refused_by_all_of_their_names_as_files_are(cont, tmp_path):
    stored = rntuple.Store(cont).create("events", {"x": [1], "y": [1.0], "r": ak.Array([{"a": 1, "b": 2}])})
    path, other = tmp_path / "other.root", {"x": [2], "z": ["a"], "v": [[1.0]]}
    rntuple.write_root(path, "events", other)
    said = []
    for give in (lambda: stored.append(other), lambda: stored.append(path), lambda: stored.appender().put(other)):
        with pytest.raises(dolmen.Invalid) as raised:
            give()
        said.append(raised.value.strerror.removeprefix(f"{path}: "))
    assert said[0] == said[1] == said[2] == (
        'the fields are not those of the ntuple; missing: "y" (double), "r" (a record of a, b); not in the ntuple: "z" (std::string),'
        ' "v" (std::vector<double>); `fill` gives what is missing a value; `leave_out` leaves out what the ntuple has not'
    )
    for fill, wanted in (({"y": 1}, 'missing: "r"'), ({"y": 1, "r": None}, 'ntuple; not in the ntuple: "z"')):
        with pytest.raises(dolmen.Invalid, match=wanted):
            stored.append(other, fill=fill)
    with pytest.raises(dolmen.Invalid, match='missing: "x".*"r".*"z" .std::string.; these are all that it has') as raised:
        stored.append({"z": ["a"]}, fill={"x": 1, "y": 1, "r": None})
    assert "`" not in str(raised.value)
    many = {f"f{at}": [at] for at in range(15)}
    with pytest.raises(dolmen.Invalid, match=r'"f11" \(std::int64_t\), and 3 others; `fill`'):
        stored.append({"x": [1], **many})
    assert stored.version().number == 1


def test_who_appends_knows_after_a_commit_what_others_have_added(cont):
    stored = rntuple.Store(cont).create("events", {"x": [1]})
    appender, leaving = stored.appender(fill={"y": 0}), stored.appender(fill={"y": 0}, leave_out=True)
    stored.add_column("y", [0.5])
    for one, x in ((appender, 2), (leaving, 5)):
        one.put({"x": [x]})
        one.commit()
    leaving.put({"x": [6], "y": [9], "z": [1]})
    assert leaving.commit().left_out == ['"z" (std::int64_t) is no field of the ntuple']
    # Numbers become those of the new field, too.
    appender.put({"x": [3], "y": [7]})
    with pytest.raises(dolmen.Invalid, match='ntuple; not in the ntuple: "z"'):
        appender.put({"x": [4], "y": [8], "z": [1]})
    assert appender.commit().entries == 5
    assert same(stored.open()["y"], [0.5, 0.0, 0.0, 9.0, 7.0])


def test_a_block_in_which_nothing_is_put_makes_no_version(cont, file):
    store = rntuple.Store(cont)
    stored = store.create("events", {"x": [1]})
    with stored.appender():
        pass
    with pytest.raises(dolmen.Invalid, match='"wieght", which is no field'):
        with stored.appender(fill={"wieght": 1}):
            pass
    with stored.appender() as appender:
        with pytest.raises(dolmen.Invalid, match="the data have no fields"):
            appender.put({})
        with pytest.raises(dolmen.Invalid, match='"z"'):
            appender.put({"x": [1], "z": [2]})
    assert stored.version().number == 1
    with stored.appender() as appender:
        appender.put({"x": [2]})
        assert appender.commit().number == 2
    assert stored.version().number == 2
    with stored.appender() as appender:
        appender.put_ntuple(stored)
    assert stored.version() == stored.version(3) and stored.version().entries == 4


def test_data_without_fields_are_refused_wherever_entries_are_given(cont, tmp_path):
    store = rntuple.Store(cont)
    stored = store.create("events", {"x": [1]})
    for data in ({}, pa.table({}), pandas.DataFrame(), []):
        for give in (
            lambda data=data: store.create("none", data),
            lambda data=data: stored.appender().put(data),
            lambda data=data: rntuple.RootWriter(tmp_path / "none.root", "none").append(data),
            lambda data=data: rntuple.write_root(tmp_path / "none.root", "none", data),
        ):
            with pytest.raises(dolmen.Invalid, match="the data have no fields, and entries are made of values of fields"):
                give()
        with pytest.raises(dolmen.Invalid, match="no columns are given, and one at least is to be added") as raised:
            stored.add_columns(data)
        assert not isinstance(raised.value, dolmen.Retryable)
    with pytest.raises(dolmen.Invalid, match="the data have no fields"):
        stored.append({})
    assert store.names() == ["events"] and stored.version().number == 1 and not (tmp_path / "none.root").exists()


def test_who_appends_arrays_is_told_of_progress_once(cont):
    stored, told = rntuple.Store(cont).create("events", {"x": [1]}), []
    assert stored.append({"x": np.arange(5)}, progress=told.append).entries == 6 and told == [5]

    def fails(count):
        raise KeyError(count)

    with pytest.raises(KeyError):
        stored.append({"x": [1]}, progress=fails)
    with pytest.raises(TypeError, match="progress is a function"):
        stored.append({"x": [1]}, progress=5)
    for options in ({"ntuple": "events"}, {"storage_options": {}}):
        with pytest.raises(dolmen.Invalid, match="ntuple and storage_options are of files"):
            stored.append({"x": [1]}, **options)
    assert stored.version().number == 2


def test_the_index_of_pandas_is_a_field_where_it_is_made_one(cont):
    frame = pandas.DataFrame({"count": [1, 2]}, index=pandas.Index(["north", "south"], name="station"))
    store = rntuple.Store(cont)
    assert store.create("without", frame).open().keys() == ["count"]
    stored = store.create("within", frame.reset_index())
    stored.append(frame.reset_index())
    assert ak.to_list(stored.open()["station"]) == ["north", "south"] * 2
    with pytest.raises(dolmen.Invalid, match='missing: "station"'):
        stored.append(frame)


def test_floats_of_16_bits_become_floats(cont, tmp_path):
    values, store = np.array([0.1, -65504, 2**-24, np.nan, np.inf], "f2"), rntuple.Store(cont)
    stored = store.create("events", {"x": values, "y": pa.array(values), "v": [values] * 5, "d": values.astype("f8")})
    assert [field.type for field in stored.open().fields.values()] == ["float", "float", "std::vector<float>", "double"]
    stored.append({name: ak.Array([values] * 5) if name == "v" else values for name in "xyvd"})
    for name in "xyd":
        assert np.array_equal(stored.open()[name], np.concatenate([values, values]), equal_nan=True), name
    kept = store.create("kept", {"x": values}, precision={"x": "real16"}).open()
    assert np.array_equal(kept["x"], values, equal_nan=True)
    rntuple.write_root(tmp_path / "made.root", "events", {"x": values})
    assert np.array_equal(rntuple.open(tmp_path / "made.root")["x"], values, equal_nan=True)


def test_arrays_of_no_elements_are_no_type_of_a_new_field(cont, tmp_path):
    store, arrays = rntuple.Store(cont), np.zeros((3, 0))
    stored = store.create("events", {"v": [[1.0], [], []]})
    for empty in (arrays, np.zeros((3, 2, 0)), np.zeros((3, 0), "U1"), ak.Array(arrays), pa.array([[]] * 3, pa.list_(pa.int8(), 0))):
        for give in (
            lambda empty=empty: store.create("none", {"e": empty}),
            lambda empty=empty: stored.add_column("e", empty),
            lambda empty=empty: rntuple.write_root(tmp_path / "none.root", "none", {"e": empty}),
        ):
            with pytest.raises(dolmen.Invalid, match=r"'e': its arrays have no elements in each entry \(std::array<.*,0>.*\).*leave it out") as raised:
                give()
    remedy = str(raised.value).partition(" by ")[2]
    assert store.create("lists", {"e": eval(remedy)}).open()["e"].to_list() == [[], [], []]
    # A field of lists has such.
    stored.append({"v": arrays})
    assert stored.open()["v"].to_list() == [[1.0], [], [], [], [], []]


def test_the_file_of_each_day_is_appended_after_fields_were_added(cont, file):
    stored = rntuple.Store(cont).import_root(file)
    count = len(stored.open())
    stored.add_columns(
        {
            "weight": np.ones(count),
            "quality": np.ones(count, "i2"),
            "tags": ak.Array([["a"]] * count),
            "label": ["x"] * count,
        }
    )
    with pytest.raises(dolmen.Invalid, match=r'missing: "weight" \(double\), "quality" .*`fill`'):
        stored.append_root(file)
    fill = {"weight": math.nan, "quality": -1, "tags": [], "label": None}
    for give in (lambda: stored.append_root(file, fill=fill), lambda: stored.append(events(count=100), fill=fill)):
        before = len(stored.open())
        give()
        now = stored.open()
        added = {name: now.arrays([name], before)[name] for name in ("weight", "quality", "tags", "label")}
        assert np.isnan(np.asarray(added["weight"])).all() and (np.asarray(added["quality"]) == -1).all()
        assert ak.to_list(added["tags"]) == [[]] * (len(now) - before)
        assert set(ak.to_list(added["label"])) == {""}
        assert same(now["number"][before:], events()["number"][: len(now) - before])
        assert (now["weight"][:count] == 1).all()
    for wrong, told in (
        ({**fill, "quality": 0.5}, '"quality" cannot be filled so'),
        ({**fill, "tags": 3}, '"tags" cannot be filled so'),
        ({**fill, "label": "none"}, "field 'label' is filled with a number"),
        ({"weight": 0}, 'missing: "quality"'),
        ({**fill, "wieght": 0}, 'in "wieght", which is no field of the ntuple; "weight" is one'),
        ({**fill, "not there": 0}, "no field of the ntuple; its fields are number, "),
        ([("weight", 0)], "a mapping"),
    ):
        with pytest.raises(dolmen.Invalid, match=told):
            stored.append_root(file, fill=wrong)
    # Also where nothing is filled, and of numbers that a field's type has not.
    with pytest.raises(dolmen.Invalid, match='"wieght", which is no field'):
        stored.append(now.arrays(None, 0, 5), fill={"wieght": 0})
    stored.add_column("single", np.zeros(len(stored.open()), "f4"))
    with pytest.raises(dolmen.Invalid, match='"single" cannot be filled so'):
        stored.append_root(file, fill={**fill, "single": 1e40})
    fill["single"] = math.inf
    stored.append_root(file, fill=fill)
    assert np.isinf(np.asarray(stored.open()["single"])[-1])
    # What was there from the start is filled where it is named, and nothing is made of that alone.
    rest = {"number": [1], "hits": ak.Array([[1]]), "name": ["n"]}
    known = {name: rest[name] for name in now.keys() if name in rest}
    others = {name: None for name in now.keys() if name not in rest and name not in ("energy", *fill)}
    with pytest.raises(dolmen.Invalid, match=r'missing: "energy" .*`fill`'):
        stored.append(known, fill={**others, **fill})
    stored.append(known, fill={**others, **fill, "energy": 7.5})
    assert stored.open()["energy"][-1] == 7.5
    with pytest.raises(dolmen.Invalid, match="entries are not made of what is filled alone"):
        stored.append({"other": [1]}, fill=dict.fromkeys(now.keys()), leave_out=True)


@pytest.fixture
def days(tmp_path):
    """Files of one experiment: one without a trigger, one with it, one with another field beside, and one of another type."""
    data = {
        "old": {"x": np.arange(3)},
        "now": {"trigger": np.ones(4, "?"), "x": np.arange(10, 14)},
        "odd": {"x": np.arange(20, 22), "trigger": np.ones(2, "?"), "odd": ["a", "b"]},
        "wrong": {"x": np.arange(2.0), "trigger": np.ones(2, "?")},
    }
    for name, fields in data.items():
        rntuple.write_root(tmp_path / f"{name}.root", "events", fields, compression="zstd")
    return {name: tmp_path / f"{name}.root" for name in data}


def test_several_files_are_appended_in_one_version_or_none_of_them(cont, days):
    stored, told = rntuple.Store(cont).import_root(days["now"]), []
    for names, wrong, why in (
        (("now", "old"), "old", r'missing: "trigger" \(bool\); .*`fill` gives what is missing a value$'),
        (("now", "odd", "old"), "odd", r'not in the ntuple: "odd" \(std::string\); `leave_out` leaves out .*$'),
        (("now", "wrong"), "wrong", 'of another type: "x"'),
    ):
        with pytest.raises(dolmen.Invalid, match=why) as raised:
            stored.append([days[name] for name in names], progress=told.append)
        assert str(days[wrong]) in str(raised.value) and str(raised.value).count(".root") == 1
    with pytest.raises(dolmen.NotFound, match="nowhere.root"):
        stored.append_root([days["now"], "nowhere.root"])
    assert stored.version().number == 1 and told == []
    three = [days["old"], str(days["now"]), days["odd"]]
    version = stored.append(three, fill={"trigger": 0}, leave_out=True, progress=told.append)
    assert (version.number, version.entries, told) == (2, 13, [3, 7, 9])
    assert version.left_out == [f'{days["odd"]}: "odd" (std::string) is no field of the ntuple']
    now = stored.open()
    assert same(now["x"], [10, 11, 12, 13, 0, 1, 2, 10, 11, 12, 13, 20, 21])
    assert same(now["trigger"], [True] * 4 + [False] * 3 + [True] * 6)
    version = stored.append_root([days["now"]] * 70)
    assert (version.number, version.entries, version.left_out) == (3, 293, [])
    # Arrays as well.
    with pytest.raises(dolmen.Invalid, match='not in the ntuple: "odd"'):
        stored.append({"x": [1], "trigger": [True], "odd": [1]})
    assert stored.append({"x": [1], "odd": [1]}, fill={"trigger": 1}, leave_out=True).left_out == [
        '"odd" (std::int64_t) is no field of the ntuple'
    ]


def test_what_is_stored_or_open_is_appended_as_it_is(cont, days):
    store = rntuple.Store(cont)
    stored, now, odd = (store.import_root(days[name], name=name) for name in ("old", "now", "odd"))
    with pytest.raises(dolmen.Invalid, match=r'^.*now: .*not in the ntuple: "trigger"'):
        stored.append(now)
    now.append({"x": [14], "trigger": [False]})
    version = stored.append([now, now.open(version=1), odd, rntuple.open(days["now"])], leave_out=True)
    assert version.entries == 3 + 5 + 4 + 2 + 4
    assert same(stored.open()["x"], [0, 1, 2, *range(10, 15), *range(10, 14), 20, 21, *range(10, 14)])
    assert version.left_out[:2] == [f'{name}: "trigger" (bool) is no field of the ntuple' for name in ("now", "odd")]
    with stored.appender(leave_out=True) as appender:
        appender.put_root(days["now"])
        appender.put_ntuple(odd)
    assert len(stored.open()) == 24
    stored.append(stored)
    assert len(stored.open()) == 48


def test_who_appends_while_a_field_is_added_is_told_or_has_it_filled(cont):
    stored = rntuple.Store(cont).create("events", {"x": np.arange(3)})
    without, filling = stored.appender(), stored.appender(fill={"y": 7})
    without.put({"x": [10]})
    filling.put({"x": [20, 21]})
    stored.add_column("y", np.arange(3))
    with pytest.raises(dolmen.Invalid, match=r'missing: "y" \(std::int64_t\).*`fill`') as raised:
        without.commit()
    assert not isinstance(raised.value, dolmen.Retryable)
    without.discard()
    filling.commit()
    filling.put({"x": [30], "y": [31]})
    filling.commit()
    now = stored.open()
    assert same(now["x"], [0, 1, 2, 20, 21, 30]) and same(now["y"], [0, 1, 2, 7, 7, 31])


def test_fields_are_found_by_name_also_of_another_store(cont, tmp_path):
    store = rntuple.Store(cont)
    stored = store.create("events", {"x": np.arange(3), "y": np.arange(3.0)})
    turned = store.create("turned", {"y": np.arange(5.0), "x": np.arange(5)})
    with stored.appender() as appender:
        appender.put_ntuple(turned.open())
    now = stored.open()
    assert same(now["x"], [0, 1, 2, 0, 1, 2, 3, 4]) and same(now["y"], [0.0, 1, 2, 0, 1, 2, 3, 4])


@pytest.fixture
def tree(tmp_path):
    path = tmp_path / "tree.root"
    with uproot.recreate(path) as made:
        data = events()
        made.mktree("before/events", {"number": "int64", "energy": "float64", "hits": "var * int64"}, title="what happened")
        for first in range(0, COUNT, 500):
            some = slice(first, first + 500)
            made["before/events"].extend({name: data[name][some] for name in ("number", "energy", "hits")})
    return path


def test_a_tree_is_imported_by_one_command(cont, tree, tmp_path):
    store, told = rntuple.Store(cont), []
    stored = store.import_tree(tree, cluster_bytes=20_000, progress=told.append)
    assert stored.name == "events" and stored.version().made == "Imported" and stored.version().number == 1
    now, source = stored.open(), rntuple.Tree(tree)
    assert now.description == "what happened"
    for name in ("number", "energy", "hits"):
        assert same(now[name], source[name]), name
    assert told == [end for _, end in now.clusters] and len(told) > 3
    assert all(end % 500 == 0 for end in told), "from where baskets begin"
    some = store.import_tree(source, name="some", columns=["energy"], compression="none", keep=0)
    assert some.open().keys() == ["energy"]
    fits = store.import_tree(source, name="fits", columns=["en*", "numbe?", "energy"])
    assert fits.open().keys() == ["energy", "number"] and same(fits.open()["energy"], source["energy"])
    store.destroy("fits")
    with pytest.raises(dolmen.NotFound, match=r"no branch fits 'x\*'"):
        store.import_tree(source, name="fits", columns=["energy", "x*"])
    with pytest.raises(dolmen.Invalid, match="5 is no path"):
        store.import_tree(source, name="fits", columns=[5])
    now.export_root(tmp_path / "out.root")
    assert same(uproot.open(tmp_path / "out.root")["events"]["hits"].array(), events()["hits"])
    with pytest.raises(dolmen.Exists):
        store.import_tree(tree)
    with pytest.raises(dolmen.NotFound, match="none"):
        store.import_tree(tree, name="other", columns=["none"])
    with pytest.raises(dolmen.NotFound, match=r"before/events"):
        store.import_tree(tree, "events", "other")
    assert sorted(store.names()) == ["events", "some"]


def test_a_tree_is_appended_and_what_is_renamed_is_told(cont, tree, tmp_path):
    store, path = rntuple.Store(cont), tmp_path / "dots.root"
    stored = store.import_tree(tree)
    assert stored.renamed == {} and stored.left_out == []
    assert stored.append(tree).entries == 2 * COUNT
    assert stored.append([rntuple.Tree(tree), tree], ntuple="before/events").entries == 4 * COUNT
    assert same(stored.open()["hits"][3 * COUNT :], events()["hits"])
    with uproot.recreate(path) as made:
        made.mktree("events", {"a.number": "int64", "energy": "float64", "more": "int32"}).extend(
            {"a.number": np.arange(5), "energy": np.arange(5.0), "more": np.arange(5)}
        )
    dots = store.import_tree(path, name="dots", columns=["a_number", "energy"])
    assert dots.renamed == {"a.number": "a_number"} and dots.open().keys() == ["a_number", "energy"]
    assert store["dots"].renamed == {}
    with pytest.raises(dolmen.Invalid, match=rf'{path}: .*not in the ntuple: "more"'):
        dots.append_root(path)
    version = dots.append_root(path, leave_out=True)
    assert version.entries == 10 and version.left_out == [f'{path}: "more" (std::int32_t) is no field of the ntuple']
    assert same(dots.open()["a_number"], [*range(5), *range(5)])
    with pytest.raises(dolmen.NotFound, match=r'no field "a.numbre"; "a.number" is one'):
        store.import_tree(path, name="none", columns=["a.numbre"])
    for name in (rntuple.Tree(path), dots.open()):
        with pytest.raises(dolmen.NotFound, match="'energi'; 'energy' is one"):
            name["energi"]


def test_a_tree_is_skimmed_as_an_ntuple_is(cont, tree):
    store, source = rntuple.Store(cont), rntuple.Tree(tree)
    whole = store.import_tree(source).open()
    filter = [("len(hits)", ">=", 2), ("energy", ">", 100), ("number", "!=", 700)]
    for name, columns, start, stop, some in [
        ("all", None, None, None, None),
        ("filtered", ["hits", "number"], None, None, filter),
        ("part", "energy", 10, -10, [("number", "<", 1000)]),
        ("none", ["number"], None, None, [("number", "<", 0)]),
    ]:
        stored = store.skim(source, name, columns, start, stop, filter=some)
        wanted = whole.arrays(columns, start, stop, filter=some)
        assert stored.version().made == "Skimmed" and ak.to_list(stored.open().arrays()) == ak.to_list(wanted), name
    with pytest.raises(dolmen.Exists):
        store.skim(source, "all")
    with pytest.raises(dolmen.NotFound, match="none"):
        store.skim(source, "other", filter=[("none", ">", 1)])
    with pytest.raises(dolmen.Invalid, match="or a Tree"):
        store.skim(tree, "other")
    assert "other" not in store.names()


def test_floats_become_shorter_ones_where_none_is_another_number_then(cont):
    stored = rntuple.Store(cont).create("events", {"x": np.zeros(1, "f4"), "n": np.zeros(1, "i8")})
    exact = np.array([1.5, -0.0, np.nan, np.inf, 2.0**-149])
    assert stored.append({"x": exact, "n": np.arange(5)}).entries == 6
    assert stored.open()["x"][1:].tobytes() == exact.astype("f4").tobytes()
    for column, values, told in (
        ("x", [0.1], r"of float64 that float, .* as they are; \.astype\('f4'\) rounds them"),
        ("x", [1e39], r"\.astype\('f4'\) rounds them"),
        ("n", [1.0], r"that std::int64_t, .*; \.astype\('i8'\) cuts them to whole numbers"),
    ):
        with pytest.raises(dolmen.Invalid, match=told):
            stored.append({"x": [0], "n": [0], column: values})
    assert stored.version().entries == 6


def test_no_columns_are_not_all(cont, tree):
    store = rntuple.Store(cont)
    stored = store.create("events", {"x": [1], "y": [2]})
    for make in (
        lambda: store.clone(stored, "made", []),
        lambda: store.skim(stored.open(), "made", []),
        lambda: store.skim(rntuple.Tree(tree), "made", []),
    ):
        with pytest.raises(dolmen.Invalid, match="names no fields: None is all"):
            make()
    assert store.names() == ["events"]


def test_an_appender_that_is_given_up_takes_nothing_more_and_ends_its_block(cont):
    stored = rntuple.Store(cont).create("given_up", {"x": [1.0]})
    with stored.appender() as appender:
        appender.put({"x": [2.0]})
        appender.discard()
        appender.discard()
        for use in [lambda: appender.put({"x": [3.0]}), appender.commit]:
            with pytest.raises(dolmen.Closed, match="given_up: what was put was given up; begin again with another appender"):
                use()
    assert stored.open()["x"].tolist() == [1]
