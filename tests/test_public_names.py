"""What users import is there, is documented with examples that run, and is all that the documents import.

A change of a signature shows in public_names.txt beside this file: see tests/test_docs.py.
"""

from __future__ import annotations

import ast
import dataclasses
import doctest
import enum
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tools.api_page import API, names_of
from tubeclient import ClientSettings

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


def examples_of(package: str, name: str) -> doctest.DocTest:
    """The lines of a docstring behind >>>, for the names of its package."""
    module = importlib.import_module(package)
    text = inspect.getdoc(getattr(module, name)) or ""
    return doctest.DocTestParser().get_doctest(text, dict(vars(module)), f"{package}.{name}", None, None)


EXAMPLES = [one for package in API for name in names_of(package) if (one := examples_of(package, name)).examples]
SHOWN = "\n".join(
    block
    for path in (ROOT / "docs").glob("*.md")
    for block in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_of_a_docstring_runs(example: doctest.DocTest, tmp_path: Path) -> None:
    """`settings` is a cluster with one message; a line with +SKIP needs more, and a page has it."""
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")]) as tube:
        tube.load("clicks", [NewMessage(0, b"one")])
        example.globs["settings"] = ClientSettings(tube.master_address, master_web_port=tube.master_web_port)
        said: list[str] = []
        assert doctest.DocTestRunner().run(example, out=said.append).failed == 0, "".join(said)


MADE_FOR_USERS = {"DefaultSource", "Delivery", "Message", "ReceivedMessage", "OffsetsRun"}
"""Nobody calls these."""


@pytest.mark.parametrize("package", API)
def test_callables_are_in_examples(package: str) -> None:
    """Each public name that users call is in an example that runs."""
    run = {one.name for one in EXAMPLES if not one.examples[0].options.get(doctest.SKIP)}
    for name in names_of(package):
        value = getattr(importlib.import_module(package), name)
        is_data = inspect.isclass(value) and issubclass(value, BaseException | tuple | enum.Enum)
        if not (is_data or dataclasses.is_dataclass(value) or name in MADE_FOR_USERS or f"{package}.{name}" in run):
            assert re.search(rf"\b{name}\b", SHOWN), f"{package}.{name} is in no example"
