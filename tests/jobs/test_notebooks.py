"""The notebook: all its cells run in a kernel as Jupyter's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbclient
import nbformat
import pytest

from spark_source.session import STARTING_SPARK
from tests.spark_home import JAVA_OPTIONS, PIP_SPARK_HOME, bare_python

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "jobs" / "notebooks" / "quickstart.ipynb"
CELL_SECONDS = 200


def test_the_notebook_is_stored_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_all_cells_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user's: no variable names a Python, the first of PATH has no packages, and Spark resolves Delta's jars."""
    for name in [name for name in os.environ if name.startswith("PYSPARK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{bare_python(tmp_path / 'bin')}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("SPARK_HOME", str(PIP_SPARK_HOME))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"{JAVA_OPTIONS} -Xmx1g")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    nbclient.NotebookClient(
        notebook, timeout=CELL_SECONDS, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    told = "".join(output.text for output in outputs if output.get("name") == "stderr")
    assert told == f"{STARTING_SPARK}\n"
    shown = [output.data for output in outputs if output.output_type == "execute_result"]
    assert shown[0]["text/plain"].startswith("QueryLag(")
    assert not list(tmp_path.glob("tubeclient-quickstart-*"))
