"""Spark's Declarative Pipelines: the pipeline of docs/running.md, run and run again."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pyarrow.dataset
import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.spark_home import SPARK_HOME
from tests.spark_source.connect_server import ConnectServer
from tests.spark_source.other_driver import HERE, ROOT, environment, texts

RUN_SECONDS = 120
PAGE = ROOT / "docs" / "running.md"


def write_project(folder: Path, tube: EmbeddedTubeMQ) -> None:
    """The pipeline's files, with the page's code on this cluster."""
    text = PAGE.read_text(encoding="utf-8")
    [code] = re.findall(r"<!-- test_pipelines.py runs this -->\n```python\n(.*?)```", text, re.DOTALL)
    code = code.replace('"10.0.0.1:8715"', f'"{tube.master_address}", masterWebPort="{tube.master_web_port}"')
    (folder / "transformations").mkdir()
    (folder / "transformations" / "clicks.py").write_text(code.replace("/lake/", f"{folder}/"))
    (folder / "spark-pipeline.yml").write_text(
        f"name: clicks\nstorage: file://{folder}/storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
    )


def run(folder: Path) -> None:
    """On a server of its own: as with a user's session, its catalog is all that is left for the next run."""
    confs = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
    }
    with ConnectServer(folder, confs) as server:
        done = subprocess.run(
            [str(SPARK_HOME / "bin" / "spark-pipelines"), "run", "--remote", server.url],
            cwd=folder,
            env=environment(HERE),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_each_message_is_in_the_pipelines_table_once(tmp_path: Path) -> None:
    sent: list[bytes] = []
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks", stores=2, partitions=2)], brokers=2) as tube:
        write_project(tmp_path, tube)
        for _ in range(2):
            for broker in tube.broker_ids:
                bodies = [b"click %d" % number for number in range(len(sent), len(sent) + 100)]
                messages = [NewMessage(n % 2 * 10_000 + n // 2 % 2, body) for n, body in enumerate(bodies)]
                tube.load("clicks", messages, broker_id=broker)
                sent += bodies
            run(tmp_path)
    files = [str(path) for path in (tmp_path / "warehouse" / "clicks").rglob("*.parquet")]
    rows = pyarrow.dataset.dataset(files).to_table().column("click").to_pylist()
    assert sorted(rows) == texts(sent)
