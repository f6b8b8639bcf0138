"""Settings in a TOML file: tables of settings, of options and of secrets.

Errors name the file and the entry, never the value of an option.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from tubeclient.arguments import nearest
from tubeclient.errors import ConfigurationError
from tubeclient.passwords import looks_like_variable

_WORDINGS: Final = {str: "a text in quotes", int: "a whole number", bool: "true or false"}


def missing_settings(names: Collection[str], values: Mapping[str, object]) -> None:
    """ConfigurationError for those of the fields `names` that have no value."""
    missing = ", ".join(dashed(name) for name in names if name not in values)
    if missing:
        raise ConfigurationError(f"these settings are missing: {missing}")


def check_own(options: Mapping[str, str], own: Mapping[str, str]) -> None:
    """ConfigurationError for an option of the source or the sink that has a setting of its own. `own` maps such
    options, in lower case, to their settings."""
    for name in options:
        if (setting := own.get(name.lower())) is not None:
            raise ConfigurationError(f"option {name} has its own setting, {setting}; set it there")


class SettingsFile:
    """A file that may have these tables. ConfigurationError if it cannot be read, is not TOML, or has others.

    Without a path `document` are the tables: arguments, which errors name alone.
    """

    def __init__(self, path: Path | None, tables: Sequence[str], document: Mapping[str, Any] | None = None) -> None:
        self._of_file = "" if path is None else f"{path}: "
        self._tables = tables
        self._document = document or {} if path is None else _toml(path)
        for name in self._document:
            if name not in tables:
                raise ConfigurationError(f"{path}: [{name}] is unknown; {nearest(name, tables)}")

    def settings(self, table: str, kinds: Mapping[str, type]) -> dict[str, Any]:
        """The settings that are given, by field. `kinds` is of `kinds_of`; in the file names have dashes."""
        known = {dashed(name): name for name in kinds}
        values = {}
        for name, value in self._table(table).items():
            if name not in known:
                raise ConfigurationError(f"{self._named(table, name)} is unknown; {self._place(name, list(known))}")
            values[known[name]] = self._checked(table, name, value, kinds[known[name]])
        return values

    def options(self, table: str) -> dict[str, str]:
        """Options as Spark's .option() takes them. {env = "NAME"} is the value of that environment variable."""
        found = {}
        for name, value in self._table(table).items():
            if isinstance(value, list) or (isinstance(value, Mapping) and not _names_variable(value)):
                wanted = 'a text in quotes, a number, true or false, or {env = "NAME"}'
                dotted = f'; put a name with a dot in quotes, as in "{name}.NAME"' if isinstance(value, dict) else ""
                self._refuse(table, name, wanted + dotted)
            found[name] = self._option(name, value)
        return found

    def secrets(self, table: str) -> dict[str, str]:
        """Texts, or {env = "NAME"}."""
        found = {}
        for name, value in self._table(table).items():
            if not isinstance(value, str) and not _names_variable(value):
                raise ConfigurationError(f'{self._named(table, name)} must be a text, or {{env = "NAME"}}')
            found[name] = self._option(name, value)
        return found

    def _table(self, name: str) -> Mapping[str, Any]:
        table = self._document.get(name, {})
        if not isinstance(table, Mapping):
            raise ConfigurationError(f"{self._of_file}{name} is not a table; write [{name}] and its entries below")
        return table

    def _place(self, name: str, known: Sequence[str]) -> str:
        """What to write instead of `name`: a setting, or a table of its own for what the command line has as `--option`
        or `--format-option`."""
        if not self._of_file:
            return nearest(name, known)
        place = "source" if name in ("option", "options") else f"{name.removesuffix('s')}s"
        if place in self._tables:
            return f"write each NAME = VALUE below [{place}]"
        source = "; options of the source are below [source]" if "source" in self._tables else ""
        return nearest(name, known) + source

    def _checked(self, table: str, name: str, value: object, kind: type) -> object:
        if kind is tuple:
            if isinstance(value, list) and all(isinstance(item, str) for item in value):
                return tuple(value)
            self._refuse(table, name, 'a list of names, such as ["clicks", "views"]')
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self._refuse(table, name, _WORDINGS[kind])
        return value

    def _named(self, table: str, name: str) -> str:
        return f"{self._of_file}{name} in [{table}]" if self._of_file else name

    def _refuse(self, table: str, name: str, wanted: str) -> NoReturn:
        raise ConfigurationError(f"{self._named(table, name)} must be {wanted}")

    def _option(self, name: str, value: object) -> str:
        if _names_variable(value):
            variable: str = value["env"]  # type: ignore[index]
            if variable not in os.environ:
                shown = f" {variable}" if looks_like_variable(variable) else ""  # it may be a secret by mistake
                raise ConfigurationError(
                    f"{self._of_file}{name} names the environment variable{shown}, which is not set"
                )
            return os.environ[variable]
        return str(value).lower() if isinstance(value, bool) else str(value)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(f"the settings file {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a number or a nesting without an end
        # The error gives line and column. The line itself may hold a secret.
        raise ConfigurationError(f"the settings file {path} is not TOML: {error}") from None


def _names_variable(value: object) -> bool:
    return isinstance(value, Mapping) and set(value) == {"env"} and isinstance(value["env"], str)


def dashed(name: str) -> str:
    """A field's name as a file and errors have it."""
    return name.replace("_", "-")
