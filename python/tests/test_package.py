"""The wheel by itself, and what imports cost."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

WHEELS = Path(__file__).parent.parent.parent / "out" / "wheels"


def test_the_wheel_works_in_an_empty_environment(tmp_path):
    """Promise: `pip install` of the wheel is enough; DataFrames and sweeps ask for
    packages by names that an index knows."""
    wheels = sorted(WHEELS.glob("trapless-*.whl"), key=lambda file: file.stat().st_mtime)
    assert wheels and "abi3" in wheels[-1].name, "run `make python` first"
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    pip = ["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]
    subprocess.run([python, *pip, wheels[-1]], check=True)
    script = """
import trapless, importlib.metadata, importlib.resources
assert trapless.__version__ == importlib.metadata.version("trapless")
assert "sstc" in trapless.machines()
assert importlib.resources.files("trapless").joinpath("py.typed").is_file()
assert importlib.resources.files("trapless").joinpath("_native.pyi").is_file()
open("spin.bin", "wb").write(bytes.fromhex("6f000000"))
machine = trapless.Machine.boot(firmware="spin.bin", ram="16M", harts=1)
assert machine.run(until=100_000).reason == "limit"
for way, needed in ("to_pandas", "pandas pyarrow"), ("to_polars", "polars"):
    try:
        getattr(machine.ledger(), way)()
    except ImportError as error:
        assert str(error).endswith(f"pip install {needed}"), error
    else:
        raise AssertionError(way)
try:
    trapless.sweep.run({})
except Exception as error:
    command = "-m pip install distributed jinja2 matplotlib psutil pyarrow rich"
    assert str(error).endswith(command) and "psutil" in str(error), error
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run([python, "-c", script], check=True, cwd=tmp_path, env=clean)


def test_import_is_cheap():
    """Promise: nothing is imported that an extra brings."""
    script = "import sys, trapless; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    heavy = {"pandas", "polars", "pyarrow", "distributed", "numpy", "matplotlib", "perfetto"}
    assert not heavy & set(output.stdout.decode().split())


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_the_project_folder_can_be_named(by, tmp_path, monkeypatch):
    import trapless

    project = tmp_path if by == "argument" else None
    if by == "environment":
        monkeypatch.setenv("TRAPLESS_PROJECT", str(tmp_path))
    with pytest.raises(trapless.Error, match=str(tmp_path)):
        trapless.workloads(project)
