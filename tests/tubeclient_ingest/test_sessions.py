"""What a session says of writes to Delta is said of the user's writes, and not of the job's."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from embedded_tubemq.storage.store import NewMessage
from spark_source.session_confs import session_confs
from tests.tubeclient_ingest.bench import Bench

pytestmark = pytest.mark.spark

DELTA = "spark.databricks.delta."
HOW = {"format": "canal-json", "schema": "id BIGINT NOT NULL, name STRING", "key": ("id",)}


def send(bench: Bench, kind: str, *ids: int, at: int) -> None:
    """A change of each row, and two messages that are none."""
    made = ({"data": [{"id": str(n), "name": f"n{at}"}], "type": kind, "es": at, "ts": at, "id": 1} for n in ids)
    bodies = [*(json.dumps(one).encode() for one in made), b"{", b"["]
    bench.tube.load("clicks", [NewMessage(0, body) for body in bodies])


def test_a_transaction_of_the_session_is_none_of_the_jobs(bench: Bench) -> None:
    bad = str(bench.folder / "bad")
    of_session = {
        f"{DELTA}write.txnAppId": "mine",
        f"{DELTA}write.txnVersion": "7",
        f"{DELTA}commitInfo.userMetadata": "mine",
    }
    with session_confs(bench.spark, of_session):
        send(bench, "INSERT", 1, 2, 3, at=10)
        send(bench, "DELETE", 1, at=30)
        bench.run(**HOW, bad_records=bad)
        send(bench, "DELETE", 2, at=30)
        bench.run(**HOW, bad_records=bad)
        send(bench, "UPDATE", 1, 2, 3, at=20)  # late: 1 and 2 are gone by then
        bench.run(**HOW, bad_records=bad)
        assert {name: bench.spark.conf.get(name) for name in of_session} == of_session
    rows = DeltaTable(bench.settings.target).to_pyarrow_table(columns=["id", "name"]).to_pylist()
    assert rows == [{"id": 3, "name": "n20"}]
    assert len(DeltaTable(bad).to_pyarrow_table()) == 8


def test_a_compaction_that_repeats_a_commits_text_is_no_commit_of_the_group(bench: Bench) -> None:
    compacts = {f"{DELTA}autoCompact.enabled": "true", f"{DELTA}autoCompact.minNumFiles": "2"}
    bad = str(bench.folder / "bad")
    with session_confs(bench.spark, compacts):
        for at in range(4):
            send(bench, "INSERT", *range(10 * at, 10 * at + 10), at=at)
            assert [(one.rows, one.bad_rows) for one in bench.run(**HOW, bad_records=bad)] == [(10, 2)]
    done = [one["operation"] for one in DeltaTable(bench.settings.target).history()]
    assert "OPTIMIZE" in done
    ids = DeltaTable(bench.settings.target).to_pyarrow_table(columns=["id"]).column("id").to_pylist()
    assert sorted(ids) == [*range(40)]
