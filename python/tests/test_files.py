"""Files of containers, and the libraries that read them by fsspec."""

import concurrent.futures
import datetime
import io
import os
import pickle
import subprocess

import dolmen
import dolmen.fsspec
import fsspec
import numpy
import pytest
from conftest import PROGRAM


@pytest.fixture
def files(pool):
    cont = pool.create_container("files", files=True, durability="process")
    with cont.files() as files:
        yield files


@pytest.fixture
def url(place):
    """The URL of a container with files, without a slash at its end."""
    with place.open() as pool:
        pool.create_container("files", files=True, durability="process")
    yield f"dolmen://{place.address}//files"
    dolmen.fsspec.DolmenFileSystem.clear_instance_cache()
    dolmen.fsspec.close_all()


@pytest.fixture
def system(url):
    return fsspec.url_to_fs(url)[0]


def test_files_are_made_read_and_removed(files):
    files.mkdir("a/b", parents=True)
    files.mkdir("a/b", exist_ok=True)
    with pytest.raises(FileExistsError):
        files.mkdir("a/b")
    files.write("a/b/small", b"hello world")
    large = os.urandom(3 << 20)
    files.write("/a/b/large", large)
    assert files.read("/a/b/large") == large
    files.write("a/b/small", b"bye")
    assert (files.read("a/b/small"), files.stat("a/b/small").size) == (b"bye", 3)
    assert [files.read("a/b/small", *part) for part in [(1,), (-2,), (0, -1), (1, 2), (2, 1), (9, 12)]] == [
        b"ye",
        b"ye",
        b"by",
        b"y",
        b"",
        b"",
    ]
    assert sorted((name, stat.kind) for name, stat in files.list("a/b")) == [("large", "file"), ("small", "file")]
    assert [name for name, _ in files.list()] == ["a"]
    with pytest.raises(IsADirectoryError):
        files.unlink("a/b")
    with pytest.raises(dolmen.NotEmpty):
        files.rmdir("a")
    with pytest.raises(NotADirectoryError):
        files.list("a/b/small")
    with pytest.raises(FileNotFoundError) as met:
        files.read("a/none")
    assert met.value.filename == "a/none"
    files.rename("a/b/small", "a/moved")
    with pytest.raises(FileExistsError):
        files.rename("a/moved", "a/b/large", replace=False)
    files.copy("a/b/large", "copy")
    assert files.read("copy") == large
    files.remove_tree("a")
    assert (files.exists("a"), files.exists("copy/x")) == (False, False)


def test_attributes_and_links_of_files(files):
    files.write("file", b"1")
    files.symlink("file", "link")
    files.link("file", "second")
    assert files.readlink("link") == "file"
    assert (files.stat("link").kind, files.stat("link", links=False).kind) == ("file", "link")
    assert (files.stat("second").links, files.stat("second").ino) == (2, files.stat("file").ino)
    files.chmod("file", 0o600)
    files.touch("file", 1_000_000_123_000)
    stat = files.stat("file")
    assert (stat.mode & 0o7777, stat.mtime_ns, stat.uid) == (0o600, 1_000_000_123_000, os.geteuid())
    assert files.space()["total"] > 0
    files.sync()


def test_open_files_are_read_and_written_at_offsets(files):
    with files.open_raw("f", "w+") as file:
        assert file.write_at(2, numpy.arange(4, dtype="u1")) == 4
        assert (file.size(), file.read_at(0, 100)) == (6, b"\0\0\0\1\2\3")
        place = numpy.full(8, 9, "u1")
        assert file.read_into(3, place) == 3
        assert place[:3].tolist() == [1, 2, 3]
        assert file.append(b"end") == 6
        file.truncate(8)
        file.sync()
    assert file.closed
    with pytest.raises(dolmen.Closed):
        file.size()
    assert files.read("f") == b"\0\0\0\1\2\3en"
    with pytest.raises(FileExistsError):
        files.open_raw("f", "x")
    with pytest.raises(ValueError):
        files.open_raw("f", "q")


def test_open_gives_what_the_builtin_gives(files, tmp_path):
    def work(opened):
        told = []
        with opened("w") as file:
            told.append(file.write("one\ntwo\n"))
        with opened("a") as file:
            file.write("three\n")
        with opened("r") as file:
            told += [list(file), file.read(), type(file)]
        with opened("r+b") as file:
            told += [file.seek(-6, io.SEEK_END), file.write(b"T"), file.seek(0), file.readline(), type(file)]
        with opened("rb", buffering=0) as file:
            told += [file.read(5), file.tell(), file.readall(), file.readable(), file.writable()]
        with opened("wb") as file:
            told += [file.write(b"123"), file.truncate(2)]
        with opened("rb") as file:
            told += [file.read(), type(file)]
            with pytest.raises(io.UnsupportedOperation):
                file.write(b"1")
        with pytest.raises(ValueError):
            file.read()
        return told

    ours = work(lambda mode, **words: files.open("file", mode, **words))
    theirs = work(lambda mode, **words: open(tmp_path / "file", mode, **words))
    assert ours == theirs


def test_files_of_a_snapshot_stay_as_they_were(pool):
    cont = pool.create_container("files", files=True)
    with cont.files() as files:
        files.write("f", b"old")
        cont.create_snapshot("before")
        files.write("f", b"new")
    past = cont.at("before").files()
    assert past.read("f") == b"old"
    with pytest.raises(dolmen.ReadOnly):
        past.write("f", b"1")
    with pytest.raises(dolmen.Error):
        pool.create_container("keys").files()


def test_urls_say_where_the_address_ends():
    for address in ["file:/data/pool", "unix:/run/dolmen.sock/stones", "tcp://h:1,i:2/stones"]:
        url = f"dolmen://{address}//cont/a/b.parquet"
        assert dolmen.fsspec.split_url(url) == (address, "cont", "/a/b.parquet")
        assert dolmen.fsspec.split_url(f"dolmen://{address}//cont") == (address, "cont", "/")
        assert dolmen.fsspec.DolmenFileSystem._strip_protocol(url) == "/a/b.parquet"
    for bad in ["dolmen://file:/data/pool/cont/a", "dolmen:////cont/a", "dolmen://file:/a//", "s3://a//b/c"]:
        with pytest.raises(ValueError):
            dolmen.fsspec.split_url(bad)


def test_a_file_system_does_what_fsspec_asks(url, system):
    system.pipe({"/a/b/c.txt": b"hello world", "/a/d.txt": b"d"})
    assert system.ls("/a", detail=False) == ["/a/b", "/a/d.txt"]
    assert system.ls("/a/d.txt", detail=False) == ["/a/d.txt"]
    assert system.glob("/a/**") == ["/a", "/a/b", "/a/b/c.txt", "/a/d.txt"]
    assert system.glob("/a/*.txt") == ["/a/d.txt"]
    assert system.find("/") == ["/a/b/c.txt", "/a/d.txt"]
    assert (system.du("/a"), system.du("/a", total=False)) == (12, {"/a/b/c.txt": 11, "/a/d.txt": 1})
    assert [path for path, _, _ in system.walk("/")] == ["/", "/a", "/a/b"]
    info = system.info("/a/d.txt")
    assert (info["name"], info["type"], info["size"], info["islink"]) == ("/a/d.txt", "file", 1, False)
    assert system.isdir("/a") and system.isfile("/a/d.txt") and not system.exists("/none")
    now = datetime.datetime.now(datetime.timezone.utc)
    assert abs(system.modified("/a/d.txt") - now) < datetime.timedelta(hours=1)
    assert abs(system.created("/a/d.txt") - now) < datetime.timedelta(hours=1)
    assert system.cat_file("/a/b/c.txt", -5, -1) == b"worl"
    assert system.cat("/a/*.txt") == b"d" or system.cat("/a/*.txt") == {"/a/d.txt": b"d"}
    paths = ["/a/b/c.txt", "/a/b/c.txt", "/none", "/a/d.txt"]
    parts = system.cat_ranges(paths, [0, 6, 0, 0], [5, None, 1, 1])
    assert (parts[0], parts[1], parts[3]) == (b"hello", b"world", b"d")
    assert isinstance(parts[2], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        system.cat_ranges(paths, 0, 1, on_error="raise")
    with pytest.raises(FileExistsError):
        system.pipe_file("/a/d.txt", b"2", mode="create")
    system.cp("/a", "/copy", recursive=True)
    assert system.find("/copy") == ["/copy/b/c.txt", "/copy/d.txt"]
    system.mv("/copy", "/moved/to")
    assert system.cat("/moved/to/d.txt") == b"d"
    system.rm("/moved", recursive=True)
    system.rm(["/a/d.txt"])
    assert system.find("/") == ["/a/b/c.txt"]
    system.touch("/empty")
    assert system.size("/empty") == 0
    system.makedirs("/x/y", exist_ok=True)
    system.rmdir("/x/y")
    assert system.unstrip_protocol("/a/b") == f"{url}/a/b"
    assert pickle.loads(pickle.dumps(system)) is system
    assert fsspec.filesystem("dolmen", **system.storage_options) is system


def test_files_are_put_got_and_committed_together(url, system, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "f").write_bytes(b"1" * 100_000)
    system.put(f"{tmp_path}/in", "/put", recursive=True)
    assert system.size("/put/f") == 100_000
    system.get("/put", f"{tmp_path}/out", recursive=True)
    assert (tmp_path / "out" / "f").read_bytes() == b"1" * 100_000
    with system.transaction:
        with system.open("/whole/f", "wb") as file:
            file.write(b"1")
        assert not system.exists("/whole/f")
    assert system.cat("/whole/f") == b"1"
    with pytest.raises(ZeroDivisionError):
        with system.transaction:
            with system.open("/whole/g", "wb") as file:
                file.write(b"1")
            raise ZeroDivisionError
    assert system.ls("/whole", detail=False) == ["/whole/f"]
    assert system.cat("/whole/f") == b"1" and system.read_block("/whole/f", 0, 4) == b"1"
    # What must not be there is not replaced, whenever it came.
    with pytest.raises(FileExistsError):
        with system.transaction:
            system.open("/whole/f", "xb")
    with pytest.raises(FileExistsError):
        with system.transaction:
            with system.open("/whole/new", "xb") as file:
                file.write(b"1")
            system.files.write("/whole/new", b"2")
            with system.open("/whole/behind", "wb") as file:
                file.write(b"3")
    assert {path: system.cat(path) for path in system.find("/whole")} == {"/whole/f": b"1", "/whole/new": b"2"}
    for mode in ["ab", "r+b", "w+b"]:
        with pytest.raises(dolmen.Invalid, match="as a whole"):
            with system.transaction:
                with system.open("/whole/g", "wb") as file:
                    file.write(b"1")
                system.open("/whole/f", mode)
    assert system.ls("/whole", detail=False) == ["/whole/f", "/whole/new"]
    # What nobody has closed is complete all the same.
    with system.transaction:
        system.open("/whole/g", "wb").write(b"1")
    assert system.cat("/whole/g") == b"1"
    with pytest.raises(dolmen.Invalid, match="itself"):
        system.cp_file("/whole/g", "/whole/../whole/g")
    assert system.cat("/whole/g") == b"1"
    with fsspec.open(f"{url}/text.gz", "wt", compression="gzip") as file:
        file.write("line\n" * 3)
    with fsspec.open(f"{url}/text.gz", "rt", compression="gzip") as file:
        assert file.readlines() == ["line\n"] * 3


def test_whatever_writes_files_does_so_at_the_end_of_a_transaction(system, tmp_path):
    (tmp_path / "put").write_bytes(b"5")

    def write():
        system.pipe("/k/piped", b"1")
        system.pipe_file("/k/made", b"2", mode="create")
        system.pipe({"/k/many": b"3", "/k/there": b"new"})
        system.cp_file("/k/there", "/k/copied")
        system.touch("/k/touched")
        system.put_file(f"{tmp_path}/put", "/k/put")
        assert [path for path in system.find("/k") if "/." not in path] == ["/k/there"]
        assert system.cat("/k/there") == b"old"

    system.pipe("/k/there", b"old")
    with pytest.raises(ZeroDivisionError):
        with system.transaction:
            write()
            raise ZeroDivisionError
    assert {path: system.cat(path) for path in system.find("/k")} == {"/k/there": b"old"}
    with pytest.raises(FileExistsError):
        with system.transaction:
            system.pipe_file("/k/there", b"2", mode="create")
    with system.transaction:
        write()
    wanted = {"piped": b"1", "made": b"2", "many": b"3", "there": b"new", "copied": b"old", "touched": b"", "put": b"5"}
    assert {path: system.cat(path) for path in system.find("/k")} == {f"/k/{name}": data for name, data in wanted.items()}


def test_options_that_are_none_are_refused(place):
    name = dolmen.fsspec.DolmenFileSystem
    for option, told in [("snapshoot", "'snapshot'"), ("readonly", "'read_only'"), ("colour", "auto_mkdir")]:
        with pytest.raises(dolmen.Invalid, match=f"no option '{option}'.*{told}"):
            fsspec.filesystem("dolmen", address=place.address, container="henge", **{option: "x"})
    own = {"skip_instance_cache": True, "use_listings_cache": False, "listings_expiry_time": 1, "max_paths": 7}
    alike = {"asynchronous": False, "loop": None, "batch_size": 3}
    assert isinstance(fsspec.filesystem("dolmen", address=place.address, container="henge", **own, **alike), name)
    name.clear_instance_cache()


def test_what_cannot_be_reached_is_not_empty(place, tmp_path):
    def looks(fs):
        yield lambda: fs.glob("/*.parquet")
        yield lambda: fs.glob("/**")
        yield lambda: fs.find("/")
        yield lambda: list(fs.walk("/"))
        yield lambda: fs.du("/")
        yield lambda: fs.isfile("/a")
        yield lambda: fs.isdir("/a")

    name = dolmen.fsspec.DolmenFileSystem
    try:
        for look in looks(name(address=f"unix:{tmp_path}/none.sock/sea", container="files")):
            with pytest.raises(dolmen.Unreachable):
                look()
        for look in looks(name(address=place.address, container="none")):
            with pytest.raises(dolmen.NotFound, match="no container 'none'"):
                look()
        there = name(address=place.address, container="new", create=True)
        there.pipe("/f", b"1")
        assert (there.find("/none"), list(there.walk("/f/below")), there.glob("/none/*")) == ([], [], [])
        assert (there.isdir("/"), there.isdir("/f/below"), there.isfile("/f"), there.isfile("/none")) == (True, False, True, False)
        assert there.find("/") == ["/f"]
    finally:
        name.clear_instance_cache()
        dolmen.fsspec.close_all()


def test_errors_of_two_paths_name_both(pool):
    with pool.create_container("files", files=True).files() as files:
        files.write("/f", b"1")
        files.mkdir("/d")
        for use, paths, kind in [
            (files.copy, ("/f", "/d"), IsADirectoryError),
            (files.copy, ("/none", "/f"), FileNotFoundError),
            (files.rename, ("/f", "/d"), IsADirectoryError),
            (files.link, ("/f", "/d"), FileExistsError),
        ]:
            with pytest.raises(kind, match=f"'{paths[0]}' -> '{paths[1]}'") as met:
                use(*paths)
            assert (met.value.filename, met.value.filename2) == paths
        assert files.read("/f") == b"1"


def test_a_container_is_made_only_if_that_is_asked_for(place):
    name = dolmen.fsspec.DolmenFileSystem
    try:
        with pytest.raises(FileNotFoundError, match="no container 'new'.*create=True"):
            name(address=place.address, container="new").ls("/")
        made = name(address=place.address, container="new", create=True)
        made.pipe("/f", b"1")
        snapshot = made._opened[1].create_snapshot("then")
        made.pipe("/f", b"2")
        for which in [snapshot, "then"]:
            assert name(address=place.address, container="new", snapshot=which).cat("/f") == b"1"
        made.close()
        assert made.cat("/f") == b"2"
    finally:
        name.clear_instance_cache()
        dolmen.fsspec.close_all()


def test_pandas_reads_and_writes_tables(url):
    import pandas

    frame = pandas.DataFrame({"x": numpy.arange(5000), "y": numpy.linspace(0, 1, 5000), "s": ["a", "b"] * 2500})
    frame.to_parquet(f"{url}/t/frame.parquet")
    assert pandas.read_parquet(f"{url}/t/frame.parquet", columns=["y"]).equals(frame[["y"]])
    frame.to_csv(f"{url}/t/frame.csv", index=False)
    assert len(pandas.read_csv(f"{url}/t/frame.csv")) == 5000


def test_pyarrow_reads_and_writes_datasets(system):
    import pyarrow
    import pyarrow.dataset
    import pyarrow.parquet

    table = pyarrow.table({"k": [number % 3 for number in range(3000)], "x": list(range(3000))})
    kind = pyarrow.dataset.partitioning(pyarrow.schema([("k", pyarrow.int64())]), flavor="hive")
    pyarrow.dataset.write_dataset(table, "/set", filesystem=system, format="parquet", partitioning=kind)
    found = pyarrow.dataset.dataset("/set", filesystem=system, partitioning=kind)
    assert found.to_table(filter=pyarrow.dataset.field("k") == 1).num_rows == 1000
    assert sum(found.to_table()["x"].to_pylist()) == sum(range(3000))
    with system.open("/one.parquet", "wb") as file:
        pyarrow.parquet.write_table(table, file)
    assert pyarrow.parquet.read_table("/one.parquet", filesystem=system).equals(table)


def test_zarr_and_dask_read_and_write_arrays(url):
    import dask.array
    import zarr

    numbers = numpy.arange(10_000.0).reshape(100, 100)
    store = zarr.storage.FsspecStore.from_url(f"{url}/z.zarr")
    array = zarr.create_array(store=store, shape=(100, 100), chunks=(30, 30), dtype="f8")
    array[:] = numbers
    assert zarr.open_array(f"{url}/z.zarr", mode="r")[50, 50] == 5050.0
    lazy = dask.array.from_zarr(f"{url}/z.zarr")
    assert float(lazy.sum().compute()) == float(numbers.sum())


def test_dask_reads_tables(url):
    import dask.dataframe
    import pandas

    for part in range(3):
        frame = pandas.DataFrame({"x": numpy.arange(part * 10, part * 10 + 10)})
        frame.to_parquet(f"{url}/parts/{part}.parquet")
    assert int(dask.dataframe.read_parquet(f"{url}/parts/*.parquet")["x"].sum().compute()) == sum(range(30))


def test_many_threads_use_one_file_system(system):
    def work(number):
        system.pipe(f"/threads/{number % 7}/{number}", b"%d" % number)
        return system.cat(f"/threads/{number % 7}/{number}")

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(100))) == [b"%d" % number for number in range(100)]
    assert len(system.find("/threads")) == 100


def test_of_links_the_links_are_removed_and_those_that_lead_to_themselves_hide_nothing(system):
    files = system.files
    system.pipe({"/dir/f": b"1", "/other/g": b"2"})
    files.symlink("/dir", "/link")
    files.symlink("/loop", "/loop")
    files.symlink("/dir/f/below", "/through")
    assert [entry["name"] for entry in system.ls("/")] == ["/dir", "/link", "/loop", "/other", "/through"]
    assert system.find("/other") == ["/other/g"] and "/dir/f" in system.find("/")
    with pytest.raises(NotADirectoryError):
        files.remove_tree("/link")
    for path in ["/link", "/l*"]:
        files.exists("/link") or files.symlink("/dir", "/link")
        system.rm(path, recursive=True)
        assert not system.lexists("/link") and system.cat("/dir/f") == b"1"
    assert not system.lexists("/loop")
    with pytest.raises(FileNotFoundError):
        system.rm("/none*")
    # Of the root all that is in it.
    system.rm("/", recursive=True)
    assert system.ls("/") == []


def test_more_than_there_is_memory_for_is_an_error(files):
    with files.open_raw("/f", "w+") as file:
        file.write_at(0, b"1")
        assert file.read_at(0, 1 << 40) == b"1"
        file.truncate(1 << 45)
        for ask in [lambda: file.read_at(0, 1 << 45), lambda: files.read("/f"), lambda: files.open("/f", "rb").read()]:
            with pytest.raises((MemoryError, dolmen.Invalid), match="memory"):
                ask()
        found = files.read_parts([("/f", 0, 1), ("/f", None, None)])
        assert found[0] == b"1" and "memory" in str(found[1])


def test_objects_beside_files_are_left_by_a_check_that_frees_files_without_a_name(local):
    with local.open() as pool, pool.create_container("both", files=True) as cont:
        with cont.files() as files:
            files.write("hello", b"x")
        kv, array, thing = cont.create_kv(), cont.create_array("f8"), cont.create_object()
        kv["a"], array[0:3] = b"precious", [1, 2, 3]
        thing.put("d", "a", b"v")
    done = subprocess.run(
        [PROGRAM, "check", str(local.directory / "stones"), "--repair"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with local.open() as pool, pool.container("both") as cont:
        assert cont.kv(kv.oid)["a"] == b"precious" and cont.object(thing.oid).get("d", "a") == b"v"
        assert list(cont.array(array.oid, "f8")[0:3]) == [1, 2, 3]
