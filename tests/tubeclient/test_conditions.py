"""The names of errors: each error has one, and each is described."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import tubeclient.errors
from offsets_store.errors import OffsetsTableError
from tubeclient.conditions import CONDITIONS, error_text
from tubeclient.errors import ConfigurationError, ConnectError, TopicNotDeployed, TubeError

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tubeclient", "offsets_store", "spark_source", "tubeclient_ingest", "tubeclient_cli")


def trees() -> Iterator[ast.AST]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if not path.name.endswith("_pb2.py"):
                yield ast.parse(path.read_text(encoding="utf-8"))


def names_in_code() -> set[str]:
    """Texts that look like a name: given as `condition`, or at the beginning of a text in brackets."""
    found = set()
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "condition" and isinstance(node.value, ast.Constant):
                found.add(node.value.value)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(one, ast.Name) and one.id == "condition" for one in targets):
                    found.add(node.value.value)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(re.findall(r"^\[([A-Z]+_[A-Z_]+)\] ", node.value))
    return {str(name) for name in found if name is not None}


def test_names_match_descriptions() -> None:
    """The code uses all described error names and no others."""
    assert names_in_code() == set(CONDITIONS)


def all_errors(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for below in kind.__subclasses__():
        yield below
        yield from all_errors(below)


def test_classes_have_distinct_names() -> None:
    """Each error class of the client and of the offsets table has its own error name."""
    for module in pkgutil.walk_packages(tubeclient.__path__, "tubeclient."):
        if not module.name.startswith("tubeclient.inlong"):
            importlib.import_module(module.name)
    public = {kind for kind in all_errors(TubeError) if kind.__name__ in tubeclient.__all__}
    assert len(public) > 25
    public |= {OffsetsTableError, *all_errors(OffsetsTableError)}
    names = [vars(kind)["condition"] for kind in public]
    assert len(set(names)) == len(names)


def test_an_error_may_have_a_finer_name_than_its_class() -> None:
    assert ConfigurationError("x").condition == "INVALID_SETTING"
    assert error_text(ConfigurationError("x", condition="UNKNOWN_OPTION")) == "[UNKNOWN_OPTION] x"
    assert error_text(ConnectError("x", condition="MASTER_UNREACHABLE")) == "[MASTER_UNREACHABLE] x"
    assert error_text(TopicNotDeployed(431, "no")).startswith("[TOPIC_NOT_FOUND] the server answered 431 (no). Check")
