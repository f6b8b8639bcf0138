"""The public names: docs/api.md with the first sentence of each docstring, tests/public_names.txt with signatures."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

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


def signatures() -> str:
    """What users may rely on, a line for each name and each method: what is called how, and what it returns."""
    return "".join(f"\n# {package}\n" + "\n".join(_signatures(package)) + "\n" for package in API).lstrip()


def _signatures(package: str) -> Iterator[str]:
    module = importlib.import_module(package)
    for name in sorted(name for name in module.__all__ if not name.startswith("__")):
        value = getattr(module, name)
        if not inspect.isclass(value):
            yield name + (_signature(value) if inspect.isfunction(value) else "")
            continue
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        own = "__init__" in vars(value) or hasattr(value, "_fields")
        yield name + (_signature(value) if own else "") + (f", a {bases}" if bases else "")
        fields = {*getattr(value, "_fields", ()), *getattr(value, "__dataclass_fields__", ())}
        for member in sorted(key for key in vars(value) if not key.startswith("_") and key not in fields):
            yield f"  .{member}{_member(vars(value)[member])}"


def _member(value: Any) -> str:
    if isinstance(value, property):
        return f" -> {value.fget.__annotations__['return']}"
    if isinstance(value, enum.Enum):
        return ""
    called = getattr(value, "__func__", value)
    return _signature(called) if inspect.isfunction(called) else ""


def _signature(value: Callable[..., object]) -> str:
    """Without quotes of types, and without addresses."""
    text = re.sub(r"ForwardRef\(('.*?')\)", r"\1", str(inspect.signature(value)))
    text = re.sub(r"<function (\S+) at \w+>", r"\1", text)
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
