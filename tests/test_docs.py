"""The documents say what is so: generated pages are up to date, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from offsets_store.schema import COLUMNS
from spark_source.schema import spark_schema
from tools.generate_docs import PAGE, page

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def test_the_page_of_options_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make docs"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_within_the_repository_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (path.parent / target).exists()]
    assert missing == []


def table_rows(path: Path) -> dict[str, str]:
    """First to second column of a page's tables, for rows that begin with a name in backticks."""
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]*) \|", path.read_text(encoding="utf-8"), re.MULTILINE)
    found: dict[str, str] = {}
    for names, kinds in rows:
        name_list = re.findall(r"`(\w+)`", names)
        kind_list = kinds.split(", ") if kinds.count(",") == len(name_list) - 1 else [kinds] * len(name_list)
        found.update(zip(name_list, kind_list, strict=True))
    return found


def test_the_sources_columns_are_documented() -> None:
    documented = table_rows(ROOT / "docs" / "spark-source.md")
    wanted = {field.name: field.dataType.simpleString() for field in spark_schema(True)}
    assert {name: kind.replace(" ", "") for name, kind in documented.items()} == wanted


def test_the_offsets_tables_columns_are_documented() -> None:
    assert set(table_rows(ROOT / "docs" / "offsets-table.md")) == {column.name for column in COLUMNS}
