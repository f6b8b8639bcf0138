"""Files of earlier versions are gone on from: a checkpoint, an offsets table, and a target with the job's commits.

`tests.golden.make` says how the files came about.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.golden.make import PARTS, SENT
from tests.tubeclient_ingest.bench import KEYS, Bench
from tubeclient_ingest.record import SinkRecord

pytestmark = pytest.mark.spark

VERSIONS = sorted(folder.name for folder in Path(__file__).parent.glob("v*"))


@pytest.fixture(params=VERSIONS)
def golden(request: pytest.FixtureRequest, bench: Bench) -> Bench:
    """A job whose files a release with this version wrote."""
    for part in ("checkpoint", *PARTS):
        shutil.copytree(Path(__file__).parent / request.param / part, bench.folder / part)
    bench.send(SENT)
    record = SinkRecord.parse(DeltaTable(bench.settings.target).history(1)[0]["userMetadata"])
    assert record is not None
    bench.settings = replace(bench.settings, former_masters=",".join(record.masters))
    return bench


def test_a_job_goes_on_from_the_files_of_a_version(golden: Bench) -> None:
    assert golden.table_positions() == dict.fromkeys(KEYS, 28 * 25)
    golden.send(20)
    assert golden.rows() == 20
    assert golden.repeated_or_missing() == {}
    assert golden.table_positions() == dict.fromkeys(KEYS, 28 * 35)


def test_a_query_says_that_its_checkpoint_is_of_a_newer_version(golden: Bench, tmp_path: Path) -> None:
    settings = golden.settings
    offsets = golden.folder / "checkpoint" / "offsets" / "2"
    *head, last = offsets.read_text().splitlines()
    newer = json.dumps({**json.loads(last), "version": 2, "epochs": [1]})
    offsets.write_text("\n".join([*head, newer]))
    frame = golden.spark.readStream.format("tubeclient").options(
        masterServers=settings.master_servers,
        masterWebPort=settings.source_options["masterWebPort"],
        consumerGroup="another",
        subscribe="clicks",
    )
    rows = frame.load().writeStream.format("noop").option("checkpointLocation", str(golden.folder / "checkpoint"))
    with pytest.raises(Exception, match="the offsets have version 2, of a newer release of pyspark-tubeclient"):
        rows.trigger(availableNow=True).start().awaitTermination(60)
