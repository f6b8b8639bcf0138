"""What the job of an InLong group reports to Audit, and what `tubeclient audit` says of its counts table."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from tests.apache.jvm import free_ports
from tests.tubeclient.inlong_audit import Row, audit_proxy, audit_service
from tests.tubeclient_ingest import test_streams
from tests.tubeclient_ingest.test_streams import MINUTE_MS, STREAMS, Shop, shop
from tubeclient.errors import ConfigurationError
from tubeclient_cli.app import app
from tubeclient_ingest.settings.load_settings import load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["shop"]

HOUR_MS = 60 * MINUTE_MS


@pytest.fixture
def now_shop(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop whose records are of the hour before the last."""
    monkeypatch.setattr(test_streams, "BEGAN_MS", (int(time.time() * 1000) // HOUR_MS - 2) * HOUR_MS)
    return shop


def table_counts(shop: Shop) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Received and written of each row of the counts table."""
    rows = DeltaTable(f"{shop.lake}/_counts").to_pyarrow_table().to_pylist()
    return {
        (one["stream"], int(one["minute"].timestamp() * 1000), one["runId"], one["sequence"]): (
            one["received"],
            one["written"],
        )
        for one in rows
    }


def reported(rows: list[Row], audit_id: str) -> dict[tuple[Any, ...], int]:
    return {(one.stream, one.log_ts, one.thread, one.packet): one.records for one in rows if one.audit_id == audit_id}


@pytest.mark.merge
def test_reported_counts_match_counts_table(delta_spark: SparkSession, now_shop: Shop, tmp_path: Path) -> None:
    """What the job reports to Audit equals its counts table and what DataProxy sent."""
    rows: list[Row] = []
    with audit_proxy(rows, []) as port:
        more = {"format": "json", "schema": "id BIGINT", "bad_records": f"{now_shop.lake}/_bad"}
        for bad in (0, 2):
            now_shop.send("orders", bad=bad)
            now_shop.send("views")
        done = now_shop.run(audit_proxies=f"127.0.0.1:{port}", max_offsets_per_trigger=2, **more)
    assert done.rounds == 2
    counts = table_counts(now_shop)
    assert len(counts) == 4
    assert reported(rows, "33") == {key: received for key, (received, _) in counts.items()}
    assert reported(rows, "34") == {key: written for key, (_, written) in counts.items()}
    # All that the job received is what DataProxy sent.
    settings = tmp_path / "ingest.toml"
    job = {
        "master-servers": "h:1",
        "consumer-group": "lake",
        "inlong-group": "shop",
        "target": now_shop.settings.target,
    }
    settings.write_text("[ingest]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in job.items()))
    sent = [one._replace(audit_id="6") for one in rows if one.audit_id == "33"]
    with audit_service([*sent, sent[0]._replace(packet=99)]) as (url, _):
        lost = CliRunner().invoke(app, ["audit", "--settings", str(settings), "--audit", url, "--json"])
    with audit_service(sent) as (url, _):
        found = CliRunner().invoke(app, ["audit", "--settings", str(settings), "--audit", url, "--json"])
    assert found.exit_code == 0, found.output
    lines = json.loads(found.stdout)["hours"]
    assert [(one["stream"], one["sent"], one["received"], one["written"], one["bad"]) for one in lines] == [
        ("orders", 20, 20, 18, 2),
        ("views", 20, 20, 20, 0),
    ]
    assert [(one["missing"], one["state"]) for one in json.loads(lost.stdout)["hours"] if one["missing"]] == [
        (10, "edge")
    ]


def test_a_proxy_that_is_down_stops_nothing(
    delta_spark: SparkSession, now_shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    [port] = free_ports(1)
    now_shop.send(*STREAMS)
    with caplog.at_level(logging.WARNING):
        assert now_shop.run(audit_proxies=f"127.0.0.1:{port}").rows == 30
    now_shop.check()
    assert f"no audit-proxy accepts reports (127.0.0.1:{port}" in caplog.text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"inlong_group": None, "target": "/t", "topics": ("t",)}, "audit-proxies needs inlong-group"),
        *(
            ({"audit_proxies": one}, "audit-proxies must look like HOST:PORT")
            for one in ("", "audit", "u:geheim@h:1", "a:1,b")
        ),
    ],
)
def test_audit_proxies_that_cannot_be_meant(given: dict[str, Any], message: str) -> None:
    base = {"master_servers": "m:1", "consumer_group": "g", "inlong_group": "shop", "target": "/lake/{stream}"}
    with pytest.raises(ConfigurationError, match=message) as raised:
        load_settings(None, {**base, "audit_proxies": "audit:10081", **given})
    assert "geheim" not in str(raised.value)
