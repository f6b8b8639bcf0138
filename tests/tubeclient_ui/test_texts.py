"""The page's languages."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path

import pytest

import tubeclient_ui
from tests.tubeclient_ui.viewer import Viewer

FOLDER = Path(tubeclient_ui.__file__).parent
CHINESE = json.loads((FOLDER / "zh.json").read_text(encoding="utf-8"))


def fields(text: str) -> set[str | None]:
    return {name for _, name, _, _ in string.Formatter().parse(text)} - {None}


def test_each_text_has_its_chinese() -> None:
    """Those of templates, and of problems; with the same names in it."""
    texts = [path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.html")]
    code = [path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py")]
    found = {a or b for text in texts for a, b in re.findall(r"_\((?:'([^']+)'|\"([^\"]+)\")", text)}
    found |= {head for text in texts for heads in re.findall(r'table\("([^"]+)"', text) for head in heads.split("|")}
    found = {text.removeprefix("#") for text in found}
    found |= {filled for text in texts for filled in re.findall(r'line\(.*"([^"]+)"\)', text)}
    found |= {problem for text in code for problem in re.findall(r'Problem\(\s*"([^"]+)"', text)}
    assert len(found) > 60
    assert found <= CHINESE.keys()
    for english, chinese in CHINESE.items():
        assert fields(english) == fields(chinese), english


@pytest.mark.parametrize(
    ("header", "lang", "word"),
    [
        ("en-US,en", "", "Masters"),
        ("zh-CN,zh;q=0.9,en", "", "地址"),
        ("en", "zh", "地址"),
        ("zh", "en", "Masters"),
        ("fr", "", "Masters"),
    ],
)
def test_the_language_is_the_browsers(viewer: Viewer, header: str, lang: str, word: str) -> None:
    """Unless ?lang= says another, which the browser then keeps."""
    viewer.client.headers["Accept-Language"] = header
    if lang:
        assert 'lang="zh' in viewer.client.get(f"/cluster?lang={lang}").text
    assert word in viewer.part("/cluster")
