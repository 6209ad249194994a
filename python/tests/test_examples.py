"""The notebooks of examples/, as somebody runs them."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path):
    """Promise: examples are true: no cell raises. They are kept without output."""
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear all outputs"
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if path.stem == "comparison":
        kinds = {kind for output in code[-1].outputs for kind in output.get("data", {})}
        assert "image/png" in kinds, "the last cell draws"


def test_there_are_examples():
    assert {path.stem for path in NOTEBOOKS} == {"comparison", "machine"}
