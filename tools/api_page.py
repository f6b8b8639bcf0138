"""The text of docs/api.md: the public names, each with the first sentence of its docstring."""

from __future__ import annotations

import importlib
import inspect

API = {
    "pyspark_tubeclient": "With Spark.",
    "tubeclient": "The client. It needs only protobuf.",
    "tubeclient.assignment": "[Who reads what](assignment.md): the strategies, and what would change.",
    "tubeclient.inlong": "Packs of InLong's records. Needs the extra `inlong`.",
    "embedded_tubemq": "A TubeMQ in one process, for tests and demos. Needs the extra `embedded`.",
    "offsets_store": "What the methods of `OffsetsTable` take, return and raise. Import `OffsetsTable`, "
    "`OffsetsTableError`, `GroupKey` and `PartitionProgress` from `pyspark_tubeclient`.",
}
"""The packages that users import, or get objects of, each with a word on it."""

_HEAD = """\
# API

Generated from docstrings by `make docs`. These are the public names; all other modules may change. Each name's
docstring has the whole: `help(OffsetsTable)` shows it. On the site each name leads to a page with signatures.

"""


def names_of(package: str) -> list[str]:
    """The public names of a package that have a docstring of their own."""
    module = importlib.import_module(package)
    return [name for name in module.__all__ if not name.startswith("__") and _is_documented(getattr(module, name))]


def api_page() -> str:
    """All public names by package."""
    return _HEAD + "\n\n".join(f"## {package}\n\n{about}\n\n{_table(package)}" for package, about in API.items()) + "\n"


def _table(package: str) -> str:
    module = importlib.import_module(package)
    rows = [f"| `{package}.{name}` | {_first_sentence(getattr(module, name))} |" for name in names_of(package)]
    return "| name | |\n|---|---|\n" + "\n".join(rows)


def _is_documented(value: object) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value)


def _first_sentence(value: object) -> str:
    paragraph = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
    sentence, end, _ = paragraph.partition(". ")
    return (sentence + end.strip()).replace("|", r"\|").replace("<", "&lt;").replace("*", r"\*")
