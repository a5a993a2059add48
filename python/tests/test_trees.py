"""Trees (TTree) of many experiments, of uproot and of ROOT: every branch as the library reads it equals what uproot reads.

``cargo xtask tools`` brings the sample files (of the sources of coffea on PyPI). What uproot does not read, or reads wrongly, is listed here by
name; the test fails if the list is not exactly what is found.
"""

import collections
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import warnings

import awkward
import numpy as np
import pytest
import uproot
from dolmen import rntuple

SHOW_TREE = os.environ["SHOW_TREE"]
SAMPLES = pathlib.Path(os.environ["SAMPLES"])
CLASSES = ("TTree", "TNtuple", "TNtupleD")

#: Of each sample file: how many branches with values both read the same, how many only the library reads, how many uproot reads wrongly.
FILES = {
    "PHYSLITE_example.root": (961, 483, 1),
    "delphes.root": (1099, 0, 6),
    "edm4hep.root": (307, 1, 0),
    "edm4hep_ILD_mumuH_v01-00_podio_v01-07_10ev.root": (723, 0, 0),
    "edm4hep_example_v00-99-02_podio_v01-03.root": (306, 0, 0),
    "edm4hep_example_v00-99-03_podio_v01-06.root": (304, 0, 0),
    "edm4hep_example_v00-99-04_podio_v01-06.root": (321, 0, 0),
    "edm4hep_example_v01-01_podio_v01-07.root": (321, 0, 0),
    "missing_luminosityBlock.root": (1582, 0, 0),
    "nano_dimuon.root": (1602, 0, 0),
    "nano_dy.root": (1507, 0, 0),
    "nano_dy_SpecialTree.root": (3381, 0, 0),
    "nano_dy_empty.root": (1499, 0, 0),
    "nano_tree.root": (1019, 0, 0),
    "nano_tt_v12.root": (654, 0, 0),
    "nano_tt_v15.root": (2656, 0, 0),
    "p8_ee_WW_ecm240_edm4hep.root": (229, 0, 0),
    "pduneana.root": (398, 0, 0),
    "pfnano.root": (1812, 2, 0),
    "scouting_nano.root": (268, 0, 0),
    "test_FCC_Spring2021.root": (246, 10, 0),
    "test_FCC_Winter2023.root": (270, 0, 0),
    "treemaker.root": (391, 0, 0),
}

#: What uproot reads wrongly, as ROOT itself shows: bits that are followed by the number of a process if others refer to the object (its bit
#: 0x10), and items member by member with the checksum of their class before them.
WRONG = {
    "delphes.root": {
        f"{of}/{of}.fBits" for of in ("Particle", "Track", "Tower", "EFlowTrack", "EFlowPhoton", "EFlowNeutralHadron")
    },
    "PHYSLITE_example.root": {"METAssoc_AnalysisMETAux./METAssoc_AnalysisMETAux.jetLink"},
}


def shown(path, tree):
    """All branches as the library reads them, in their order: path, type, class, and the values or why they are refused."""
    run = subprocess.run([SHOW_TREE, str(path), tree], capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False)
    assert run.returncode == 0, f"{path}: {tree}: {run.stderr}"
    return [line.split("\t", 3) for line in run.stdout.splitlines()]


def same(ours, theirs):
    """Whether two values are the same, but for how the two name the parts of pairs and what objects of ROOT begin with."""
    if isinstance(theirs, bytes):
        theirs = theirs.decode("latin1")
    if isinstance(ours, str) and isinstance(theirs, str):
        return ours == theirs or ours.encode("latin1").decode("utf8", "surrogateescape") == theirs
    if isinstance(ours, dict):
        if isinstance(theirs, (tuple, list)):
            theirs = dict(zip(ours, theirs, strict=True))
        if list(theirs) == ["ref"]:
            return ours["fUniqueID"] == theirs["ref"]
        if "fBits" in ours and "fBits" not in theirs:
            ours = {name: part for name, part in ours.items() if name not in ("fUniqueID", "fBits")}
        if list(ours) == ["_0", "_1"]:
            return same(list(ours.values()), list(theirs.values()))
        return list(ours) == list(theirs) and all(same(part, theirs[name]) for name, part in ours.items())
    if isinstance(ours, list):
        if isinstance(theirs, dict):
            theirs = theirs["refs"] if "refs" in theirs else list(theirs.items())
        return len(ours) == len(theirs) and all(same(*parts) for parts in zip(ours, theirs, strict=True))
    if isinstance(ours, float) and isinstance(theirs, float):
        return ours == theirs or np.float32(ours) == np.float32(theirs) or (math.isnan(ours) and math.isnan(theirs))
    return type(ours) in (bool, int, float) and ours == theirs


def below(branches, path=""):
    for branch in branches:
        yield path + branch.name, branch
        yield from below(branch.branches, f"{path}{branch.name}/")


def compare(path, name, tree, counts):
    """Compares each branch of a tree that has values; what differs, and what is refused with the reason."""
    wrong, refused = set(), {}
    lines = collections.defaultdict(collections.deque)
    for branch, type_, class_, value in shown(path, name):
        lines[branch].append((type_, class_, value))
    for where, branch in below(tree.branches):
        type_, class_, value = lines[where].popleft()
        if type_ == "!":
            refused[where] = value
            assert branch.name in value, value
            assert class_ in value, value
            continue
        if branch.branches:
            counts["records"] += 1
            continue
        try:
            array = branch.array(library="ak")
        except Exception:  # Whatever uproot says of what it does not read.
            counts["ours"] += 1
            continue
        if same(json.loads(value), array.to_list()):
            counts["equal"] += 1
        else:
            wrong.add(where)
    assert not any(lines.values())
    return wrong, refused


def trees(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = uproot.open(path)
        for name in dict.fromkeys(key.split(";")[0] for key in file.keys(filter_classname=lambda of: of in CLASSES)):
            yield name, file[name]


@pytest.mark.parametrize("file", FILES)
def test_every_branch_of_the_sample_files_equals_what_uproot_reads(file):
    counts = collections.Counter()
    wrong = set()
    for name, tree in trees(SAMPLES / file):
        differs, refused = compare(SAMPLES / file, name, tree, counts)
        assert refused == {}
        wrong |= differs
    assert wrong == WRONG.get(file, set())
    assert (counts["equal"], counts["ours"], len(wrong)) == FILES[file]


def bits(tree):
    """The same with the bytes of its memory."""
    if isinstance(tree, tuple | list):
        return [bits(part) for part in tree]
    return tree if isinstance(tree, str | int) else np.frombuffer(tree, "u1").tobytes()


@pytest.mark.parametrize("file", FILES)
def test_every_branch_of_the_sample_files_is_the_same_in_an_ntuple_that_it_is_imported_into(local, file):
    with local.open() as pool:
        store = rntuple.Store(pool.create_container("henge", durability="process"))
        for name in rntuple.trees(SAMPLES / file):
            tree = rntuple.Tree(SAMPLES / file, name)
            tops = [path for path in tree if path not in tree.refused]
            stored = store.import_tree(tree, name="made", leave_out=True, cluster_bytes=1 << 20)
            ntuple = stored.open()
            assert (len(ntuple), len(ntuple.fields)) == (len(tree), len(tops))
            for field, path in zip(ntuple.fields.values(), tops):
                assert bits(ntuple._trees([field], 0, len(ntuple))) == bits(tree.trees([path])), path
            left_out = stored.left_out
            skimmed = store.skim(tree, "few", None, 0, 1, leave_out=True)
            assert skimmed.left_out == left_out and list(skimmed.open().fields) == list(ntuple.fields)
            store.destroy("few")
            store.destroy("made")


def test_every_sample_file_with_trees_is_compared():
    others = {path.name for path in SAMPLES.glob("*.root")} - set(FILES)
    for name in others - {"bad_delphes.root"}:
        assert not list(trees(SAMPLES / name)), name


def test_trees_that_uproot_writes_are_read_as_it_reads_them(tmp_path):
    numbers = np.random.default_rng(7)
    counts = numbers.integers(0, 5, 1000)
    types = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
    flat = {name: numbers.integers(0, 100, 1000).astype(name) for name in types}
    jagged = awkward.unflatten(numbers.normal(size=counts.sum()), counts)
    for number, compression in enumerate((None, uproot.ZLIB(1), uproot.LZMA(1), uproot.LZ4(1), uproot.ZSTD(1))):
        path = tmp_path / f"{number}.root"
        with uproot.recreate(path, compression=compression) as file:
            for _ in range(3):
                arrays = {**flat, "b": counts > 2, "fixed": numbers.normal(size=(1000, 2, 3)), "j": jagged, "n": counts}
                if "t" not in file:
                    file.mktree("t", {name: _type(array) for name, array in arrays.items()})
                file["t"].extend(arrays)
        counted = collections.Counter()
        ((name, tree),) = trees(path)
        assert tree.num_entries == 3000
        assert compare(path, name, tree, counted) == (set(), {})
        assert counted["equal"] >= len(flat) + 4
        assert counted["ours"] == 0


def _type(array):
    return awkward.type(array).content if isinstance(array, awkward.Array) else np.dtype((array.dtype, array.shape[1:]))


def test_trees_that_come_with_root_are_read_as_uproot_reads_them():
    # ROOT as a package of PyPI has them beside its tutorials; where it lies is asked without loading it.
    (place,) = importlib.util.find_spec("ROOT").submodule_search_locations
    counts, old = collections.Counter(), []
    for path in sorted(pathlib.Path(place).glob("tutorials/**/*.root")):
        names = [key.split(";")[0] for key in uproot.open(path).keys(filter_classname=lambda of: of in CLASSES)]
        for name in dict.fromkeys(names):
            try:
                tree = uproot.open(path)[name]
            except ValueError:
                # The compression of before 1998, which nobody reads any more.
                command = [SHOW_TREE, str(path), name]
                said = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False)
                assert said.returncode != 0
                assert "Unsupported" in said.stderr
                old.append(path.name)
                continue
            assert compare(path, name, tree, counts) == (set(), {})
    assert (counts["equal"], counts["ours"], set(old)) == (121, 0, {"stock.root", "mlpHiggs.root"})
