"""Generates from the code: pages of docs/ (options, errors, commands, public names) and tests/public_names.txt."""

from __future__ import annotations

import inspect
from pathlib import Path

from spark_source.options.given import markdown
from tools.api_page import api_page, signatures
from tools.commands_page import commands_page
from tubeclient.conditions import CONDITIONS
from tubeclient.errors import STATUS_CLASSES, StatusError

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def options_page() -> str:
    """The text of docs/options.md."""
    return (
        '# Options of `format("tubeclient")`\n\n'
        "Generated from `spark_source/options/` by `make docs`. Case does not matter in names. An unknown "
        "option is an error that names the nearest known one, and so is one of reads in a write, or of writes in a "
        "read. A streaming write also has Spark's own `checkpointLocation` and `queryName`.\n\n" + markdown()
    )


def errors_page() -> str:
    """The text of docs/errors.md."""
    tree, _, local = (inspect.getdoc(inspect.getmodule(next(iter(STATUS_CLASSES.values())))) or "").partition(
        "`retriable` says"
    )
    codes: dict[type[StatusError], list[int]] = {}
    for code, kind in sorted(STATUS_CLASSES.items()):
        codes.setdefault(kind, []).append(code)
    rows = [
        f"| {', '.join(map(str, numbers))} | `{kind.__name__}` | {'yes' if kind.retriable else 'no'} | "
        f"{_meaning(kind)} |"
        for kind, numbers in codes.items()
    ]
    names = [f"| `{name}` | {' | '.join(map(str, texts))} |" for name, texts in sorted(CONDITIONS.items())]
    return (
        "# Errors\n\n"
        "Generated from `tubeclient/conditions.py` and `tubeclient/errors.py` by `make docs`.\n\n"
        "## Names\n\n"
        "Spark and the command line show an error with its name: `[TOPIC_NOT_FOUND] ...`. In Python the name is the "
        "error's attribute `condition`. Names are stable: they are not renamed, and never get another meaning. The "
        "text after the name says what is wrong, where, and what to do.\n\n"
        "| name | what is wrong | what to do | exit code |\n|---|---|---|---|\n" + "\n".join(names) + "\n\n"
        "Errors that come through Spark are one line. `TUBECLIENT_LOG_LEVEL=DEBUG` in the driver's environment makes "
        "the planner log their tracebacks.\n\n" + _BEFORE + "## Classes\n\n"
        "`retriable` says whether the same call may succeed later without anybody changing anything.\n\n"
        f"```\n{inspect.cleandoc(tree.partition(chr(10))[2])}\n```\n\n"
        "## Codes that servers answer\n\n| codes | class | retriable | |\n|---|---|---|---|\n"
        + "\n".join(rows)
        + "\n\nAny other code is a `StatusError`, the base class of those above. It has `code`, `server_text`, "
        "`context`, and `address`, `partition` and `topic` where they are known.\n\n"
        "## Codes that only Apache's clients create\n\n"
        f"```\n{inspect.cleandoc(local[local.index('402') - 4 :])}\n```\n"
    )


def _meaning(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ").partition(": ")[2]


_BEFORE = """\
## Before our code runs

Some mistakes show before any code of this project runs. Then Spark's, Python's or pip's own words come first:

| what is shown | what is wrong | what to do |
|---|---|---|
| `[DATA_SOURCE_NOT_FOUND] Failed to find the data source: tubeclient` | Spark's Python has no pyspark-tubeclient. | \
[Where it runs](running.md#if-spark-says-data_source_not_found). |
| the same, with pyspark 3.5 | Spark 3 has no Python data sources. | Use Spark 4.2. |
| `No module named 'pyspark'`, `'pyarrow'` or `'pandas'` in a Python worker | The executors' Python lacks what Spark \
itself needs. | Install `pyspark-tubeclient[spark]` there. |
| `[PYTHON_VERSION_MISMATCH]` | Executors run another Python version than the driver. | \
Set `PYSPARK_PYTHON` to a Python of the driver's version, at the same path on all machines. |
| `ClassNotFoundException: io.delta...`, `[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta`, \
`'JavaPackage' object is not callable` | Spark runs without Delta's jars. `tubeclient ingest` says `JARS_NOT_FOUND` \
instead. | `spark.jars.packages`, as in `conf/spark-defaults.conf`. |
| `Cannot run program "/venv/bin/python"` | A machine has no Python at this path. | \
Set `PYSPARK_PYTHON` to a Python that is at the same path on all machines. |
| `pyspark-tubeclient needs Python 3.11 or newer`, below pip's `subprocess-exited-with-error`; `requires a different \
Python: 3.10.12 not in '>=3.11'`; or pip finds no version that fits | The Python is too old. | Use Python 3.11 or \
newer. |
| `command not found: tubeclient` | The venv is not activated, or the package is not installed. | Activate it, or run \
`/path/to/venv/bin/tubeclient`. |

"""


PAGES = {
    DOCS / "options.md": options_page,
    DOCS / "errors.md": errors_page,
    DOCS / "commands.md": commands_page,
    DOCS / "api.md": api_page,
    ROOT / "tests" / "public_names.txt": signatures,
}


def main() -> None:
    for path, text in PAGES.items():
        path.write_text(text(), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
