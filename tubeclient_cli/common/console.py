"""The console of all commands: texts are shown as they are."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from tubeclient_cli.common.printable import printable

__all__ = ["PlainConsole"]


class PlainConsole(Console):
    """A console that takes nothing in a text for markup, an emoji or a control character. Each printed text is one
    line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **settings})

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(printable(text), **how)
