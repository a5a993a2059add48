"""Key-value stores."""

import array

import dolmen
import numpy
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


def test_a_value_that_targets_are_too_small_for_is_told_so(tmp_path):
    dolmen.create_pool(tmp_path / "pool", size=1 << 26, targets=2, volatile=True)
    with dolmen.open(f"file:{tmp_path / 'pool'}") as pool:
        cont = pool.create_container("henge")
        kv, thing = cont.create_kv(), cont.create_object()
        for put in [kv.put, lambda key, value: kv.put_many({key: value}), lambda *all: thing.put("d", *all)]:
            with pytest.raises(dolmen.Invalid, match='"large" has 8388608 bytes, and targets of this pool are too small'):
                put("large", bytes(8 << 20))


def test_what_cannot_be_stored_is_refused(cont):
    kv, thing = cont.create_kv(), cont.create_object()
    with pytest.raises(ValueError, match="a key has at least one byte"):
        kv[b""] = b"1"
    for empty in [b"", "", array.array("d")]:
        for put in [kv.put, lambda key, value: kv.put_many({key: value}), lambda *all: thing.put("d", *all)]:
            with pytest.raises(ValueError, match='value of key.*"a" is empty'):
                put("a", empty)
    for objects in [numpy.array(["a", None], object), numpy.zeros(2, [("n", "i4"), ("o", object)])]:
        for put in [kv.put, lambda key, value: kv.put_many({key: value}), lambda *all: thing.put("d", *all)]:
            with pytest.raises(TypeError, match="objects of Python"):
                put("a", objects)
    kv["Objects"] = numpy.zeros(2, [("Only", "i4"), ("names", "f8")])
    assert kv.size("Objects") == 24
    del kv["Objects"]
    with pytest.raises(dolmen.Invalid, match='key "long.* has 2049 bytes, and 2048 at most'):
        kv["long" + "g" * 2045] = b"1"
    with pytest.raises(dolmen.Invalid, match="81 bytes.*80 at most where keys are lexical"):
        cont.create_kv(keys="lexical")["k" * 81] = b"1"
    with pytest.raises(dolmen.Invalid, match='value of key "a" has 33554433 bytes, and 33554432 at most'):
        kv["a"] = bytes((32 << 20) + 1)
    with pytest.raises(dolmen.Invalid, match='key "a" is no number'):
        cont.create_kv(keys="integer")["a"] = b"1"
    # Nothing of a call that is refused is stored, in a transaction neither.
    with cont.transaction() as tx:
        for bad, told in [({"bad": b""}, 'value of key "bad" is empty'), ({"k" * 2049: b"1"}, "2049 bytes")]:
            for into in [kv, tx.kv(kv)]:
                with pytest.raises(dolmen.Invalid, match=told):
                    into.put_many({"fine": b"1"} | bad)
    assert list(kv) == []
    for number in [-1, 2**64]:
        with pytest.raises(dolmen.Invalid, match="from 0 to"):
            kv[number] = b"1"
    with pytest.raises(TypeError, match="no float"):
        kv[1.5] = b"1"
    for key in ["a", b"a", 7]:
        with pytest.raises(TypeError, match="a list of keys"):
            kv.get_many(key)
    with pytest.raises(dolmen.Invalid, match="chunk is a number of records from 1 on"):
        cont.create_array("f4", chunk=0)
    with pytest.raises(dolmen.Invalid):
        cont.create_kv(keys="sorted")
    with pytest.raises(dolmen.Invalid):
        cont.create_kv(object_class="S0")
    with pytest.raises(dolmen.Invalid):
        cont.create_object().oid.parse("7")
    with pytest.raises(dolmen.Invalid):
        cont.kv(cont.create_array().oid)
