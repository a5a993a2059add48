"""Pools and containers: made, found, closed; what is told of errors."""

import subprocess
import sys

import dolmen
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


def test_attributes_and_objects_of_a_container(cont):
    cont.set_attributes({"who": "mason", "when": b"3000"})
    assert (cont.attributes(), cont.attribute("who")) == (["when", "who"], b"mason")
    cont.remove_attributes(["who"])
    with pytest.raises(dolmen.NotFound):
        cont.remove_attributes(["who"])
    with pytest.raises(dolmen.NotFound):
        cont.attribute("who")
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
        with pytest.raises(dolmen.Closed):
            use()
    again = pool.container("henge").kv(kv.oid)
    pool.close()
    pool.close()
    assert pool.closed
    for use in [lambda: again["a"], pool.query, lambda: pool.container("henge")]:
        with pytest.raises(dolmen.Closed):
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
        with pytest.raises((dolmen.ReadOnly, dolmen.Permission)):
            again["a"] = b"2"
        with pytest.raises((dolmen.ReadOnly, dolmen.Permission)):
            pool.create_container("other")


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
