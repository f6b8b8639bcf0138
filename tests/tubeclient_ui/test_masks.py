"""What --mask hides."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient import ConfigurationError
from tubeclient_ui.filters import MessageFilter
from tubeclient_ui.masks import HIDDEN, Masks

SECRET = "s3cret"


@pytest.mark.parametrize(
    "value",
    [
        f'{{"pw": "{SECRET}"}}',
        f'{{"a": [{{"PW": {{"deep": "{SECRET}"}}}}]}}',
        f'{{"p\\u0077": "{SECRET}"}}',
        f'{{"a": {{"pw": "{SECRET}"}}, "a": 1}}',
        f'{{"text": "{{\\"pw\\": \\"my {SECRET}\\"}}"}}',
        f'"{{\\"pw\\": \\"{SECRET}\\"}}"',
        f'{{"pw": "my {SECRET}", "cut',
        f"a=1&pw=my {SECRET}&b=2",
        f"pw: {SECRET}, b: 2",
        f'{{"pw": "half \\ud800 {SECRET}"}}',
    ],
)
def test_a_field_is_hidden_however_written(value: str) -> None:
    """In JSON at any depth, escaped, doubled, in a text or cut off, and as name=value."""
    assert SECRET not in Masks(["pw"]).hide({"value": value})["value"]


def test_a_pattern_hides_what_it_matches() -> None:
    """In value, tag, attributes and InLong's names; what is beside it remains."""
    row = {"value": "card 4111 of Zoë", "tag": "4111", "attributes": {"4111": "4111", "n": "1"}}
    row["inlong"] = {"groupId": "4111"}
    assert Masks(["/[0-9]{4}/"]).hide(row) == {
        "value": f"card {HIDDEN} of Zoë",
        "tag": HIDDEN,
        "attributes": {HIDDEN: HIDDEN, "n": "1"},
        "inlong": {"groupId": HIDDEN},
    }


def test_bytes_are_hidden_and_bad_ones_left_out() -> None:
    """What is not UTF-8 is searched too, and of a message that nobody can read nothing is shown."""
    body = {"base64": base64.b64encode(b"\xff pw=s3cret").decode()}
    assert Masks(["pw"]).hide(dict(body)) == {"value": f"\ufffd pw={HIDDEN}"}
    assert Masks(["other"]).hide(dict(body)) == body
    bad = {**body, "messageId": 7, "attributes": {"pw": SECRET}, "bad": "the checksum is wrong"}
    assert Masks(["other"]).hide(bad) == {"messageId": 7, "value": HIDDEN, "bad": "the checksum is wrong"}


def test_without_masks_nothing_changes() -> None:
    """The very message."""
    row = {"value": '{"b":1,  "a":2}', "bad": "x"}
    assert Masks([]).hide(row) is row
    assert Masks(["pw"]).hide({"value": '{"b":1,  "a":2}'})["value"] == '{"b":1,  "a":2}'


@pytest.mark.parametrize("text", ["", " ", "//", "/(?=a)/"])
def test_a_mask_that_is_none_is_refused(text: str) -> None:
    """An empty one, and a pattern that RE2 lacks."""
    with pytest.raises(ConfigurationError, match="--mask"):
        Masks([text])


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "Pw", "b"]), inner, max_size=3),
)


@given(VALUES)
def test_no_value_of_a_hidden_field_is_left(value: Any) -> None:
    """Whatever JSON it is in."""

    def fields(node: Any) -> list[Any]:
        if isinstance(node, dict):
            return [it for key, it in node.items() if key == "Pw"] + [hit for it in node.values() for hit in fields(it)]
        return [hit for it in node for hit in fields(it)] if isinstance(node, list) else []

    after = json.loads(Masks(["pw"]).hide({"value": json.dumps(value)})["value"])
    assert all(found == HIDDEN for found in fields(after))


def test_what_is_hidden_is_not_found() -> None:
    """A filter gets the message as it is shown."""
    row = Masks(["pw"]).hide({"value": f'{{"pw": "{SECRET}"}}'})
    for wanted in (MessageFilter(SECRET), MessageFilter(regex=SECRET), MessageFilter(path=f"pw = {SECRET}")):
        assert wanted.matches(row) is False
