"""Where tables are, their paths and URIs, how long their stores may take, and how SQL names things. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Final

from tubeclient.errors import ConfigurationError
from tubeclient.passwords import is_utf8

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_IN_BACKQUOTES: Final = re.compile("`[^`]*`")

HADOOPS_S3: Final = ("s3a", "s3n")
"""URI schemes of Hadoop for what delta-rs names s3."""

_LIMITS: Final = {"connect_timeout": "3s", "timeout": "12s", "max_retries": "3", "retry_timeout": "4s"}
"""Names and values of object_store. With these a store that does not answer is known after 12 s, and one that cannot be
connected to after 6 s; what fails at once is tried again."""


def limited(uri: str, storage_options: Mapping[str, str]) -> dict[str, str]:
    """The storage options of somebody who waits at a terminal or a page; those that are given stay."""
    check_folders({"the path of a table": uri})
    if not is_utf8(uri):
        raise ConfigurationError(f"the path {uri!r} is not UTF-8, which tables require; rename its folder")
    if "://" not in uri or uri.lower().startswith("file:"):
        return dict(storage_options)
    given = {name.lower() for name in storage_options}
    return {**{name: value for name, value in _LIMITS.items() if name not in given}, **storage_options}


def is_name(identifier: str) -> bool:
    """Whether it is a table's name in a catalog, as catalog.schema.table: a path or URI has a slash, which a name has
    only in backquotes."""
    return "/" not in _IN_BACKQUOTES.sub("", identifier)


def table_in_sql(identifier: str) -> str:
    """A Delta table, by path or by name, as SQL names it."""
    return identifier if is_name(identifier) else f"delta.{quoted(identifier)}"


def schema_in_sql(identifier: str) -> str | None:
    """Of a table's name the part before the last dot; None of a path, or if it names the table alone."""
    found = re.fullmatch(r"(.+)\.(?:`(?:[^`]|``)*`|[^.`]+)", identifier)
    return found[1] if found is not None and is_name(identifier) else None


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return f"`{name.replace('`', '``')}`"


def text_in_sql(value: str) -> str:
    """A text as a literal of Spark's SQL, whose older versions do not take a doubled quote for one."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def type_in_sql(kind: DataType) -> str:
    """A type, as DDL has it, whatever the names of its fields are."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{quoted(field.name)}: {type_in_sql(field.dataType)}' for field in kind)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{type_in_sql(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{type_in_sql(kind.keyType)}, {type_in_sql(kind.valueType)}>"
    return kind.simpleString()


def table_of_deletes(target: str) -> str:
    """Where the deleted keys of a target are: beside it."""
    if not is_name(target):
        return f"{target.rstrip('/')}_deletes"
    return f"{target[:-1]}_deletes`" if target.endswith("`") else f"{target}_deletes"


def check_folders(identifiers: Mapping[str, str | None], names: Collection[str] = ()) -> dict[str, str]:
    """The given identifiers, without blanks around them.

    Each VACUUM of a table deletes what lies in its folder and is not its own.

    Raises:
        ConfigurationError: The error begins with the setting's name. An identifier is blank, as an unset variable is.
            It may be meant as a table's name, and is not one of `names`, which are tables by path or name. Or one is
            within another, as far as their texts and this machine's links tell.
    """
    from spark_source.options.parsers import folder, table

    given = {name: identifier for name, identifier in identifiers.items() if identifier is not None}
    for name, identifier in given.items():
        try:
            given[name] = (table if name in names else folder)(identifier)
        except ValueError as error:
            raise ConfigurationError(f"{name} {error}") from None
    for (name, identifier), (other, another) in combinations(given.items(), 2):
        first, second = _plain(identifier), _plain(another)
        if first.startswith(second) or second.startswith(first):
            raise ConfigurationError(
                f"{name} and {other} are the same folder, or one is inside the other. A table's upkeep deletes files "
                "that are not its own, so each table needs its own folder"
            )
    return given


def _plain(identifier: str) -> str:
    if is_name(identifier):
        return f"{identifier.lower().replace('`', '')} "
    if identifier.lower().startswith("file:"):
        identifier = "/" + identifier[len("file:") :].lstrip("/")
    scheme, mark, rest = identifier.partition("://")
    scheme = "s3" if scheme.lower() in HADOOPS_S3 else scheme.lower()
    whole = f"{scheme}{mark}{rest}" if mark else os.path.realpath(identifier)
    return f"{whole.rstrip('/')}/"
