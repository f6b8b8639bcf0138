"""The view of messages: places, filters, how each is shown, masks, and what hostile ones do."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from tests.tubeclient_cli.clusters import ClusterCommands
from tests.tubeclient_ui.conftest import HOSTILE
from tests.tubeclient_ui.viewer import Viewer, settings_of
from tubeclient import Admin
from tubeclient_ui.bodies import KINDS


def ids(viewer: Viewer, **query: object) -> list[int]:
    return [int(re.findall(r'"id": (\d+)', value)[0]) for value in viewer.values(topic="clicks", **query)]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ({}, range(9, -1, -1)),
        ({"order": "oldest"}, range(10)),
        ({"most": 3}, range(9, 6, -1)),
        ({"order": "oldest", "from": 84, "until": 140}, range(3, 5)),
        ({"from": "2026-11-23T11:00"}, range(9, 4, -1)),
        ({"until": "2026-11-23T11:00Z"}, range(4, -1, -1)),
        ({"partition": "1:clicks:0", "from": "252"}, range(9, 8, -1)),
        ({"tag": "odd"}, range(9, 0, -2)),
        ({"tag": "odd even", "most": 2}, range(9, 7, -1)),
        ({"text": "N=4"}, range(4, 3, -1)),
        ({"regex": '"id": [45],'}, range(5, 3, -1)),
        ({"path": "user.id = 2", "order": "oldest"}, range(2, 9, 3)),
        ({"text": "nothing has this"}, range(0)),
    ],
)
def test_where_and_what(viewer: Viewer, query: dict[str, Any], numbers: range) -> None:
    """By place, time, tag, text, expression and path; newest first."""
    assert ids(viewer, **query) == list(numbers)
    assert viewer.client.get("/messages", params={"topic": "clicks", **query}).status_code == 200


def test_a_download_is_what_consume_prints(viewer: Viewer, tube: EmbeddedTubeMQ) -> None:
    """The very lines, apart from InLong's names, which there are none of."""
    found = [{**line, "inlong": None} for line in viewer.lines(topic="clicks", order="oldest")]
    printed = ClusterCommands.of(tube).text("consume", "clicks", "--json", "--payload", "auto").splitlines()
    assert found == [{**json.loads(line), "inlong": None} for line in printed]


def test_no_position_moves(viewer: Viewer, tube: EmbeddedTubeMQ) -> None:
    """Reader groups alone have one."""
    viewer.values(topic="views")
    assert [name for name in Admin(settings_of(tube)).stored_groups() if "-r" not in name] == ["reads"]
    assert Admin(settings_of(tube)).groups() == []


def test_partitions_are_merged_by_time(viewer: Viewer) -> None:
    """Of all stores; each partition in its own order."""
    found = viewer.lines(topic="views")
    assert len(found) == 12
    assert [line["time"] for line in found] == sorted((line["time"] for line in found), reverse=True)


def test_it_goes_on_from_there(viewer: Viewer) -> None:
    """Page by page each message once, in both directions and over shared stores."""
    for order in ("newest", "oldest"):
        query: dict[str, object] = {"topic": "views", "most": 5, "order": order}
        values: list[str] = []
        for _ in range(20):
            _, shown = viewer.search(**query)
            values += [line["value"] for line in viewer.lines(**query)]
            further = re.findall(r'href="/messages\?([^"]+)">Go on', shown)
            if not further:
                break
            query = dict(parse_qsl(further[0].replace("&amp;", "&")))
        assert sorted(values) == sorted(f"view {number}" for number in range(12)), order


def test_a_pack_is_shown_as_records(viewer: Viewer) -> None:
    """With attributes; those that fit, of how many; or closed."""
    assert viewer.values(topic="shop", text="b|2") == ["b|2"] * 3
    key, _ = viewer.search(topic="shop", regex="^[ab]")
    text = viewer.part("/messages/body", search=key, number=0)
    assert "2 of 3 records" in text
    assert "InLong shop / orders, 2026-11-30" in text
    assert "<dt>streamId<dd>orders" in text
    assert len(viewer.lines(topic="shop", packs="closed")) == 3


@pytest.mark.parametrize(
    ("show", "has"),
    [("text", "{&#34;id&#34;: 9, "), ("json", "\n  &#34;id&#34;: 9,"), ("hex", "000000  7b 22 69 64"), ("", "hunter2")],
)
def test_a_message_is_shown_as(viewer: Viewer, show: str, has: str) -> None:
    """Text, JSON and bytes, with its attributes."""
    key, _ = viewer.search(topic="clicks", most=1)
    assert has in viewer.part("/messages/body", search=key, number=0, show=show)


def test_a_link_opens_one_message_again(viewer: Viewer) -> None:
    """Also in a store of several partitions, where no offset is known."""
    for topic in ("clicks", "views"):
        key, _ = viewer.search(topic=topic)
        text = viewer.part("/messages/body", search=key, number=3, show="hex")
        [link] = re.findall(r'href="/messages\?([^"]+)"', text)
        again = dict(parse_qsl(link.replace("&amp;", "&")))
        assert again["show"] == "hex"
        assert viewer.values(**again) == viewer.values(topic=topic)[3:4]
        assert "<details open>" in viewer.search(**again)[1]


def test_hostile_messages_are_text(viewer: Viewer) -> None:
    """Each of them, in list and body, in each form: no tag of theirs, no control, no turned text."""
    key, shown = viewer.search(topic="hostile")
    texts = [shown]
    for number in range(len(HOSTILE)):
        texts += [viewer.part("/messages/body", search=key, number=number, show=kind) for kind in KINDS]
    for text in texts:
        assert not re.search(r"<(script|img|svg|iframe|i)\b|<b>tag", text)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]", text)
        assert len(text) < 200_000
    assert "\\x1b[31mred\\x07\\u202egpj.exe" in shown
    assert "{{ 7 * 7 }}" in shown
    assert len(viewer.lines(topic="hostile", path="html")) == 1


def test_hostile_queries_are_text_or_errors(viewer: Viewer) -> None:
    """Names, places and numbers that anybody may write into a link."""
    evil = "\"'><script>x</script>{{7*7}}\u202e"
    for path in ("/cluster", "/groups", "/group", "/topic", "/move", "/messages", "/messages/more", "/messages/body"):
        for name in ("name", "q", "topic", "to", "from", "partition", "search", "regex", "show", "most", "page", "tag"):
            for text in (viewer.part(path, **{name: evil}), viewer.client.get(path, params={name: evil}).text):
                assert "<script>x" not in text
                assert "\u202e" not in text


def test_masked_text_is_nowhere(tube: EmbeddedTubeMQ) -> None:
    """Not in lists, bodies of any form, downloads or packs, and no filter finds it."""
    viewer = Viewer(settings_of(tube), "password", "card", "/411111[0-9]+/", "/odd/")
    key, shown = viewer.search(topic="clicks")
    texts = [shown, viewer.client.get(f"/messages/lines?search={key}").text]
    texts += [viewer.part("/messages/body", search=key, number=3, show=kind) for kind in ("text", "json", "hex")]
    for text in texts:
        assert not re.search("4111|hunter2|34 31 31 31|odd", text)
    for query in ({"text": "4111"}, {"text": "hunter2"}, {"regex": "41{5}"}, {"path": "user.card > 4"}):
        assert viewer.values(topic="clicks", **query) == []
    assert "this tag is masked" in viewer.part("/messages", topic="clicks", tag="odd")
    assert viewer.values(topic="shop", packs="closed") == viewer.values(topic="shop")
    assert viewer.values(topic="shop", text="card", most=1) == ["card=***&c=3"]


def test_without_messages_there_are_none(tube: EmbeddedTubeMQ) -> None:
    """No view, no link, no download."""
    viewer = Viewer(settings_of(tube), with_messages=False)
    assert "/messages" not in viewer.client.get("/cluster").text + viewer.part("/topic", name="clicks")
    for path in ("/messages?topic=clicks", "/messages/more?search=x", "/messages/lines?search=x"):
        assert viewer.client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"topic": "klicks"}, "did you mean clicks?"),
        ({"topic": "clicks", "from": "yesterday"}, "write earliest, latest, a time"),
        ({"topic": "clicks", "partition": "1:clicks:7"}, "[PARTITION_NOT_FOUND]"),
        ({"topic": "clicks", "from": "29"}, "not 0 or a positive multiple of 28"),
    ],
)
def test_what_is_wrong_ends_a_search(viewer: Viewer, query: dict[str, Any], words: str) -> None:
    """In the words of the commands."""
    assert words in viewer.search(**query)[1]
