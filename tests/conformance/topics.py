"""The topics of these tests, on both brokers of both clusters: one for each test or two that count messages."""

from __future__ import annotations

from typing import Final

from tests.apache.server import TopicSpec

__all__ = ["TOPICS"]

_PLAIN = "java_held ranges_late ranges_cut grown calls calls_filtered positions seeks tags codes codes_raw orders "
_PLAIN += "guarded guarded_tags"

TOPICS: Final = (
    *map(TopicSpec, _PLAIN.split()),
    # Three partitions on one index: the case in which offsets are sparse.
    TopicSpec("ranges_shared", num_partitions=3),
    TopicSpec("ranges_single", num_stores=2),
    TopicSpec("admin_single", num_stores=2),
    TopicSpec("admin_shared", num_partitions=3),
    TopicSpec("java_alone", num_partitions=2, num_stores=2),
    TopicSpec("written_by_java", num_partitions=2, num_stores=2),
    TopicSpec("written_by_us", num_partitions=2, num_stores=2),
    TopicSpec("three_nodes", num_partitions=3, num_stores=2),
    TopicSpec("restarts", num_partitions=2),
)
