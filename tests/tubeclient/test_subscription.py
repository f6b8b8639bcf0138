"""What a consumer may say it reads."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tubeclient import ClientBalanceConsumer, ClientSettings, ConfigurationError, PullConsumer

NOWHERE = ClientSettings(("127.0.0.1:1",))


@pytest.mark.parametrize(
    ("topics", "what"),
    [
        ([], "no topic"),
        ("clicks", "list of names, such as [\"clicks\"], not 'clicks'"),
        ([""], "'' is not a topic name"),
        (["x" * 65], "1 to 64 characters"),
        ([7], "7 is not a topic name"),
        (None, 'list of names, such as ["clicks"], not None'),
        ({"clicks": ["a"], " clicks": ["b"]}, "topic clicks is named twice"),
        ({"clicks": "ab"}, "cannot be used: tags must be a list of names, such as [\"web\"], not 'ab'"),
        ({"clicks": [""]}, "the filter of topic clicks cannot be used: '' is not a tag name"),
        ({"clicks": ["a,b"]}, "the filter of topic clicks cannot be used: 'a,b' is not a tag name"),
        ({"clicks": [str(number) for number in range(501)]}, "501 tags; the limit is 500"),
    ],
)
def test_invalid_topics(topics: Any, what: str) -> None:
    """Topics or tags that cannot be read raise an error before any request."""
    for make in (ClientBalanceConsumer, PullConsumer):
        with pytest.raises(ConfigurationError, match=re.escape(what)):
            make(NOWHERE, "etl", topics)
