"""What people see of a group's partitions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO

from offsets_store import GroupKey
from offsets_store.health import GroupHealth, PartitionHealth, Verdict
from tubeclient import PartitionKey
from tubeclient_cli.common.console import PlainConsole
from tubeclient_cli.offsets.display import print_status
from tubeclient_cli.offsets.status import GroupStatus

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def shown(partitions: Sequence[PartitionHealth]) -> list[str]:
    """The lines of the table, with single blanks."""
    out = StringIO()
    status = GroupStatus(GroupKey.of("g", "clicks"), GroupHealth.of(partitions), commits=4, window=10, clients=None)
    print_status(PlainConsole(file=out, width=250), status)
    table, _, _ = out.getvalue().partition("partitions that are OK")
    return [" ".join(line.split()) for line in table.splitlines()[2:]]


def stopped(key: PartitionKey, rows: int) -> PartitionHealth:
    why = f"no commit for 30 min while {rows:,} messages wait"
    return PartitionHealth(key, Verdict.STOP, why, rows, 28 * key.partition_id, NOON)


def test_a_reason_is_written_once_and_neighbours_share_a_row() -> None:
    found = [stopped(PartitionKey(broker, "clicks", number), 7) for broker in (1, 2) for number in range(8)]
    assert shown(found) == [
        "1:clicks:0-7 STOP 7 2026-11-23 12:00:00+00:00 no commit for 30 min while 7 messages wait",
        "2:clicks:0-7 STOP 7 2026-11-23 12:00:00+00:00 likewise",
    ]


def test_a_reason_may_differ_in_its_rows_only() -> None:
    found = [stopped(PartitionKey(1, "clicks", number), rows) for number, rows in enumerate((1_000, 1, 7))]
    found.append(PartitionHealth(PartitionKey(1, "clicks", 3), Verdict.UNKNOWN, "its broker is down"))
    found.append(PartitionHealth(PartitionKey(1, "clicks", 4), Verdict.WARN, "the lag never fell", 5, 0, NOON))
    assert [line.split("00:00 ")[-1] for line in shown(found)] == [
        "no commit for 30 min while 1,000 messages wait",
        "likewise",
        "likewise",
        "the lag never fell",
        "1:clicks:3 UNKNOWN unknown - its broker is down",
    ]
