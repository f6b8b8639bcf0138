"""Where the texts between separators end."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.typed.field_texts import up_to

SPECIAL = "|\\&=^]-[, \t"


def split(text: str, separator: str, escape: str | None) -> list[str]:
    """What the expressions do, with Python's regular expressions."""
    parts = re.findall(f"(?s)({up_to(separator, escape)}){re.escape(separator)}", text + separator)
    return parts if escape is None else [re.sub(f"(?s){re.escape(escape)}(.)", r"\1", part) for part in parts]


@given(st.lists(st.text(SPECIAL + "ab\n"), min_size=1), st.sampled_from(SPECIAL), st.sampled_from(SPECIAL))
def test_escaped_texts_come_back(texts: list[str], separator: str, escape: str) -> None:
    if separator == escape:
        return
    special = f"[{re.escape(separator)}{re.escape(escape)}]"
    written = separator.join(re.sub(special, lambda found: escape + found[0], text) for text in texts)
    assert split(written, separator, escape) == texts


@given(st.text(SPECIAL + "ab\n"), st.sampled_from(SPECIAL))
def test_without_an_escape_it_is_a_plain_split(text: str, separator: str) -> None:
    assert split(text, separator, None) == text.split(separator)


@pytest.mark.parametrize("character", list(SPECIAL))
def test_any_character_may_be_escaped(character: str) -> None:
    assert split(f"a\\{character}b", "+", "\\") == [f"a{character}b"]
