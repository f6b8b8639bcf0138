"""Apache's broker lets data expire before its index: what its readers meet then, and what ours say about it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Final

import pytest

from spark_source.cluster.cluster import TubeCluster
from spark_source.offsets.offsets import Offsets
from spark_source.options.given import parse_options
from spark_source.options.source_options import SourceOptions
from spark_source.plan.read_task import ReadTask
from spark_source.progress.progress_table import ProgressTable
from spark_source.read.task_read import read_task
from tests.apache.fixtures import options
from tests.apache.server import ApacheTubeMQ, TopicSpec
from tests.spark_source.as_spark import JsonPlanner
from tests.waiting import wait_for
from tubeclient import (
    Admin,
    BrokerInfo,
    ClientSettings,
    ClusterView,
    DataLoss,
    OffsetLookup,
    Producer,
    StoreBounds,
    StoreKey,
    fetch_view,
    reader_groups_of,
)
from tubeclient.admin.broker_webs import BrokerWeb
from tubeclient.net.http import query_broker

pytestmark = [pytest.mark.apache, pytest.mark.timeout(600)]

ENTRY: Final = 28
GROUPS: Final = reader_groups_of("ageing")
SEGMENT: Final = 1 << 20
RECORD: Final = 1_006 + 52
"""Bytes of a message's record: its body and a header, without attributes."""
MANY, LAST = 3_000, 50
"""Messages: the many fill a segment at least, the last ones come after expiry."""
EXPIRY_SECONDS: Final = 180

# Segments that are full expire 20 s after their last write; the broker looks once a minute, its shortest interval.
_SHORT: Final = {"deletePolicy": "delete,20s", "memCacheFlushIntvl": 4_000}
TOPICS: Final = (
    TopicSpec("ageing_alone", num_partitions=1, properties=_SHORT),
    TopicSpec("ageing_shared", num_partitions=3, properties=_SHORT),
)


class Ageing:
    """A broker whose topics lost all full segments of data and no index."""

    def __init__(self, apache: ApacheTubeMQ) -> None:
        self.apache = apache
        self.settings = ClientSettings((apache.master_address,), master_web_port=apache.master_web_port)
        self.web = BrokerWeb(1, apache.broker_web_addresses[0], 10_000)

    @property
    def view(self) -> ClusterView:
        return fetch_view(self.settings, [topic.name for topic in TOPICS], GROUPS)

    @property
    def broker(self) -> BrokerInfo:
        return self.view.brokers[1]

    def send(self, first: int, count: int) -> None:
        with Producer(self.settings) as producer:
            producer.publish([topic.name for topic in TOPICS])
            for topic in TOPICS:
                bodies = [b"%06d" % number + bytes(1_000) for number in range(first, first + count)]
                for future in producer.submit_many(topic.name, bodies):
                    future.result(60)

    def bounds(self, *, web: bool = True) -> dict[StoreKey, StoreBounds]:
        settings = self.settings if web else replace(self.settings, master_web_port=1)
        with closing(OffsetLookup(settings, GROUPS)) as lookup:
            return lookup.bounds(self.view)

    def data(self, topic: str) -> tuple[int, int]:
        """Where the data of the topic's store begins and ends, by the broker's page."""
        [page] = query_broker(self.web.address, "admin_query_pubinfo", 10_000, topicName=topic)["dataSet"]
        return page["offsetInfo"][0]["dataMin"], page["offsetInfo"][0]["dataMax"]

    def expired(self) -> bool:
        time.sleep(0.5)
        return all(low > 0 and high - low < SEGMENT for low, high in (self.data(topic.name) for topic in TOPICS))


def values(given: SourceOptions, tasks: Iterable[ReadTask]) -> list[int]:
    batches = [batch for task in tasks for batch in read_task(given, task)]
    return sorted(int(row["value"][:6]) for batch in batches for row in batch.to_pylist())


@contextmanager
def restarted(ageing: Ageing, topic: str, **more: object) -> Iterator[tuple[SourceOptions, JsonPlanner]]:
    """The planner of a query that was started again; once it is closed its group is free."""
    given = parse_options(options(ageing.apache, topic, f"{topic}_stream", **more))
    with closing(JsonPlanner(given, TubeCluster(given), ProgressTable(given))) as planner:
        yield given, planner


@pytest.fixture(scope="module")
def ageing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ageing]:
    folder = tmp_path_factory.mktemp("ageing")
    few_settings = {"maxSegmentSize": SEGMENT, "logClearupDurationMs": 60_000}
    with ApacheTubeMQ(folder / "tubemq", brokers=1, broker_settings=few_settings) as apache:
        apache.create_topics(TOPICS)
        ageing = Ageing(apache)
        ageing.send(0, MANY)
        wait_for(ageing.expired, "all full segments of data to expire", seconds=EXPIRY_SECONDS)
        # They do not fill a segment, which would expire during the tests.
        room = min(SEGMENT - (high - low) for low, high in (ageing.data(topic.name) for topic in TOPICS))
        ageing.send(MANY, min(LAST, room // RECORD - 1))
        yield ageing


def test_index_outlives_expired_data(ageing: Ageing) -> None:
    """Lookups find where a store's data begins, although its index still begins at 0."""
    files, bounds = ageing.web.files(), ageing.bounds()
    assert bounds == ageing.bounds(web=False)
    for topic in TOPICS:
        store = StoreKey(1, topic.name, 0)
        low, high = bounds[store]
        assert files[store].index_bounds == StoreBounds(0, high)
        assert 0 < low < high
        assert low // ENTRY == files[store].data_min // RECORD
    shown = Admin(ageing.settings).store_bounds(topic.name for topic in TOPICS)
    assert shown == {store: files[store].index_bounds for store in bounds}


@pytest.mark.parametrize("topic", [topic.name for topic in TOPICS])
def test_restart_over_expired_data(ageing: Ageing, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """A restart over expired data fails, or counts the loss if failOnDataLoss is false."""
    low, high = ageing.bounds()[StoreKey(1, topic, 0)]
    partitions = [key for key in ageing.view.partitions() if key.topic == topic]
    start, end = (Offsets.of(dict.fromkeys(partitions, offset)).to_dict() for offset in (300 * ENTRY, high))
    assert low > 300 * ENTRY
    # A batch that had been planned before it expired is planned again as it was; its tasks find out.
    with restarted(ageing, topic) as (given, planner), pytest.raises(DataLoss, match=f"1:{topic}:"):
        values(given, planner.partitions(start, end))
    with restarted(ageing, topic) as (_, planner), pytest.raises(DataLoss, match=f"holds it only from {low}:"):
        planner.latest(start, None)
    with restarted(ageing, topic, failOnDataLoss="false") as (given, planner):
        assert len(values(given, planner.partitions(start, end))) == (high - low) // ENTRY
    told = re.findall(r"continued without at most (\d+) messages", caplog.text)
    assert sum(map(int, told)) == (low // ENTRY - 300) * len(partitions)
