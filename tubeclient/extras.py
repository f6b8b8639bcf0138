"""Packages that only some uses need. If one is missing, the error says which `pip install` brings it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingPackage(ModuleNotFoundError):
    """A package is not installed; the message says which one and what to do."""

    condition = "PACKAGE_MISSING"

    @classmethod
    def of(cls, error: ModuleNotFoundError, extra: str) -> MissingPackage:
        """The error for a package that `extra` brings."""
        return cls(
            f"[{cls.condition}] the package {error.name} is missing; install it with pip install "
            f"'pyspark-tubeclient[{extra}]'",
            name=error.name,
        )


@contextmanager
def brought_by(extra: str) -> Iterator[None]:
    """Wraps imports of packages of an extra: the MissingPackage names the extra."""
    try:
        yield
    except MissingPackage:
        raise
    except ModuleNotFoundError as error:
        raise MissingPackage.of(error, extra) from error
