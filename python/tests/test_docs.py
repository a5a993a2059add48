"""The examples of docs/python.md, in order, as one program."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_examples_of_the_guide_run(tmp_path):
    text = (ROOT / "docs/python.md").read_text()
    parts = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(parts) >= 8
    # Volatile, since tests may keep their files in memory.
    script = "".join(parts).replace("size=1 << 28)", "size=1 << 28, volatile=True)")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
