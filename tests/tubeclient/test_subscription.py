"""What a consumer may say it reads."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tubeclient import ClientBalanceConsumer, ClientSettings, ConfigurationError, PullConsumer
from tubeclient.names import matching_topics

NOWHERE = ClientSettings(("127.0.0.1:1",))


@pytest.mark.parametrize(
    ("topics", "what"),
    [
        ([], "no topic"),
        ({}, "no topic"),
        ("clicks", "list of names or a compiled pattern, not the text 'clicks'"),
        ([""], "'' is not a topic name"),
        (["clicks", " "], "' ' is not a topic name"),
        (["x" * 65], "1 to 64 characters"),
        ([7], "7 is not a topic name"),
        ([None], "None is not a topic name"),
        (None, "list of names or a compiled pattern, not None"),
        (7, "list of names or a compiled pattern, not 7"),
        ([b"clicks"], "b'clicks' is not a topic name"),
        ({"clicks": ["a"], " clicks": ["b"]}, "topic clicks is named twice"),
        ({"clicks": "ab"}, "list of tags, not the text 'ab'"),
        ({"clicks": 7}, "list of tags, not 7"),
        ({"clicks": [""]}, "the filter of topic clicks cannot be used: '' is not a tag name"),
        ({"clicks": ["a,b"]}, "the filter of topic clicks cannot be used: 'a,b' is not a tag name"),
        ({"clicks": ["a#b"]}, "the filter of topic clicks cannot be used: 'a#b' is not a tag name"),
        ({"clicks": ["x" * 257]}, "1 to 256 characters"),
        ({"clicks": [["a"]]}, "the filter of topic clicks cannot be used: ['a'] is not a tag name"),
        ({"clicks": [7]}, "the filter of topic clicks cannot be used: 7 is not a tag name"),
        ({"clicks": [str(number) for number in range(501)]}, "501 tags; 500 is the most"),
        (re.compile(b"clicks"), "pattern of topics is one of bytes"),
    ],
)
def test_what_cannot_be_read_is_named_before_anything_is_asked(topics: Any, what: str) -> None:
    for make in (ClientBalanceConsumer, PullConsumer):
        with pytest.raises(ConfigurationError, match=re.escape(what)):
            make(NOWHERE, "etl", topics)


def test_topics_match_as_a_whole_and_come_sorted() -> None:
    names = ["clicks_eu", "my_clicks", "clicks", "clicks_us", "clicks_eu"]
    assert matching_topics(re.compile("clicks.*"), names) == ["clicks", "clicks_eu", "clicks_us"]
    assert matching_topics(re.compile("clicks|my"), names) == ["clicks"]


def test_a_pattern_without_topics_names_what_there_is() -> None:
    with pytest.raises(ConfigurationError, match=r"no topic matches 'x\.\*'; the cluster has clicks, views"):
        matching_topics(re.compile("x.*"), ["views", "clicks"])
    with pytest.raises(ConfigurationError, match="the cluster has none"):
        matching_topics(re.compile("x"), [])
    with pytest.raises(ConfigurationError, match="a19 and 5 more"):
        matching_topics(re.compile("x"), [f"a{number:02}" for number in range(25)])
