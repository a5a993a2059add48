"""Types and documentation of the package."""

import inspect
import os
import pathlib
import re
import subprocess
import sys

import dolmen
import dolmen.aio
import dolmen.fsspec
import dolmen.rntuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(dolmen.__file__).parent.parent


def run(*words, tmp_path, before=()):
    path = os.pathsep.join(map(str, [*before, PACKAGE]))
    environment = os.environ | {"MYPYPATH": path, "MYPY_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, env=environment, cwd=PACKAGE, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_typed(tmp_path):
    run("mypy", "--config-file", str(ROOT / "pyproject.toml"), "-p", "dolmen", tmp_path=tmp_path)


#: What somebody writes, with the types that it has; awkward and Arrow come without types, and get some here.
USED = """
import io
from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

import awkward as ak
import dolmen.aio.rntuple
import numpy as np
import pyarrow as pa
from dolmen import Array, Files, Kv, rntuple

Numbers = np.ndarray[Any, Any]

def read(read: rntuple.Ntuple, tree: rntuple.Tree, told: str) -> None:
    assert_type(read.arrays(), ak.Array)
    assert_type(read.arrays(["a"], 1, 2, filter=[("a", ">", 1)], library="ak"), ak.Array)
    assert_type(read.arrays("a", library="np"), dict[str, Numbers])
    assert_type(read.arrays(library="pa", filter=None), pa.Table)
    assert_type(read.arrays(library=told), Any)
    assert_type(tree.arrays(), ak.Array)
    assert_type(tree.arrays(["a"], 1, library="np"), dict[str, Numbers])
    assert_type(tree.arrays("M*", filter=[("len(a)", ">", 1)], library="pa"), pa.Table)
    assert_type(tree.batches(filter=[("a", ">", 1)]), Iterator[pa.RecordBatch])
    assert_type(tree.arrow_reader(), pa.RecordBatchReader)
    assert_type(read.batches(), Iterator[pa.RecordBatch])
    assert_type(read.arrow_schema(), pa.Schema)
    assert_type(read.arrow_reader(), pa.RecordBatchReader)

async def waited(read: dolmen.aio.rntuple.Ntuple, tree: dolmen.aio.rntuple.Tree, told: str) -> None:
    assert_type(await read.arrays(), ak.Array)
    assert_type(await read.arrays("a", filter=[("a", ">", 1)], library="np"), dict[str, Numbers])
    assert_type(await read.arrays(library="pa"), pa.Table)
    assert_type(await tree.arrays(filter=[("a", ">", 1)], library="ak"), ak.Array)
    assert_type(tree.batches(), AsyncIterator[pa.RecordBatch])
    assert_type(await tree.arrays(library="np"), dict[str, Numbers])
    assert_type(await tree.arrays(library=told), Any)
    assert_type(read.batches(), AsyncIterator[pa.RecordBatch])

async def waited_kv(kv: dolmen.aio.Kv) -> None:
    assert_type(await kv.get("a"), bytes | None)
    assert_type(await kv.get("a", 7), bytes | int)

def reached() -> None:
    rntuple.Store("s3://bucket/prefix", storage_options={"timeout": 3, "endpoint": "http://127.0.0.1", "retry_timeout": 0.5})

def stored(array: Array, files: Files, kv: Kv, told: str) -> None:
    assert_type(kv.get("a"), bytes | None)
    assert_type(kv.get("a", None), bytes | None)
    assert_type(kv.get("a", 7), bytes | int)
    kv["a"] = np.arange(3.0)
    kv.put("a", np.arange(3.0)[0])
    kv.read_into("a", np.empty(3))
    assert_type(array.read(), Numbers)
    assert_type(array.read_ranges([(0, 1)]), Numbers)
    assert_type(array[1:2], Numbers)
    assert_type(array[1], Any)
    assert_type(files.open("a"), io.TextIOWrapper)
    assert_type(files.open("a", "w", encoding="utf-8"), io.TextIOWrapper)
    assert_type(files.open("a", "rb"), io.BufferedReader)
    assert_type(files.open("a", "wb", buffering=-1), io.BufferedWriter)
    assert_type(files.open("a", "r+b"), io.BufferedRandom)
    assert isinstance(files.open("a", "rb", buffering=0), io.RawIOBase)
    assert_type(files.open("a", told), Any)
"""


def test_what_is_read_has_the_type_of_what_is_asked_for(tmp_path):
    stubs = tmp_path / "stubs"
    for package, classes in {"awkward": ["Array"], "pyarrow": ["RecordBatch", "RecordBatchReader", "Schema", "Table"]}.items():
        (stubs / package).mkdir(parents=True)
        (stubs / package / "__init__.pyi").write_text("".join(f"class {name}: ...\n" for name in classes))
    (tmp_path / "used.py").write_text(USED)
    # What the package does with these is not looked at here.
    words = ["--strict", "--follow-imports=silent", str(tmp_path / "used.py")]
    run("mypy", *words, tmp_path=tmp_path / "cache", before=[stubs])


def test_the_examples_of_the_guide_have_types(tmp_path):
    text = (ROOT / "docs/python.md").read_text()
    parts = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(parts) >= 8
    (tmp_path / "guide.py").write_text("".join(parts))
    # Some libraries come without types, and a reader of the guide has no settings of ours.
    words = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent", str(tmp_path / "guide.py")]
    run("mypy", *words, tmp_path=tmp_path / "cache")


def test_stubs_say_what_the_module_has(tmp_path):
    allowed = tmp_path / "allowed"
    # The module has the protocol in the slots of C, which Python shows from 3.12 on.
    allowed.write_text("dolmen._dolmen.Buffer.__buffer__\n")
    words = ["--mypy-config-file", str(ROOT / "pyproject.toml"), "--allowlist", str(allowed)]
    words += [] if sys.version_info < (3, 12) else ["--ignore-unused-allowlist"]
    run("mypy.stubtest", "dolmen._dolmen", *words, tmp_path=tmp_path)


def test_everything_public_is_documented():
    def described(thing, name):
        assert inspect.getdoc(thing), f"{name} says nothing of itself"

    for module in [dolmen, dolmen.aio, dolmen.errors, dolmen.fsspec, dolmen.rntuple]:
        described(module, module.__name__)
        for name in module.__all__:
            thing = getattr(module, name)
            described(thing, f"{module.__name__}.{name}")
            if inspect.isclass(thing) and thing.__module__.startswith("dolmen"):
                for member, value in vars(thing).items():
                    if not member.startswith("_") and (callable(value) or inspect.isdatadescriptor(value)):
                        described(value, f"{module.__name__}.{name}.{member}")


def test_coroutines_have_the_names_of_the_calls():
    left_out = {
        # Words of Python for what has another name there, or is got from a handle by others.
        "Container": {"closed"},
        "File": {"closed", "sync"},
        "Files": {"open", "sync"},
        "Array": {"shape"},
        "Transaction": {"epoch"},
        "Pool": set(),
        "Kv": set(),
        "Object": set(),
    }
    for name, missing in left_out.items():
        public = {member for member in vars(getattr(dolmen, name)) if not member.startswith("_")}
        here = {member for member in dir(getattr(dolmen.aio, name)) if not member.startswith("_")}
        assert public - here - missing == set(), name
