"""Key-value stores."""

import array

import dolmen
import pytest


def test_a_store_is_a_dict_of_bytes(cont):
    kv = cont.create_kv()
    kv[b"menhir"] = b"upright"
    assert kv[b"menhir"] == b"upright"
    assert kv["menhir"] == b"upright"
    assert b"menhir" in kv
    assert "dolmen" not in kv
    assert kv.get("dolmen") is None
    assert kv.get("dolmen", b"none") == b"none"
    assert sorted(kv) == [b"menhir"]
    del kv["menhir"]
    with pytest.raises(KeyError):
        kv["menhir"]
    with pytest.raises(dolmen.NotFound):
        del kv["menhir"]
    kv.discard("menhir")


def test_a_store_is_found_again_by_its_id(place):
    with place.open() as pool:
        cont = pool.create_container("henge")
        kv = cont.create_kv()
        kv["menhir"] = b"upright"
        oid = str(kv.oid)
    with place.open() as pool:
        assert pool.container("henge").kv(dolmen.Oid.parse(oid))["menhir"] == b"upright"


def test_conditions_are_kept(cont):
    kv = cont.create_kv()
    with pytest.raises(dolmen.NotFound):
        kv.put("a", b"1", exists=True)
    kv.put("a", b"1", exists=False)
    with pytest.raises(FileExistsError):
        kv.put("a", b"2", exists=False)
    kv.put("a", b"3", exists=True)
    assert kv["a"] == b"3"


def test_values_pass_through_the_buffer_protocol(cont):
    kv = cont.create_kv()
    numbers = array.array("d", [1.5, 2.5, 3.5])
    kv["numbers"] = numbers
    assert kv.size("numbers") == 24
    view = kv.view("numbers")
    assert len(view) == 24
    assert memoryview(view).cast("d").tolist() == [1.5, 2.5, 3.5]
    place = bytearray(30)
    assert kv.read_into("numbers", place) == 24
    assert bytes(place[:24]) == numbers.tobytes()
    with pytest.raises(dolmen.Invalid):
        kv.read_into("numbers", bytearray(23))
    with pytest.raises(BufferError):
        kv.read_into("numbers", bytes(24))
    with pytest.raises(TypeError):
        kv["numbers"] = 7
    with pytest.raises(BufferError):
        kv["numbers"] = memoryview(numbers)[::2]


def test_values_may_be_large(cont):
    kv = cont.create_kv()
    value = bytes(range(256)) * (16 << 10)
    kv["large"] = value
    assert kv["large"] == value


def test_many_keys_are_put_read_and_listed(cont):
    kv = cont.create_kv(keys="lexical", object_class="S1")
    wanted = {f"{number:04}".encode(): b"v%d" % number for number in range(2500)}
    kv.put_many(wanted)
    assert list(kv) == sorted(wanted)
    assert kv.get_many(["0007", "none", "2499"]) == [b"v7", None, b"v2499"]
    kv.clear()
    assert list(kv.keys()) == []


def test_keys_may_be_numbers(cont):
    kv = cont.create_kv(keys="integer", object_class="S1")
    for number in [300, 7, 2**63]:
        kv[number] = b"%d" % number
    assert [int.from_bytes(key, "little") for key in kv] == [7, 300, 2**63]
    assert kv[300] == b"300"


def test_what_cannot_be_stored_is_refused(cont):
    kv = cont.create_kv()
    with pytest.raises(ValueError):
        kv[b""] = b"1"
    with pytest.raises(ValueError):
        kv["a"] = b""
    with pytest.raises(dolmen.Invalid):
        cont.create_kv(keys="sorted")
    with pytest.raises(dolmen.Invalid):
        cont.create_kv(object_class="S0")
    with pytest.raises(dolmen.Invalid):
        cont.create_object().oid.parse("7")
    with pytest.raises(dolmen.Invalid):
        cont.kv(cont.create_array().oid)
