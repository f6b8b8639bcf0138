"""The page's languages. The templates have the English, and `zh.json` the Chinese for it. Errors are English."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request

__all__ = ["COOKIE", "LANGUAGES", "Translator", "language_of"]

LANGUAGES: Final = {"en": "English", "zh": "中文"}
COOKIE: Final = "tubeclient_ui_lang"


@cache
def _chinese() -> dict[str, str]:
    found: dict[str, str] = json.loads((Path(__file__).parent / "zh.json").read_text(encoding="utf-8"))
    return found


class Translator:
    """Gives the text of a language for an English one, with names filled in."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._texts = _chinese() if language == "zh" else {}

    def __call__(self, text: str, **names: object) -> str:
        return self._texts.get(text, text).format(**names)


def language_of(request: Request) -> str:
    """By ?lang=, which a cookie keeps, else by what the browser prefers."""
    for wanted in (request.query_params.get("lang"), request.cookies.get(COOKIE)):
        if wanted in LANGUAGES:
            return str(wanted)
    for part in request.headers.get("accept-language", "").lower().split(","):
        if (language := part.strip()[:2]) in LANGUAGES:
            return language
    return "en"
