"""What users import is there, is documented, and is all that the documents import."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest

import pyspark_tubeclient
import tubeclient
import tubeclient.assignment
import tubeclient.inlong

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = {
    "pyspark_tubeclient",
    "tubeclient",
    "tubeclient.assignment",
    "tubeclient.inlong",
    "embedded_tubemq",
}
OTHERS = {"pyspark", "delta", "deltalake", "pyarrow", "pandas", "prometheus_client", "pytest"}


@pytest.mark.parametrize("name", pyspark_tubeclient.__all__)
def test_each_public_name_is_there_and_documented(name: str) -> None:
    found = getattr(pyspark_tubeclient, name)
    assert found.__name__ == name or name == "DefaultSource"
    assert found.__doc__


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


def test_the_clients_names_are_there() -> None:
    for module in (tubeclient, tubeclient.assignment, tubeclient.inlong):
        assert all(hasattr(module, name) for name in module.__all__)
