"""Arrays."""

import dolmen
import numpy
import pytest


def test_an_array_is_one_of_numpy(cont):
    array = cont.create_array("f8")
    assert (len(array), array.shape, array[:].size) == (0, (0,), 0)
    array[0:10] = numpy.arange(10.0)
    assert (len(array), array.dtype) == (10, numpy.dtype("f8"))
    assert array[3] == 3.0
    assert array[-1] == 9.0
    assert array[2:5].tolist() == [2.0, 3.0, 4.0]
    assert array[::3].tolist() == [0.0, 3.0, 6.0, 9.0]
    assert array[::-2].tolist() == [9.0, 7.0, 5.0, 3.0, 1.0]
    assert array[20:].size == 0
    assert numpy.asarray(array).sum() == 45.0
    assert numpy.asarray(array, dtype="i4").dtype == numpy.dtype("i4")
    array[4:6] = 0.5
    array[-1] = 1.5
    assert array[4:].tolist() == [0.5, 0.5, 6.0, 7.0, 8.0, 1.5]
    with pytest.raises(IndexError):
        array[10]
    with pytest.raises(TypeError):
        array["a"]
    with pytest.raises(ValueError):
        array[0:4:2] = 1.0
    with pytest.raises(ValueError):
        array[0:3] = [1.0, 2.0]


def test_memory_is_taken_as_it_is(cont):
    array = cont.create_array("i8")
    numbers = numpy.arange(1 << 18)
    array.write(5, numbers)
    read = array.read(5)
    assert numpy.array_equal(read, numbers)
    # What was read is the caller's.
    read[0] = 7
    assert array[5] == 0
    place = numpy.zeros(4, "i8")
    assert array.read_into(5 + (1 << 18) - 2, place) == 2
    assert place.tolist() == [(1 << 18) - 2, (1 << 18) - 1, 0, 0]
    array.write(0, numbers[:8].tobytes())
    assert array.read(0, 8).tolist() == list(range(8))
    with pytest.raises(ValueError):
        array.write(0, b"1234567")
    with pytest.raises(BufferError):
        array.read_into(0, bytes(8))
    with pytest.raises(BufferError):
        array.read_into(0, numpy.zeros(8, "i8")[::2])
    with pytest.raises(dolmen.Invalid, match="another type"):
        array.read_into(0, numpy.zeros(8, "f4"))
    raw = numpy.zeros(16, "u1")
    assert array.read_into(0, raw) == 2 and raw.view("i8").tolist() == [0, 1]


def test_ranges_are_read_and_written_together(cont):
    array = cont.create_array("i4", chunk=16)
    array.write_ranges([(0, 3), (100, 2)], [1, 2, 3, 4, 5])
    assert array.read_ranges([(100, 2), (1, 2), (50, 1)]).tolist() == [4, 5, 2, 3, 0]
    array.punch(1, 1)
    assert array.read(0, 3).tolist() == [1, 0, 3]
    array.resize(2)
    assert len(array) == 2
    array.resize(200)
    assert (len(array), array.read(100, 2).tolist()) == (200, [0, 0])


def test_records_have_any_type_of_fixed_size(cont):
    # numpy would spread each value over such a record.
    with pytest.raises(dolmen.Invalid, match="one field of that shape"):
        cont.create_array(numpy.dtype(("f4", (3,))))
    shaped = cont.create_array([("p", "f4", (3,))])
    points = numpy.arange(6, dtype="f4").reshape(2, 3).view([("p", "f4", (3,))])[:, 0]
    shaped.write(0, points)
    assert (shaped[:] == points).all()
    kind = numpy.dtype([("x", "f4"), ("y", "i2")])
    array = cont.create_array(kind)
    array.write(0, numpy.array([(1.5, 2), (3.5, 4)], kind))
    again = cont.array(array.oid, kind)
    assert (again[1]["x"], again[1]["y"]) == (3.5, 4)
    assert cont.array(array.oid).dtype == numpy.dtype("V6")
    times = cont.create_array("M8[ns]")
    times.write(0, numpy.array(["2026-11-27"], "M8[ns]"))
    assert times[0] == numpy.datetime64("2026-11-27")
    with pytest.raises(dolmen.Invalid) as met:
        cont.array(array.oid, "f8")
    assert met.value.der == -2024
    with pytest.raises(ValueError):
        cont.create_array("O")


def test_an_array_that_was_not_created_is_not_found(cont):
    array = cont.create_array()
    assert array.dtype == numpy.dtype("u1")
    array.destroy()
    with pytest.raises(dolmen.NotFound):
        cont.array(array.oid)


def test_objects_have_keys_of_two_levels(cont):
    thing = cont.create_object(keys="lexical", object_class="S1")
    thing.put("d1", "a", b"1", exists=False)
    with pytest.raises(dolmen.Exists):
        thing.put("d1", "a", b"2", exists=False)
    with pytest.raises(dolmen.NotFound):
        thing.put("d1", "none", b"2", exists=True)
    thing.put_all("d2", {"a": b"22", "b": numpy.arange(3, dtype="u1")})
    assert list(thing.dkeys()) == [b"d1", b"d2"]
    assert list(thing.akeys("d2")) == [b"a", b"b"]
    assert (thing.get("d2", "a"), thing.get("d2", "none"), thing.size("d2", "b")) == (b"22", None, 3)
    assert numpy.frombuffer(thing.view("d2", "b"), "u1").tolist() == [0, 1, 2]
    thing.write("d3", "array", 4, numpy.array([1, 2], "i4"), record_bytes=4)
    assert numpy.frombuffer(thing.read("d3", "array", 3, 3, record_bytes=4), "i4").tolist() == [0, 1, 2]
    assert thing.extents("d3", "array") == [(4, 2)]
    with pytest.raises(dolmen.Invalid):
        thing.write("d3", "array", 0, b"12", record_bytes=2)
    thing.remove("d2", ["a"])
    assert list(thing.akeys("d2")) == [b"b"]
    thing.remove_dkey("d3")
    assert list(thing.dkeys()) == [b"d1", b"d2"]
    thing.destroy()
    assert list(thing.dkeys()) == []
