"""How one message is shown."""

from __future__ import annotations

import base64

from tubeclient_ui.bodies import minute, shown_lines, shown_value


def test_text_keeps_lines_and_escapes_control() -> None:
    """A page obeys no character that turns text around."""
    assert shown_lines("a\nb\tc\x1b[31m\u202e\u2066") == "a\nb\tc\\x1b[31m\\u202e\\u2066"


def test_json_is_indented_and_else_it_is_text() -> None:
    """With letters as they are."""
    assert shown_value({"value": '{"a": ["Zo\\u00eb"]}'}, "json") == ('{\n  "a": [\n    "Zoë"\n  ]\n}', False)
    for value in ("nope", "[" * 100_000):
        assert shown_value({"value": value}, "json")[0] == shown_value({"value": value}, "text")[0]


def test_deep_json_does_not_grow_without_end() -> None:
    """Indenting this would make hundreds of megabytes."""
    deep = "[" * 400 + ",".join("1" * 100_000) + "]" * 400
    text, cut = shown_value({"value": deep}, "json")
    assert (len(text), cut) == (100_000, True)


def test_hex_has_each_byte() -> None:
    """With its offset and its character, up to 16 KB."""
    row = {"base64": base64.b64encode(b"\x00\xffTubeMQ" * 2 + b"<").decode()}
    assert shown_value(row, "hex")[0].splitlines() == [
        "000000  00 ff 54 75 62 65 4d 51 00 ff 54 75 62 65 4d 51  ..TubeMQ..TubeMQ",
        "000010  3c                                               <",
    ]
    assert shown_value({"value": "x" * 20_000}, "hex")[1]


def test_a_time_is_for_people() -> None:
    """And what is none is as it came."""
    assert (minute("202611301103"), minute("soon")) == ("2026-11-30 11:03", "soon")


def test_of_many_records_less_is_shown() -> None:
    """In each form; a page with all of them would be megabytes."""
    for kind in ("text", "json", "hex"):
        text, cut = shown_value({"value": "x" * 5_000}, kind, 500)
        assert cut
        assert len(text) < 3_000
