"""The site builds strictly, loads nothing from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.test_packaging import run_python

ROOT = Path(__file__).resolve().parents[1]
LOADING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}


class Tags(HTMLParser):
    """The tags of a page, each with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


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
