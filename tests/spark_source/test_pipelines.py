"""Spark's Declarative Pipelines: the pipeline of docs/running.md, run and run again."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pyarrow.dataset
import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.spark_home import SPARK_HOME
from tests.spark_source.other_driver import HERE, ROOT, SMALL, environment

RUN_SECONDS = 280
PAGE = ROOT / "docs" / "running.md"


def project(folder: Path, tube: EmbeddedTubeMQ) -> None:
    """The pipeline's files, and a Spark whose catalog outlives a run."""
    [code] = re.findall(r"<!-- a pipeline -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    code = code.replace('"10.0.0.1:8715"', f'"{tube.master_address}", masterWebPort="{tube.master_web_port}"')
    (folder / "transformations").mkdir()
    (folder / "transformations" / "clicks.py").write_text(code.replace("/lake/", f"{folder}/"))
    (folder / "spark-pipeline.yml").write_text(
        f"name: clicks\nstorage: file://{folder}/storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
    )
    confs = {
        **{name: value for name, value in SMALL.items() if name != "spark.master"},
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
    }
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text("".join(f"{name} {confs[name]}\n" for name in confs))


def run(folder: Path) -> None:
    command = [str(SPARK_HOME / "bin" / "spark-pipelines"), "run", "--remote", "local[2]"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment(HERE), "SPARK_CONF_DIR": str(folder / "conf")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.spark
@pytest.mark.timeout(2 * RUN_SECONDS + 40)
def test_each_message_is_in_the_pipelines_table_once(tmp_path: Path) -> None:
    sent: list[bytes] = []
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks", stores=2, partitions=2)], brokers=2) as tube:
        project(tmp_path, tube)
        for _ in range(2):
            for broker in tube.broker_ids:
                bodies = [b"click %d" % number for number in range(len(sent), len(sent) + 100)]
                tube.load(
                    "clicks",
                    [NewMessage(n % 2 * 10_000 + n // 2 % 2, body) for n, body in enumerate(bodies)],
                    broker_id=broker,
                )
                sent += bodies
            run(tmp_path)
    files = [str(path) for path in (tmp_path / "warehouse" / "clicks").rglob("*.parquet")]
    rows = pyarrow.dataset.dataset(files).to_table().column("click").to_pylist()
    assert sorted(rows) == sorted(body.decode() for body in sent)
