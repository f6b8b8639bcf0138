"""Names in the product's code have the field's words. Those that CONTRIBUTING.md retires are in none."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = (
    "tubeclient",
    "spark_source",
    "offsets_store",
    "tubeclient_ingest",
    "tubeclient_cli",
    "tubeclient_ui",
    "tubeclient_ui",
    "embedded_tubemq",
    "jobs",
)


def retired() -> frozenset[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    [words] = re.findall(r"^Names must not contain the words (.+?)\.$", text, re.M | re.S)
    return frozenset(re.findall(r"`(\w+)`", words))


def defined(tree: ast.AST) -> Iterator[str]:
    """The names that a module gives to something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def words_of(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"([A-Z][a-z])", r"_\1", name).lower()))


def test_no_name_has_a_retired_word() -> None:
    words = retired()
    assert len(words) > 10
    assert words_of("_HeldBack.is_told") & {"held", "told"} == {"held", "told"}
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for package in PRODUCT
        for path in (ROOT / package).rglob("*.py")
        for name in defined(ast.parse(path.read_text(encoding="utf-8")))
        if words_of(name) & words
    }
    assert not found


def test_no_name_is_one() -> None:
    """It says nothing of the thing."""
    found = {
        str(path.relative_to(ROOT))
        for package in PRODUCT
        for path in (ROOT / package).rglob("*.py")
        if "one" in set(defined(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert not found


def test_no_two_classes_have_one_name() -> None:
    """But for the embedded server, which has its own words for what its clients have too."""
    where: dict[str, list[str]] = {}
    for package in set(PRODUCT) - {"embedded_tubemq"}:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    where.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert len(where) > 300
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_names_of_tests_are_short() -> None:
    """A sentence as docstring says the rest."""
    found = {
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and len(node.name) > 50
    }
    assert not found


def constants(tree: ast.Module) -> Iterator[str]:
    """The names that a module gives to values, as often as it does."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for name in targets if isinstance(name, ast.Name) and name.id.isupper())


def test_no_module_gives_a_constant_two_values() -> None:
    """Two constants that got one name by a renaming have both the last value."""
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for package in PRODUCT
        for path in (ROOT / package).rglob("*.py")
        for name, count in Counter(constants(ast.parse(path.read_text(encoding="utf-8")))).items()
        if count > 1
    ]
    assert not found
