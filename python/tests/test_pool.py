"""Pools and containers: made, found, closed; what is told of errors."""

import copy
import errno
import pickle
import subprocess
import sys

import dolmen
import dolmen.rntuple
import numpy as np
import pytest


def test_a_pool_is_made_listed_and_destroyed(tmp_path):
    with pytest.raises(dolmen.NotFound):
        dolmen.open(f"file:{tmp_path / 'pool'}")
    assert not (tmp_path / "pool").exists()
    dolmen.create_pool(tmp_path / "pool", label="stones", size=1 << 28, targets=1, volatile=True)
    with pytest.raises(dolmen.Exists):
        dolmen.create_pool(tmp_path / "other", label="stones", size=1 << 28, targets=1, volatile=True)
    ((label, uuid),) = dolmen.list_pools(f"file:{tmp_path}")
    assert label == "stones"
    for name in ["pool", "stones", uuid]:
        with dolmen.open(f"file:{tmp_path / name}") as pool:
            assert pool.query()["uuid"] == uuid
            with pytest.raises(dolmen.Busy):
                dolmen.destroy_pool(tmp_path / "pool")
    dolmen.destroy_pool(tmp_path / "pool")
    assert dolmen.list_pools(f"file:{tmp_path}") == []


def test_an_address_that_names_no_pool_is_refused(place):
    with pytest.raises(dolmen.Invalid, match="HOST:PORT"):
        dolmen.open("tcp://127.0.0.1/stones")
    with pytest.raises(dolmen.Invalid, match="HOST:PORT"):
        dolmen.open("tcp://127.0.0.1:99999/stones")
    if place.kind == "unix":
        with pytest.raises(dolmen.Invalid, match="label of one come behind the socket"):
            dolmen.open(place.system())
    for text in ["", "stones", "file:", "http://host/stones", "unix:/nowhere"]:
        with pytest.raises(dolmen.Error):
            dolmen.open(text)
    with pytest.raises(dolmen.Invalid):
        dolmen.open("stones")
    with pytest.raises(dolmen.NotFound):
        dolmen.open(f"{place.system()}/none")
    with pytest.raises(dolmen.Unreachable) as met:
        dolmen.open("unix:/nowhere/dolmen.sock/stones", patience=0.1)
    assert isinstance(met.value, ConnectionError)
    with pytest.raises(dolmen.Invalid):
        place.open(patience=-1.0)


def test_a_pool_is_told_of(place):
    assert dolmen.list_pools(place.system())[0][0] == "stones"
    with place.open() as pool:
        told = pool.query()
        assert (told["label"], told["targets"], told["containers"]) == ("stones", 2, 0)
        assert 0 < told["free"] <= told["total"]
        assert pool.scrub() == []
        pool.checkpoint()
        assert pool.address == place.address


def test_containers_are_made_found_and_destroyed(pool):
    cont = pool.create_container("henge")
    with pytest.raises(FileExistsError):
        pool.create_container("henge")
    assert pool.containers() == [("henge", cont.uuid)]
    assert pool.container(cont.uuid).label == "henge"
    with pytest.raises(dolmen.NotFound) as met:
        pool.container("none")
    assert isinstance(met.value, KeyError)
    assert (met.value.der, met.value.name) == (-1005, "DER_NONEXIST")
    assert "KeyError" not in str(met.value)
    with pytest.raises(ValueError):
        pool.create_container("a b")
    with pytest.raises(ValueError):
        pool.create_container(durability="perhaps")
    with pytest.raises(dolmen.Busy):
        pool.destroy_container("henge")
    pool.destroy_container("henge", force=True)
    assert pool.containers() == []


def test_errors_name_what_is_missing_or_taken_and_the_remedy(pool):
    cont = pool.create_container("henge")
    kv, array, thing = cont.create_kv(), cont.create_array(), cont.create_object()
    numbers = cont.create_kv(keys="integer")
    kv["a"] = b"1"
    thing.put("d", "k", b"1")
    cont.create_snapshot("then")
    with cont.transaction() as tx:
        within = tx.kv(kv)
        for wrong, kind, number, told in [
            (lambda: pool.container("x"), dolmen.NotFound, -1005, 'container "x" in the pool .*`create_container`'),
            (lambda: pool.destroy_container("x"), dolmen.NotFound, -1005, 'container "x"'),
            (lambda: pool.create_container("henge"), dolmen.Exists, -1004, 'container "henge" already'),
            (lambda: pool.destroy_container("henge"), dolmen.Busy, -1012, 'container "henge" is open.*force=True'),
            (lambda: pool.create_container("a b"), dolmen.Invalid, -1003, '"a b" cannot be a label: .*letters'),
            (lambda: pool.create_container(cont.uuid), dolmen.Invalid, -1003, "reads as a UUID"),
            (lambda: kv["menhir"], dolmen.NotFound, -1005, 'no key "menhir"'),
            (lambda: kv.__delitem__("menhir"), dolmen.NotFound, -1005, 'no key "menhir"'),
            (lambda: kv.view(b"\xff\0"), dolmen.NotFound, -1005, r'no key b"\\xff\\x00"'),
            (lambda: kv.read_into("menhir", bytearray(9)), dolmen.NotFound, -1005, 'no key "menhir"'),
            (lambda: kv["m" * 999], dolmen.NotFound, -1005, 'no key "m{64}"…'),
            (lambda: numbers[7], dolmen.NotFound, -1005, "no key 7"),
            (lambda: kv.put("k", b"v", exists=True), dolmen.NotFound, -1005, 'no key "k", as exists=True'),
            (lambda: kv.put("a", b"v", exists=False), dolmen.Exists, -1004, 'key "a" already, as exists=False'),
            (lambda: within.put("k", b"v", exists=True), dolmen.NotFound, -1005, 'no key "k"'),
            (lambda: thing.put("d", "l", b"v", exists=True), dolmen.NotFound, -1005, 'keys "d", "l", as exists=True'),
            (lambda: thing.put("d", "k", b"v", exists=False), dolmen.Exists, -1004, 'keys "d", "k" already'),
            (lambda: thing.view("d", "l"), dolmen.NotFound, -1005, 'keys "d", "l"'),
            (lambda: cont.attribute("x"), dolmen.NotFound, -1005, 'attribute "x" is not set: `attributes`'),
            (lambda: cont.remove_attributes(["x"]), dolmen.NotFound, -1005, 'attribute "x" is not set'),
            (lambda: cont.create_snapshot("then"), dolmen.Exists, -1004, 'snapshot "then" already'),
            (cont.files, dolmen.NotFound, -1005, "files=True"),
            (lambda: cont.kv(array.oid), dolmen.Invalid, -1003, f"{array.oid} is the id of an array: `array`"),
            (lambda: cont.array(kv.oid), dolmen.Invalid, -1003, f"{kv.oid} is the id of a key-value store: `kv`"),
            (lambda: cont.kv(thing.oid), dolmen.Invalid, -1003, "two levels of keys: `object`"),
            (lambda: cont.array(dolmen.Oid(array.oid.hi, 1 << 60)), dolmen.NotFound, -1005, "`create_array` makes one"),
        ]:
            with pytest.raises(kind, match=told) as met:
                wrong()
            assert met.value.der == number


def test_options_of_pools_are_told_by_their_names(tmp_path, local):
    path = tmp_path / "pool"
    for words, told in [
        ({"targets": 0}, "targets is a whole number from 1 to 1024"),
        ({"targets": 5000}, "targets is a whole number from 1 to 1024"),
        ({"size": 10}, "size is 10, and has to be from"),
        ({"memory": 3}, "memory is 3, and has to be from"),
        ({"label": "a b"}, '"a b" cannot be a label'),
    ]:
        with pytest.raises(dolmen.Invalid, match=told):
            dolmen.create_pool(path, **words)
    assert not path.exists()
    for words, told in [
        ({"memory": 1}, "memory is 1, and has to be from"),
        ({"patience": -1}, "patience is a number of seconds from 0 on, and not -1"),
        ({"timeout": -2}, "timeout is a number of seconds"),
    ]:
        with pytest.raises(dolmen.Invalid, match=told):
            local.open(**words)
    with pytest.raises(dolmen.NotFound, match="`create_pool` makes one"):
        dolmen.open(f"file:{path}")


def test_attributes_and_objects_of_a_container(cont):
    cont.set_attributes({"who": "mason", "when": b"3000"})
    assert (cont.attributes(), cont.attribute("who")) == (["when", "who"], b"mason")
    cont.remove_attributes(["who"])
    with pytest.raises(dolmen.NotFound):
        cont.remove_attributes(["who"])
    with pytest.raises(dolmen.NotFound):
        cont.attribute("who")
    cont.set_attributes({"empty": b""})
    with pytest.raises(TypeError):
        cont.set_attributes({"who": 3})
    with pytest.raises(TypeError, match="name of an attribute"):
        cont.set_attributes({3: b"1"})
    assert cont.attributes() == ["empty", "when"]
    made = {cont.create_kv().oid for _ in range(3)}
    for oid in made:
        cont.kv(oid)["a"] = b"1"
    assert set(cont.objects()) == made
    assert cont.query()["versions"] >= 3
    cont.flush()
    assert {oid.kind for oid in made} == {"kv"}
    assert len({hash(oid) for oid in made}) == 3
    assert dolmen.Oid(1, 2) < dolmen.Oid(1, 3)


def test_what_was_closed_is_closed_under_those_who_have_it(place):
    pool = place.open()
    cont = pool.create_container("henge")
    kv, keys = cont.create_kv(), None
    kv["a"] = b"1"
    keys = iter(kv)
    cont.close()
    cont.close()
    assert cont.closed
    for use in [lambda: kv["a"], lambda: next(keys), cont.create_kv, cont.query]:
        with pytest.raises(dolmen.Closed, match="the container henge was closed"):
            use()
    with pool.create_container("files", files=True).files() as files:
        with files.open_raw("f", "w") as file:
            pass
        left = files.open_raw("f")
    for use, told in [(file.size, "the file"), (left.size, "`files`"), (files.space, "`files`")]:
        with pytest.raises(dolmen.Closed, match=f"{told}.* was closed"):
            use()
    again = pool.container("henge").kv(kv.oid)
    pool.close()
    pool.close()
    assert pool.closed
    for use in [lambda: again["a"], pool.query, lambda: pool.container("henge")]:
        with pytest.raises(dolmen.Closed, match=f"the pool {place.address} was closed"):
            use()
    with place.open() as pool:
        assert pool.container("henge").kv(kv.oid)["a"] == b"1"


def test_a_pool_that_was_opened_to_read_is_not_changed(place):
    with place.open() as pool:
        kv = pool.create_container("henge").create_kv()
        kv["a"] = b"1"
    with place.open(read_only=True) as pool:
        again = pool.container("henge").kv(kv.oid)
        assert again["a"] == b"1"
        cont = pool.container("henge")
        for change in [
            lambda: again.put("a", b"2"),
            lambda: pool.create_container("other"),
            lambda: pool.destroy_container("henge", force=True),
            cont.create_kv,
            lambda: cont.create_snapshot("other"),
            lambda: cont.transact(lambda tx: tx.kv(again).put("a", b"2")),
        ]:
            with pytest.raises(dolmen.ReadOnly, match="read_only=True"):
                change()
        assert cont.transact(lambda tx: tx.kv(again)["a"]) == b"1"


def test_two_opens_of_a_directory_in_one_process_are_one_pool(local):
    with local.open() as one, local.open() as two:
        one.create_container("henge")
        assert two.containers()[0][0] == "henge"
        one.close()
        assert two.containers()[0][0] == "henge"


def test_a_directory_that_another_process_has_is_an_error_with_its_pid(local):
    holds = "import dolmen, sys; pool = dolmen.open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", holds, local.address]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(dolmen.Busy) as met:
            local.open()
        assert met.value.pid == other.pid
        assert str(other.pid) in str(met.value)
        assert met.value.der == -1012
        other.stdin.close()
        assert other.wait(timeout=60) == 0
    with local.open() as pool:
        assert pool.query()["label"] == "stones"


def test_errors_have_numbers_wherever_they_are_raised(cont):
    numbers = {
        dolmen.Invalid: (errno.EINVAL, -1003, "DER_INVAL"),
        dolmen.NotFound: (errno.ENOENT, -1005, "DER_NONEXIST"),
        dolmen.Closed: (errno.EBADF, -1002, "DER_NO_HDL"),
        dolmen.Error: (errno.EIO, -1025, "DER_MISC"),
    }
    for kind, (number, der, name) in numbers.items():
        error = kind("why")
        for one in (error, pickle.loads(pickle.dumps(error))):
            assert (one.errno, one.der, one.name, one.strerror) == (number, der, name, "why")
    store = dolmen.rntuple.Store(cont)
    stored = store.create("events", {"x": np.zeros(2, "f4")})
    for wrong, kind in (
        (lambda: stored.append(5), dolmen.Invalid),
        (lambda: stored.append([]), dolmen.Invalid),
        (lambda: stored.append_root([]), dolmen.Invalid),
        (lambda: stored.open()["none"], dolmen.NotFound),
        (lambda: stored.open().arrays("x", filter="x"), dolmen.Invalid),
    ):
        with pytest.raises(kind) as met:
            wrong()
        assert (met.value.errno, met.value.der, met.value.name) == numbers[kind]
    assert stored.version().number == 1


def test_the_package_tells_its_version():
    assert [int(part) for part in dolmen.__version__.split(".")] >= [0, 1, 0]


def test_the_errors_are_one_tree():
    classes = [getattr(dolmen.errors, name) for name in dolmen.errors.__all__]
    assert all(issubclass(one, dolmen.Error) for one in classes)
    assert all(one.__doc__ for one in classes)
    assert {one.__name__ for one in classes} == set(dolmen.errors.__all__)
    assert all(hasattr(dolmen, name) for name in dolmen.errors.__all__)
    for one, other in [
        (dolmen.NotFound, FileNotFoundError),
        (dolmen.Exists, FileExistsError),
        (dolmen.Permission, PermissionError),
        (dolmen.Timeout, TimeoutError),
        (dolmen.Invalid, ValueError),
        (dolmen.Corrupt, dolmen.Io),
        (dolmen.Conflict, dolmen.Retryable),
    ]:
        assert issubclass(one, other)


def test_ids_are_pickled_and_copied(pool):
    with pool.create_container("henge", durability="process") as cont:
        oid = cont.create_kv().oid
        for again in (pickle.loads(pickle.dumps(oid)), copy.copy(oid), copy.deepcopy(oid)):
            assert again == oid and type(again) is dolmen.Oid
