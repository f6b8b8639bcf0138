"""The views of a cluster that takes connections and never answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tubeclient_ui.test_job_views import past, spark, views
from tests.tubeclient_ui.viewer import Viewer
from tubeclient import ClientSettings
from tubeclient_ingest.job import Ingest

__all__ = ["spark", "views"]


@pytest.mark.parametrize("path", ["/cluster", "/topic", "/groups", "/group", "/move"])
def test_a_view_says_that_nobody_answers(hung: ClientSettings, path: str) -> None:
    """Its frame is there at once, as it asks nobody."""
    viewer = Viewer(hung, allow_changes=True)
    assert "Asking the cluster" in viewer.client.get(path).text
    text = viewer.part(path, name="clicks", to="latest")
    assert "[MASTER_UNREACHABLE]" in text
    assert f"tubeclient doctor --master-servers {hung.master_servers[0]}" in text
    assert ("The cluster could not be asked" in text) is (path == "/cluster")


def test_messages_of_a_hung_cluster(hung: ClientSettings) -> None:
    """A search, the list of topics, and a schema that is tried on a topic end with the reason."""
    viewer = Viewer(hung)
    assert 'id="view"' in viewer.client.get("/messages?topic=clicks").text
    assert "[MASTER_UNREACHABLE]" in viewer.search(topic="clicks")[1]
    assert "[MASTER_UNREACHABLE]" in viewer.part("/messages/topics")
    assert "[MASTER_UNREACHABLE]" in viewer.part("/schema", topic="clicks", schema="a INT")
    assert "Nothing is written" in viewer.part("/schema")


def test_a_job_of_a_hung_cluster(
    hung: ClientSettings, views: Callable[..., Viewer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its rounds come from the table; only how far it is behind is unknown."""
    monkeypatch.setattr(Ingest, "history", lambda _, limit: [past(1, 50)])
    text = views(settings=hung).part("/job")
    assert "[MASTER_UNREACHABLE]" in text
    assert "<b>\u2013</b> messages behind" in text
    assert '<td class="n">50' in text
