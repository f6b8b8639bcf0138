"""The documents say what is so: generated pages are up to date, links lead somewhere."""

from __future__ import annotations

import ast
import code
import re
from pathlib import Path

import pytest

from offsets_store.schema import COLUMNS
from spark_source.options.source_options import ALL_ATTRIBUTES, RowOptions
from spark_source.read.schema import spark_schema
from spark_source.stream.positions_reader import POSITIONS
from tests.test_packaging import run_python
from tests.tiers import HEAVY, LONG
from tools.generate_docs import PAGES as GENERATED
from tubeclient.conditions import CONDITIONS

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_a_generated_page_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == GENERATED[path](), "run make docs"


def test_the_examples_of_the_clients_page_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "client.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 6
    found = run_python("-c", "\n".join(blocks), timeout=120)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_examples_paste_into_a_prompt(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There a blank line ends a block, and nothing else does."""
    for text in re.findall(r"```python\n([^.].*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
        prompt = Prompt()
        assert [prompt.push(line) for line in [*text.splitlines(), ""]][-1] is False, text
    assert capsys.readouterr().err == ""


class Prompt(code.InteractiveConsole):
    """Takes lines as Python's prompt does, and runs none."""

    def runcode(self, code: object) -> None:
        pass


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_within_the_repository_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (path.parent / target).exists()]
    assert missing == []


def guarantees() -> dict[str, list[tuple[str, str]]]:
    """The tests of each guarantee: their files, below `tests/`, and their names."""
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8").partition("## What cannot be promised")[0]
    line = re.compile(r"^- \[`(?P<name>\w+)`\]\(\.\./tests/(?P<place>[\w/]+\.py)\)", re.MULTILINE)
    return {
        text.partition("\n")[0]: [(found["place"], found["name"]) for found in line.finditer(text)]
        for text in page.split("\n### ")[1:]
    }


def test_each_guarantee_names_tests() -> None:
    for guarantee, tests in guarantees().items():
        assert tests, f"no test holds: {guarantee}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_tests_that_a_page_names_exist(path: Path) -> None:
    for name, place in re.findall(r"\[`(test_\w+)`\]\(([\w./]+\.py)\)", path.read_text(encoding="utf-8")):
        assert re.search(rf"^def {name}\(", (path.parent / place).read_text(encoding="utf-8"), re.MULTILINE), name


TESTED = re.compile(r"(?<!not )\btested\b|\b[Aa] test (?!of\b)|\btests run\b")


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))], ids=lambda path: path.name)
def test_what_a_page_calls_tested_names_a_test(path: Path) -> None:
    """In the same paragraph, item of a list or line of a table."""
    parts = re.split(r"\n\n|\n(?=[-|])", path.read_text(encoding="utf-8"))
    claims = [part for part in parts if TESTED.search(part) and not part.startswith("#")]
    assert [part for part in claims if "](../tests/" not in part] == []


def test_the_merge_tier_has_a_test_of_each_guarantee() -> None:
    for guarantee, tests in guarantees().items():
        assert any(in_merge_tier(place, name) for place, name in tests), guarantee


def in_merge_tier(place: str, name: str) -> bool:
    """Whether `make test` runs this test of this file, perhaps with some of its parameters, from what the file says."""
    text = (ROOT / "tests" / place).read_text(encoding="utf-8")
    module = ast.parse(text)
    [test] = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and node.name == name]
    of_all = [node.value for node in module.body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node)]
    marks = " ".join(map(ast.unparse, [*of_all, *test.decorator_list]))
    is_heavy = re.search(rf"\bdelta_spark\b|\bpytest\.mark\.({'|'.join(HEAVY)})\b", text)
    return "pytest.mark.merge" in marks if is_heavy else "pytest.mark.nightly" not in marks


def test_long_files_exist() -> None:
    assert all((ROOT / "tests" / place).exists() for place in LONG)


def test_whatever_starts_spark_has_its_mark(request: pytest.FixtureRequest) -> None:
    """Or `make test-fast` would start it."""
    users = [item for item in request.session.items if "delta_spark" in getattr(item, "fixturenames", ())]
    assert [item.nodeid for item in users if item.get_closest_marker("spark") is None] == []


def test_the_index_names_each_page() -> None:
    """For readers on a code host, who have no other navigation."""
    named = set(re.findall(r"\]\(([\w.-]+\.md)", (ROOT / "docs" / "index.md").read_text(encoding="utf-8")))
    assert named == {path.name for path in ROOT.glob("docs/*.md")} - {"index.md"}


TRANSLATED = sorted(path for path in PAGES if path.name.endswith(".zh-CN.md"))
CODE = re.compile(r"^```.*?^```$|^    \S.*?$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", TRANSLATED, ids=lambda path: path.name)
def test_translated_page_matches_its_original(path: Path) -> None:
    """Which the tests of the original run."""
    original = path.with_name(path.name.replace(".zh-CN", ""))
    own, other = path.read_text(encoding="utf-8"), original.read_text(encoding="utf-8")
    assert CODE.findall(own) == CODE.findall(other) != []
    heads = [[line.split(" ")[0] for line in text.splitlines() if re.match(r"#+ ", line)] for text in (own, other)]
    assert heads[0] == heads[1]
    assert f"[English]({original.name})" in own
    assert f"[简体中文]({path.name})" in other


OF_SPARK = {"DATA_SOURCE_NOT_FOUND", "PYTHON_VERSION_MISMATCH", "STREAM_FAILED"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_names_of_errors_are_theirs(path: Path) -> None:
    names = set(re.findall(r"`\[([A-Z]+(?:_[A-Z]+)+)\]", path.read_text(encoding="utf-8")))
    assert names <= CONDITIONS.keys() | OF_SPARK


def table_rows(path: Path) -> dict[str, str]:
    """First to second column of a page's tables, for rows that begin with a name in backticks."""
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]*) \|", path.read_text(encoding="utf-8"), re.MULTILINE)
    found: dict[str, str] = {}
    for names, kinds in rows:
        name_list = re.findall(r"`(\w+)`", names)
        kind_list = kinds.split(", ") if kinds.count(",") == len(name_list) - 1 else [kinds] * len(name_list)
        found.update(zip(name_list, kind_list, strict=True))
    return found


EVERYTHING = RowOptions(payload="inlong", bad_messages="keep", columns=ALL_ATTRIBUTES)


def test_the_sources_columns_are_documented() -> None:
    documented = table_rows(ROOT / "docs" / "spark-source.md")
    columns = [*spark_schema(EVERYTHING), *POSITIONS]
    wanted = {field.name: field.dataType.simpleString() for field in columns}
    assert {name: kind.replace(" ", "") for name, kind in documented.items()} == wanted


def test_the_offsets_tables_columns_are_documented() -> None:
    assert set(table_rows(ROOT / "docs" / "offsets-table.md")) == {column.name for column in COLUMNS}
