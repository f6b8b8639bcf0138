"""The site builds strictly, loads nothing from elsewhere, and shows pages as a code host does."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.test_packaging import run_python
from tools.api_page import API, names_of

ROOT = Path(__file__).resolve().parents[1]
HOOK = ROOT / "tools" / "site_hooks.py"
PAGES = sorted((ROOT / "docs").glob("*.md"))
LOADING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
STRUCTURE = {"h1", "h2", "h3", "h4", "li", "ol", "ul", "pre", "table", "th", "td", "img"}


class Tags(HTMLParser):
    """The tags of a page, each with its attributes; of an article only, if there is one."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def structure(self) -> Counter[str]:
        return Counter(tag for tag, _ in self.found if tag in STRUCTURE)


def build(config: Path, target: Path) -> tuple[int, str]:
    """Build the site strictly; returns mkdocs' exit code and what it said. (With --quiet nothing would be refused.)"""
    arguments = ["build", "--strict", "--config-file", str(config), "--site-dir", str(target)]
    done = run_python("-m", "mkdocs", *arguments, timeout=200)
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    code, said = build(ROOT / "mkdocs.yml", target)
    assert code == 0, said
    return target


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    wrong = []
    for path in sorted(site.rglob("*.html")):
        for tag, attributes in Tags(path.read_text(encoding="utf-8")).found:
            value = attributes.get(LOADING.get(tag, ""))
            if value and re.match(r"(\w+:)?//", value) and attributes.get("rel") != "canonical":
                wrong.append(f"{path.name}: {tag} {value}")
    for path in sorted(site.rglob("*.css")):
        for value in re.findall(r"(?:url\(|@import)\s*[\"']?((?:\w+:)?//[^\"')]+)", path.read_text(encoding="utf-8")):
            wrong.append(f"{path.name}: {value}")
    assert wrong == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_has_the_same_parts_as_on_a_code_host(site: Path, path: Path) -> None:
    """Lists, tables and code: what one Markdown takes for a list, the other may take for a sentence."""
    html = (site / path.name).with_suffix(".html").read_text(encoding="utf-8")
    [article] = re.findall(r"<article[^>]*>(.*)</article>", html, re.DOTALL)
    host = MarkdownIt("commonmark").enable("table").render(path.read_text(encoding="utf-8"))
    assert Tags(article).structure() == Tags(host).structure()


@pytest.mark.parametrize("package", API)
def test_each_public_name_has_its_place_on_the_site(site: Path, package: str) -> None:
    html = (site / "api" / f"{package}.html").read_text(encoding="utf-8")
    missing = [name for name in names_of(package) if f'id="{package}.{name}"' not in html]
    assert missing == []


def test_what_leads_nowhere_or_is_left_out_is_refused(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    with (tmp_path / "docs" / "index.md").open("a", encoding="utf-8") as file:
        file.write("\n[a](no-page.md) [b](options.md#no-heading) [c](../no_file.py) ![d](no-picture.svg)\n")
    (tmp_path / "docs" / "left-out.md").write_text("# Left out\n")
    # Paths in the file are relative to it.
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").replace("tools/site_hooks.py", str(HOOK))
    (tmp_path / "mkdocs.yml").write_text(text.replace("paths: [.]", f"paths: [{ROOT}]"))
    code, said = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert code == 1
    for name in ("no-page.md", "#no-heading", "no_file.py", "no-picture.svg", "left-out.md"):
        assert name in said
    assert said.count("WARNING -") == 5, said
