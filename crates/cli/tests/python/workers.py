"""Workers of Python's multiprocessing share a key-value object: workers.py LIBRARY METHOD"""

import ctypes
import multiprocessing
import signal
import sys
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_uint32, c_uint64, c_void_p

PC_RW = 2
COO_RW = 2
OO_RW = 4
OT_KV_HASHED = 8
OC_SX = (1 << 24) | 0xFFFF
TASKS = 24
WORKERS = 3
# After so many seconds a process that hangs is ended by the system.
SECONDS_MAX = 100


class Handle(ctypes.Structure):
    _fields_ = [("cookie", c_uint64)]


class Oid(ctypes.Structure):
    _fields_ = [("lo", c_uint64), ("hi", c_uint64)]


# The library, and the open object, of this process.
daos = None
kv = None


def ok(code, call):
    if code != 0:
        raise RuntimeError(f"{call} gives {code}")


def load(path):
    global daos
    daos = ctypes.CDLL(path)
    daos.daos_pool_connect2.argtypes = [c_char_p, c_char_p, c_uint, POINTER(Handle), c_void_p, c_void_p]
    daos.daos_cont_create_with_label.argtypes = [Handle, c_char_p, c_void_p, c_void_p, c_void_p]
    daos.daos_cont_open2.argtypes = [Handle, c_char_p, c_uint, POINTER(Handle), c_void_p, c_void_p]
    daos.daos_obj_generate_oid2.argtypes = [Handle, POINTER(Oid), c_int, c_uint32, c_uint32, c_uint32]
    daos.daos_kv_open.argtypes = [Handle, Oid, c_uint, POINTER(Handle), c_void_p]
    daos.daos_kv_put.argtypes = [Handle, Handle, c_uint64, c_char_p, c_uint64, c_char_p, c_void_p]
    daos.daos_kv_get.argtypes = [Handle, Handle, c_uint64, c_char_p, POINTER(c_uint64), c_char_p, c_void_p]
    ok(daos.daos_init(), "daos_init")


def connect(creates):
    global kv
    pool, cont, opened, oid = Handle(), Handle(), Handle(), Oid(3, 0)
    ok(daos.daos_pool_connect2(b"pool", None, PC_RW, byref(pool), None, None), "daos_pool_connect")
    if creates:
        ok(daos.daos_cont_create_with_label(pool, b"workers", None, None, None), "daos_cont_create")
    ok(daos.daos_cont_open2(pool, b"workers", COO_RW, byref(cont), None, None), "daos_cont_open")
    ok(daos.daos_obj_generate_oid2(cont, byref(oid), OT_KV_HASHED, OC_SX, 0, 0), "daos_obj_generate_oid")
    ok(daos.daos_kv_open(cont, oid, OO_RW, byref(opened), None), "daos_kv_open")
    kv = opened


def put(key, value):
    return daos.daos_kv_put(kv, Handle(0), 0, key.encode(), len(value), value, None)


def get(key):
    room = ctypes.create_string_buffer(256)
    size = c_uint64(len(room))
    ok(daos.daos_kv_get(kv, Handle(0), 0, key.encode(), byref(size), room, None), "daos_kv_get")
    return room.raw[: size.value]


def enter(path):
    """What a worker begins with: a forked one has the library of its parent, and its handles once they are made anew."""
    signal.alarm(SECONDS_MAX)
    if daos is None:
        load(path)
        connect(False)
    else:
        refused = put("k", b"x")
        if refused != -1002:
            raise RuntimeError(f"a forked worker is told {refused}")
        ok(daos.daos_reinit(), "daos_reinit")


def work(number):
    if get("parent") != b"here":
        raise RuntimeError("what the parent has put is not there")
    ok(put(f"task{number}", f"done {number}".encode()), "daos_kv_put")
    return number


def main(path, method):
    signal.alarm(SECONDS_MAX)
    load(path)
    connect(True)
    ok(put("parent", b"here"), "daos_kv_put")
    over = threading.Event()

    def write_on():
        while not over.is_set():
            ok(put("thread", b"busy"), "daos_kv_put")

    thread = threading.Thread(target=write_on)
    thread.start()
    try:
        with multiprocessing.get_context(method).Pool(WORKERS, enter, (path,)) as workers:
            numbers = workers.map_async(work, range(TASKS), chunksize=1).get(SECONDS_MAX)
            workers.close()
            workers.join()
    finally:
        over.set()
        thread.join()
    if numbers != list(range(TASKS)):
        raise RuntimeError(f"the workers did {numbers}")
    for number in range(TASKS):
        if get(f"task{number}") != f"done {number}".encode():
            raise RuntimeError(f"what worker {number} has put is not there")
    ok(daos.daos_fini(), "daos_fini")
    print(f"ok {method}")


if __name__ == "__main__":
    main(*sys.argv[1:])
