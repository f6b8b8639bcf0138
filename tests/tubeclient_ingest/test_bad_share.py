"""How many bad records a round may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient.errors import ConfigurationError
from tubeclient_ingest.bad_share import BadShare


@pytest.mark.parametrize(
    ("text", "bad", "total", "allowed"),
    [
        ("0", 0, 10, True),
        ("0", 1, 10, False),
        (" 3 ", 3, 3, True),
        ("3", 4, 1_000, False),
        ("5%", 5, 100, True),
        ("5 %", 6, 100, False),
        ("0.1%", 1, 1_000, True),
        ("0.1%", 1, 999, False),
        ("100%", 7, 7, True),
        ("0%", 0, 0, True),
    ],
)
def test_a_round_has_at_most_so_many(text: str, bad: int, total: int, allowed: bool) -> None:
    assert BadShare.parse(text).allows(bad, total) is allowed


@pytest.mark.parametrize("text", ["", "-1", "1.5", "100.1%", "%", "5%%", "five", "1e3", "5% of 10", "9" * 5_000])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="which share of it, as 5%"):
        BadShare.parse(text)


@given(st.integers(0, 100), st.integers(0, 10**12))
def test_a_share_is_exact(percent: int, total: int) -> None:
    share = BadShare.parse(f"{percent}%")
    most = total * percent // 100
    assert share.allows(most, total)
    assert not share.allows(most + 1, total)
