"""How far behind a group is, by its table and by its brokers: a document for scripts, and how people see it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from rich.console import Console

from offsets_store import GroupKey, GroupProgress
from spark_source.cluster.cluster import TubeCluster
from spark_source.options.access import client_settings
from spark_source.options.given import parse_options
from tubeclient.admin import Admin, GroupMember
from tubeclient.admin.broker_webs import own_web
from tubeclient.keys import StoreBounds, StoreKey, rows_behind
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import OffsetLookup
from tubeclient.printable import counted
from tubeclient_cli.common.cluster import further_options, with_web_port
from tubeclient_cli.common.tables import beyond_end, print_rows, time_text
from tubeclient_cli.facts.groups import messages_behind

_FLAGS = {"offsetstable": "--offsets-table", "subscribepattern": "--topic-pattern", "messagetimezone": "--time-zone"}


class Brokers:
    """What brokers and master say about the topics of `key`, asked once, on first use. `options` are the source's
    connection options. Methods and properties raise TubeError."""

    def __init__(self, master_servers: str, key: GroupKey, options: Mapping[str, str]) -> None:
        topics = {"subscribe": ",".join(key.topics)} if key.pattern is None else {"subscribePattern": key.pattern}
        self._options = parse_options(
            {**with_web_port(options), "masterServers": master_servers, "consumerGroup": key.consumer_group} | topics
        )
        self._settings = client_settings(self._options)

    @cached_property
    def lookup(self) -> OffsetLookup:
        return OffsetLookup(self._settings, self._options.reader_groups)

    @cached_property
    def view(self) -> ClusterView:
        """The existing partitions."""
        return TubeCluster(self._options).fetch_view()

    @cached_property
    def bounds(self) -> Mapping[StoreKey, StoreBounds]:
        return self.lookup.bounds(self.view)

    def consumers(self) -> tuple[GroupMember, ...]:
        """The group's clients that the master knows, Spark queries among them."""
        return tuple(Admin(own_web(self._settings)).group(self._options.consumer_group).members)


@contextlib.contextmanager
def brokers_of(master_servers: str, key: GroupKey, options: list[str] | None) -> Iterator[Brokers]:
    """The part of the cluster that `key` reads. ConfigurationError."""
    brokers = Brokers(master_servers, key, further_options(options, _FLAGS))
    try:
        yield brokers
    finally:
        if "lookup" in vars(brokers):
            brokers.lookup.close()


def progress_json(progress: GroupProgress, brokers: Brokers | None) -> dict[str, Any]:
    """The progress with its lag: as of the group's commit, or, with `brokers`, as of now. Then a partition that the
    table does not have counts from its beginning; one that left the cluster does not count."""
    known = {row.partition: row for row in progress.partitions}
    behind, expired = progress.rows_behind, 0
    lags = {key: (row.end_offset, row.lag) for key, row in known.items()}
    beyond = []
    if brokers is not None:
        limits = {key: brokers.bounds[key.store] for key in sorted(brokers.view.partitions())}
        at = progress.positions
        behind = messages_behind(limits, at)
        expired = rows_behind({key: limits[key].min_offset for key in limits.keys() & at.keys()}, at)
        lags = {key: (bounds.max_offset, bounds.rows_behind(at.get(key))) for key, bounds in limits.items()}
        beyond = [str(key) for key, bounds in limits.items() if at.get(key, 0) > bounds.max_offset]
    return {
        "topicSet": progress.group.topic_set,
        "sequence": progress.sequence,
        "runEpoch": progress.run_epoch,
        "updatedAt": time_text(progress.updated_at),
        "sourceCount": progress.source_count,
        "clientVersion": progress.client_version,
        "endsAsOf": time_text(progress.updated_at) if brokers is None else "now",
        "messagesBehindAtMost": behind,
        "messagesExpiredAtMost": expired,
        "beyondEnd": beyond,
        "partitions": [
            {
                "partition": str(key),
                "nextOffset": row and row.next_offset,
                "endOffset": end,
                "messagesBehindAtMost": lag,
                "nodeId": row and row.node_id,
                "startOffset": row and row.start_offset,
                "readers": [part.as_json() for part in row.readers] if row else [],
                "reason": row and row.reason,
            }
            for key, (end, lag) in lags.items()
            for row in [known.get(key)]
        ],
    }


def print_progress(console: Console, group: str, shown: Mapping[str, Any]) -> None:
    console.print(
        f"{group} on {shown['topicSet']}: commit {shown['sequence']} of {shown['updatedAt']}, run {shown['runEpoch']}, "
        f"{counted(shown['sourceCount'], 'node')}, written by {shown['clientVersion']}; ends as of {shown['endsAsOf']}",
        soft_wrap=True,
    )
    print_rows(console, shown["partitions"], leave_out=("startOffset", "readers"))
    behind = shown["messagesBehindAtMost"]
    console.print(f"total messages behind, at most: {'unknown' if behind is None else f'{behind:,}'}")
    if shown["messagesExpiredAtMost"]:
        console.print(f"unread messages that the brokers no longer hold, at most: {shown['messagesExpiredAtMost']:,}")
    if shown["beyondEnd"]:
        console.print(beyond_end(shown["beyondEnd"]), soft_wrap=True)
