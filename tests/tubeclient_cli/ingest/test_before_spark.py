"""What the command tells before it starts Spark, which takes long."""

from __future__ import annotations

from pathlib import Path

from embedded_tubemq import EmbeddedTubeMQ
from tests.apache.jvm import free_ports
from tests.test_packaging import run_python

STARTS = "starting Spark"


def error_text(tmp_path: Path, address: str, web_port: int, topic: str) -> tuple[int, str]:
    """The exit code, and what is printed."""
    words = ["--master-servers", address, "--consumer-group", "g", "--topic", topic, f"--target={tmp_path}/table"]
    done = run_python("-m", "tubeclient_cli.app", "ingest", *words, "--option", f"masterWebPort={web_port}")
    return done.returncode, done.stdout + done.stderr


def test_a_topic_that_is_not_there(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    code, text = error_text(tmp_path, tube.master_address, tube.master_web_port, "clikcs")
    assert "[TOPIC_NOT_FOUND]" in text
    assert (code, STARTS in text) == (2, False)


def test_an_address_at_which_nobody_is(tmp_path: Path) -> None:
    [port] = free_ports(1)
    code, text = error_text(tmp_path, f"127.0.0.1:{port}", 8080, "clicks")
    assert f"127.0.0.1:{port}" in text
    assert (code, STARTS in text) == (3, False)
