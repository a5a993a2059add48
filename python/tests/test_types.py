"""Types and documentation of the package."""

import inspect
import os
import pathlib
import subprocess
import sys

import dolmen
import dolmen.aio
import dolmen.fsspec
import dolmen.rntuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(dolmen.__file__).parent.parent


def run(*words, tmp_path):
    environment = os.environ | {"MYPYPATH": str(PACKAGE), "MYPY_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, env=environment, cwd=PACKAGE, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_typed(tmp_path):
    run("mypy", "--config-file", str(ROOT / "pyproject.toml"), "-p", "dolmen", tmp_path=tmp_path)


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
