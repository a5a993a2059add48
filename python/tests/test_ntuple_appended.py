"""What is appended to ntuples has other fields than they, and what is done then; trees that are imported."""

import math

import awkward as ak
import dolmen
import numpy as np
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
    assert '"x" (the ntuple has std::int64_t, given is double)' in told and "(fill)" not in told
    with pytest.raises(dolmen.Invalid, match='missing: "y" '):
        stored.append({"x": np.arange(3)})
    with pytest.raises(dolmen.Invalid, match='"z" has no field'):
        stored.append({"x": np.arange(3), "y": np.arange(3.0), "z": np.arange(3)})
    assert stored.version().number == 1


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
    with pytest.raises(dolmen.Invalid, match=r'missing: "weight" \(double\), "quality" .*\(fill\)'):
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
        ({**fill, "quality": 0.5}, '"quality" would have a number that its type has not'),
        ({**fill, "tags": 3}, '"tags" would have a number'),
        ({**fill, "label": "none"}, "field 'label' is filled with a number"),
        ({"weight": 0}, 'missing: "quality"'),
        ({**fill, "wieght": 0}, 'in "wieght", which is no field of the ntuple; "weight" is one'),
        ({**fill, "not there": 0}, "no field of the ntuple; those that were added later are weight, quality, tags, label"),
        ([("weight", 0)], "a mapping"),
    ):
        with pytest.raises(dolmen.Invalid, match=told):
            stored.append_root(file, fill=wrong)
    # Also where nothing is filled, and of numbers that a field's type has not.
    with pytest.raises(dolmen.Invalid, match='"wieght", which is no field'):
        stored.append(now.arrays(None, 0, 5), fill={"wieght": 0})
    stored.add_column("single", np.zeros(len(stored.open()), "f4"))
    with pytest.raises(dolmen.Invalid, match='"single" would have a number that its type has not'):
        stored.append_root(file, fill={**fill, "single": 1e40})
    fill["single"] = math.inf
    stored.append_root(file, fill=fill)
    assert np.isinf(np.asarray(stored.open()["single"])[-1])
    # What was there from the start is never filled.
    with pytest.raises(dolmen.Invalid, match='missing: "energy" .*; what the ntuple had from the beginning is not filled'):
        stored.append({"number": [1], "hits": ak.Array([[1]]), "name": ["n"]}, fill={**fill, "energy": 0})


def test_who_appends_while_a_field_is_added_is_told_or_has_it_filled(cont):
    stored = rntuple.Store(cont).create("events", {"x": np.arange(3)})
    without, filling = stored.appender(), stored.appender(fill={"y": 7})
    without.put({"x": [10]})
    filling.put({"x": [20, 21]})
    stored.add_column("y", np.arange(3))
    with pytest.raises(dolmen.Invalid, match=r'missing: "y" \(std::int64_t\).*\(fill\)') as raised:
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
    now.export_root(tmp_path / "out.root")
    assert same(uproot.open(tmp_path / "out.root")["events"]["hits"].array(), events()["hits"])
    with pytest.raises(dolmen.Exists):
        store.import_tree(tree)
    with pytest.raises(dolmen.NotFound, match="none"):
        store.import_tree(tree, name="other", columns=["none"])
    with pytest.raises(dolmen.NotFound, match=r"before/events"):
        store.import_tree(tree, "events", "other")
    assert sorted(store.names()) == ["events", "some"]


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
