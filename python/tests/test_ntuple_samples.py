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
    mine, own = ours.arrays(), rntuple.open(exported).arrays()
    # Field by field: of several together uproot looks through all fields for each of them.
    assert [field.name for field in theirs.fields if not same(field.array(), mine[field.name])] == []
    # The exported file has the same pages; uproot reads some fields of it, being slow.
    assert [name for name in names if not same(own[name], mine[name])] == []
    assert [field.name for field in again.fields[::10] if not same(field.array(), mine[field.name])] == []


def same(one, other):
    """Whether two arrays are the same: by their bytes where they lie alike in memory, by the text of their values elsewhere."""
    (form, count, buffers), (other_form, other_count, others) = (ak.to_buffers(ak.to_packed(array)) for array in (one, other))
    if form == other_form and count == other_count:
        if all(buffer.tobytes() == others[name].tobytes() for name, buffer in buffers.items()):
            return True
    return repr(ak.to_list(one)) == repr(ak.to_list(other))
