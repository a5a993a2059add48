"""Which fields were read together is recorded, kept, and what columns are placed by."""

import dolmen
import numpy as np
import pytest
from dolmen import rntuple
from dolmen.rntuple import Trace

NAMES = [f"f{number}" for number in range(60)]
READ = ["f3", "f17", "f29", "f41", "f55"]


@pytest.fixture
def wide(tmp_path):
    """A file of 60 fields, of 400 bytes each."""
    mixed = {name: (np.arange(100, dtype="i4") + number) * 1_640_531_535 for number, name in enumerate(NAMES)}
    rntuple.write_root(tmp_path / "wide.root", "events", mixed, compression=None)
    return tmp_path / "wide.root"


def asked(ntuple):
    """How many requests of pages it takes to read these fields."""
    before = ntuple._reader.asked()[0]
    ntuple.arrays(READ)
    return ntuple._reader.asked()[0] - before


def test_what_is_read_together_is_recorded_kept_and_packed_together(cont, wide, tmp_path):
    ntuple = rntuple.open(wide)
    ntuple.arrays(READ)
    assert len(ntuple.trace()) == 0
    ntuple.record()
    for _ in range(3):
        ntuple.arrays(READ, library="np")
    ntuple.arrays(["f0", "f1"], 10, 30)
    ntuple["f7"]
    list(ntuple.batches(["f8"], step=50))
    ntuple.arrow_schema()
    trace = ntuple.trace()
    assert dict((tuple(names), count) for names, count in trace) == {
        tuple(sorted(READ)): 300, ("f0", "f1"): 20, ("f7",): 100, ("f8",): 100
    }
    trace.save(tmp_path / "day.trace")
    assert Trace.load(tmp_path / "day.trace") == trace and "300\tf17\tf29" in (tmp_path / "day.trace").read_text()
    both = trace + Trace([("f7", 5), (["f1", "f0"], 1), (["gone"], 10_000)])
    assert (["f0", "f1"], 21) in list(both) and (["f7"], 105) in list(both)
    store = rntuple.Store(cont)
    spread = store.import_root(wide, group_bytes=2000)
    placed = store.import_root(wide, name="placed", group_bytes=2000, order=both)
    assert asked(spread.open()) == 5 and asked(placed.open()) == 2
    spread.pack(both, group_bytes=2000)
    spread.reshape(compression=None)
    assert asked(spread.open()) == 2
    for name in NAMES:
        assert np.array_equal(spread.open()[name], ntuple[name]) and np.array_equal(placed.open()[name], ntuple[name])


def test_subfields_and_odd_names_are_in_a_trace_by_their_names(tmp_path):
    trace = Trace([(["a.b", "tab\there", "line\nback\\"], 2)])
    trace.save(tmp_path / "trace")
    assert Trace.load(tmp_path / "trace") == trace == Trace(trace)
    import awkward as ak

    rntuple.write_root(tmp_path / "r.root", "r", {"r": ak.Array([{"x": 1, "y": [2.0]}]), "z": [1]})
    ntuple = rntuple.open(tmp_path / "r.root")
    ntuple.record()
    ntuple.arrays(["r.x", "z"])
    assert list(ntuple.trace()) == [(["r.x", "z"], 1)]


def test_what_is_no_trace_is_refused(tmp_path):
    with pytest.raises(dolmen.Invalid, match="number of entries.*f1"):
        Trace([(["f1"], -1)])
    path = tmp_path / "none.trace"
    for text, line in [(b"", "no trace"), (b"PNG\xff\n", "no trace"), (b"dolmen ntuple trace 1\n3\ta\nx\n", "line 3"),
                       (b"dolmen ntuple trace 1\n3\t\xff\n", "none.trace")]:
        path.write_bytes(text)
        with pytest.raises(dolmen.Invalid, match=line):
            Trace.load(path)
    with pytest.raises(FileNotFoundError):
        Trace.load(tmp_path / "nowhere")
    Trace().save(path)
    assert len(Trace.load(path)) == 0 and [file.name for file in tmp_path.iterdir()] == ["none.trace"]
