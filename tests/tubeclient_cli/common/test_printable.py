"""Texts for people."""

from __future__ import annotations

import pytest

from tubeclient_cli.common.printable import counted


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 clients"), (1, "1 client"), (2, "2 clients"), (1_001, "1,001 clients")]
)
def test_one_thing_has_no_plural(number: int, said: str) -> None:
    assert counted(number, "client") == said
