"""The topics of these tests, on both brokers of both clusters: one for each test or two that count messages."""

from __future__ import annotations

from typing import Final

from tests.apache.server import TopicSpec
from tests.recorder.scenario import RECORDED, topics_of

__all__ = ["GUARDED", "RECORDED_ANEW", "TAGGED", "TOPICS"]

GUARDED: Final = TopicSpec("guarded", num_partitions=1, num_stores=1)
"""For a test that lets only some groups read it."""

TAGGED: Final = TopicSpec("guarded_tags", num_partitions=1, num_stores=1)
"""For a test that lets a group read only some tags of it."""

RECORDED_ANEW: Final = "recorded_anew"
"""The first of the topics for a recording that a test makes."""

TOPICS: Final = (
    TopicSpec("java_alone", num_partitions=2, num_stores=2),
    TopicSpec("java_offsets", num_partitions=1, num_stores=1),
    TopicSpec("java_rollback", num_partitions=1, num_stores=1),
    TopicSpec("java_held", num_partitions=1, num_stores=1),
    # A filtered Java reader is given only what is on disk, which is 20 s behind unless the topic asks for 4 s.
    TopicSpec("java_filters", num_partitions=2, num_stores=1, properties={"memCacheFlushIntvl": 4000}),
    TopicSpec("written_by_java", num_partitions=2, num_stores=2),
    TopicSpec("written_by_us", num_partitions=2, num_stores=2),
    # Three partitions on one index: the case in which offsets are sparse.
    TopicSpec("ranges_shared", num_partitions=3, num_stores=1),
    # One partition per index: the case in which every offset is a message's own.
    TopicSpec("ranges_late", num_partitions=1, num_stores=1),
    TopicSpec("ranges_cut", num_partitions=1, num_stores=1),
    TopicSpec("ranges_single", num_partitions=1, num_stores=2),
    TopicSpec("grown", num_partitions=1, num_stores=1),
    TopicSpec("members", num_partitions=2, num_stores=2),
    TopicSpec("calls", num_partitions=1, num_stores=1),
    TopicSpec("calls_filtered", num_partitions=1, num_stores=1),
    TopicSpec("positions", num_partitions=1, num_stores=1),
    TopicSpec("loops", num_partitions=1, num_stores=1),
    TopicSpec("seeks", num_partitions=1, num_stores=1),
    TopicSpec("confirms", num_partitions=1, num_stores=1),
    TopicSpec("callbacks", num_partitions=1, num_stores=1),
    TopicSpec("tags", num_partitions=1, num_stores=1),
    TopicSpec("held", num_partitions=1, num_stores=1),
    TopicSpec("shared", num_partitions=1, num_stores=1),
    TopicSpec("three_nodes", num_partitions=3, num_stores=2),
    TopicSpec("pulled", num_partitions=3, num_stores=2),
    TopicSpec("restarts", num_partitions=2, num_stores=1),
    TopicSpec("restarts_kept", num_partitions=1, num_stores=1),
    TopicSpec("codes", num_partitions=1, num_stores=1),
    TopicSpec("codes_raw", num_partitions=1, num_stores=1),
    TopicSpec("limited", num_partitions=1, num_stores=1),
    TopicSpec("orders", num_partitions=1, num_stores=1),
    GUARDED,
    TAGGED,
    *topics_of(RECORDED),
    *topics_of(RECORDED_ANEW),
)
