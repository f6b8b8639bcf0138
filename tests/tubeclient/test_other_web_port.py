"""A web port that is another cluster's, which has a broker of the same id too: nothing that it says is believed."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tubeclient import (
    BrokerInfo,
    ClientSettings,
    ConfigurationError,
    ConnectError,
    GroupMembership,
    NodeIdConflict,
    OffsetLookup,
    PullConsumer,
    TubeError,
    fetch_view,
    reader_groups_of,
)
from tubeclient.broker_webs import BrokerWebs
from tubeclient.web_port import own_web

GROUPS = reader_groups_of("etl")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    """It has the topics too."""
    topics = [TopicConfig("clicks", stores=2, partitions=2), TopicConfig("single")]
    with EmbeddedTubeMQ(tmp_path / "other", topics) as running:
        running.load("single", [NewMessage(0, b"x")] * 3)
        yield running


@pytest.fixture
def mixed(settings: ClientSettings, other: EmbeddedTubeMQ) -> ClientSettings:
    return replace(settings, master_web_port=other.master_web_port)


def bounds(settings: ClientSettings) -> None:
    view = fetch_view(settings, ["single"], GROUPS)
    with OffsetLookup(settings, GROUPS) as lookup:
        lookup.bounds(view)


def look(settings: ClientSettings) -> None:
    view = fetch_view(settings, ["single"], GROUPS)
    with OffsetLookup(settings, GROUPS) as lookup:
        lookup.look(view)


def positions(settings: ClientSettings) -> None:
    BrokerWebs(settings).answered_positions(fetch_view(settings, ["single"], GROUPS), "etl")


def dynamic(settings: ClientSettings) -> None:
    with PullConsumer(settings, "etl", ["single"], membership="dynamic"):
        pass


def pattern(settings: ClientSettings) -> None:
    with PullConsumer(settings, "etl", re.compile("sing.*")):
        pass


@pytest.mark.parametrize("use", [bounds, look, positions, dynamic, pattern])
def test_it_is_an_error_at_once(
    mixed: ClientSettings, other: EmbeddedTubeMQ, use: Callable[[ClientSettings], None]
) -> None:
    for _ in range(2):
        with pytest.raises(
            ConfigurationError, match=f"web port {other.master_web_port} lists .*another cluster's"
        ) as e:
            use(mixed)
        assert e.value.condition == "OTHER_WEB_PORT"


def test_who_holds_a_node_is_not_asked_there(mixed: ClientSettings) -> None:
    with PullConsumer(mixed, "etl", ["single"], source_count=1, node_id=0):
        second = GroupMembership(mixed, "etl", ["single"], 1)
        with pytest.raises(NodeIdConflict, match=r"The holders of the nodes are unknown: .* it is another cluster's"):
            second.join()
        second.close()


def test_a_broker_that_has_just_moved_is_no_other_cluster(settings: ClientSettings) -> None:
    """An older layout has all brokers where they were."""
    view = fetch_view(settings, ["single"], GROUPS)
    before = replace(view, brokers={one: BrokerInfo(one, "127.0.0.1", 1) for one in view.brokers})
    webs = BrokerWebs(settings)
    webs.learn(before)
    with pytest.raises(ConnectError, match="has moved"):
        webs.check_place(before.brokers[1])


def test_while_no_master_says_whose_it_is_the_web_port_is_believed(
    settings: ClientSettings, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = replace(settings, master_servers=("127.0.0.1:1",))
    told: list[TubeError] = []
    for _ in range(2):
        own_web(nowhere, told.append)
    assert len(told) == 2
    with caplog.at_level(logging.INFO):
        assert own_web(nowhere) is nowhere
    assert "no master says whether" in caplog.text
    own_web(settings, told.append)
    assert len(told) == 2
