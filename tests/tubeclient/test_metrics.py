"""What the clients' metrics say, by real clients of an embedded cluster."""

from __future__ import annotations

from concurrent.futures import wait

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.forking import Held, in_child
from tests.waiting import wait_for
from tubeclient import ClientMetrics, ClientSettings, Producer, PullConsumer, counts, metrics
from tubeclient.wire.methods import Method

Labels = dict[str, str]


class Scraped:
    """What a scrape shows, less what it showed at the beginning: the counts are those of the whole process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(ClientMetrics())
        self._before = self._samples()

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels; gauges must begin at 0."""
        return sum(
            value - self._before.get(key, 0.0)
            for key, value in self._samples().items()
            if key[0] == name and set(labels.items()) <= set(key[1:])
        )

    def _samples(self) -> dict[tuple[object, ...], float]:
        text = generate_latest(self._registry).decode()
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


def test_what_a_producer_sent_and_had_to_send_again(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, scraped: Scraped
) -> None:
    topic: Labels = {"messaging_destination_name": "clicks"}
    for broker_id in cluster.broker_ids:
        cluster.broker_faults(broker_id).force(Method.SEND_MESSAGE, 419, times=2)
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        wait(producer.submit_many("clicks", [b"12345"] * 30), 30)
        assert scraped("messaging_client_sent_messages_total", error_type="", messaging_system="tubemq", **topic) == 30
        assert scraped("tubeclient_sent_bytes_total", **topic) == 150
        assert scraped("messaging_client_operation_duration_seconds_count", **topic) == 30
        assert scraped("tubeclient_producer_in_flight_messages") == 0
    assert scraped("tubeclient_send_errors_total", error_type="ServerBusy") == 4
    assert scraped("tubeclient_send_retries_total") == 4


def test_consumer(settings: ClientSettings, scraped: Scraped) -> None:
    """A consumer counts the messages it delivers and shows how far it is behind."""
    with Producer(settings) as producer:
        producer.publish(["single"])
        wait(producer.submit_many("single", [b"12345"] * 40), 30)
    labels: Labels = {"messaging_destination_name": "single", "messaging_consumer_group_name": "metered"}
    with PullConsumer(settings, "metered", ["single"], start_from="earliest") as consumer:
        wait_for(lambda: scraped("tubeclient_consumer_partitions", **labels) == 2, "the partitions of both brokers")
        assert scraped("tubeclient_consumer_lag_messages", **labels) == 40
        left = 40
        while left:
            delivery = consumer.get(timeout_ms=20_000)
            assert delivery is not None
            left -= len(delivery)
            consumer.confirm(delivery)
        assert scraped("messaging_client_consumed_messages_total", **labels) == 40
        assert scraped("tubeclient_consumed_bytes_total", **labels) == 200
        assert scraped("tubeclient_consumer_lag_messages", **labels) == 0
        assert scraped("tubeclient_fetches_total", result="messages", **labels) >= 1
        assert scraped("messaging_process_duration_seconds_count", **labels) >= 1
        consumer.get(timeout_ms=500)
        assert scraped("tubeclient_fetches_total", result="empty", **labels) >= 1
        assert scraped("tubeclient_read_errors_total", **labels) == 0
    del consumer, delivery
    assert scraped("messaging_client_consumed_messages_total", **labels) == 40
    assert scraped("tubeclient_consumer_partitions", **labels) == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_begins_with_nothing() -> None:
    counts.count_acknowledged("forked", 1, [0.0])

    def child() -> None:
        assert metrics.totals() == {}

    with Held([counts._lock]):
        in_child(child)
    assert [values for (_, labels), values in metrics.totals().items() if labels == ("forked",)] == [(1.0,)]
