"""The page of licences: what users' extras bring, and what development does, by what the packages say of themselves.

`python -m tools.licences_page` writes docs/licences.md, for the packages of the lock file. All must be installed.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from tools.dependencies import locked, needed_by

__all__ = ["licence_of", "licences_page"]

_PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "licences.md"
_FOR_USERS: Final = "pyspark-tubeclient[quickstart,speed,managed]"
_OWN: Final = "pyspark-tubeclient"
_CLASSIFIER: Final = "License :: "
_LONGEST: Final = 60
"""Characters. Some packages have the whole text of a licence where its name should be."""


def licences_page() -> str:
    """The text of docs/licences.md, of the packages in the lock file that are installed here.

    Raises PackageNotFoundError if one is not installed.
    """
    all_of_them = set(locked())
    for_users = needed_by([_FOR_USERS]) - {_OWN}
    return (
        "# Licences\n\n"
        "Generated from `requirements-dev.lock` and from what the packages say of themselves, by `make lock`. This\n"
        "project is under Apache-2.0; of others' work its wheel contains uPlot (MIT), which draws the dashboard.\n\n"
        "## What users install\n\n"
        "The client alone brings protobuf. These come with the extras `quickstart`, `speed` and `managed`. pyspark\n"
        "brings Spark's jars, and a first session Delta's: both are under Apache-2.0, and Spark's wheel says what is\n"
        "in it.\n\n" + _table(for_users & all_of_them) + "\n## For development, in addition\n\n"
        "With the extras `demo`, `bench`, `docs` and `dev`; no user gets them.\n\n" + _table(all_of_them - for_users)
    )


# Versions of a package may differ only in how they say it.
_SPDX: Final = {
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


def licence_of(name: str) -> str:
    """An SPDX expression where the package gives one, otherwise the names that it gives; "not said" if none."""
    told = importlib.metadata.metadata(name)
    if "License-Expression" in told:
        return told["License-Expression"]
    told_so = [line for line in told.get_all("Classifier") or [] if line.startswith(_CLASSIFIER)]
    names = [text for text in (line.rpartition(" :: ")[2] for line in told_so) if text != "OSI Approved"]
    if names:
        return ", ".join(sorted({_SPDX.get(name, name) for name in names}))
    first = told["License"].strip().partition("\n")[0] if "License" in told else ""
    return first[:_LONGEST] or "not said"


def _table(names: Iterable[str]) -> str:
    rows = [f"| {name} | {licence_of(name)} |\n" for name in sorted(map(canonicalize_name, names))]
    return "| package | licence |\n|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    _PAGE.write_text(licences_page(), encoding="utf-8")
