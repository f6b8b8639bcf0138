"""Errors of Spark and Delta: which of them have a remedy, and what a user is told of the others."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from typing import Final

from spark_source.typed.columns import BAD_RECORD
from tubeclient.conditions import CONDITIONS
from tubeclient.errors import DataLoss, TubeError
from tubeclient.printable import without_passwords

_log = logging.getLogger(__name__)

_RESET_OFFSETS: Final = (
    "If its brokers lost their newest messages, continue with --option failOnDataLoss=false. If a topic was deleted "
    "and recreated, reset its offsets once (--reset-offsets TOPIC, or Ingest.reset_offsets): to starting-offsets, or "
    "to earliest, wherever the rows end"
)
"""Advice for when the brokers no longer have the offsets at which the target's rows end."""

# Delta's error classes for a conflicting concurrent commit.
_CONFLICTS: Final = ("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")
_MISSING: Final = {
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_TABLE_ONLY_OPERATION",
    "PATH_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
}


class IngestFailed(TubeError):
    """A run ended because Spark failed, a record is bad, or the cluster or a table cannot be used.

    Args:
        cause: What went wrong, in one line.
        condition: The name of the error, if it has one.
    """

    def __init__(self, cause: str, *, condition: str | None = None) -> None:
        super().__init__(cause)
        self.condition = condition  # type: ignore[assignment]


class LogError(TubeError):
    """delta-rs could not read or write a table."""

    condition = "TARGET_NOT_WRITABLE"

    def __init__(self, text: str, *, is_conflict: bool = False) -> None:
        super().__init__(text)
        self.is_conflict = is_conflict


def spark_errors() -> tuple[type[Exception], ...]:
    """The errors of Spark, of the way to it, and of delta-rs."""
    from pyspark.errors import PySparkException

    found: list[type[Exception]] = [PySparkException, OSError, LogError]
    # pyspark-client has no Py4J, and a classic installation perhaps no gRPC.
    with contextlib.suppress(ModuleNotFoundError):
        from py4j.protocol import Py4JError

        found.append(Py4JError)
    with contextlib.suppress(ModuleNotFoundError):
        from grpc import RpcError  # type: ignore[import-untyped]

        found.append(RpcError)
    return tuple(found)


def is_missing(error: Exception) -> bool:
    """Whether Spark failed because the table is not there."""
    return _condition(error) in _MISSING


def is_conflict(error: Exception) -> bool:
    """Whether a commit failed because another writer's came first."""
    if isinstance(error, LogError):
        return error.is_conflict
    return any(mark in (_condition(error) or str(error)) for mark in _CONFLICTS)


def is_bad_record(error: Exception) -> bool:
    """Whether a job of Spark ended at a bad record."""
    return _RAISED.search(str(error)) is not None


def bad_record(example: str) -> IngestFailed:
    """The error of a job that keeps no bad records and met one, at this place and for this reason."""
    return _advised(f"{BAD_RECORD}{example}", condition="BAD_RECORD")


def _condition(error: Exception) -> str | None:
    from pyspark.errors import PySparkException

    return error.getCondition() if isinstance(error, PySparkException) else None


@contextlib.contextmanager
def explained(what: str = "") -> Iterator[None]:
    """Errors of Spark within it become one line, behind `what`; the source's losses get this job's advice."""
    try:
        yield
    except DataLoss as error:
        raise _advised(str(error), condition=error.condition) from None
    except spark_errors() as error:
        _log.debug("what Spark said", exc_info=True)
        found = failure_of(error)
        raise IngestFailed(f"{what}{found}", condition=found.condition) from None


def failure_of(error: Exception) -> IngestFailed:
    """The error for one of `spark_errors`, in one line."""
    if isinstance(error, LogError):
        return IngestFailed(str(error), condition=error.condition)
    return failure(str(error))


def failure(text: str) -> IngestFailed:
    """The error for a text of Spark's, which may have Java's and Python's tracebacks: it says the cause in one line.

    The cause is a bad record, a named error of this project, otherwise the last Python error, otherwise Java's first
    line with the innermost of its causes, or the text's first line.
    """
    if (raised := _RAISED.search(text)) is not None:
        return _advised(raised[1], condition="BAD_RECORD")
    for name, cause in reversed(_NAMED.findall(text)):
        if name in CONDITIONS:
            return _advised(without_passwords(cause), condition=name)
    if (missing := _NO_MODULE.search(text)) is not None:
        return IngestFailed(
            f"the Python of an executor lacks the package {missing[1]}. Set PYSPARK_PYTHON to a Python with"
            " pyspark-tubeclient, of the driver's version, at the same path on the driver and on all executors",
            condition="PACKAGE_MISSING",
        )
    if causes := _PYTHON_CAUSE.findall(text):
        cause = causes[-1]
    else:
        first = _JAVA_CAUSE.search(text)
        cause = first[1] if first is not None else text.strip().split("\n")[0].strip()
        roots = _CAUSED_BY.findall(text) if first is not None else []  # below Spark's own texts there may be values
        if roots and roots[-1] not in cause:
            cause += f"; caused by {roots[-1]}"
    cause = _SHOWN_VALUE.sub("A value", without_passwords(cause))
    named = _CONDITION.fullmatch(cause)
    return IngestFailed(cause) if named is None else _advised(named[2], condition=named[1])


def _advised(cause: str, *, condition: str) -> IngestFailed:
    """An error with what it means for this job, where the source cannot say: it does not know the target."""
    advice = _ADVICE.get(condition)
    return IngestFailed(cause if advice is None else f"{cause}. {advice}", condition=condition)


# A bad record ends its task with Spark's raise_error.
_RAISED: Final = re.compile(rf"\[USER_RAISED_EXCEPTION\] ({BAD_RECORD}.*?)\.? SQLSTATE: P0001", re.DOTALL)
_CORRECT_THE_FORMAT: Final = (
    "Nothing of its round was written. Correct the format or the schema, or set bad-records to keep such records in "
    "another table, and start the job again: it continues where the target ends"
)

_ADVICE: Final = {
    "BAD_RECORD": _CORRECT_THE_FORMAT,
    "CORRUPT_MESSAGE": "In this job, set bad-records: that table keeps such messages, and the job continues",
    "DATA_LOSS": _RESET_OFFSETS,
    "DELTA_CANNOT_CREATE_LOG_PATH": "Check that its parent folder exists, and that Spark may write to it",
}

# An error that left a task through spark_source.boundary; Spark may append its own state.
_NAMED: Final = re.compile(
    r"(?:(?:\w+\.)+\w+|ModuleNotFoundError): \[([A-Z_]+)\] (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE
)
# In a traceback, or in brackets where Python finds no module to start with.
_NO_MODULE: Final = re.compile(
    r"(?:^|\()(?:\w+\.)*(?:ModuleNotFoundError|ImportError): .*?No module named '(\w+)", re.MULTILINE
)
# The last line of a Python traceback: a Python module's or a built-in class, not a Java class.
_PYTHON_CAUSE: Final = re.compile(
    r"^(?:(?!org\.|java\.|scala\.|io\.|py4j\.|pyspark\.|delta\.)(?:\w+\.)+[A-Z]\w*|[A-Z]\w*(?:Error|Exception)): .+$",
    re.MULTILINE,
)
# Follows Py4J's "An error occurred while calling ...".
_JAVA_CAUSE: Final = re.compile(r"^: (\S.+)$", re.MULTILINE)
_CAUSED_BY: Final = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
# Of a text that is too long for its column, or a cast that fails, up to where the value's first line ends; all other
# errors of a row have its values below the first line.
_SHOWN_VALUE: Final = re.compile(r"(?<=\] )(?:The value (?!of )|Value )(?:.*(?= (?:of the type|exceeds) )|.*)")
# Also behind the name of Java's class.
_CONDITION: Final = re.compile(r"(?:(?:\w+\.)+\w+: )?\[([A-Z_]+)\] (.*)", re.DOTALL)
