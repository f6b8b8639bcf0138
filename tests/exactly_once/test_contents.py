"""The storm's messages hold the numbers that they were made of, and one in a hundred is bad."""

from __future__ import annotations

import json

import pytest

from tests.exactly_once.contents import Content, in_packs, is_bad, number_in, numbers_of, one_each
from tubeclient.inlong import records_of


@pytest.mark.parametrize(("content", "messages"), [(one_each, 200), (in_packs, 1)])
def test_numbers_are_found_again(content: Content, messages: int) -> None:
    made = content(range(1_000, 1_200))
    assert len(made) == messages
    found = [number for one in made for number in numbers_of(one.body, one.attributes)]
    assert found == [number for one in made for number in one.numbers] == list(range(1_000, 1_200))


def test_bad_records_are_no_json() -> None:
    [pack] = in_packs(range(1_000))
    bad = []
    for record in records_of(pack.body, pack.attributes):
        try:
            assert json.loads(record.body) == {"number": number_in(record.body)}
        except ValueError:
            bad.append(number_in(record.body))
    assert bad == [number for number in range(1_000) if is_bad(number)] == list(range(99, 1_000, 100))
