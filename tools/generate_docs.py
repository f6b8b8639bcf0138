"""Generates pages of docs/ from the code: the source's options, and the client's errors by code."""

from __future__ import annotations

import inspect
from pathlib import Path

from spark_source.options.table import markdown
from tubeclient.conditions import CONDITIONS
from tubeclient.errors import STATUS_CLASSES

DOCS = Path(__file__).resolve().parent.parent / "docs"


def options_page() -> str:
    """The text of docs/options.md."""
    return (
        '# Options of `format("tubeclient")`\n\n'
        "Generated from `spark_source/options/` by `make docs`. Names may be written in any case. An unknown "
        "option is an error that names the nearest known one, and so is one of reads in a write, or of writes in a "
        "read. A streaming write also has Spark's own `checkpointLocation` and `queryName`.\n\n" + markdown()
    )


def errors_page() -> str:
    """The text of docs/errors.md."""
    tree, _, local = (inspect.getdoc(inspect.getmodule(next(iter(STATUS_CLASSES.values())))) or "").partition(
        "`retriable` says"
    )
    rows = [
        f"| {code} | `{kind.__name__}` | {'yes' if kind.retriable else 'no'} | {_meaning(kind)} |"
        for code, kind in sorted(STATUS_CLASSES.items())
    ]
    names = [f"| `{name}` | {meaning} | {action} |" for name, (meaning, action) in sorted(CONDITIONS.items())]
    return (
        "# Errors\n\n"
        "Generated from `tubeclient/conditions.py` and `tubeclient/errors.py` by `make docs`.\n\n"
        "## Names\n\n"
        "Spark and the command line show an error with its name: `[TOPIC_NOT_FOUND] ...`. In Python the name is the "
        "error's attribute `condition`. Names are stable: they are not renamed, and never get another meaning. The "
        "text after the name says what is wrong, where, and what to do.\n\n"
        "| name | what is wrong | what to do |\n|---|---|---|\n" + "\n".join(names) + "\n\n"
        "Errors that come through Spark are one line. `TUBECLIENT_LOG_LEVEL=DEBUG` in the driver's environment makes "
        "the planner log their tracebacks.\n\n"
        "## Classes\n\n"
        "`retriable` says whether the same call may succeed later without anybody changing anything.\n\n"
        f"```\n{inspect.cleandoc(tree.partition(chr(10))[2])}\n```\n\n"
        "## Codes that servers answer\n\n| code | class | retriable | |\n|---|---|---|---|\n"
        + "\n".join(rows)
        + "\n\nAny other code is a `StatusError`, the base class of those above. It has `code`, `server_text`, "
        "`context`, and `address`, `partition` and `topic` where they are known.\n\n"
        "## Codes that only Apache's clients create\n\n"
        f"```\n{inspect.cleandoc(local[local.index('402') - 4 :])}\n```\n"
    )


def _meaning(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ").partition(": ")[2]


PAGES = {DOCS / "options.md": options_page, DOCS / "errors.md": errors_page}


def main() -> None:
    for path, text in PAGES.items():
        path.write_text(text(), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
