"""What users import is there, is documented, and is all that the documents import."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = {
    "pyspark_tubeclient",
    "tubeclient",
    "tubeclient.assignment",
    "tubeclient.inlong",
    "embedded_tubemq",
}
OTHERS = {"pyspark", "delta", "deltalake", "pyarrow", "pandas", "prometheus_client", "pytest"}


def is_foreign(module: str) -> bool:
    package = module.partition(".")[0]
    return package in sys.stdlib_module_names or package in OTHERS


@pytest.mark.parametrize("path", sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")]), ids=lambda path: path.name)
def test_the_documents_import_public_names_only(path: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
        for line in re.findall(r"^ *((?:from \S+ )?import .+)$", block, re.MULTILINE):
            [node] = ast.parse(line).body
            if isinstance(node, ast.ImportFrom):
                assert node.module is not None
                if not is_foreign(node.module):
                    assert node.module in PUBLIC, f"{path.name}: {line}"
                    names = importlib.import_module(node.module).__all__
                    assert {alias.name for alias in node.names} <= {*names, "*"}, f"{path.name}: {line}"
            else:
                assert isinstance(node, ast.Import)
                assert all(is_foreign(alias.name) or alias.name in PUBLIC for alias in node.names), line
