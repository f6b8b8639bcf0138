"""Values of bad records in lists."""

from __future__ import annotations

import pytest

from tubeclient_cli.facts.bad_records import _shown


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("李".encode(), "李"),
        (b"a\x1b[31m\n\xff", "a\\x1b[31m\\n\\xff"),
        (b"x" * 401, f"{'x' * 400}... (401 bytes)"),
        (b"x" * 398 + "李".encode(), f"{'x' * 398}\\xe6\\x9d... (401 bytes)"),
        (None, None),
    ],
)
def test_value_as_text(value: bytes | None, expected: str | None) -> None:
    """UTF-8 is shown, and what a terminal might obey is not."""
    assert _shown(value) == expected
