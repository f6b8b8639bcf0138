"""Makes Jupyter notebooks from notebooks in Databricks' source format, which people edit and linters read."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

__all__ = ["cells_of", "notebook_of"]

_FIRST: Final = "# Databricks notebook source\n"
_BREAK: Final = "\n# COMMAND ----------\n"
_MAGIC: Final = "# MAGIC"
_MARKDOWN: Final = "%md\n"


def cells_of(text: str) -> list[tuple[str, str]]:
    """The cells of a Databricks source file, as ("markdown" or "code", text). ValueError for what this does not know: a
    file that does not begin as one, and magic commands other than %md."""
    if not text.startswith(_FIRST):
        raise ValueError(f"not a Databricks source: the first line is not {_FIRST.strip()!r}")
    return [_cell(part.strip("\n")) for part in text.removeprefix(_FIRST).split(_BREAK)]


def notebook_of(text: str) -> str:
    """The same notebook as Jupyter's JSON (format 4.5), without outputs."""
    cells = [_as_json(number, kind, source) for number, (kind, source) in enumerate(cells_of(text))]
    notebook = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _cell(part: str) -> tuple[str, str]:
    lines = part.split("\n")
    magic = [line.startswith(_MAGIC) for line in lines]
    if not any(magic):
        return "code", part
    source = "\n".join(line.removeprefix(_MAGIC).removeprefix(" ") for line in lines)
    if not all(magic) or not source.startswith(_MARKDOWN):
        raise ValueError(f"a cell is neither Python nor %md as a whole; it begins with {lines[0]!r}")
    return "markdown", source.removeprefix(_MARKDOWN)


def _as_json(number: int, kind: str, source: str) -> dict[str, Any]:
    # Equal for equal contents, so that a change shows where it is.
    name = hashlib.sha256(f"{number} {source}".encode()).hexdigest()[:8]
    cell: dict[str, Any] = {"cell_type": kind, "id": name, "metadata": {}, "source": source.splitlines(keepends=True)}
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}
