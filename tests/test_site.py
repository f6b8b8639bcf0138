"""The site builds strictly, loads nothing from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.test_packaging import run_python

pytestmark = pytest.mark.nightly

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


def test_the_site_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    # With --quiet nothing would be refused.
    done = run_python("-m", "mkdocs", "build", "--strict", "--site-dir", str(site), timeout=200)
    assert done.returncode == 0, done.stderr
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
