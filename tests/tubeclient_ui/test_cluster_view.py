"""The views of the cluster and of topics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.tubeclient_cli.clusters import ClusterCommands
from tests.tubeclient_ui.viewer import Viewer, settings_of
from tubeclient.keys import StoreBounds, StoreKey
from tubeclient_ui.access import Rates


def test_what_there_is(viewer: Viewer, tube: EmbeddedTubeMQ) -> None:
    """Masters, brokers and topics, with the numbers that the command has."""
    text = viewer.part("/cluster")
    assert "All is well." in text
    assert tube.master_address in text
    assert f"1:{tube.broker_addresses[1]}" in text
    assert 'name=clicks">clicks</a><td class="n">1' in text
    shown = ClusterCommands.of(tube).json("topics", "show", "clicks")
    assert f'<td class="n">{shown["stores"][0]["messagesAtMost"]}<' in text
    assert "shop" not in viewer.part("/cluster", q="CLICK")


def test_a_topic(viewer: Viewer, tube: EmbeddedTubeMQ) -> None:
    """Its brokers and stores, as `topics show` has them; another name is an error with advice."""
    text = viewer.part("/topic", name="views")
    for store in ClusterCommands.of(tube).json("topics", "show", "views")["stores"]:
        assert f'<td>{store["store"]}<td class="n">2<td class="n">{store["firstOffset"]}<td class="n">' in text
    assert "did you mean clicks?" in viewer.part("/topic", name="klicks")


def test_the_rate_is_of_the_last_minute() -> None:
    """From the first answer of a minute to the newest; none for a store that shrank or is new."""
    rates, store, other = Rates(), StoreKey(1, "a", 0), StoreKey(1, "b", 0)
    assert rates.after(100.0, {store: StoreBounds(0, 0)}) == {}
    assert rates.after(110.0, {store: StoreBounds(0, 2_800), other: StoreBounds(0, 28)}) == {store: 10.0}
    assert rates.after(165.0, {store: StoreBounds(0, 2_800)}) == {store: 0.0}
    assert rates.after(166.0, {store: StoreBounds(0, 28)}) == {}


def test_a_dead_broker_is_red_among_others(tmp_path: Path) -> None:
    """With the command that helps, and a total that says that something lacks."""
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")], brokers=2) as tube:
        tube.load("clicks", [NewMessage(0, b"x")] * 5)
        viewer = Viewer(settings_of(tube))
        tube.stop_broker(2, clean=False)
        text = viewer.part("/cluster")
        assert f"Broker 2:{tube.broker_addresses[2]} " in text
        assert f"<code>tubeclient doctor --master-servers {tube.master_address} " in text
        assert '<td class="n down">5+ ?' in text
        assert "1:clicks:0" in viewer.part("/topic", name="clicks")
        assert "Broker 2 does not answer" in viewer.part("/topic", name="clicks")
        assert "Broker 2 does not answer" in viewer.part("/groups")
        assert len(viewer.lines(topic="clicks")) == 5
        assert "Broker 2 does not answer" in viewer.search(topic="clicks")[1]


def test_a_hung_master_holds_up_nothing(tube: EmbeddedTubeMQ) -> None:
    """The page shows what the other master has, and that one is down."""
    settings = replace(settings_of(tube), master_servers=("127.0.0.2:8715", tube.master_address), http_timeout_ms=300)
    viewer = Viewer(settings)
    text = viewer.part("/cluster")
    assert "Master 127.0.0.2:8715 does not answer" in text
    assert "clicks</a>" in text


def test_many_partitions_are_a_small_page(tmp_path: Path) -> None:
    """A hundred rows, and links to the others."""
    with EmbeddedTubeMQ(
        tmp_path, [TopicConfig("wide", 1_000, 10), *(TopicConfig(f"t{n}") for n in range(150))]
    ) as tube:
        viewer = Viewer(settings_of(tube))
        for path, first, last in (("/topic", "1:wide:0<", "1:wide:999<"), ("/cluster", "t0<", "wide<")):
            text = viewer.part(path, name="wide")
            assert first in text
            assert last not in text
            assert len(text) < 100_000
            assert last in viewer.part(path, name="wide", page=99)
        assert "10,000" in viewer.part("/cluster", page=1)
