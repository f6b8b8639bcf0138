"""The views of groups, and moves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.tubeclient_cli.clusters import ClusterCommands
from tests.tubeclient_ui.viewer import Viewer, settings_of
from tests.waiting import wait_for
from tubeclient import Admin, PartitionKey, PullConsumer
from tubeclient_ui.access import LagHistory

A, B = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 1)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    """Ten messages in a store of two partitions, of which group `reads` has read four and two."""
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks", partitions=2)]) as tube:
        tube.load("clicks", [NewMessage(n % 2, b"x") for n in range(10)])
        Admin(settings_of(tube)).set_offsets("reads", {A: 112, B: 56})
        yield tube


def plan_of(text: str) -> str:
    [key] = re.findall(r'hx-post="(/moves\?plan=[^"]+)"', text)
    return str(key)


def test_groups_and_their_lag(own: EmbeddedTubeMQ) -> None:
    """A store's messages count once in the total, as in the command."""
    viewer = Viewer(settings_of(own))
    assert 'name=reads">reads</a>' in viewer.part("/groups")
    assert "reads" not in viewer.part("/groups", q="other")
    shown = ClusterCommands.of(own).json("groups", "show", "reads")
    text = viewer.part("/group", name="reads")
    assert shown["messagesBehindAtMost"] == 8
    assert "<b>8</b>" in text
    assert '<td class="n">112<td class="n">280<td class="n">6' in text
    assert '<td class="n">56<td class="n">280<td class="n">8' in text
    assert 'data-samples="[[' not in text


def test_who_owns_a_partition(own: EmbeddedTubeMQ) -> None:
    """The node, of what the clients report."""
    viewer = Viewer(settings_of(own))
    with PullConsumer(settings_of(own), "live", ["clicks"], source_count=2, node_id=1) as consumer:
        assert consumer.wait_ready(30_000)
        wait_for(lambda: str(B) + "</a>" in viewer.part("/group", name="live"), "the client's report")
        text = viewer.part("/group", name="live")
        assert "clients online: 1" in text
        assert "partitions without an owner: 1" in text
        assert re.search(rf"{B}</a>(\s*<td class=\"n\">[^<]+){{3}}\s*<td>1</tr>", text)


def test_the_line_has_the_last_hour() -> None:
    """Of the groups that were watched last, one sample a second at most."""
    history = LagHistory()
    for second in range(1_000):
        history.after("g", second, second)
        history.after("g", second + 0.5, 0)
    samples = list(history.after("g", 1_000, None))
    assert (len(samples), samples[-1]) == (720, (999, 999))
    for number in range(150):
        history.after(f"other{number}", 0.0, 1)
    assert list(history.after("g", 2_000, 5)) == [(2_000, 5)]


def test_a_page_that_may_not_change_moves_nothing(own: EmbeddedTubeMQ) -> None:
    """It shows the dry run, and the command; a button that somebody made up is refused."""
    viewer = Viewer(settings_of(own))
    text = viewer.part("/move", name="reads", to="latest")
    assert '<td>1:clicks:0<td class="n">112<td class="n">280<td class="n">6' in text
    assert "hx-post" not in text
    assert "tubeclient groups move reads --to latest --dry-run --master-servers" in text
    assert "--allow-changes lets it" in viewer.post("/moves?plan=x")
    assert Admin(settings_of(own)).group_offsets("reads").committed == {A: 112, B: 56}


def test_a_move_does_what_its_dry_run_showed(own: EmbeddedTubeMQ) -> None:
    """Once, and to the offsets that were shown, though messages came since."""
    viewer = Viewer(settings_of(own), allow_changes=True)
    button = plan_of(viewer.part("/move", name="reads", to="latest"))
    assert Admin(settings_of(own)).group_offsets("reads").committed == {A: 112, B: 56}
    own.load("clicks", [NewMessage(0, b"x")] * 5)
    assert "The group was moved." in viewer.post(button)
    assert Admin(settings_of(own)).group_offsets("reads").committed == {A: 280, B: 280}
    assert "make another one" in viewer.post(button)
    assert "these positions already" in viewer.part("/move", name="reads", to="280")
    assert "write earliest, latest" in viewer.part("/move", name="reads", to="yesterday")


def test_a_group_with_clients_is_not_moved(own: EmbeddedTubeMQ) -> None:
    """Unless that is wanted, also if they came after the dry run."""
    viewer = Viewer(settings_of(own), allow_changes=True)
    button = plan_of(viewer.part("/move", name="reads", to="latest"))
    with PullConsumer(settings_of(own), "reads", ["clicks"]) as consumer:
        assert consumer.wait_ready(30_000)
        assert "1 client online" in viewer.part("/move", name="reads", to="latest")
        assert "1 client online" in viewer.post(button)
        plan_of(viewer.part("/move", name="reads", to="earliest", force=1))


def test_positions_beyond_the_end_are_red(own: EmbeddedTubeMQ) -> None:
    """With the command that moves them back."""
    viewer = Viewer(settings_of(own))
    own.inspect(lambda broker: broker.stores.get("clicks", 0).truncate(84))
    text = viewer.part("/group", name="reads")
    assert "Positions are beyond the last message: 1:clicks:0" in text
    assert "tubeclient groups move reads --to latest --dry-run" in text
