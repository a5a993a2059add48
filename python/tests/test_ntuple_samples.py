"""Every ntuple of the sample files: all fields equal what uproot reads, also of an exported file."""

import json
import os
import pathlib
import subprocess

import awkward as ak
import pytest
import uproot
from dolmen import rntuple

SAMPLES = pathlib.Path(os.environ["SAMPLES"])
#: How many fields each has at the top.
FILES = {
    "nano_dimuon_rntuple.root": 1615,
    "nano_dy_SpecialTree_rntuple.root": 2253,
    "nano_dy_empty_rntuple.root": 1524,
    "nano_dy_rntuple.root": 1524,
    "nano_tree_rntuple.root": 1032,
    "pfnano_rntuple.root": 1834,
    "treemaker_rntuple.root": 338,
}


def test_these_are_all():
    assert set(FILES) == {path.name for path in SAMPLES.glob("*.root") if rntuple.ntuples(path)}


@pytest.mark.parametrize("file", FILES)
def test_every_field_equals_what_uproot_reads_also_of_an_exported_file(file, tmp_path):
    ours = rntuple.open(SAMPLES / file)
    exported = tmp_path / "exported.root"
    ours.export_root(exported)
    theirs, again = uproot.open(SAMPLES / file)[ours.name], uproot.open(exported)[ours.name]
    names = theirs.keys(recursive=False)
    assert sorted(names) == sorted(ours.keys()) and len(names) == FILES[file]
    mine, own = ours.arrays(), rntuple.open(exported).arrays()
    # Field by field: of several together uproot looks through all fields for each of them.
    assert [field.name for field in theirs.fields if not same(field.array(), mine[field.name])] == []
    # The exported file has the same pages; uproot reads some fields of it, being slow.
    assert [name for name in names if not same(own[name], mine[name])] == []
    assert [field.name for field in again.fields[::10] if not same(field.array(), mine[field.name])] == []


@pytest.mark.parametrize("file", ["nano_dy_rntuple.root", "nano_dy_empty_rntuple.root", "pfnano_rntuple.root"])
def test_what_collections_with_numbers_for_names_take_is_told_of_the_fields_that_show_them(file, tmp_path):
    ntuple = rntuple.open(SAMPLES / file)
    all_, some = ntuple.estimate(), ntuple.estimate(["Muon_pt"])
    assert all(ntuple.field(name).name for name, *_ in all_.columns)
    hidden = [name for name in ntuple if name.startswith("_collection")]
    named = {name.partition(".")[0] for name, *_ in all_.columns}
    assert hidden and named.isdisjoint(hidden)
    if len(ntuple):
        assert {name for name, *_ in some.columns} == {"Muon_pt", "Muon_pt._0"}
        assert {"nMuon", "Muon_pt._0", "Muon_eta._0", "nJet", "Jet_pt._0", "run"} <= {name for name, *_ in all_.columns}

    shown = told("show", SAMPLES / file)
    assert [field["name"] for field in shown["fields"]] == [name for name in ntuple if name not in hidden]
    assert sum(field["stored_bytes"] for field in shown["fields"]) == shown["stored_bytes"] == all_.stored_bytes
    of_field = {name: 0 for name in named}
    for name, _pages, stored, _memory in all_.columns:
        of_field[name.partition(".")[0]] += stored
    assert {field["name"]: field["stored_bytes"] for field in shown["fields"] if field["pages"]} == of_field
    drawn = told("plot", SAMPLES / file, "--to", tmp_path / "fields.png", "--top", 200)["fields"]
    assert len(drawn) == min(200, len(of_field))
    assert {field["field"]: field["stored_bytes"] for field in drawn}.items() <= of_field.items()


def told(*words):
    words = [os.environ["DOLMEN"], "ntuple", *map(str, words), "--json"]
    return json.loads(subprocess.run(words, check=True, capture_output=True, timeout=60).stdout)["response"]


def same(one, other):
    """Whether two arrays are the same: by their bytes where they lie alike in memory, by the text of their values elsewhere."""
    (form, count, buffers), (other_form, other_count, others) = (ak.to_buffers(ak.to_packed(array)) for array in (one, other))
    if form == other_form and count == other_count:
        if all(buffer.tobytes() == others[name].tobytes() for name, buffer in buffers.items()):
            return True
    return repr(ak.to_list(one)) == repr(ak.to_list(other))
