"""Every ntuple of the sample files: all fields equal what uproot reads, also of an exported file."""

import os
import pathlib

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
    read, mine, own = theirs.arrays(names), ours.arrays(), rntuple.open(exported).arrays()
    differ = [name for name in names if listed(read, name) != listed(mine, name)]
    assert not differ
    # The exported file has the same pages; uproot reads some fields of it, being slow.
    assert [name for name in names if listed(own, name) != listed(mine, name)] == []
    some = names[::10]
    copied = again.arrays(some)
    assert [name for name in some if listed(copied, name) != listed(mine, name)] == []


def listed(arrays, name):
    return repr(ak.to_list(arrays[name]))
