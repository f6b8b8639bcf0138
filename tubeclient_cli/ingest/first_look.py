"""What an ingest job asks the masters before Spark starts, so that a typo in a topic or an address is told at once."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from spark_source.cluster.cluster import TubeCluster, check_scope
from spark_source.options.access import client_settings
from spark_source.options.given import parse_options
from spark_source.session import is_submitted
from tubeclient.errors import TubeError
from tubeclient.metadata import ClusterView
from tubeclient_cli.common.deadline import within
from tubeclient_cli.ingest.settings import IngestSettings

__all__ = ["look_first"]

_log = logging.getLogger(__name__)

_SECONDS: Final = 9.0
_PATIENCE_MS: Final = 2_000
"""For other clients of the reader groups."""

_OF_ANY_RUN: Final = frozenset({"TOPIC_NOT_FOUND"})
"""With these the source's planner fails at once, whatever its checkpoint has."""

_OF_NEW_RUNS: Final = _OF_ANY_RUN | {"MASTER_UNREACHABLE", "NOT_TUBEMQ", "AUTHENTICATION_FAILED", "FILE_NOT_READABLE"}
"""A run that goes on may be a service's, and its master may be back by the time Spark is up."""


def look_first(settings: IngestSettings, within_s: float = _SECONDS) -> ClusterView | None:
    """Raise what the job's query would raise for its masters and topics: a TubeError. It is one question to a master.
    Returns its answer; None without one.

    Only what is certain and the user's to mend is raised. No answer within `within_s`, and everything else, is left to
    the query.
    """
    options = parse_options(settings.options("earliest"))
    is_new = _is_new(settings.checkpoint)

    def look() -> ClusterView:
        access = client_settings(options)
        access = replace(access, retry_limit_ms=min(access.retry_limit_ms, _PATIENCE_MS))
        view = TubeCluster(access, options).fetch_view()
        if is_new:
            check_scope(options, view)
        return view

    try:
        return within(within_s, look)
    except TubeError as error:
        if error.condition in (_OF_NEW_RUNS if is_new else _OF_ANY_RUN):
            raise
    except Exception as error:
        _log.debug("the look before Spark starts came to nothing: %s", error)
    return None


def _is_new(checkpoint: str) -> bool:
    """Whether the checkpoint certainly has no query yet. Only folders of this machine are looked at; under spark-submit
    a path may be another file system's."""
    place = checkpoint.strip()
    if place.lower().startswith("file:"):
        place = "/" + place[len("file:") :].lstrip("/")
    elif "://" in place or is_submitted():
        return False
    return not (Path(place) / "metadata").exists()
