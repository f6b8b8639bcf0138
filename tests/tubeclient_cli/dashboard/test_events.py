"""Commits as sentences."""

from __future__ import annotations

from tests.tubeclient_cli.dashboard.world import NOW_MS, commit
from tubeclient_cli.dashboard.events import events_json


def told(*commits: object) -> list[tuple[str, str]]:
    return [(event["kind"], event["text"]) for event in events_json(commits)]  # type: ignore[arg-type]


def test_commits_that_only_read_are_one_event() -> None:
    events = events_json([commit(NOW_MS - n * 1000, 100) for n in range(5)])
    assert [(event["text"], event["since"], event["at"]) for event in events] == [
        ("5 commits read 500 messages at most", NOW_MS - 4_000, NOW_MS)
    ]


def test_what_happens_between_parts_them() -> None:
    change = commit(changed_nodes=3, changes=((0, 1, 2), (None, 1, 1)), reason="sticky")
    assert told(commit(rows_read=1), change, commit(rows_read=2), commit(rows_read=3)) == [
        ("read", "1 commit read 1 message at most"),
        ("nodes", "3 partitions got another node: 2 from node 0 to node 1; 1 from node none to node 1 (sticky)"),
        ("read", "2 commits read 5 messages at most"),
    ]


def test_a_commit_that_reads_and_changes_tells_both_once() -> None:
    assert told(commit(rows_read=9), commit(rows_read=5, taken_over=1), commit(rows_read=7)) == [
        ("read", "1 commit read 9 messages at most"),
        ("nodes", "1 partition had backlog taken over"),
        ("read", "2 commits read 12 messages at most"),
    ]


def test_resets_rewinds_runs_and_partitions() -> None:
    assert told(commit(client_version="0.1.0 (offsets reset)", partitions_back=4, rows_back=9, new_run=True)) == [
        ("reset", "`tubeclient offsets reset` moved 4 partitions")
    ]
    [(kind, text)] = told(commit(partitions_back=1, rows_back=1200))
    assert (kind, text) == ("back", "1 partition went back, by 1,200 messages at most: these are read again")
    [(kind, text)] = told(commit(new_run=True, run_epoch=86_400_000))
    assert (kind, text) == ("run", "a new run with 2 nodes, begun 1970-01-02 00:00:00 UTC, release 0.1.0")
    assert told(commit(new_run=True, run_epoch=0)) == [("run", "a new run with 2 nodes, release 0.1.0")]
    assert told(commit(entered=2, left=1)) == [("partitions", "2 partitions came and 1 partition left")]


def test_there_are_never_too_many() -> None:
    assert len(events_json([commit(rows_read=n % 2, entered=n % 3) for n in range(1_000)])) == 60
