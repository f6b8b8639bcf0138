"""The jobs of docs/command-line.md with the shipped settings: only addresses, paths and Spark's size are the test's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from jobs.mirror_topic import mirror_topic
from jobs.replay_range import replay_range
from tests.spark_home import SPARK_HOME, delta_confs
from tests.test_docs_examples import page_of
from tubeclient import ClientSettings, Producer, PullConsumer
from tubeclient_cli.common.terminal import script_app

ROOT = Path(__file__).resolve().parents[2]
MINUTES = ("202611211030", "202611211031", "202611211032", "202611211033", "202611211034")
SPARK = """
spark.driver.memory 1g
spark.ui.enabled false
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.sql.shuffle.partitions 2
"""


def settings_of(tube: EmbeddedTubeMQ) -> ClientSettings:
    return ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)


def place(folder: Path, first: EmbeddedTubeMQ, second: EmbeddedTubeMQ) -> None:
    """The repository as a user has it, whose settings name these clusters and a lake in `folder`."""
    (folder / "jobs").symlink_to(ROOT / "jobs")
    shutil.copytree(ROOT / "conf", folder / "conf")
    for path in (folder / "conf").glob("*.toml"):
        text = path.read_text().replace('"10.0.0.1:8715"', f'"{first.master_address}"')
        text = text.replace('"10.1.0.1:8715"', f'"{second.master_address}"').replace('"/lake/', f'"{folder}/lake/')
        text = text.replace("masterWebPort = 8080", f"masterWebPort = {first.master_web_port}")
        path.write_text(text.replace("sourceCount = 8", "sourceCount = 2"))
    confs = folder / "conf" / "spark-defaults.conf"
    own = delta_confs().keys()
    lines = [line for line in confs.read_text().splitlines() if not line.startswith(tuple(own) or "\0")]
    confs.write_text("\n".join(lines) + SPARK)


def run(folder: Path, line: str) -> str:
    """What a line of the page prints, as a shell runs it; exit code 0."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SPARK_HOME": str(SPARK_HOME),
    }
    line = line.replace("/path/to/venv/bin/python", sys.executable)
    done = subprocess.run(
        line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def messages_of(tube: EmbeddedTubeMQ, topic: str, count: int) -> Counter[tuple[object, ...]]:
    """Body, tag, time and attributes of so many messages, and of those that come within a second of the last."""
    found: Counter[tuple[object, ...]] = Counter()
    with PullConsumer(settings_of(tube), f"looker_{uuid.uuid4().hex}", [topic], start_from="earliest") as consumer:
        while (pack := consumer.get(timeout_ms=20_000 if found.total() < count else 1_000)) is not None:
            found.update((one.body, one.tag, one.time, tuple(sorted(one.attributes.items()))) for one in pack)
            consumer.confirm(pack)
    return found


@pytest.mark.parametrize(
    ("command", "words"),
    [(mirror_topic, "At least once"), (replay_range, "A second run")],
)
def test_the_help_says_what_the_job_promises_and_how_it_ends(command: Callable[..., None], words: str) -> None:
    done = CliRunner().invoke(script_app(command), ["--help"])
    script = f"jobs/{command.__name__}.py --settings conf/"
    assert (done.exit_code, done.stderr) == (0, "")
    for wanted in (words, script, "Exit codes:"):
        assert wanted in done.stdout
    assert script in page_of("command-line.md")


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_lines_of_the_page_run_as_written(tmp_path: Path) -> None:
    page = page_of("jobs.md")
    mirror, replay = (
        next(line for line in re.findall(r"^    (\S.*)$", page.replace("\\\n", " "), re.MULTILINE) if script in line)
        for script in ("mirror_topic.py", "replay_range.py")
    )
    with (
        EmbeddedTubeMQ(tmp_path / "first", [TopicConfig("clicks", stores=2)]) as first,
        EmbeddedTubeMQ(tmp_path / "second", [TopicConfig("clicks")]) as second,
    ):
        with Producer(settings_of(first)) as producer:
            producer.publish(["clicks"])
            for minute in MINUTES:
                for number in range(10):
                    tag = "web" if number % 2 else ""
                    producer.send("clicks", b"%d" % number, tag=tag, time=minute, attributes={"n": str(number)})
        place(tmp_path, first, second)

        assert run(tmp_path, mirror).splitlines()[-1] == "done: 50 rows"
        sent = messages_of(first, "clicks", 50)
        assert sent.total() == 50
        assert {time for _, _, time, _ in sent} == set(MINUTES)
        assert messages_of(second, "clicks", 50) == sent

        where = tmp_path / "lake" / "clicks_again"
        assert run(tmp_path, replay) == f"done: replay clicks of 2026-11-21 is in {where}\n"
        rows = QueryBuilder().register("t", DeltaTable(str(where))).execute('SELECT "messageTime" FROM t').read_all()
        assert len(rows) == 20
