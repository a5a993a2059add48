"""What wrong arguments are told: which argument, what it was, and what it is to be."""

import os
import pathlib
import re
import resource

import awkward as ak
import dolmen
import numpy as np
import pandas
import pyarrow as pa
import pytest
import uproot
from conftest import events
from dolmen import rntuple


@pytest.fixture
def store(local):
    with local.open() as pool:
        yield rntuple.Store(pool.create_container("henge", durability="process"))


def refused(match, call, error=dolmen.Invalid):
    with pytest.raises(error, match=match):
        call()


def test_numbers_that_can_never_do_are_refused_by_argument_and_range(store, file, tmp_path):
    stored, made = store.create("events", events(count=10)), tmp_path / "made.root"
    ntuple = rntuple.open(file)
    for when in (stored.open, stored.version, stored.scrub):
        refused("version is -1, and is to be from 0 to", lambda when=when: when(version=-1))
        refused("version is a whole number, not 'one'", lambda when=when: when(version="one"), TypeError)
    for time in (-1, 1e12, float("nan")):
        refused("time is .* a number of seconds from 0 to", lambda time=time: stored.open(time=time))
    refused("seconds is -1", lambda: stored.keep(-1))
    refused("keep is -1", lambda: store.create("other", {"x": [1]}, keep=-1))
    for name, low in (("page_bytes", 1), ("cluster_bytes", 1)):
        for wrong in (-1, 0, 2**70):
            told = f"{name} is {wrong}, and is to be from {low} to "
            how = {name: wrong}
            refused(told, lambda how=how: rntuple.write_root(made, "events", {"x": [1]}, **how))
            refused(told, lambda how=how: stored.append(events(count=1), **how))
            refused(told, lambda how=how: stored.reshape(**how))
    refused("page_bytes is 0", lambda: stored.add_column("x", np.arange(10), page_bytes=0))
    refused("step_bytes is 0", lambda: stored.reshape(step_bytes=0))
    refused("port is 99999, and is to be from 0 to 65535", lambda: ntuple.serve(port=99999))
    for call in (
        lambda: store.create("other", {"x": [1]}, group_bytes=0),
        lambda: store.import_root(file, name="other", group_bytes=0),
        lambda: store.skim(ntuple, "other", group_bytes=0),
        lambda: stored.pack([0], group_bytes=0),
    ):
        refused("group_bytes is 0, and is to be from 1 to", call)
    refused("step is 0", lambda: list(ntuple.batches(step=0)))
    assert store.names() == ["events"] and stored.version().number == 1 and not made.exists()


def test_compressions_are_told_with_their_levels(tmp_path):
    for wrong, told in (
        ("zstd:999", "'zstd:999': levels of zstd are 1 to 19"),
        ("zstd:0", "levels of zstd are 1 to 19"),
        ("zlib:10", "levels of zlib are 1 to 9"),
        ("gzip", "'gzip' is no compression: none, zlib"),
        ("zstd:fast", "'zstd:fast' is no compression"),
    ):
        refused(told, lambda wrong=wrong: rntuple.write_root(tmp_path / "made.root", "events", {"x": [1]}, compression=wrong))
    for fine in ("zstd:19", "lz4:12", "zlib:9", "lzma:9", "none", None):
        rntuple.write_root(tmp_path / "made.root", "events", {"x": [1]}, compression=fine)


def test_versions_tags_and_times_that_are_not_there_are_told_with_those_that_are(store):
    stored = store.create("events", events(count=10))
    stored.append(events(count=1))
    refused("there is no version 9; its versions are 1 to 2$", lambda: stored.open(version=9), dolmen.NotFound)
    refused('there is no tag "x"; it has no tags$', lambda: stored.open(tag="x"), dolmen.NotFound)
    stored.tag("good")
    stored.tag("better")
    for call in (lambda: stored.open(tag="x"), lambda: stored.untag("x")):
        refused('there is no tag "x"; its tags are better, good$', call, dolmen.NotFound)
    told = r"there is no version from 1\.500000000 s or before; the first is from 1\d{9}\.\d{9} s"
    refused(told, lambda: stored.open(time=1.5), dolmen.NotFound)
    stored.append(events(count=1))
    stored.keep(0)
    stored.expire()
    refused("there is no version 1; its versions are 2 to 3$", lambda: stored.version(1), dolmen.NotFound)


def test_an_error_of_what_is_read_is_the_same_where_a_file_is_written_of_it(file, tmp_path):
    damaged = tmp_path / "damaged.root"
    rntuple.write_root(damaged, "events", {"x": np.arange(100_000.0)}, compression=None)
    text = bytearray(damaged.read_bytes())
    text[len(text) // 2] ^= 1
    damaged.write_bytes(text)
    ntuple, out = rntuple.open(damaged), tmp_path / "out"
    out.mkdir()
    with pytest.raises(dolmen.Corrupt) as read:
        ntuple.arrays()
    for call in (ntuple.to_parquet, ntuple.export_root):
        with pytest.raises(dolmen.Corrupt) as raised:
            call(out / "made")
        assert str(raised.value) == str(read.value) and raised.value.der == read.value.der
    for source in (rntuple.open(file), ntuple):
        for columns in (["zz"], "zz*"):
            with pytest.raises(dolmen.NotFound, match="zz") as none:
                source.to_parquet(out / "made", columns)
            assert "made" not in str(none.value)
    with pytest.raises(dolmen.Invalid, match="is compared with 'a'") as wrong:
        ntuple.to_parquet(out / "made", filter=[("x", "<", "a")])
    assert "made" not in str(wrong.value)
    # Of what is written it is told where.
    for call in (ntuple.to_parquet, ntuple.export_root):
        with pytest.raises(FileNotFoundError, match="none/made"):
            call(out / "none/made")
    assert os.listdir(out) == []


def test_a_stored_ntuple_is_shown_without_its_store(local):
    with local.open() as pool:
        store = rntuple.Store(pool.create_container("henge", durability="process"))
        stored, other = (store.create(name, {"x": [1]}) for name in ("events", "other"))
        store.destroy("other")
        assert repr(other) == "<dolmen.rntuple.Stored 'other'>"
    assert repr(stored) == "<dolmen.rntuple.Stored 'events'>"


def test_what_has_the_same_values_is_equal(store):
    stored = store.create("events", {"x": np.arange(10)})
    first, second = stored.version(), stored.append({"x": [1], "z": [2]}, leave_out=True)
    assert second.left_out and second == stored.version() == stored.versions()[1] != first == stored.version(1)
    assert len({first, second, *stored.versions()}) == 2 and first != (1, first.time, 10, 1, "Created")
    own = rntuple.Medium(0.015, 1e9, put=5e-6, get=4e-7, gigabyte_month=0.023)
    assert own == rntuple.Medium.S3 != rntuple.Medium.SSD and hash(own) == hash(rntuple.Medium.S3)
    assert own != rntuple.Medium(0.015, 1e9, put=5e-6, get=4e-7, gigabyte_month=0.024)
    for value, name in ((first, "number"), (own, "latency")):
        with pytest.raises(AttributeError):
            setattr(value, name, 5)
    ntuple = stored.open()
    assert ntuple.estimate() == ntuple.estimate(medium=own) != ntuple.estimate(medium=rntuple.Medium.HDD)


def test_precisions_are_a_mapping_of_fields(store, tmp_path):
    stored = store.create("events", {"x": np.arange(10.0)})
    for wrong in ("real16", [("x", "real16")], 5):
        told = "precision is a mapping of names of fields to how their floats are kept, .*, not "
        refused(told, lambda wrong=wrong: store.create("other", {"x": [1.0]}, precision=wrong))
        refused(told, lambda wrong=wrong: rntuple.write_root(tmp_path / "made.root", "events", {"x": [1.0]}, precision=wrong))
        refused(told, lambda wrong=wrong: stored.add_columns({"y": np.arange(10.0)}, precision=wrong))
    assert store.names() == ["events"] and stored.version().number == 1 and not (tmp_path / "made.root").exists()


def test_localhost_is_an_address_that_is_served_at(file):
    ntuple = rntuple.open(file)
    with ntuple.serve(host="localhost") as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert uproot.open(server.url, handler=uproot.HTTPSource)["events"].num_entries == len(ntuple)
    refused("host is 'example', and is to be an address", lambda: ntuple.serve(host="example"))
    with ntuple.serve() as server:
        port = int(server.url.split(":")[2].partition("/")[0])
        refused(rf"^\[Errno 5\] listen of tcp://127.0.0.1:{port} failed: Address already in use$", lambda: ntuple.serve(port=port), dolmen.Io)


def test_columns_of_an_order_are_there_and_each_once(store, file):
    stored = store.create("events", {"x": [1], "y": [2]})
    for order, told in (([99], "there is no column 99; there are 2"), ([0, 1, 0], "column 0 is there twice")):
        refused(f"order: {told}", lambda order=order: stored.pack(order))
    refused("order: there is no column 99", lambda: store.import_root(file, name="other", order=[0, 99]))
    refused("order: column 1 is there twice", lambda: store.import_root(file, name="other", order=[1, 1]))
    refused("order is a whole number, not 'x'", lambda: stored.pack(["x"]), TypeError)
    stored.pack([1, 0])
    assert store.names() == ["events"]


def test_a_column_with_too_few_or_too_many_values_is_told_how_many_are_needed(store):
    stored = store.create("events", {"x": np.arange(10)})
    stored.append({"x": np.arange(5)})
    for count in (0, 10, 14, 16):
        told = f"a value is needed for each of the 15 entries that there are, {count} are given"
        refused(told, lambda count=count: stored.add_column("y", np.arange(count)))
    refused("10 are given, as version 1 has entries: others may have appended since$", lambda: stored.add_column("y", np.arange(10)))
    refused("14 are given$", lambda: stored.add_column("y", np.arange(14)))
    assert stored.version().number == 2


def test_arrays_that_do_not_fit_are_told_with_both_types(store, tmp_path):
    stored = store.create("events", {"x": np.arange(2), "v": [[1.0], []]})
    told = '"v" is not of its type: the field has std::vector<double>, the array double'
    refused(told, lambda: stored.append({"x": [1], "v": [1.0]}))
    refused("the field has std::int64_t, the array std::string", lambda: stored.append({"x": ["a"], "v": [[1.0]]}))
    with rntuple.RootWriter(tmp_path / "made.root", "events") as writer:
        writer.append({"x": [1.5]})
        refused("made.root: .*the field has double, the array std::string", lambda: writer.append({"x": ["a"]}))


def test_what_a_file_has_is_told_to_who_asks_for_something_else(tmp_path):
    trees, ntuple = tmp_path / "trees.root", tmp_path / "ntuple.root"
    with uproot.recreate(trees) as made:
        for name in ("one", "two"):
            made.mktree(name, {"x": "int64"})
            made[name].extend({"x": np.arange(3)})
    rntuple.write_root(ntuple, "events", {"x": [1]})
    refused("trees.root: .*which Tree reads: one, two", lambda: rntuple.open(trees))
    refused("which Tree reads: one, two", lambda: rntuple.open(trees, "one"), dolmen.NotFound)
    refused("several trees.*: one, two", lambda: rntuple.Tree(trees))
    refused("which open reads: events", lambda: rntuple.Tree(ntuple))
    refused("which open reads: events", lambda: rntuple.Tree(ntuple, "events"), dolmen.NotFound)


def test_fields_that_are_not_compared_are_named(store):
    ntuple = store.create("events", {"x": [1], "s": ["a"], "v": np.array([[1.0]])}).open()
    refused("field .v. .*has not one number", lambda: ntuple.arrays(filter=[("v", "==", 1)]))
    refused("field 's' has texts, which are not compared with a number: .'len.s.', '==', 1. is of how long", lambda: ntuple.arrays(filter=[("s", "==", 1)]))
    refused("field 'x' has one number for each entry, and no length", lambda: ntuple.arrays(filter=[("len(x)", "==", 1)]))
    assert len(ntuple.arrays(filter=[("len(s)", "==", 1)])) == 1 and len(ntuple.arrays(filter=[("len(s)", ">", 1)])) == 0
    refused("'x' is compared with 'a'", lambda: ntuple.arrays(filter=[("x", "==", "a")]))
    refused("no field 'y'", lambda: ntuple.arrays(filter=[("y", "==", 1)]), dolmen.NotFound)


def test_a_list_is_compared_with_a_number_by_its_length_alone_and_only_where_that_is_said(store, tmp_path):
    lists = {"n": np.arange(4), "v": [[1.0], [], [5.0, 6.0], [7.0]]}
    with uproot.recreate(tmp_path / "tree.root") as made:
        made.mktree("events", {"n": np.dtype("i8"), "v": "var * float64"}).extend({"n": lists["n"], "v": ak.Array(lists["v"])})
    rntuple.write_root(tmp_path / "ntuple.root", "events", lists)
    for source in (store.create("events", lists).open(), rntuple.open(tmp_path / "ntuple.root"), rntuple.Tree(tmp_path / "tree.root")):
        told = "field 'v' has lists, which are not compared with a number: .'len.v.', '>', 1. is of how long each is"
        for call in (
            lambda source=source: source.arrays(filter=[("v", ">", 1)]),
            lambda source=source: list(source.batches(filter=[("v", ">", 1)])),
            lambda source=source: store.skim(source, "some", filter=[("v", ">", 1)]),
        ):
            refused(told, call)
        assert source.arrays("n", filter=[("len(v)", "==", 1)])["n"].tolist() == [0, 3]
    assert store.names() == ["events"]


def test_what_is_not_read_where_it_is_is_told_with_how_it_is_fetched(store, tmp_path):
    for address, remedy in (("https://h/f.root", "curl -LO 'https://h/f.root'"), ("root://h//f.root", "xrdcp 'root://h//f.root' .")):
        told = f"{address}: at .*:// nothing is read or written, .*; fetch it first .{remedy}. and name the file"
        for call in (
            lambda address=address: rntuple.open(address),
            lambda address=address: rntuple.Tree(address, "events"),
            lambda address=address: rntuple.ntuples(address),
            lambda address=address: store.import_root(address),
            lambda address=address: rntuple.write_root(address, "events", {"x": [1]}),
        ):
            refused(told, call)


def test_names_of_ntuples_are_looked_at_where_they_are_made(store, file):
    stored = store.create("events", {"x": [1]})
    for name, told in (("", "it is empty"), ("a b", "it has a space"), ("a.b", r"the character '\.'")):
        for call in (
            lambda name=name: store.create(name, {"x": [1]}),
            lambda name=name: store.skim(stored.open(), name),
            lambda name=name: store.clone(stored, name),
        ):
            refused(f"an ntuple cannot have the name .*{told}", call)
    refused("it is empty", lambda: store.import_root(file, name=""))
    refused("cannot have the name .*a space", lambda: stored.add_column("a b", [1]))
    assert store.names() == ["events"] and len(store) == 1 and store


def test_what_is_no_place_for_ntuples_is_refused_with_what_is(tmp_path):
    for wrong in ("pool", tmp_path, 5):
        refused("a store is in a container .* or at s3://bucket/prefix", lambda wrong=wrong: rntuple.Store(wrong))
    refused("s3://bucket/prefix", lambda: rntuple.Store("s3://"))


def test_who_cannot_write_a_file_to_its_end_is_told_which_and_nothing_of_it_stays(file, tmp_path):
    # As on a full disk, but told in other words: files of this process are no longer than that.
    ntuple, out = rntuple.open(file), tmp_path / "out"
    out.mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name, call in (
        ("made.root", lambda path: rntuple.write_root(path, "events", events(), compression=None)),
        ("out.root", lambda path: ntuple.export_root(path)),
        ("out.parquet", lambda path: ntuple.to_parquet(path, compression="none")),
    ):
        (out / name).write_bytes(b"before")
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
        try:
            with pytest.raises(OSError) as told:
                call(out / name)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert name in str(told.value), told.value
        assert (out / name).read_bytes() == b"before"
    assert sorted(os.listdir(out)) == ["made.root", "out.parquet", "out.root"]


def test_names_that_utf8_does_not_have_are_refused_or_not_there(store, file, tmp_path):
    stored = store.import_root(file)
    ntuple, name, record = stored.open(), "caf\udce9", np.array([(1,)], [("caf\udce9", "i4")])
    for what, calls in {
        "name of a field": (
            lambda: store.create("made", {name: [1]}),
            lambda: store.create("made", {"r": record}),
            lambda: rntuple.write_root(tmp_path / "made.root", "made", {name: [1]}),
            lambda: stored.append({**events(), name: np.arange(4000)}),
            lambda: stored.append(events(), fill={name: 1}),
            lambda: stored.add_column(name, np.arange(4000)),
            lambda: store.create("made", {"a": [1.0]}, precision={name: "real16"}),
            lambda: rntuple.Trace([([name], 5)]).save(tmp_path / "made.trace"),
        ),
        "name of an ntuple": (
            lambda: store[name],
            lambda: store.create(name, {"a": [1]}),
            lambda: store.import_root(file, name=name),
            lambda: store.clone(stored, name),
            lambda: store.skim(ntuple, name),
            lambda: rntuple.open(file, name),
            lambda: rntuple.write_root(tmp_path / "made.root", name, {"a": [1]}),
        ),
        "name of a tag": (lambda: stored.tag(name), lambda: stored.open(tag=name)),
        "name of a tree": (lambda: rntuple.Tree(file, name),),
        "description": (lambda: store.create("made", {"a": [1]}, description=name),),
    }.items():
        for call in calls:
            with pytest.raises(dolmen.Invalid, match=rf"'caf\\udce9' is no {what}: it has characters that UTF-8 does not have"):
                call()
    for call in (lambda: ntuple.arrays(name), lambda: ntuple[name], lambda: ntuple.arrays(filter=[(name, "<", 1)]), lambda: ntuple.arrays(f"{name}*")):
        with pytest.raises(dolmen.NotFound, match=r"no field.* 'caf\\udce9"):
            call()
    assert store.names() == ["events"] and len(stored.versions()) == 1 and os.listdir(tmp_path) == [file.name]


def test_what_there_is_another_call_for_is_told(store, file):
    stored = store.import_root(file)
    stored.tag("monday")
    refused("force=True destroys it all the same, untag", lambda: store.destroy("events"), dolmen.Busy)
    with stored.appender() as appender:
        for source in (stored, stored.open()):
            refused("put takes arrays, and put_ntuple all entries of what is stored or open", lambda source=source: appender.put(source))
        refused("put takes arrays, and put_root all entries of a file", lambda: appender.put(file))
    for wrong in ("none:5", "zstd:", ":5", "", "zstd:²"):
        refused("is no compression: none, zlib", lambda wrong=wrong: store.create("other", {"x": [1]}, compression=wrong))
    store.create("other", {"x": [1]}, compression=None)


def test_a_directory_is_told_as_such(file, tmp_path):
    ntuple = rntuple.open(file)
    for call in (rntuple.open, rntuple.Tree, rntuple.ntuples, ntuple.export_root, ntuple.to_parquet, rntuple.Trace.load):
        with pytest.raises(dolmen.IsDirectory, match="(?i)is a directory") as raised:
            call(tmp_path)
        assert str(tmp_path) in str(raised.value) and "offset" not in str(raised.value)
    with pytest.raises(dolmen.NotFound, match="none.trace"):
        rntuple.Trace.load(tmp_path / "none.trace")


def test_nothing_is_no_type_of_a_new_field(store, tmp_path):
    stored = store.create("events", {"s": ["a"], "v": [[1.0]], "n": [1]})
    for nothing in ([], (), np.array([], object), pandas.Series([], dtype=object), ak.Array([]), pa.array([], pa.null())):
        for call in (lambda none: store.create("none", {"a": none}), lambda none: rntuple.write_root(tmp_path / "none.root", "none", {"a": none})):
            with pytest.raises(dolmen.Invalid, match=r"field 'a': it has no values.*np\.array\(\[\], 'f8'\)") as raised:
                call(nothing)
        assert len(store.names()) == 1 and not os.listdir(tmp_path)
        stored.append({"s": nothing, "v": nothing, "n": nothing})
    remedies = re.split(", (?=pa.array)| or ", str(raised.value).partition("as in ")[2])
    made = store.create("typed", {f"a{at}": eval(remedy) for at, remedy in enumerate(remedies)}).open()
    assert [field.type for field in made.fields.values()] == ["double", "std::string", "std::string"]
    assert len(stored.open()) == 1


def test_an_appender_of_which_all_is_gone_takes_nothing_more(store, file):
    stored = store.import_root(file)
    appender = stored.appender()
    appender.put(events())
    store.collect(alone=True)
    for call in (appender.commit, lambda: appender.put(events()), lambda: appender.put_root(file), appender.commit):
        with pytest.raises(dolmen.Stale, match="what it wrote was freed; begin again with another appender, and all that was put") as raised:
            call()
        assert raised.value.der == -2007
    appender.discard()
    appender = stored.appender()
    appender.put(events())
    assert appender.commit().entries == 8000
    appender.put(events())
    store.destroy("events")
    for call in (appender.commit, lambda: appender.put(events())):
        with pytest.raises(dolmen.NotFound, match='"events" was destroyed'):
            call()


def test_no_file_is_written_over_the_one_that_is_read(file, tmp_path):
    with uproot.recreate(tmp_path / "tree.root") as made:
        made.mktree("old", {"x": "i8"}).extend({"x": np.arange(5)})
    (tmp_path / "link").symlink_to(file)
    ntuple, tree, before = rntuple.open(file), rntuple.Tree(tmp_path / "tree.root"), file.read_bytes()
    calls = [(call, path) for call in (ntuple.to_parquet, ntuple.export_root) for path in (file, str(file), tmp_path / "link", tmp_path / "." / file.name)]
    for call, path in [*calls, (tree.to_parquet, tmp_path / "tree.root")]:
        with pytest.raises(dolmen.Invalid, match=f"^.*{pathlib.Path(path).name}: it is read from that file, which would be replaced"):
            call(path)
    assert file.read_bytes() == before and len(rntuple.Tree(tmp_path / "tree.root")) == 5
    ntuple.export_root(tmp_path / "other.root")
    rntuple.open(tmp_path / "other.root").export_root(file)


def test_a_file_that_cannot_be_made_is_told_by_the_name_that_it_was_to_have(file, tmp_path):
    for call in (rntuple.open(file).to_parquet, rntuple.Trace([(["number"], 1)]).save):
        with pytest.raises(dolmen.NotFound, match=r"No such file or directory: '[^']*none/made'$"):
            call(tmp_path / "none/made")


def test_numbers_that_are_none_are_told_by_their_names(cont):
    store = rntuple.Store(cont)
    stored = store.create("events", {"x": np.arange(10), "f": np.arange(10.0) * 2.0**66})
    ntuple = stored.open()
    for value, count in ((10**400, 10), (-(10**400), 0), (2**64, 10), (2**70, 10)):
        assert len(ntuple.arrays("x", filter=[("x", "<", value)])) == count, value
    assert len(ntuple.arrays("x", filter=[("f", "<", 2**66 * 3)])) == 3
    for wrong, name in (
        (lambda: rntuple.Medium(float("nan"), 1.0), "latency"),
        (lambda: rntuple.Medium(-1, 1.0), "latency"),
        (lambda: rntuple.Medium(1, 0), "bandwidth"),
        (lambda: rntuple.Medium(1, float("inf")), "bandwidth"),
        (lambda: rntuple.Medium(1, 1, 2**64), "parallel"),
        (lambda: rntuple.Medium(1, 1, 0), "parallel"),
        (lambda: rntuple.Medium(1, 1, get=-1), "get"),
        (lambda: ntuple.estimate(blob_bytes=-1), "blob_bytes"),
        (lambda: ntuple.estimate(blob_bytes=2**64), "blob_bytes"),
    ):
        with pytest.raises(dolmen.Invalid, match=f"{name} is "):
            wrong()
    with pytest.raises(TypeError, match="put is a number, not 'x'"):
        rntuple.Medium(1, 1, put="x")
    store.destroy("events")
    for call in (stored.versions, stored.tags):
        with pytest.raises(dolmen.NotFound, match="no ntuple 'events' any more"):
            call()


@pytest.mark.parametrize("name", [b"x", None, ("a", "b"), True, 1.5])
def test_what_is_no_text_is_no_name_of_a_field(tmp_path, name):
    with pytest.raises(dolmen.Invalid, match="the name of a field is text, and not ") as raised:
        rntuple.write_root(tmp_path / "made.root", "events", {name: [1]})
    assert repr(name) in str(raised.value)
    rntuple.write_root(tmp_path / "made.root", "events", {0: [1], np.int64(1): [2]})
    assert rntuple.open(tmp_path / "made.root").keys() == ["0", "1"]


def test_a_precision_that_is_none_is_told_with_its_field(tmp_path):
    with pytest.raises(dolmen.Invalid, match=r"field 'x': 'foo' is no precision: floats are kept as real32, real16, ".replace("'", '["\']')):
        rntuple.write_root(tmp_path / "made.root", "events", {"x": [1.0]}, precision={"x": "foo"})
