"""Which messages a filter takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient import ConfigurationError
from tubeclient_ui.filters import MessageFilter

ORDER = '{"id": 7, "name": "Zoë", "items": [{"price": 3}, {"price": 12.5}], "a b": {"c": null}, "paid": true}'


@pytest.mark.parametrize(
    ("path", "fits"),
    [
        ("id = 7", True),
        ("$.id=7", True),
        ("id = 8", False),
        ("id != 8", True),
        ("name = Zoë", True),
        ('name = "Zoë"', True),
        ("name > A", True),
        ("name > 3", False),
        ("items[1].price > 12", True),
        ("items[0].price > 12", False),
        ("items[9].price > 0", False),
        ("items[*].price >= 12.5", True),
        ("items.*.price < 1", False),
        ("a b.c", True),
        ("a b.d", False),
        ("paid = true", True),
        ("id.x", False),
    ],
)
def test_a_json_path_finds_values(path: str, fits: bool) -> None:
    """Alone or compared, by names, places and stars."""
    assert MessageFilter(path=path).matches({"value": ORDER}) is fits


def test_text_and_regex_see_attributes_too() -> None:
    """As key=value lines; text in any case; all that is given has to fit."""
    row = {"value": "One ERROR", "attributes": {"host": "db7"}}
    assert MessageFilter("error").matches(row) is True
    assert MessageFilter("host=db").matches(row) is True
    assert MessageFilter("error", "^host=db[0-9]$").matches(row) is False
    assert MessageFilter("error", "(?m)^host=db[0-9]$").matches(row) is True
    assert MessageFilter("error", "(?m)^host=db[0-9]$").matches({"value": "error"}) is False


@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 10_000, "\ud800", "nope", '{"id": 1e999}', ""])
def test_a_hostile_value_fits_no_path(value: str) -> None:
    """Deep JSON, numbers without end, half characters, and what is no JSON at all."""
    assert MessageFilter(regex="a$", path="id = 7").matches({"value": value}) is False


@pytest.mark.parametrize("regex", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*a){20}$"])
def test_a_catastrophic_regex_comes_back(regex: str) -> None:
    """Python's `re` would take longer than the universe for these; the test's timeout would end it."""
    assert MessageFilter(regex=regex).matches({"value": "a" * 200_000 + "!"}) is False


@pytest.mark.parametrize(
    "given_filter",
    [
        {"regex": "("},
        {"regex": r"(a)\1"},
        {"regex": "(?=a)"},
        {"regex": "(.?){900}"},
        {"regex": "((a{20}){20}){20}"},
        {"path": "a..b"},
        {"path": "= 7"},
        {"path": "a["},
        {"text": "x" * 301},
        {"regex": "\ud800"},
    ],
)
def test_a_filter_that_is_none_is_refused(given_filter: dict[str, str]) -> None:
    """With what is wrong; counts that multiply, too."""
    with pytest.raises(ConfigurationError):
        MessageFilter(**given_filter)


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_path_makes_another_error(path: str, value: str) -> None:
    """A path is read or refused, and any value fits or does not."""
    try:
        wanted = MessageFilter(path=path)
    except ConfigurationError:
        return
    assert wanted.matches({"value": value}) in (True, False)
