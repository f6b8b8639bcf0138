"""Packages that only some uses need. If one is missing, the error names the extra that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["brought_by"]


@contextmanager
def brought_by(extra: str) -> Iterator[None]:
    """Wraps imports of packages of an extra: the ModuleNotFoundError names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the package {error.name} is missing: install pyspark-tubeclient with its extra `{extra}`, "
            f"pip install '.[{extra}]' in a clone of it",
            name=error.name,
        ) from error
