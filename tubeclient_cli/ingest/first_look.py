"""What `ingest` asks the masters before Spark starts, so that a typo in a topic or an address is told at once."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from spark_source.cluster.cluster import TubeCluster, check_scope
from spark_source.options.access import client_settings
from spark_source.options.given import parse_options
from spark_source.options.source_options import SourceOptions
from tubeclient.errors import TubeError
from tubeclient.flows.hold_group import MASTER_LEASE_MS
from tubeclient.identity import makers_of
from tubeclient.metadata import ClusterView
from tubeclient_cli.common.deadline import within
from tubeclient_cli.common.printable import counted
from tubeclient_ingest.settings import IngestSettings

__all__ = ["look_first"]

_log = logging.getLogger(__name__)

_SECONDS: Final = 9.0
_GROUP_SECONDS: Final = 0.4
_PATIENCE_MS: Final = 2_000
"""For other clients of the reader groups."""

_CERTAIN: Final = frozenset(
    {"TOPIC_NOT_FOUND", "MASTER_UNREACHABLE", "NOT_TUBEMQ", "AUTHENTICATION_FAILED", "FILE_NOT_READABLE"}
)


def look_first(settings: IngestSettings, within_s: float = _SECONDS) -> str | None:
    """Raise what the job would raise for its masters and topics: a TubeError. It is one question to a master. Returns
    a line that says who is in the group now; None if nobody is, or if the masters' web port does not say so at once.

    Only what is certain and the user's to mend is raised. No answer within `within_s`, and everything else, is left to
    the job. Clients in the group are no reason not to start: a dead one is in its group until its lease ends.
    """
    options = parse_options(settings.options("earliest"))

    def look() -> ClusterView:
        access = client_settings(options)
        access = replace(access, retry_limit_ms=min(access.retry_limit_ms, _PATIENCE_MS))
        view = TubeCluster(access, options).fetch_view()
        check_scope(options, view)
        return view

    try:
        view = within(within_s, look)
    except TubeError as error:
        if error.condition in _CERTAIN:
            raise
        return None
    except Exception as error:
        _log.debug("the look before Spark starts came to nothing: %s", error)
        return None
    try:
        ids = within(_GROUP_SECONDS, lambda: _in_group(options, view))
    except Exception as error:
        _log.debug("the look at the group before Spark starts came to nothing: %s", error)
        return None
    if not ids:
        return None
    group = settings.consumer_group
    return (
        f"group {group} has {counted(len(ids), 'client')} now: {makers_of(ids, group)}. Once Spark is up, the job "
        f"waits up to {options.group_join_timeout_ms / 1000:.0f} s for them to end; a dead one is gone after "
        f"{MASTER_LEASE_MS / 1000:.0f} s"
    )


def _in_group(options: SourceOptions, view: ClusterView) -> list[str]:
    """The ids of the group's clients; none if the web port is another cluster's."""
    from tubeclient.admin import Admin
    from tubeclient.web_port import web_port_fault

    access = client_settings(options)
    admin = Admin(access)
    ids = [member.client_id for member in admin.group(options.consumer_group).members]
    is_own = not ids or web_port_fault(access.master_web_port, admin.brokers(), view.brokers.values()) is None
    return ids if is_own else []
