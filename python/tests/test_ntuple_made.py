"""Ntuples in files of ROOT that uproot and ROOT write here, and what they read of files that are written here."""

import collections
import datetime
import decimal
import fractions
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import urllib.request

import awkward as ak
import dolmen
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot
from dolmen import rntuple

COUNT = 1500
COMPRESSIONS = ["none", "zstd:1", "zlib:6", "lzma:1", "lz4"]


def columns():
    """A field of each kind, with values that are the same every time."""
    rng = np.random.default_rng(7)
    made = {"bool": rng.random(COUNT) < 0.3}
    for bits in (8, 16, 32, 64):
        signed = np.iinfo(f"i{bits // 8}")
        made[f"i{bits}"] = rng.integers(signed.min, signed.max, COUNT, f"i{bits // 8}", endpoint=True)
        made[f"u{bits}"] = made[f"i{bits}"].view(f"u{bits // 8}")
    made["f32"] = rng.normal(size=COUNT).astype("f4")
    made["f64"] = np.where(rng.random(COUNT) < 0.01, np.nan, rng.normal(size=COUNT))
    lengths = rng.integers(0, 5, COUNT)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    flat = ak.Array({"pt": rng.normal(size=offsets[-1]), "id": rng.integers(-13, 14, offsets[-1], "i4")})
    jagged = ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(offsets), ak.to_layout(flat)))
    made["lists"] = jagged.pt
    made["muons"] = jagged
    made["nested"] = ak.Array([[[at] * (at % 3), []][: at % 4] for at in range(COUNT)])
    made["text"] = ak.Array([["", "é", "menhir", "x" * 300][at % 4] for at in range(COUNT)])
    made["texts"] = ak.Array([["a", "bb"][: at % 3] for at in range(COUNT)])
    made["fixed"] = rng.normal(size=(COUNT, 3))
    made["matrix"] = rng.integers(0, 9, (COUNT, 2, 2), "i2")
    made["record"] = ak.Array({"x": rng.normal(size=COUNT), "s": made["text"]})
    return made


def same(one, other):
    """Whether two arrays have the same entries, NaN being the same as NaN."""
    one, other = ak.to_list(one), ak.to_list(other)
    return one == other or repr(one) == repr(other)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_uproot_reads_what_is_written_and_so_do_we(tmp_path, compression):
    made = columns()
    path = tmp_path / "made.root"
    rntuple.write_root(path, "events", made, compression=compression, page_bytes=3000, cluster_bytes=60_000)
    theirs, ours = uproot.open(path)["events"], rntuple.open(path)
    assert len(ours) == theirs.num_entries == COUNT
    assert len(ours.clusters) > 2
    for name, values in made.items():
        assert same(theirs[name].array(), values), name
        assert same(ours[name], values), name
        assert same(ours.arrays([name], 700, 900)[name], ak.Array(values)[700:900]), name


def test_what_uproot_writes_is_read(tmp_path):
    made = {name: values for name, values in columns().items() if name not in ("fixed", "matrix", "record")}
    path = tmp_path / "made.root"
    for compression in (None, uproot.ZSTD(1), uproot.ZLIB(1), uproot.LZMA(1), uproot.LZ4(1)):
        with uproot.recreate(path, compression=compression) as file:
            file.mkrntuple("events", made).extend(made)
        ours = rntuple.open(path, "events")
        theirs = uproot.open(path)["events"]
        assert set(theirs.keys(recursive=False)) <= set(ours.keys())
        for name in theirs.keys(recursive=False):
            assert same(ours[name], theirs[name].array()), (compression, name)


#: Writes each type of column and encoding that ROOT has, with ROOT alone in its process.
WITH_ROOT = textwrap.dedent(
    r"""
    import sys, ROOT
    ROOT.gInterpreter.Declare('''
    #include <ROOT/RNTupleModel.hxx>
    #include <ROOT/RNTupleWriter.hxx>
    #include <ROOT/RNTupleWriteOptions.hxx>
    #include <ROOT/RField.hxx>
    using namespace ROOT;
    template <class T> std::shared_ptr<T> field(RNTupleModel &model, const char *name,
                                                std::vector<std::vector<ENTupleColumnType>> as = {}) {
      auto made = std::make_unique<RField<T>>(name);
      if (!as.empty()) made->SetColumnRepresentatives(as);
      model.AddField(std::move(made));
      return model.GetDefaultEntry().GetPtr<T>(name);
    }
    void write(const char *path, int compression) {
      using E = ENTupleColumnType;
      auto model = RNTupleModel::Create();
      auto b = field<bool>(*model, "bit");
      auto i8 = field<std::int8_t>(*model, "i8"); auto u8 = field<std::uint8_t>(*model, "u8");
      auto i16 = field<std::int16_t>(*model, "i16", {{E::kInt16}}); auto i16s = field<std::int16_t>(*model, "i16s", {{E::kSplitInt16}});
      auto u16 = field<std::uint16_t>(*model, "u16", {{E::kUInt16}}); auto u16s = field<std::uint16_t>(*model, "u16s", {{E::kSplitUInt16}});
      auto i32 = field<std::int32_t>(*model, "i32", {{E::kInt32}}); auto i32s = field<std::int32_t>(*model, "i32s", {{E::kSplitInt32}});
      auto u32 = field<std::uint32_t>(*model, "u32", {{E::kUInt32}}); auto u32s = field<std::uint32_t>(*model, "u32s", {{E::kSplitUInt32}});
      auto i64 = field<std::int64_t>(*model, "i64", {{E::kInt64}}); auto i64s = field<std::int64_t>(*model, "i64s", {{E::kSplitInt64}});
      auto u64 = field<std::uint64_t>(*model, "u64", {{E::kUInt64}}); auto u64s = field<std::uint64_t>(*model, "u64s", {{E::kSplitUInt64}});
      auto f = field<float>(*model, "f", {{E::kReal32}}); auto fs = field<float>(*model, "fs", {{E::kSplitReal32}});
      auto fh = field<float>(*model, "half", {{E::kReal16}});
      auto d = field<double>(*model, "d", {{E::kReal64}}); auto ds = field<double>(*model, "ds", {{E::kSplitReal64}});
      auto df = field<double>(*model, "d_as_f", {{E::kSplitReal32}});
      auto trunc = std::make_unique<RField<float>>("trunc"); trunc->SetTruncated(17); model->AddField(std::move(trunc));
      auto quant = std::make_unique<RField<float>>("quant"); quant->SetQuantized(11, {-4., 4.}); model->AddField(std::move(quant));
      auto ft = model->GetDefaultEntry().GetPtr<float>("trunc"); auto fq = model->GetDefaultEntry().GetPtr<float>("quant");
      auto c = field<char>(*model, "char"); auto by = field<std::byte>(*model, "byte");
      auto s = field<std::string>(*model, "s", {{E::kIndex32, E::kChar}}); auto s2 = field<std::string>(*model, "s2", {{E::kSplitIndex64, E::kChar}});
      auto v = field<std::vector<float>>(*model, "v", {{E::kIndex64}}); auto v2 = field<std::vector<float>>(*model, "v2", {{E::kSplitIndex32}});
      auto vv = field<std::vector<std::vector<std::int32_t>>>(*model, "vv");
      auto vb = field<std::vector<bool>>(*model, "vb");
      auto a = field<std::array<double, 3>>(*model, "a");
      auto p = field<std::pair<std::int32_t, std::string>>(*model, "p");
      auto t = field<std::tuple<float, std::vector<std::int16_t>>>(*model, "t");
      auto o = field<std::optional<double>>(*model, "o"); auto un = field<std::unique_ptr<std::string>>(*model, "un");
      auto va = field<std::variant<std::int32_t, std::string, double>>(*model, "va");
      auto se = field<std::set<std::int32_t>>(*model, "set"); auto m = field<std::map<std::string, float>>(*model, "map");
      auto bits = field<std::bitset<11>>(*model, "bits"); auto at = field<std::atomic<std::int32_t>>(*model, "atomic");
      model->AddProjectedField(std::make_unique<RField<RNTupleCardinality<std::uint32_t>>>("n"),
                               [](const std::string &) { return "v"; });
      RNTupleWriteOptions options;
      options.SetCompression(compression);
      options.SetMaxUnzippedPageSize(2048); options.SetInitialUnzippedPageSize(64);
      auto writer = RNTupleWriter::Recreate(std::move(model), "events", path, options);
      std::shared_ptr<float> late;
      for (int k = 0; k < 900; ++k) {
        if (k == 500) {
          auto updater = writer->CreateModelUpdater();
          updater->BeginUpdate();
          updater->AddField(std::make_unique<RField<float>>("late"));
          updater->CommitUpdate();
          late = writer->GetModel().GetDefaultEntry().GetPtr<float>("late");
        }
        const double x = (k % 37 - 18) / 5.;
        *b = k % 3 == 0; *i8 = k; *u8 = k; *i16 = *i16s = -7 * k; *u16 = *u16s = 9 * k; *i32 = *i32s = -70000 * k; *u32 = *u32s = 4000000u * k;
        *i64 = *i64s = -5000000000ll * k; *u64 = *u64s = 18000000000000ull * k; *f = *fs = *fh = *ft = x; *fq = x; *d = *ds = *df = x / 3;
        *c = 'a' + k % 26; *by = std::byte(k); *s = *s2 = std::string(k % 5, 'a' + k % 3);
        v->assign(k % 4, k); v2->assign(k % 3, -k); vv->assign(k % 3, std::vector<std::int32_t>(k % 2 + 1, k)); vb->assign(k % 4, k % 2);
        *a = {x, x + 1, x + 2}; *p = {k, "p" + std::to_string(k)}; *t = {float(x), std::vector<std::int16_t>(k % 3, k)};
        if (k % 3) { *o = x; *un = std::make_unique<std::string>("u" + std::to_string(k)); } else { o->reset(); un->reset(); }
        if (k % 3 == 0) *va = k; else if (k % 3 == 1) *va = "v" + std::to_string(k); else *va = x;
        *se = {k, k + 1}; *m = {{"a", float(k)}, {"b", 1}}; *bits = std::bitset<11>(k); *at = k;
        if (late) *late = k;
        writer->Fill();
        if (k % 200 == 199) writer->CommitCluster(k % 400 == 399);
      }
    }
    ''')
    for settings in sys.argv[2:]:
        ROOT.write(f"{sys.argv[1]}/{settings}.root", int(settings))
    """
)


SETTINGS = ["0", "101", "207", "404", "505"]


@pytest.fixture(scope="module")
def from_root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    subprocess.run([sys.executable, "-c", WITH_ROOT, str(folder), *SETTINGS], check=True, timeout=300)
    return folder


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_type_of_column_that_root_writes_is_read_as_uproot_reads_it(from_root, tmp_path, settings):
    path = from_root / f"{settings}.root"
    ours, theirs = rntuple.open(path), uproot.open(path)["events"]
    assert len(ours) == theirs.num_entries == 900
    kinds = {kind for _, kind, _, _ in ours._reader.columns()}
    split = {f"Split{sign}{bits}" for sign in ("Int", "UInt") for bits in (16, 32, 64)}
    wanted = split | {name.removeprefix("Split") for name in split} | {
        "Bit", "Byte", "Char", "Int8", "UInt8", "Real16", "Real32", "Real64", "SplitReal32", "SplitReal64",
        "Index32", "Index64", "SplitIndex32", "SplitIndex64", "Switch", "Real32Trunc", "Real32Quant",
    }  # fmt: skip
    assert wanted <= kinds, wanted - kinds
    names = set(theirs.keys(recursive=False))
    assert names == set(ours.keys())
    # Of variants uproot reads the values of the first cluster again in each other one.
    names.remove("va")
    different = [name for name in names if not same(ours[name], theirs[name].array())]
    assert not different
    variants = [[at, f"v{at}", (at % 37 - 18) / 5][at % 3] for at in range(900)]
    assert [type(value) for value in ak.to_list(ours["va"])[:3]] == [int, str, float]
    assert ak.to_list(ours["va"]) == variants
    with pytest.raises(dolmen.Invalid, match=r"field 'o' \(std::optional<double>\) has values that may be missing.*\('len\(o\)', '==', 1\)"):
        ours.arrays("i32", filter=[("o", ">", 0)])
    assert ak.all(ours.arrays("o", filter=[("len(o)", "==", 1)])["o"] == ak.drop_none(ours["o"]))
    assert ak.to_list(ours["late"]) == [0.0] * 500 + [float(at) for at in range(500, 900)]
    # What is exported has the same values, for uproot and for us.
    copy = tmp_path / "copy.root"
    ours.export_root(copy)
    theirs, again = uproot.open(copy)["events"], rntuple.open(copy)
    for name in ours.keys():
        assert same(again[name], ours[name]), name
        assert name == "va" or same(theirs[name].array(), ours[name]), name


#: Reads flat fields and lists of numbers with ROOT, and says which are not what was given.
BY_ROOT = textwrap.dedent(
    """
    import json, sys, ROOT
    from dolmen import rntuple
    path, name, wanted = sys.argv[1], sys.argv[2], json.load(open(sys.argv[3]))
    if path.startswith("http:"):
        rntuple.root_over_http()
        rntuple.root_over_http()
    frame = ROOT.RDataFrame(name, path)
    def plain(value):
        if isinstance(value, (str, ROOT.std.string)): return str(value)
        if hasattr(value, "__len__"): return [plain(one) for one in value]
        return value.item() if hasattr(value, "item") else value
    read = frame.AsNumpy(list(wanted))
    wrong = [field for field in wanted if [plain(one) for one in read[field]] != wanted[field]]
    print(json.dumps(wrong))
    """
)


def by_root(tmp_path, path, name, wanted):
    import json

    (tmp_path / "wanted.json").write_text(json.dumps(wanted))
    words = [sys.executable, "-c", BY_ROOT, str(path), name, str(tmp_path / "wanted.json")]
    told = subprocess.run(words, check=True, timeout=300, stdout=subprocess.PIPE, text=True)
    return json.loads(told.stdout.splitlines()[-1])


@pytest.mark.parametrize("compression", ["none", "zstd:5"])
def test_root_reads_what_is_written_and_what_is_served(tmp_path, compression):
    made = columns()
    path = tmp_path / "made.root"
    rntuple.write_root(path, "events", made, compression=compression, page_bytes=3000, cluster_bytes=60_000)
    names = ["bool", "i8", "u8", "i16", "i32", "u32", "i64", "f32", "lists", "text", "texts", "fixed"]
    wanted = {name: ak.to_list(made[name]) for name in names}
    assert by_root(tmp_path, path, "events", wanted) == []
    with rntuple.open(path).serve() as server:
        theirs = uproot.open(server.url, handler=uproot.HTTPSource)["events"]
        assert same(theirs["muons"].array(), made["muons"])
        assert by_root(tmp_path, server.url, "events", wanted) == []
        served = tmp_path / "served.root"
        with urllib.request.urlopen(server.url) as answer:
            served.write_bytes(answer.read())
    assert by_root(tmp_path, served, "events", {name: wanted[name] for name in ("i32", "lists")}) == []


def test_floats_are_kept_with_the_precision_that_is_asked_for(tmp_path):
    count = np.arange(2000)
    exact = {"wide": np.sin(count) * 3, "lists": ak.unflatten(np.cos(count, dtype="f4"), [5] * 400 + [0] * 1600),
             "whole": ak.zip({"x": np.sin(count).astype("f4"), "n": count})}
    kept = {"wide": "trunc:20", "lists": "quant:16:-3:3", "whole.x": "real16"}
    error = {"wide": 2**-9, "lists": 6 / 65535, "whole.x": 2**-11}
    path = tmp_path / "kept.root"
    rntuple.write_root(path, "events", exact, precision=kept, cluster_bytes=20_000)
    ours, theirs = rntuple.open(path), uproot.open(path)["events"]
    wanted = {name: ak.to_list(ours[name]) for name in ("wide", "lists")}
    assert by_root(tmp_path, path, "events", wanted) == []
    for name in kept:
        top, _, below = name.partition(".")
        read = [array[below] if below else array for array in (ours[top], theirs[top].array(), exact[top])]
        assert same(read[0], read[1]), name
        off = ak.max(np.abs(ak.values_astype(read[0], "f8") - read[2]))
        assert 0 < off <= error[name], (name, off)
    assert same(ours["whole"]["n"], count)
    for columns, message in [({"wide": "trunc:9"}, "'?\"?wide"), ({"whole.n": "real16"}, "whole.n"), ({"wide": "half"}, "real16"),
                             ({"none": "real16"}, "none")]:
        with pytest.raises((dolmen.Invalid, dolmen.NotFound), match=message):
            rntuple.write_root(tmp_path / "refused.root", "events", exact, precision=columns)
    with pytest.raises(dolmen.Invalid, match="wide.*between -1 and 1"):
        rntuple.write_root(tmp_path / "refused.root", "events", exact, precision={"wide": "quant:8:-1:1"})
    assert not (tmp_path / "refused.root").exists()


def test_arrays_go_to_numpy_awkward_and_arrow(tmp_path):
    made = columns()
    path = tmp_path / "made.root"
    rntuple.write_root(path, "events", made, cluster_bytes=60_000)
    ntuple = rntuple.open(path)
    flat = ntuple.arrays(["i32", "f64", "fixed", "matrix"], 10, 20, library="np")
    assert all(np.array_equal(flat[name], made[name][10:20], equal_nan=name == "f64") for name in flat)
    table = pa.table(ntuple)
    assert table.num_rows == COUNT
    for name in made:
        assert same(ak.from_arrow(table.column(name)), made[name]), name
    assert [batch.num_rows for batch in ntuple.batches(["i32"], step=400)] == [400, 400, 400, 300]
    ntuple.to_parquet(tmp_path / "made.parquet", ["i32", "lists", "muons", "text"])
    read = pq.read_table(tmp_path / "made.parquet")
    assert read.column("text").to_pylist() == ak.to_list(made["text"])
    again = tmp_path / "again.root"
    rntuple.write_root(again, "events", table)
    for name in made:
        assert same(rntuple.open(again)[name], made[name]), name


def test_a_column_of_arrow_has_the_type_of_its_field_whatever_bytes_texts_have(tmp_path):
    path, parquet = tmp_path / "made.root", tmp_path / "made.parquet"
    texts = [b"menhir", b"\xc3\xa9"] * 10
    texts[15] = b"caf\xe9"
    made = {
        "a": np.arange(20),
        "s": pa.array(texts, pa.binary()),
        "rec": pa.StructArray.from_arrays([pa.array(texts, pa.binary())], ["s"]),
        "lists": pa.array([[]] * 3 + [texts[:at] for at in range(3, 20)], pa.list_(pa.binary())),
    }
    with rntuple.RootWriter(path, "events", cluster_bytes=200) as writer:
        for at in range(20):
            writer.append({name: array[at : at + 1] for name, array in made.items()})
    ntuple = rntuple.open(path)
    assert len(ntuple.clusters) > 4
    calls = [
        lambda **asked: pa.Table.from_batches(ntuple.batches(**asked)),
        lambda **asked: pa.Table.from_batches(ntuple.batches(step=7, **asked)),
        lambda **asked: ntuple.arrow_reader(**asked).read_all(),
        lambda **asked: ntuple.arrays(library="pa", **asked),
        lambda **asked: (ntuple.to_parquet(parquet, **asked), pq.read_table(parquet))[1],
    ]
    passing, others = [("a", ">", 1)], [("a", "!=", 15), ("a", "<", 18)]
    for name, entry in (("s", 15), ("rec", 15), ("lists", 16)):
        told = rf"field '{name}' has text in entry {entry} that is no UTF-8.*strings='binary'.*library='np'"
        for call in calls:
            for filter in (None, passing):
                with pytest.raises(dolmen.Invalid, match=told):
                    call(columns=name, filter=filter)
            # What is not read, or does not pass, is not looked at.
            assert call(columns=name, stop=entry).num_rows == entry
    with pytest.raises((pa.ArrowException, OSError, dolmen.Error), match="field 's' has text in entry 15"):
        pa.table(ntuple)
    text, some = ntuple.arrow_schema(["a", "s"]), [at for at in range(18) if at != 15]
    assert text.field("s").type == pa.large_string()
    for call in calls:
        table = call(columns=["a", "s"], filter=others)
        assert table.schema.equals(text) and table["s"].to_pylist() == [texts[at].decode() for at in some]
    schema = ntuple.arrow_schema(strings="binary")
    assert schema.field("s").type == pa.large_binary() == schema.field("rec").type[0].type == schema.field("lists").type.value_type
    for call in calls:
        table = call(strings="binary")
        assert table.schema.equals(schema) and table.to_pydict() == {name: array.tolist() if name == "a" else array.to_pylist() for name, array in made.items()}
        assert call(columns="s", strings="binary", filter=passing)["s"].to_pylist() == texts[2:]
    assert ntuple.arrays("s", strings="binary", library="np")["s"].tolist() == ntuple.arrays("s", strings="binary")["s"].to_list() == texts
    assert ntuple.arrays("s", library="np")["s"][15] == "caf\udce9"
    with pytest.raises(dolmen.Invalid, match="strings is 'text': 'utf8' or 'binary'"):
        ntuple.arrays("s", strings="text")
    # So it goes to another ntuple as it was.
    rntuple.write_root(tmp_path / "again.root", "events", ntuple.arrays("s", strings="binary", library="pa"))
    again = rntuple.open(tmp_path / "again.root")
    assert again.fields["s"].type == "std::string" and again.arrays(strings="binary")["s"].to_list() == texts


def test_what_parquet_does_not_have_is_refused_by_its_name(tmp_path):
    mixed = ak.Array([1, "a"])
    made = {"a": [5, 6], "u": mixed, "lists": ak.Array([[1, "a"], []]), "rec": ak.Array({"x": [1, 2], "u": mixed})}
    rntuple.write_root(tmp_path / "made.root", "events", made)
    ntuple, parquet = rntuple.open(tmp_path / "made.root"), tmp_path / "made.parquet"
    for columns, told in ((None, "'u', 'lists', 'rec'"), (["a", "rec"], "'rec'"), ("lists", "'lists'")):
        with pytest.raises(dolmen.Invalid, match=f"no columns of Parquet are as {told}: name those that are wanted"):
            ntuple.to_parquet(parquet, columns)
    assert not parquet.exists()
    ntuple.to_parquet(parquet, ["a", "rec.x"])
    assert pq.read_table(parquet).to_pydict() == {"a": [5, 6], "rec.x": [1, 2]}


def test_bytes_are_texts_of_arrow_and_else_lists_of_numbers(tmp_path):
    made = {"binary": pa.array([b"ab", b""], pa.binary()), "numpy": np.array([b"ab", b""]), "list": [b"ab", b""], "ak": ak.Array([b"ab", b""])}
    rntuple.write_root(tmp_path / "made.root", "events", made)
    ntuple = rntuple.open(tmp_path / "made.root")
    of = {name: field.type for name, field in ntuple.fields.items()}
    assert of.pop("binary") == "std::string" and set(of.values()) == {"std::vector<std::uint8_t>"}
    assert ntuple["binary"].to_list() == ["ab", ""] and all(ntuple[name].to_list() == [[97, 98], []] for name in of)


def test_numpy_has_lists_and_texts_as_objects_as_uproot_has(tmp_path):
    made = {
        "n": np.arange(4),
        "v": [[1.5], [], [2.5, 3.5], [4.5]],
        "s": ["a", "", "\u00e4b", "c"],
        "deep": [[[1], []], [], [[2, 3]], [[4]]],
        "words": [["x"], [], ["y", "z"], [""]],
        "pairs": np.arange(8).reshape(4, 2),
        "muon": ak.Array([{"pt": at} for at in range(4)]),
        "muons": ak.Array([[{"pt": 1.0}], [], [], []]),
    }
    path = tmp_path / "made.root"
    rntuple.write_root(path, "events", made, cluster_bytes=100)
    ntuple = rntuple.open(path)
    names = ["n", "v", "s", "deep", "words", "pairs"]
    read = ntuple.arrays(names, library="np")
    theirs = uproot.open(path)["events"].arrays(["v", "s"], library="np")
    for name in ("v", "s"):
        assert read[name].dtype == np.dtype(object) and read[name].shape == (4,)
        assert all(np.array_equal(one, other) for one, other in zip(read[name], theirs[name])), name
    assert theirs["v"].dtype == read["v"].dtype and [type(one) for one in read["v"]] == [np.ndarray] * 4 and read["v"][2].dtype == np.dtype("f8")
    assert read["s"].tolist() == made["s"] and read["pairs"].shape == (4, 2)
    assert [[inner.tolist() for inner in one] for one in read["deep"]] == made["deep"]
    assert [one.tolist() for one in read["words"]] == made["words"]
    some = ntuple.arrays(["v", "s"], filter=[("n", "!=", 1)], library="np")
    assert [one.tolist() for one in some["v"]] == [[1.5], [2.5, 3.5], [4.5]] and some["s"].tolist() == ["a", "\u00e4b", "c"]
    assert ntuple.arrays("v", filter=[("n", "<", 0)], library="np")["v"].shape == (0,)
    rntuple.write_root(tmp_path / "again.root", "events", read)
    assert all(same(rntuple.open(tmp_path / "again.root")[name], ntuple[name]) for name in names)
    for name in ("muon", "muons"):
        with pytest.raises(dolmen.Invalid, match=f"{name}.*library='ak'"):
            ntuple.arrays(name, library="np")
    assert ntuple.arrays("muon.pt", library="np")["muon.pt"].tolist() == [0, 1, 2, 3]


def test_patterns_name_the_fields_and_branches_that_they_fit(tmp_path):
    flat = {"nMuon": np.arange(3), "Muon_pt": np.arange(3) / 2, "Muon_id": np.arange(3), "MET": np.ones(3)}
    with uproot.recreate(tmp_path / "tree.root") as file:
        file.mktree("events", {name: values.dtype for name, values in flat.items()}).extend(flat)
    rntuple.write_root(tmp_path / "made.root", "events", {**flat, "jet": ak.Array([{"pt": 1, "phi": 2, "m": 3}] * 3)})
    ntuple, tree = rntuple.open(tmp_path / "made.root"), rntuple.Tree(tmp_path / "tree.root")
    for source in (ntuple, tree):
        assert source.arrays(["Muon_*"]).fields == ["Muon_pt", "Muon_id"]
        assert source.arrays(["Muon_id", "*Muon*", "?ET"]).fields == ["Muon_id", "nMuon", "Muon_pt", "MET"]
        assert source.arrow_schema("M*").names == ["Muon_pt", "Muon_id", "MET"]
        for none in ("Jet_*", "muon_?t", "[M]*"):
            with pytest.raises(dolmen.NotFound, match=f"no (field|branch) fits '{re.escape(none)}'"):
                source.arrays(["MET", none])
    assert list(ntuple.arrays("jet.p*", library="np")) == ["jet.pt", "jet.phi"]
    with pytest.raises(dolmen.NotFound, match=r"no field 'jet\.ptt'; 'jet\.pt' is one"):
        ntuple.arrays("jet.ptt")
    assert ntuple.estimate(["Muon_*"]).stored_bytes == ntuple.estimate(["Muon_pt", "Muon_id"]).stored_bytes
    # A name is no pattern where there is a field of it.
    rntuple.write_root(tmp_path / "star.root", "events", {"a*": [1], "ab": [2]})
    assert rntuple.open(tmp_path / "star.root").arrays("a*").fields == ["a*"]


def test_a_tree_is_read_with_filters_and_in_batches_as_an_ntuple_is(tmp_path):
    count = 100_000
    flat = {"n": np.arange(count), "x": np.arange(count) % 7}
    with uproot.recreate(tmp_path / "tree.root") as file:
        file.mktree("events", {"n": "i8", "x": "i4"}).extend(flat)
    rntuple.write_root(tmp_path / "made.root", "events", flat)
    ntuple, tree = rntuple.open(tmp_path / "made.root"), rntuple.Tree(tmp_path / "tree.root")
    filter = [("x", "==", 3), ("n", ">=", 1000)]
    wanted = np.flatnonzero((flat["x"] == 3) & (flat["n"] >= 1000))
    for source in (ntuple, tree):
        for library in ("np", "ak", "pa"):
            read = source.arrays(["n"], 10, -10, filter=filter, library=library)
            assert np.array_equal(np.asarray(read["n"]), wanted[wanted < count - 10]), library
        batches = list(source.batches(["n"], 0, 10_000, step=3000, filter=filter))
        assert [batch.num_rows for batch in batches] == [np.sum((wanted // 3000 == at) & (wanted < 10_000)) for at in range(4)]
        assert source.arrow_reader(filter=filter).read_all()["n"].to_pylist() == wanted.tolist()
        assert pa.table(source).equals(pa.table({name: pa.array(values) for name, values in (("n", flat["n"]), ("x", flat["x"].astype(source.arrays("x", 0, 1, library="np")["x"].dtype)))}))
        source.to_parquet(tmp_path / "some.parquet", "n", filter=filter)
        assert pq.read_table(tmp_path / "some.parquet")["n"].to_pylist() == wanted.tolist()
    assert [batch.num_rows for batch in tree.batches()] == [65_536, count - 65_536]


def test_filters_keep_what_passes_and_nothing_else(tmp_path):
    made = columns()
    path = tmp_path / "made.root"
    rntuple.write_root(path, "events", made, cluster_bytes=60_000)
    ntuple = rntuple.open(path)
    keep = (made["f64"] > 0.5) & (made["i8"] != 3)
    for library in ("np", "ak", "pa"):
        read = ntuple.arrays(["i64"], filter=[("f64", ">", 0.5), ("i8", "!=", 3)], library=library)
        assert np.array_equal(np.asarray(read["i64"]), made["i64"][keep]), library
    none = ntuple.arrays(["i64"], filter=[("f64", ">", 1e9)], library="np")
    assert none["i64"].size == 0 and none["i64"].dtype == np.dtype("i8")
    with pytest.raises(dolmen.Invalid, match="comparison"):
        ntuple.arrays(["i64"], filter=[("f64", "~", 1)])


def test_what_is_wrong_is_told_by_name(tmp_path):
    path = tmp_path / "made.root"
    rntuple.write_root(path, "events", {"a": np.arange(5)})
    for ask in (rntuple.open, rntuple.Tree, rntuple.ntuples, rntuple.trees):
        with pytest.raises(FileNotFoundError, match="nowhere.root: there is no such file or directory$") as none:
            ask(tmp_path / "nowhere.root")
        assert isinstance(none.value, dolmen.NotFound)
    with pytest.raises(dolmen.NotFound, match="others.*events"):
        rntuple.open(path, "others")
    with pytest.raises(KeyError, match="b"):
        rntuple.open(path)["b"]
    with pytest.raises(dolmen.Invalid, match="snappy"):
        rntuple.write_root(path, "events", {"a": np.arange(5)}, compression="snappy")
    with pytest.raises(dolmen.Invalid, match="'t'.*datetime"):
        rntuple.write_root(path, "events", {"t": np.zeros(3, "M8[s]")})
    with pytest.raises(dolmen.Invalid, match="missing"):
        rntuple.write_root(path, "events", {"t": ak.Array([1, None])})
    with pytest.raises(dolmen.Invalid, match="b"):
        rntuple.write_root(path, "events", {"a": np.arange(5), "b": np.arange(6)})
    # What was there is there still, and nothing else.
    assert os.listdir(tmp_path) == ["made.root"]
    assert np.array_equal(rntuple.open(path)["a"], np.arange(5))
    (tmp_path / "cut.root").write_bytes(path.read_bytes()[:300])
    with pytest.raises(dolmen.Corrupt):
        rntuple.open(tmp_path / "cut.root")
    with pytest.raises(dolmen.Corrupt):
        (tmp_path / "text.root").write_text("this is no file of ROOT, but longer than its head has to be" * 3)
        rntuple.open(tmp_path / "text.root")


def test_an_estimate_tells_what_a_reading_takes(tmp_path):
    made = columns()
    path = tmp_path / "made.root"
    rntuple.write_root(path, "events", made, compression="none", cluster_bytes=60_000)
    ntuple = rntuple.open(path)
    told = ntuple.estimate(["f64", "i16"])
    assert (told.entries, told.stored_bytes, told.memory_bytes) == (COUNT, COUNT * 10, COUNT * 10)
    assert told.clusters == len(ntuple.clusters)
    assert {field for field, *_ in told.columns} == {"f64", "i16"}
    slow = ntuple.estimate(medium=rntuple.Medium(0.1, 1e9, 1))
    assert slow.seconds >= slow.requests * 0.1
    assert slow.seconds_page_by_page >= slow.pages * 0.1
    assert ntuple.estimate(["f64"]).money_reading == pytest.approx(told.clusters * 4e-7)


def deep(count):
    """An entry of lists within each other."""
    made = 1
    for _ in range(count + 1):
        made = [made]
    return made


def itself():
    """A list that has itself."""
    made = [[]]
    made[0].append(made)
    return made


#: Values that no field has as they are, and what is said of them.
REFUSED = {
    "masked": (lambda: np.ma.array([1, 2], mask=[0, 1]), "missing"),
    "masked record": (lambda: np.ma.array([(1, 2.0)], mask=[(0, 1)], dtype=[("a", "i4"), ("b", "f8")]), "missing"),
    "masked in a list": (lambda: [np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1])], "missing"),
    "masked of a list": (lambda: [1, np.ma.masked], "missing"),
    "Int64": (lambda: pandas.array([1, None], dtype="Int64"), "missing"),
    "boolean": (lambda: pandas.Series([True, None], dtype="boolean"), "missing"),
    "string": (lambda: pandas.Series(["a", None], dtype="string"), "missing"),
    "category": (lambda: pandas.Series(["a", None], dtype="category"), "missing"),
    "objects": (lambda: pandas.Series([[1], None]), "missing"),
    "null": (lambda: pa.array([1, None]), "missing"),
    "none": (lambda: [1, None], "missing"),
    "none in lists": (lambda: [[1], [None, 2]], "missing"),
    "none in records": (lambda: [{"a": 1}, {"a": None}], "'a' of its records.*missing"),
    "none in a tuple": (lambda: [(1, None)], "missing"),
    "not in all records": (lambda: [{"a": 1}, {"a": 1, "b": 2}], "missing.*not all of its records have 'b'"),
    "NA first": (lambda: [pandas.NA, 1], "missing; fill them"),
    "NA": (lambda: [1, pandas.NA], "missing; fill them"),
    "NA in lists": (lambda: [["a"], [pandas.NA]], "missing; fill them"),
    "NA in records": (lambda: [{"a": 1}, {"a": pandas.NA}], "missing; fill them"),
    "NA in objects": (lambda: np.array([1, pandas.NA], object), "missing; fill them"),
    "NaT": (lambda: [pandas.NaT], "missing; fill them"),
    "NaT in records of pandas": (lambda: pandas.Series([{"a": pandas.NaT}]), "missing; fill them"),
    "masked of lists": (lambda: [[1], [np.ma.masked]], "missing"),
    "masked of a record": (lambda: [{"a": np.ma.masked}], "missing"),
    "masked in a record": (lambda: [{"a": np.ma.array([1], mask=[1])}], "missing"),
    "masked of lists of texts": (lambda: [["a", np.ma.masked]], "missing"),
    "none of texts": (lambda: np.array([["a", None]], object), "missing"),
    "nulls in a list": (lambda: [pa.array([1, None]), pa.array([2])], "missing"),
    "a null": (lambda: [pa.scalar(1), pa.scalar(None)], "missing"),
    "large": (lambda: [2**70, 1], "64 bits"),
    "too large below": (lambda: [-(2**63) - 1], "64 bits"),
    "too large in objects": (lambda: np.array([2**64, 1], object), "64 bits"),
    "large and negative": (lambda: [2**63, -1], "rounded"),
    "large and negative in objects": (lambda: np.array([2**63, -1], object), "rounded"),
    "large and negative in arrays": (lambda: [np.array([2**63], "u8"), np.array([-1])], "rounded"),
    "large beside a float": (lambda: [2**53 + 1, 0.5], "rounded"),
    "large without a sign beside a float": (lambda: [np.uint64(2**63 + 1), 0.5], "rounded"),
    "large in lists": (lambda: [[2**64, 1], [1]], "64 bits"),
    "large in records": (lambda: [{"a": [2**64]}], "'a' of its records.*64 bits"),
    "large beside a float in lists": (lambda: [[2**53 + 1, 0.5], [1]], "rounded"),
    "large beside a float in arrays": (lambda: [np.array([2**53 + 1]), np.array([0.5])], "rounded"),
    "large beside a float in a deque": (lambda: collections.deque([2**53 + 1, 0.5]), "rounded"),
    "large beside a float in a tuple": (lambda: [(2**53 + 1, 0.5)], "rounded"),
    "large beside a float in tuples": (lambda: [(2**53 + 1, [1]), (0.5, [])], "'_0' of its records.*rounded"),
    "large beside a float in records": (lambda: [{"a": 2**53 + 1}, {"a": 2.5}], "'a' of its records.*rounded"),
    "large beside a float in lists of records": (lambda: [[{"a": 2**53 + 1}], [{"a": 2.5}]], "rounded"),
    "large beside a float in records of lists": (lambda: [{"a": [2**53 + 1]}, {"a": [2.5]}], "rounded"),
    "large beside a float in pandas": (lambda: pandas.Series([{"a": 2**62 + 1}, {"a": 2.5}]), "rounded"),
    "texts and bytes": (lambda: ["a", b"\xff"], "texts and bytes.*encode.*decode"),
    "bytes and texts": (lambda: [b"\xff", "a"], "texts and bytes"),
    "bytes and texts in objects": (lambda: np.array([b"b", "a"], object), "texts and bytes"),
    "texts and bytes in lists": (lambda: [["a"], [b"b"]], "texts and bytes"),
    "bytes and texts in lists": (lambda: [[b"b", "a"], []], "texts and bytes"),
    "texts and bytes in records": (lambda: [{"a": ["a"]}, {"a": [b"b"]}], "'a' of its records.*texts and bytes"),
    "numbers and bytes": (lambda: [1, b"a"], r"several types \(one of std::int64_t, std::vector<std::uint8_t>\)"),
    "bytes and numbers in lists": (lambda: [[b"a"], [1]], "several types"),
    "text": (lambda: "abc", "single value"),
    "record of awkward": (lambda: ak.Array([{"a": 1}])[0], r"single value \(Record\)"),
    "a missing value": (lambda: pandas.NA, "single value"),
    "a time": (lambda: pandas.Timestamp("2026-01-01"), "single value"),
    "number": (lambda: 5, "single value"),
    "scalar": (lambda: pa.scalar(5), "no array"),
    "set": (lambda: {1, 2}, "single value"),
    "surrogate": (lambda: ["a", "\udcff"], "UTF-8"),
    "surrogate in records": (lambda: [{"a": "\udcff"}], "'a' of its records.*UTF-8"),
    "object": (lambda: [object(), 1], "no field has values of object"),
    "decimal": (lambda: [[decimal.Decimal("1.5")], [1]], r"values of Decimal; have whole numbers, or floats \(float\)"),
    "fraction": (lambda: [{"a": fractions.Fraction(1, 3)}], "values of Fraction; have whole numbers"),
    "complex": (lambda: [1j, 1], "values of complex; have their real and imaginary parts"),
    "date": (lambda: [{"a": datetime.date(2026, 1, 1)}], "values of date; have numbers"),
    "date of numpy": (lambda: [[np.datetime64("2026-01-01", "ns")], []], "values of datetime64; have numbers"),
    "dates of numpy": (lambda: [np.array(["2026-01-01"], "M8[ns]"), np.array([1])], "values of datetime64"),
    "number as a name": (lambda: [{1: 2}], "names.*not 1"),
    "tuples that are not equally long": (lambda: [(1, [2]), (3,)], "tuples"),
    "itself": (itself, "deep, or have themselves"),
    "too deep": (lambda: deep(65), "more than 64 deep"),
    "too deep of awkward": (lambda: ak.from_iter(deep(66)), "more than 64 deep"),
    "table in a field": (lambda: pa.table({"a": [1]}), "no array"),
    "numbers and texts": (lambda: np.array([1, "a"], object), r"several types \(one of std::int64_t, std::string\).*ak.Array"),
    "numbers and texts in a list": (lambda: [1, "a"], "several types"),
    "numbers and texts in lists": (lambda: [[1, "a"], []], r"several types \(std::vector<one of std::int64_t, std::string>\)"),
    "numbers and texts in pandas": (lambda: pandas.Series([1, "a"]), "several types"),
    "numbers and texts in records": (lambda: [{"a": 1}, {"a": "b"}], "several types"),
    "numbers and lists": (lambda: [1, [2]], "several types"),
    "numbers and texts deep in records": (lambda: [{"a": {"b": [1, "x"]}}], r"'b' of its records\): .*several types \(std::vector<one of"),
    "truths and numbers": (lambda: np.array([True, 2], object), "several types"),
    "truths and numbers in a list": (lambda: [True, 2], r"several types \(one of bool, std::int64_t\)"),
    "numbers and truths": (lambda: [2.5, np.True_], "several types"),
    "truths and numbers in lists": (lambda: [[True], [2]], "several types"),
    "truths and numbers in arrays": (lambda: [np.array([True]), np.array([2])], "several types"),
    "truths and numbers in records": (lambda: [{"a": True}, {"a": 2}], "several types"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_values_that_no_field_has_are_refused_by_the_name_of_the_field(tmp_path, kind):
    make, told = REFUSED[kind]
    with pytest.raises(dolmen.Invalid, match=f"'field'.*{told}"):
        rntuple.write_root(tmp_path / "made.root", "events", {"field": make()})
    assert os.listdir(tmp_path) == []


#: Values that are taken, and what is read.
TAKEN = {
    "masked nowhere": (lambda: np.ma.array([1, 2]), [1, 2]),
    "Int64": (lambda: pandas.array([1, 2], dtype="Int64"), [1, 2]),
    "string": (lambda: pandas.Series(["a", "b"], dtype="string"), ["a", "b"]),
    "NaN": (lambda: pandas.Series([1.0, float("nan")]), [1.0, float("nan")]),
    "lists": (lambda: [[1], [2, 3]], [[1], [2, 3]]),
    "empty lists": (lambda: [np.array([], "f4")] * 2, [[], []]),
    "zeros of texts": (lambda: ["a\0", "\0"], ["a\0", "\0"]),
    "lists of lists": (lambda: [[[1], []], [[2, 3]]], [[[1], []], [[2, 3]]]),
    "lists in pandas": (lambda: pandas.Series([[1], [2, 3]]), [[1], [2, 3]]),
    "objects": (lambda: np.array([1, 2], dtype=object), [1, 2]),
    "arrays": (lambda: [np.array([1.5], "f4"), np.array([], "f4")], [[1.5], []]),
    "texts": (lambda: np.array([["a", "b"], ["c", "dd"]]), [["a", "b"], ["c", "dd"]]),
    "numbers and texts of awkward": (lambda: ak.Array([1, "a"]), [1, "a"]),
    "large": (lambda: [2**63, 1], [2**63, 1]),
    "large in objects": (lambda: np.array([2**64 - 1, 1], object), [2**64 - 1, 1]),
    "large in pandas": (lambda: pandas.Series([2**63, 1], dtype=object), [2**63, 1]),
    "large in lists": (lambda: [[2**63, 1], [2]], [[2**63, 1], [2]]),
    "large in lists of two lengths": (lambda: [[2**63, 1], [2**63]], [[2**63, 1], [2**63]]),
    "large in arrays": (lambda: [np.array([2**63], "u8"), np.array([1])], [[2**63], [1]]),
    "large in records": (lambda: [{"a": 2**63}, {"a": 1}], [{"a": 2**63}, {"a": 1}]),
    "large scalars in records": (lambda: [{"a": np.uint64(5)}, {"a": np.uint64(2**64 - 1)}], [{"a": 5}, {"a": 2**64 - 1}]),
    "scalars without a sign": (lambda: [np.uint64(5), -3], [5, -3]),
    "large floats in records": (lambda: [{"a": 2**60}, {"a": 0.5}], [{"a": 2.0**60}, {"a": 0.5}]),
    "tuples": (lambda: [(2**53 + 1, [0.5]), (2, [])], ak.Array([(2**53 + 1, [0.5]), (2, [])])),
    "tuples of one kind": (lambda: [(1, 2), (3, 4)], [[1, 2], [3, 4]]),
    "bytes": (lambda: [{"a": b"ab"}, {"a": bytearray(b"\xff")}], [{"a": [97, 98]}, {"a": [255]}]),
    "arrays of records": (lambda: [np.array([(1, 0.5)], "i4,f4"), np.array([], "i4,f4")], [[{"f0": 1, "f1": 0.5}], []]),
    "texts in records of numpy": (lambda: np.array([(1, "ab", "c")], "i4,O,U4"), [{"f0": 1, "f1": "ab", "f2": "c"}]),
    "numbers of several types": (lambda: [np.array([1], "i2"), np.array([2**40]), np.array([])], [[1], [2**40], []]),
    "scalars of Arrow": (lambda: [pa.scalar(5), pa.scalar(6)], [5, 6]),
    "arrays of Arrow": (lambda: [pa.array([1]), pa.array([2, 3])], [[1], [2, 3]]),
    "records of awkward": (lambda: [ak.Record({"a": 1}), ak.Record({"a": 2})], [{"a": 1}, {"a": 2}]),
    "an index of pandas": (lambda: pandas.MultiIndex.from_tuples([(1, "a"), (2, "b")]), ak.Array([(1, "a"), (2, "b")])),
    "deep": (lambda: deep(60), deep(60)),
    "a deque": (lambda: collections.deque([1, 2]), [1, 2]),
    "many": (lambda: [{"n": at, "of": [at / 2] * (at % 3)} for at in range(100_000)], [{"n": at, "of": [at / 2] * (at % 3)} for at in range(100_000)]),
    "large floats": (lambda: [2**60, 0.5], [2.0**60, 0.5]),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_values_of_many_kinds_are_stored_as_they_are(tmp_path, kind):
    make, wanted = TAKEN[kind]
    path = tmp_path / "made.root"
    rntuple.write_root(path, "events", {"field": make(), "other": np.arange(len(wanted))})
    assert same(rntuple.open(path)["field"], wanted)
    assert ak.to_list(rntuple.open(path)["other"]) == list(range(len(wanted)))
    if kind in ("arrays", "empty lists"):
        assert rntuple.open(path).field("field").type == "std::vector<float>"


def test_numbers_have_one_type_wherever_they_are(tmp_path):
    path = tmp_path / "made.root"
    for numbers, wanted in (
        ([1, 2], "std::int64_t"),
        ([1, 2.5], "double"),
        ([2**63, 0], "std::uint64_t"),
        ([np.float32(1), np.float32(2.5)], "float"),
        ([np.uint8(1), np.int8(-1)], "std::int16_t"),
        ([np.uint64(1), -1], "std::int64_t"),
        ([True, False], "bool"),
        ([np.True_, False], "bool"),
    ):
        values = {
            "flat": numbers,
            "objects": np.array(numbers, object),
            "pandas": pandas.Series(numbers, dtype=object),
            "lists": [numbers, []],
            "even": [numbers, numbers],
            "records": [{"a": one} for one in numbers],
            "deep": [[{"a": [one]}] for one in numbers],
            "tuples": [{"a": (one,)} for one in numbers],
        }
        for name, value in values.items():
            rntuple.write_root(path, "events", {"field": value})
            assert rntuple.open(path)._all[-1].type == wanted, (name, wanted)


class Behaving(ak.Array):
    """As packages of vectors have arrays of their own."""


def test_arrays_of_types_that_are_made_of_those_of_awkward_are_taken_as_such(tmp_path):
    path, value = tmp_path / "made.root", Behaving([[{"a": 1}], []])
    rntuple.write_root(path, "events", {"field": value})
    assert rntuple.open(path)["field"].to_list() == [[{"a": 1}], []]
    rntuple.write_root(path, "events", Behaving([{"a": 1}]))
    assert rntuple.open(path)["a"].tolist() == [1]


def test_what_has_no_fields_is_refused_with_what_is_taken(tmp_path):
    path = tmp_path / "made.root"
    reader = pa.table({"a": [1]}).to_reader()
    for data in [reader, [{"a": 1, "b": 2}], ["ab", "cd"], "text", 5, pandas.Series([1]), pa.array([1]), ak.Record({"a": 1})]:
        with pytest.raises(dolmen.Invalid, match="fields|read_all"):
            rntuple.write_root(path, "events", data)
    with pytest.raises(dolmen.Invalid, match="'b' has 2 entries where field 'a' has 1"):
        rntuple.write_root(path, "events", {"a": [1], "b": [1, 2]})
    assert os.listdir(tmp_path) == []
    for data in [pa.record_batch({"a": [1]}), pandas.DataFrame({"a": [1]}), np.array([(1,)], [("a", "i8")]), [("a", [1])]]:
        rntuple.write_root(path, "events", data)
        assert ak.to_list(rntuple.open(path)["a"]) == [1]


def test_later_pieces_become_numbers_of_the_first_where_nothing_is_lost(tmp_path):
    path = tmp_path / "made.root"
    with rntuple.RootWriter(path, "events") as writer:
        writer.append({"x": [0.5], "n": np.array([1], "i4"), "v": [np.array([], "f8")]})
        writer.append({"x": [2], "n": [3], "v": ak.Array([[4]])})
        with pytest.raises(dolmen.Invalid, match="'x'.*int64.*double"):
            writer.append({"x": [2**53 + 1], "n": [3], "v": ak.Array([[4]])})
        with pytest.raises(dolmen.Invalid, match="'n'.*int64.*int32"):
            writer.append({"x": [2], "n": [2**31], "v": ak.Array([[4]])})
        with pytest.raises(dolmen.Invalid, match="'n'.*float64.*int32"):
            writer.append({"x": [2], "n": [0.5], "v": ak.Array([[4]])})
        with pytest.raises(dolmen.Invalid, match="'x'.*uint64.*double"):
            writer.append({"x": [2**64 - 1], "n": [3], "v": ak.Array([[4]])})
        for piece, told in (
            ({"n": [1], "z": [1], "q": ["a"]}, r'missing: "x" \(double\), "v" \(std::vector<double>\); not in the ntuple: "z" \(std::int64_t\), "q" \(std::string\)$'),
            ({"x": [1], "n": [1]}, r'made.root: the fields are not those of the ntuple; missing: "v" \(std::vector<double>\)$'),
        ):
            with pytest.raises(dolmen.Invalid, match=told):
                writer.append(piece)
    read = rntuple.open(path)
    # Lists that happen to be of one length are lists, and the reverse.
    again = tmp_path / "again.root"
    with rntuple.RootWriter(again, "events") as writer:
        writer.append({"lists": [[1], [2, 3]], "fixed": np.array([[1, 2], [3, 4]])})
        writer.append({"lists": [[4, 5], [6, 7]], "fixed": ak.Array([[5, 6]])[[0, 0]]})
        with pytest.raises(dolmen.Invalid, match="fixed"):
            writer.append({"lists": [[1]], "fixed": ak.Array([[5]])})
    assert ak.to_list(rntuple.open(again)["lists"]) == [[1], [2, 3], [4, 5], [6, 7]]
    assert ak.to_list(rntuple.open(again)["fixed"]) == [[1, 2], [3, 4], [5, 6], [5, 6]]
    assert [ak.to_list(read[name]) for name in ("x", "n", "v")] == [[0.5, 2.0], [1, 3], [[], [4.0]]]


#: Entries of fields, and lists of the same type that are all empty, at the top and below.
EMPTY = {
    "texts": ([["a"], []], [[], []]),
    "lists": ([[[1]], []], [[], [[]]]),
    "lists of lists of texts": ([[["a"], []]], [[], [[], []]]),
    "records": ([[{"name": "a", "all": [1.5]}], []], [[], [{"name": "b", "all": []}]]),
    "records of texts": (ak.Array([{"n": "a", "all": [["b"]]}]), ak.Array([{"n": "c", "all": []}])),
    "numbers or texts": (ak.Array([[1, "a"], ["b"]]), [[], []]),
    "numbers": ([np.array([1], "u1")], [[]]),
    "nulls": (pa.array([["a"]]), pa.array([[], []])),
    "nothing": (["a"], []),
    "arrays": (ak.to_regular([[["a"], ["b"]]]), ak.to_regular([[[], []]])),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_lists_that_are_all_empty_are_of_the_type_of_their_field(tmp_path, kind):
    path, (first, empty) = tmp_path / "made.root", EMPTY[kind]
    with rntuple.RootWriter(path, "events") as writer:
        for piece in (first, empty, first):
            writer.append({"field": piece})
    wanted = [*ak.to_list(first), *ak.to_list(empty), *ak.to_list(first)]
    assert ak.to_list(rntuple.open(path)["field"]) == wanted


def test_lists_of_a_new_field_that_are_all_empty_are_given_a_type(tmp_path):
    path, lists = tmp_path / "made.root", [[], []]
    for value in (lists, ak.Array(lists), pa.array(lists), [[[]], []], ak.Array([{"a": 1, "b": []}])):
        with pytest.raises(dolmen.Invalid, match="'new': its lists are empty.*pa.array.*ak.enforce_type") as told:
            rntuple.write_root(path, "events", {"new": value})
    remedies = str(told.value).partition("as in ")[2].split(" or ")
    for remedy in [*remedies, "ak.enforce_type(ak.Array(lists), 'var * {x: int32, y: string}')"]:
        rntuple.write_root(path, "events", {"new": eval(remedy)})
        assert ak.to_list(rntuple.open(path)["new"]) == lists
        assert "std::string" in [field.type for field in rntuple.open(path)._all]


def test_a_file_of_parquet_has_its_name_when_it_is_whole(tmp_path, monkeypatch):
    path, parquet = tmp_path / "made.root", tmp_path / "made.parquet"
    rntuple.write_root(path, "events", {"a": np.arange(100)})
    ntuple = rntuple.open(path)
    ntuple.to_parquet(parquet, step=10)
    assert pq.read_table(parquet).num_rows == 100 and sorted(os.listdir(tmp_path)) == ["made.parquet", "made.root"]
    # Links stay, and what is no file of a name is written as it is.
    link = tmp_path / "link"
    link.symlink_to(parquet)
    ntuple.to_parquet(link, stop=50)
    buffer = pa.BufferOutputStream()
    ntuple.to_parquet(buffer, stop=20)
    assert link.is_symlink() and pq.read_table(parquet).num_rows == 50
    assert pq.read_table(pa.BufferReader(buffer.getvalue())).num_rows == 20
    before, batches = parquet.read_bytes(), rntuple.Ntuple.batches

    def full(self, *words, **options):
        yield next(batches(self, *words, **options))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rntuple.Ntuple, "batches", full)
    for target in (parquet, tmp_path / "new.parquet"):
        with pytest.raises(OSError, match="No space"):
            ntuple.to_parquet(target, step=10)
    assert parquet.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["link", "made.parquet", "made.root"]


def test_what_is_asked_wrongly_is_told_what_is_meant(tmp_path):
    path = tmp_path / "made.root"
    rntuple.write_root(path, "events", {"a": np.arange(5), "s": list("abcde")})
    with uproot.recreate(tmp_path / "tree.root") as file:
        file.mktree("t", {"a": "i8"}).extend({"a": np.arange(5)})
        file.mktree("u", {"a": "i8"}).extend({"a": np.arange(5)})
    ntuple, tree = rntuple.open(path), rntuple.Tree(tmp_path / "tree.root", "t")
    assert list(ntuple) == ["a", "s"] and list(tree) == ["a"]
    assert "a" in ntuple and "a" in tree and "b" not in tree and 0 not in ntuple and 0 not in tree
    for one in (ntuple, tree):
        for at in (0, slice(0, 5), None):
            with pytest.raises(TypeError, match="name of a (field|branch).*start="):
                one[at]
        with pytest.raises(dolmen.Invalid, match="1 is no"):
            one.arrays([1])
    with pytest.raises(dolmen.Invalid, match="5 names no fields"):
        ntuple.arrays(5)
    for filter in [("a", "<", 3), "a < 3", [("a", "<")], [("a", "<", "b")], [("a", "<", None)], [("s", "==", "a")], 5]:
        with pytest.raises(dolmen.Invalid, match="comparison"):
            ntuple.arrays("a", filter=filter)
    with pytest.raises(dolmen.Invalid, match="Medium is needed.*not a str"):
        ntuple.estimate(medium="s3")


def test_what_a_file_has_instead_is_told(tmp_path):
    ntuples, trees, text = (tmp_path / name for name in ("ntuples.root", "trees.root", "text.root"))
    rntuple.write_root(ntuples, "events", {"a": np.arange(5)})
    with uproot.recreate(trees) as file:
        for name in ("t", "u"):
            file.mktree(name, {"a": "i8"}).extend({"a": np.arange(5)})
    with uproot.recreate(tmp_path / "several.root") as file:
        for name in ("one", "two"):
            file.mkrntuple(name, {"a": np.arange(5)})
    text.write_text("this is no file of ROOT, but longer than its head has to be" * 3)
    (tmp_path / "empty.root").touch()
    (tmp_path / "users.root").write_text("root:x:0:0:root:/root:/bin/bash\n" * 9)
    with pytest.raises(dolmen.Invalid, match="several.root: .*one, two"):
        rntuple.open(tmp_path / "several.root")
    with pytest.raises(dolmen.Invalid, match="trees.root: .*t, u"):
        rntuple.Tree(trees)
    with pytest.raises(dolmen.NotFound, match=r"trees.root: .*Tree reads: t, u"):
        rntuple.open(trees, "t")
    with pytest.raises(dolmen.NotFound, match=r"ntuples.root: .*open reads: events"):
        rntuple.Tree(ntuples, "events")
    for name in ("text.root", "empty.root", "users.root"):
        for call in (rntuple.open, rntuple.Tree):
            with pytest.raises(dolmen.Corrupt, match=f"{name}: .*it is no file of ROOT"):
                call(tmp_path / name)


def test_errors_of_writing_name_the_file(tmp_path):
    path = tmp_path / "made.root"
    rntuple.write_root(path, "events", {"a": np.arange(5)})
    with pytest.raises(FileNotFoundError, match="none/made.root: "):
        rntuple.write_root(tmp_path / "none/made.root", "events", {"a": np.arange(5)})
    with pytest.raises(FileNotFoundError, match="none/made.root: "):
        rntuple.open(path).export_root(tmp_path / "none/made.root")
    full = pathlib.Path("/dev/full")
    assert full.is_char_device()
    with pytest.raises(dolmen.Exists, match="/dev/full: "):
        rntuple.write_root(full, "events", {"a": np.arange(5)})
    assert full.is_char_device(), "a device is not replaced"
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        rntuple.write_root(tmp_path, "events", {"a": np.arange(5)})


def test_names_that_root_refuses_are_refused_by_field_and_character(tmp_path):
    path = tmp_path / "made.root"
    for name, told in (("a b", "a space"), ("a\\b", r"the character '\\\\'"), ("a\tb", r"'\\t'"), ("a.b", "'\\.'"), ("a/b", "'/'")):
        for data, field in (
            ({name: [1]}, name),
            ({"top": ak.Array([{name: 1}])}, f"top.{name}"),
            ({"top": ak.Array([[{name: 1}]])}, f"top._0.{name}"),
        ):
            with pytest.raises(dolmen.Invalid, match=f"a field cannot have the name .*{told}.*write _ instead") as raised:
                rntuple.write_root(path, "events", data)
            assert field.split(".")[0][:1] in str(raised.value) and str(path) in str(raised.value)
        with pytest.raises(dolmen.Invalid, match=f"an ntuple cannot have the name .*{told}"):
            rntuple.write_root(path, name, {"a": [1]})
    with pytest.raises(dolmen.Invalid, match="empty"):
        rntuple.write_root(path, "", {"a": [1]})
    assert not path.exists()
    rntuple.write_root(path, "µ-a:b", {"µ": [1], "1<a>": [2]})
    assert uproot.open(path)["µ-a:b"]["µ"].array().to_list() == [1]
