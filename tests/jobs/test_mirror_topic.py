"""The mirror's settings; tests/jobs/test_jobs_page.py runs it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from jobs.mirror_topic import MirrorSettings, check_other_cluster, load_mirror, mirror_topic, run_mirror
from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.terminal import script_app

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "conf" / "mirror.toml"


def changed(**changes: Any) -> MirrorSettings:
    return replace(load_mirror(SHIPPED), **changes)


def test_the_shipped_settings_are_what_source_and_sink_get() -> None:
    settings = load_mirror(SHIPPED)
    assert dict(settings.read()) == {
        "masterServers": "10.0.0.1:8715",
        "consumerGroup": "clicks_mirror",
        "subscribe": "clicks",
        "masterWebPort": "8080",
        "sourceCount": "8",
        "maxOffsetsPerTrigger": "2000000",
        "startingOffsets": "earliest",
        "offsetsTable": "/lake/_offsets",
        "payload": "raw",
        "badMessages": "fail",
        "columns": "topic,value,messageType,messageTime,attributes",
    }
    assert dict(settings.write()) == {"masterServers": "10.1.0.1:8715", "retryLimit": "60s"}
    assert settings.trigger_options == {"availableNow": True}
    assert changed(trigger="10s").trigger_options == {"processingTime": "10000 milliseconds"}
    in_zone = changed(to_topic="copy", source_options={"messagetimezone": "Asia/Shanghai"}).write()
    assert (in_zone["messagetimezone"], in_zone["topic"]) == ("Asia/Shanghai", "copy")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"checkpoint": " "}, "checkpoint is blank"),
        ({"trigger": "soon"}, "trigger"),
        ({"source_options": {"badmessages": "keep"}}, "badmessages is fixed, as whole messages are copied"),
        ({"source_options": {"subscribe": "a"}}, "subscribe has a setting of its own, topics"),
        ({"source_options": {"endingOffsets": "latest"}}, "endingOffsets belongs to batch reads"),
        ({"sink_options": {"messageTimeZone": "UTC"}}, r"a setting of its own, messageTimeZone in \[source\]"),
        ({"sink_options": {"payload": "inlong"}}, "payload is fixed"),
        ({"sink_options": {"sourceCount": "1"}}, "sourceCount"),
        ({"to_topic": "not a topic"}, "topic"),
    ],
)
def test_wrong_settings_are_told(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        changed(**changes)


def test_a_cluster_is_known_under_any_of_its_names(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks"), TopicConfig("copy")]) as tube:
        port = tube.master_address.rpartition(":")[2]
        same = replace(
            load_mirror(SHIPPED),
            master_servers=f"127.0.0.1:{port}",
            to_master_servers=f"localhost:{port}",
            source_options={"masterWebPort": str(tube.master_web_port)},
            sink_options={"masterWebPort": str(tube.master_web_port)},
        )
        with pytest.raises(ConfigurationError, match="name one cluster: topic clicks is at broker"):
            run_mirror(None, same, threading.Event())  # type: ignore[arg-type]  # refused before Spark has to do with it
        check_other_cluster(replace(same, to_topic="copy"))
        with EmbeddedTubeMQ(tmp_path / "second", [TopicConfig("clicks")]) as second:
            options = {"masterWebPort": str(second.master_web_port)}
            check_other_cluster(replace(same, to_master_servers=second.master_address, sink_options=options))


def test_what_is_missing_is_one_line_before_spark_is_started(tmp_path: Path) -> None:
    path = tmp_path / "mirror.toml"
    path.write_text('[mirror]\nmaster-servers = "a"\ntopics = ["a"]\n')
    done = CliRunner().invoke(script_app(mirror_topic), ["--settings", str(path)])
    assert (done.exit_code, done.stdout) == (2, "")
    said = f"mirror_topic.py: [INVALID_SETTING] {path}: [mirror] lacks consumer-group, to-master-servers, checkpoint\n"
    assert done.stderr == said


def test_secrets_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUBE_PASSWORD", "geheim")
    secret = '\nauthUser = "etl"\nauthPassword = { env = "TUBE_PASSWORD" }'
    text = SHIPPED.read_text().replace("\n[source]", f"\n[source]{secret}").replace("\n[sink]", f"\n[sink]{secret}")
    path = tmp_path / "mirror.toml"
    path.write_text(text)
    settings = load_mirror(path)
    assert settings.read()["authPassword"] == settings.write()["authPassword"] == "geheim"
    assert "geheim" not in f"{settings!r}{settings.read()!r}{settings.write()!r}"
