"""What a failed job tells its user: the cause in one line, and what to do where this job knows more than the source."""

from __future__ import annotations

import os
import re

from spark_source.typed.record_format import BAD_RECORD
from tubeclient.conditions import CONDITIONS
from tubeclient.printable import without_passwords
from tubeclient_ingest.checks import BEGIN_ANEW

__all__ = ["short_cause", "with_advice"]


def with_advice(cause: str) -> str:
    """`cause`, and what it means for this job, where the source cannot say: it does not know the target."""
    if cause.startswith(BAD_RECORD):
        return f"[BAD_RECORD] {cause}. {_CORRECT_THE_FORMAT}"
    return f"{cause}. {BEGIN_ANEW}" if cause.startswith(_DATA_LOSS) else cause


def short_cause(text: str) -> str:
    """The cause in a text with Spark's message and perhaps tracebacks.

    It is a named error of this project, otherwise the last Python error, otherwise the last of Spark's or Delta's own
    first lines, otherwise Java's first line with the innermost of its causes, or the text's first line.
    """
    if (raised := _RAISED.search(text)) is not None:
        return raised[1]
    if named := [cause for cause, name in _NAMED.findall(text) if name in CONDITIONS]:
        return without_passwords(named[-1])
    if _NO_SOURCE in text:
        return _source_not_found()
    for package in _MISSING.findall(text):
        return _missing_package(package)
    if (program := _NO_PROGRAM.search(text)) is not None:
        return f"[PYTHON_NOT_FOUND] there is no Python {program[1]} on {_place(text)}. {_SET_PYTHON}"
    if _OTHER_PYTHON in text:
        versions = _PYTHONS.search(text)
        found = f"Python {versions[1]}, and the driver {versions[2]}" if versions else "another Python than the driver"
        return f"[OTHER_PYTHON] executors run {found}. {_SET_PYTHON}"
    causes = (
        _PYTHON_CAUSE.findall(text) or _SPARKS_CAUSE.findall(text) or [*map(_with_root, _JAVA_CAUSE.finditer(text))]
    )
    cause = without_passwords((causes[-1] if causes else text.strip().split("\n")[0]).strip())
    cause = _SHOWN_VALUE.sub("A value", cause)
    return f"{cause}. {_DEAD_PLANNER}" if cause.endswith(_OF_A_DEAD_PLANNER) else cause


def _with_root(first: re.Match[str]) -> str:
    """Java's first line, which may only say what failed, and the last cause below it, which says why."""
    rest = first.string[first.end() + 1 :]
    roots: list[str] = _CAUSED_BY.findall(rest[: end.start()] if (end := _STACK_ENDS.search(rest)) else rest)
    return f"{first[1]}; caused by {roots[-1]}" if roots and roots[-1] not in first[1] else first[1]


# Follows Py4J's "An error occurred while calling ...".
_JAVA_CAUSE = re.compile(r"^: (\S.+)$", re.MULTILINE)

_CAUSED_BY = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_STACK_ENDS = re.compile(r"^(?![\t ]+at |[\t ]+\.\.\. |[\t ]*Caused by: |[\t ]+Suppressed: )", re.MULTILINE)

# An error of the JVM as the last line of a Python traceback. A parser's has its text below the line.
_SPARKS_CAUSE = re.compile(r"^(?:pyspark\.errors|delta\.exceptions)\.[\w.]+: \n?(\S.*)$", re.MULTILINE)
# Of a text that is too long for its column, or a cast that fails, up to where the value's first line ends; all other
# errors of a row have its values below the first line.
_SHOWN_VALUE = re.compile(r"(?<=\] )(?:The value (?!of )|Value )(?:.*(?= (?:of the type|exceeds) )|.*)")

# The last line of a Python traceback: a Python module's or a built-in class, not a Java class.
_PYTHON_CAUSE = re.compile(
    r"^(?:(?!org\.|java\.|scala\.|io\.|py4j\.|pyspark\.|delta\.)(?:\w+\.)+[A-Z]\w*|[A-Z]\w*(?:Error|Exception)): .+$",
    re.MULTILINE,
)

# A bad record ends its task with Spark's raise_error.
_RAISED = re.compile(rf"\[USER_RAISED_EXCEPTION\] ({BAD_RECORD}.*?)\.? SQLSTATE: P0001", re.DOTALL)
_CORRECT_THE_FORMAT = (
    "Nothing of its round was written. Correct the format or the schema, or give bad-records to keep such records in a"
    " table of their own, and start the job again: it continues where the target ends"
)

_DATA_LOSS = "[DATA_LOSS] "

# An error that left through spark_source.boundary or .sent; Spark may append its own state.
_NAMED = re.compile(r"(?:(?:\w+\.)+\w+|ModuleNotFoundError): (\[([A-Z_]+)\] .+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)

# In a traceback, or in brackets where Python finds no module to start with.
_MISSING = re.compile(r"(?:^|\()(?:\w+\.)*(?:ModuleNotFoundError|ImportError): .*?No module named '(\w+)", re.MULTILINE)
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]*python[^"]*)"')
_OF_EXECUTOR = re.compile(r"\((\S+) executor (?!driver)\S+\)")
_OTHER_PYTHON = "PYTHON_VERSION_MISMATCH"
_PYTHONS = re.compile(r"different version[^\d]*([\d.]+\d)\D+?([\d.]+\d)")
_SET_PYTHON = (
    "Set PYSPARK_PYTHON to a Python with pyspark-tubeclient, of the driver's version, at the same path on the driver"
    " and on all executors"
)


def _missing_package(name: str) -> str:
    return f"[PACKAGE_MISSING] the Python of an executor lacks the package {name}. {_SET_PYTHON}"


def _place(text: str) -> str:
    """Where Spark says that a task ran."""
    found = _OF_EXECUTOR.search(text)
    return "this machine" if found is None else f"executor {found[1]}"


_NO_SOURCE = "Failed to find the data source: tubeclient"


def _source_not_found() -> str:
    names = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
    python = next((f"{os.environ[name]} ({name})" for name in names if name in os.environ), "python3")
    first = "Unset PYSPARK_DRIVER_PYTHON, which comes first. " if "PYSPARK_DRIVER_PYTHON" in os.environ else ""
    return (
        f"[PACKAGE_MISSING] Spark looks for the source with {python}, which lacks pyspark-tubeclient. "
        f"{first}{_SET_PYTHON}"
    )


# What Spark says after a process has died: of an EOFException, which has no message, or of a SocketException if the
# process died while Spark asked it something.
_OF_A_DEAD_PLANNER = ("(no cause message)", "Connection reset", "Connection reset by peer", "Broken pipe")
_DEAD_PLANNER = (
    "Usually the source's process beside the driver was killed, for example because memory ran out; the driver's log "
    "then has java.io.EOFException or a SocketException at PythonStreamingSourceRunner. Start the job again: it "
    "continues from its checkpoint"
)
