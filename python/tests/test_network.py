"""Pools over a network, with certificates."""

import pathlib
import subprocess
import tempfile

import conftest
import dolmen
import pytest


def test_a_pool_is_reached_with_certificates_and_not_without():
    with tempfile.TemporaryDirectory(prefix="dolmen-", dir="/var/tmp") as directory:
        directory = pathlib.Path(directory)
        (directory / "system").mkdir()
        dolmen.create_pool(directory / "system/pool", label="stones", size=1 << 28, targets=1)
        for words in [[], ["--user", "anna,masons", "--uid", "4711", "--gid", "4711"]]:
            made = [conftest.PROGRAM, "system", "certs", str(directory / "certs"), *words]
            subprocess.run(made, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        words = [conftest.PROGRAM, "serve", str(directory / "system"), "--tcp", "127.0.0.1:0"]
        words += ["--certs", str(directory / "certs/engine")]
        daemon = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        try:
            said = daemon.stdout.readline()
            (address,) = [word.strip(",\n") for word in said.split() if "tcp://" in word]
            pool = f"{address}/stones"
            with pytest.raises(dolmen.Error):
                dolmen.open(pool, patience=1.0)
            with pytest.raises(dolmen.Permission) as met:
                dolmen.open(pool, certs=directory / "nowhere")
            assert met.value.name == "DER_NO_CERT"
            with dolmen.open(pool, certs=directory / "certs/admin") as opened:
                opened.create_container("henge").create_kv()["a"] = b"1"
            with pytest.raises(dolmen.Permission):
                dolmen.open(pool, certs=directory / "certs/users/anna").create_container("other")
        finally:
            daemon.terminate()
            daemon.wait(timeout=60)
            daemon.stdout.close()

