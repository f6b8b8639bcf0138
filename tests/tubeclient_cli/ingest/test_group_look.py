"""`tubeclient ingest` tells before Spark starts that its group has clients, and nothing of what it cannot know."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.front_door import FrontDoor, Manner
from tests.tubeclient_cli.ingest.test_first_look import command, settings
from tubeclient import ClientSettings
from tubeclient.group import GroupMembership
from tubeclient.metadata import ClusterView
from tubeclient_cli.ingest.first_look import look_first
from tubeclient_cli.ingest.group_look import group_in_use
from tubeclient_cli.ingest.settings import IngestSettings

PATIENT_S = 30.0
"""For what is expected to come, on a busy machine."""


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), [TopicConfig("clicks")]) as running:
        yield running


@pytest.fixture
def member(tube: EmbeddedTubeMQ) -> Iterator[GroupMembership]:
    """A client of group etl."""
    reach = ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)
    with closing(GroupMembership(reach, "etl", ["clicks"], 1)) as joined:
        joined.join()
        yield joined


def view_of(job: IngestSettings) -> ClusterView:
    view = look_first(job)
    assert view is not None
    return view


def with_web_port(job: IngestSettings, port: int) -> IngestSettings:
    return replace(job, source_options={**job.source_options, "masterWebPort": str(port)})


def test_who_is_in_the_group_is_told_with_how_long_the_job_waits(
    tube: EmbeddedTubeMQ, tmp_path: Path, member: GroupMembership
) -> None:
    job = settings(tube, tmp_path)
    job = replace(job, source_options={**job.source_options, "groupJoinTimeout": "35s"})
    text = group_in_use(job, view_of(job), within_s=PATIENT_S)
    assert text is not None
    assert text.startswith(f"group etl has 1 client now: this process, {os.getpid()} on ")
    assert text.endswith(". Once Spark is up, the job waits up to 35 s for them to end; a dead one is gone after 30 s")


def test_of_a_group_without_clients_nothing_is_said(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    job = settings(tube, tmp_path)
    assert group_in_use(job, view_of(job), within_s=PATIENT_S) is None


def test_a_web_port_of_another_cluster_is_not_believed(
    tube: EmbeddedTubeMQ, tmp_path: Path, member: GroupMembership
) -> None:
    with EmbeddedTubeMQ(tmp_path / "other", [TopicConfig("clicks")]) as other:
        job = settings(other, tmp_path)
        view = view_of(job)
        assert group_in_use(with_web_port(job, tube.master_web_port), view, within_s=PATIENT_S) is None


def test_a_web_port_that_does_not_answer_costs_no_more_than_the_time_it_is_given(
    tube: EmbeddedTubeMQ, tmp_path: Path, member: GroupMembership
) -> None:
    job = settings(tube, tmp_path)
    view = view_of(job)
    assert group_in_use(with_web_port(job, 1), view) is None
    with FrontDoor(f"127.0.0.1:{tube.master_web_port}", web=True) as door:
        behind = with_web_port(job, int(door.address.rpartition(":")[2]))
        assert group_in_use(behind, view, within_s=PATIENT_S) is not None
        door.become(Manner.SILENT)
        began = time.monotonic()
        assert group_in_use(behind, view) is None
        assert time.monotonic() - began < 1.5


def test_the_command_says_it_before_spark_starts(tube: EmbeddedTubeMQ, tmp_path: Path, member: GroupMembership) -> None:
    words = command(tube, tmp_path, "--master-servers", tube.master_address, "--topic", "clicks", "--json")
    without_java = {**os.environ, "JAVA_HOME": str(tmp_path / "no-java")}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=without_java, check=False)
    first, second, last = map(json.loads, done.stdout.splitlines())
    assert (first["event"], second["event"], last["event"]) == ("starting", "starting", "error"), done
    assert first["text"].startswith(f"group etl has 1 client now: process {os.getpid()} on "), first
    for line in done.stderr.splitlines()[:-1]:
        Path(line.removeprefix("Spark's output is in ")).unlink()
