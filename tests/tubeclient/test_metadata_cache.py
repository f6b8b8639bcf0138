"""What is kept of the master's lists: a view of them is the same object until something of it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tubeclient.flows.master import MetadataCache
from tubeclient.wire.proto import master_pb2


def answer(**lists: Any) -> master_pb2.GetPartMetaResponseM2C:
    """The master's, with `lists`; those that it leaves out are the first versions."""
    given = {"errCode": 200, "errMsg": "OK!", "brokerConfigId": 1, "topicMetaInfoId": 1, **lists}
    return master_pb2.GetPartMetaResponseM2C(**given)


@pytest.fixture
def cache() -> MetadataCache:
    filled = MetadataCache()
    filled.take(answer(brokerConfigList=["1:10.0.0.1:8123"], topicMetaInfoList=["clicks#1:2:4:1"]))
    return filled


def test_a_view_stays_the_same_object_while_the_master_names_the_same_versions(cache: MetadataCache) -> None:
    """Who computed something of it, and looks whether it is another one, computes it once."""
    view = cache.view(7)
    assert len(view.partitions()) == 8
    cache.take(answer())
    assert cache.view(7) is view


def another_address(cache: MetadataCache) -> None:
    cache.take(answer(brokerConfigId=2, brokerConfigList=["1:10.0.0.2:8123"]))


def another_layout(cache: MetadataCache) -> None:
    cache.take(answer(topicMetaInfoId=2, topicMetaInfoList=["clicks#1:3:4:1"]))


@pytest.mark.parametrize(
    ("change", "token", "address", "partitions"),
    [
        (another_address, 7, "10.0.0.2:8123", 8),
        (another_layout, 7, "10.0.0.1:8123", 12),
        (MetadataCache.forget_topics, 7, "10.0.0.1:8123", 0),
        (lambda _: None, 8, "10.0.0.1:8123", 8),
    ],
    ids=["broker", "layout", "other topics", "token"],
)
def test_what_changed_is_in_the_next_view(
    cache: MetadataCache, change: Callable[[MetadataCache], None], token: int, address: str, partitions: int
) -> None:
    before = cache.view(7)
    change(cache)
    view = cache.view(token)
    assert view is not before
    assert (view.brokers[1].address, len(view.partitions()), view.visit_token) == (address, partitions, token)
    assert len(before.partitions()) == 8, "one that was given out does not change"
