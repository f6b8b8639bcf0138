"""A search in many messages: bounded, with progress and a stop."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.tubeclient_ui.viewer import Viewer, settings_of
from tests.waiting import wait_for
from tubeclient import Pack
from tubeclient_ui import search

COUNT = 200_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("many"), [TopicConfig("many")]) as tube:
        tube.load("many", (NewMessage(0, b"message %06d" % number) for number in range(COUNT)))
        yield tube


def test_all_of_them_are_searched(many: EmbeddedTubeMQ) -> None:
    """And the oldest is found, when the newest come first; the progress counts them."""
    _, shown = Viewer(settings_of(many)).search(topic="many", text="message 000007", seconds=120)
    assert "1 found, 200,000 messages and" in shown
    assert "Search complete." in shown
    assert shown.count("message 000007") == 1


def test_no_more_is_read_than_is_wanted(many: EmbeddedTubeMQ) -> None:
    """In either order, though a broker would answer with thousands at once."""
    for order in ("newest", "oldest"):
        assert "100 found, 100 messages and" in Viewer(settings_of(many)).search(topic="many", order=order)[1]


def test_bytes_bound_it(many: EmbeddedTubeMQ) -> None:
    """And it says so, with a link that goes on."""
    _, shown = Viewer(settings_of(many)).search(topic="many", text="nothing", mb=1)
    assert "That many MB were to be read." in shown
    assert "Go on from there" in shown
    count = re.findall(r"([\d,]+) messages and", shown)[-1]
    assert 0 < int(count.replace(",", "")) < COUNT


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pack takes a while, as of a broker far away."""
    fitting = search.MessageSearch._fitting

    def late(self: search.MessageSearch, pack: Pack) -> list[search.Found]:
        time.sleep(0.1)
        return fitting(self, pack)

    monkeypatch.setattr(search.MessageSearch, "_fitting", late)


@pytest.mark.usefixtures("slow")
def test_a_stop_ends_it(many: EmbeddedTubeMQ) -> None:
    """At once for who pressed it, with what was found till then."""
    viewer = Viewer(settings_of(many))
    first = viewer.part("/messages", topic="many", regex="999$", most=1000, seconds=600)
    [button] = re.findall(r'hx-post="([^"]+)"', first)
    key = re.findall(r"search=([\w-]+)", button)[0]
    wait_for(lambda: not re.search(r"\b0 messages", viewer.part("/messages/more", search=key)), "progress")
    viewer.post(button)
    wait_for(lambda: "It was stopped." in viewer.part("/messages/more", search=key, after=1000), "the end")
    assert "hx-get" not in viewer.part("/messages/more", search=key, after=1000).partition("</div>")[0]


@pytest.mark.usefixtures("slow")
def test_the_time_bounds_it(many: EmbeddedTubeMQ) -> None:
    """It ends, though most is not read."""
    _, shown = Viewer(settings_of(many)).search(topic="many", text="nothing", seconds=1)
    assert "The time is over." in shown


@pytest.mark.usefixtures("slow")
def test_only_some_run_at_once(many: EmbeddedTubeMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are refused, unless nobody waits for one of them; such a one also ends by itself."""
    viewer = Viewer(settings_of(many))
    texts = [viewer.part("/messages", topic="many", text="nothing", seconds=600) for _ in range(5)]
    assert "4 searches run already" in texts[4]
    keys = [re.findall(r"search=([\w-]+)", text)[0] for text in texts[:4]]
    monkeypatch.setattr(search, "_PLACE_SECONDS", 0.0)
    assert "Stop" in viewer.part("/messages", topic="many", text="nothing", seconds=600)
    wait_for(lambda: "Nobody waited for it." in viewer.part("/messages/more", search=keys[0]), "its end")


@pytest.mark.usefixtures("slow")
def test_one_that_nobody_waits_for_ends(many: EmbeddedTubeMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser was closed."""
    monkeypatch.setattr(search, "_LEFT_SECONDS", 0.0)
    viewer = Viewer(settings_of(many))
    [key] = re.findall(r"search=([\w-]+)&", viewer.part("/messages", topic="many", text="nothing", seconds=600))[:1]
    wait_for(lambda: "Nobody waited for it." in viewer.part("/messages/more", search=key), "its end")


def test_old_searches_are_forgotten(many: EmbeddedTubeMQ) -> None:
    """The page keeps what the last dozen found."""
    viewer = Viewer(settings_of(many))
    keys = [viewer.search(topic="many", most=1)[0] for _ in range(13)]
    assert "search again" in viewer.part("/messages/more", search=keys[0])
    assert "1 found" in viewer.part("/messages/more", search=keys[-1])


def test_what_is_found_is_bounded_in_bytes(many: EmbeddedTubeMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the messages are."""
    monkeypatch.setattr(search, "_MOST_FOUND_BYTES", 1_000)
    _, shown = Viewer(settings_of(many)).search(topic="many", order="oldest", regex="00$", most=1000, mb=1)
    assert "Reached the message limit." in shown
