"""Whether an ingest job will have to wait for its group, asked before Spark starts."""

from __future__ import annotations

import logging
from typing import Final

from spark_source.options.access import client_settings
from spark_source.options.given import parse_options
from tubeclient.flows.hold_group import MASTER_LEASE_MS
from tubeclient.identity import makers_of
from tubeclient.metadata import ClusterView
from tubeclient_cli.common.deadline import within
from tubeclient_cli.common.printable import counted
from tubeclient_cli.ingest.settings import IngestSettings

__all__ = ["group_in_use"]

_log = logging.getLogger(__name__)

_SECONDS: Final = 0.4


def group_in_use(settings: IngestSettings, view: ClusterView, within_s: float = _SECONDS) -> str | None:
    """A line that says who is in the group now; None if nobody is, or if the masters' web port does not say so within
    `within_s`. `view` is what the masters showed: another cluster's web port is not believed.

    It is no reason not to start: a dead client is in its group until its lease ends.
    """
    group = settings.consumer_group
    options = parse_options(settings.options("earliest"))

    def look() -> list[str]:
        from tubeclient.admin import Admin
        from tubeclient.web_port import web_port_fault

        access = client_settings(options)
        admin = Admin(access)
        ids = [member.client_id for member in admin.group(group).members]
        is_own = not ids or web_port_fault(access.master_web_port, admin.brokers(), view.brokers.values()) is None
        return ids if is_own else []

    try:
        ids = within(within_s, look)
    except Exception as error:
        _log.debug("the look at the group before Spark starts came to nothing: %s", error)
        return None
    if not ids:
        return None
    return (
        f"group {group} has {counted(len(ids), 'client')} now: {makers_of(ids, group)}. Once Spark is up, the job "
        f"waits up to {options.group_join_timeout_ms / 1000:.0f} s for them to end; a dead one is gone after "
        f"{MASTER_LEASE_MS / 1000:.0f} s"
    )
