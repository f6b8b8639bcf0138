"""The real Prometheus takes the rules, fetches a client's metrics, and looks at the rules with them."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, start_http_server

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from spark_source.progress.query_metrics import QueryBatch, QueryMetrics
from tests.prometheus.test_names import DASHBOARD, expressions
from tests.waiting import wait_for
from tubeclient import ClientMetrics, ClientSettings, Producer, PullConsumer

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "conf" / "prometheus-alerts.yml"


def program(name: str) -> str:
    """The path of one of Prometheus's programs; `make setup-all` puts them there."""
    found = shutil.which(name) or shutil.which(name, path=ROOT / ".cache" / "prometheus")
    assert found, f"{name} is missing: run make setup-all, or tools/fetch_prometheus.sh, which say how to get it"
    return found


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("promtool"), *arguments], check=False, capture_output=True, text=True, timeout=60, cwd=ROOT
    )


def test_the_rules_are_rules() -> None:
    found = promtool("check", "rules", str(RULES))
    assert found.returncode == 0, found.stdout + found.stderr


def test_each_alert_fires_when_it_must_and_not_before() -> None:
    found = promtool("test", "rules", "tests/prometheus/alerts_test.yml")
    assert found.returncode == 0, found.stdout + found.stderr
    tested = (ROOT / "tests" / "prometheus" / "alerts_test.yml").read_text(encoding="utf-8")
    rules = re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8"))
    assert all(f"alertname: {rule}\n        exp_alerts:" in tested for rule in rules)


class Server:
    """A running Prometheus."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API; None while it does not answer."""
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except (urllib.error.URLError, ConnectionError):
            return None

    def value(self, query: str) -> float | None:
        """A query's only result; None if there is none."""
        data = self.ask("query", query=query)
        if not data or not data["result"]:
            return None
        [one] = data["result"]
        return float(one["value"][1])

    def rule_states(self) -> set[str]:
        """How looking at the rules went, over all of them."""
        groups = (self.ask("rules") or {"groups": []})["groups"]
        return {rule["health"] for group in groups for rule in group["rules"]}


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Server]:
    """Fetches the metrics of `target` every second."""
    config = folder / "prometheus.yml"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(RULES)],
                "scrape_configs": [{"job_name": "tubeclient", "static_configs": [{"targets": [target]}]}],
            }
        )
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    with (folder / "log").open("w") as log:
        running = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log, cwd=folder)
    try:
        server = Server(address)

        def up() -> bool:
            assert running.poll() is None, (folder / "log").read_text()
            return server.value("up") == 1

        wait_for(up, "the first scrape", seconds=60)
        yield server
    finally:
        running.terminate()
        try:
            running.wait(20)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait(20)


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path / "tubemq", [TopicConfig("scraped")]) as running:
        yield running


def test_prometheus_fetches_what_a_running_client_has_sent(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    registry = CollectorRegistry()
    registry.register(ClientMetrics())
    served, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        with (
            Producer(ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)) as producer,
            prometheus(tmp_path, f"127.0.0.1:{served.server_port}") as server,
        ):
            producer.publish(["scraped"])
            for number in range(25):
                producer.send("scraped", b"%d" % number)
            series = '{messaging_system="tubemq",messaging_destination_name="scraped",error_type=""}'
            sent = f"messaging_client_sent_messages_total{series}"
            wait_for(lambda: server.value(sent) == 25, "the messages to be seen", seconds=30)
            buckets = 'messaging_client_operation_duration_seconds_bucket{messaging_destination_name="scraped"}'
            longest = server.value(f"histogram_quantile(1, sum by (le) ({buckets}))")
            assert longest is not None
            assert 0 < longest <= 10
            known = server.ask("metadata")  # of the OpenMetrics page, where only the sample ends in _total
            assert known["messaging_client_sent_messages"][0]["type"] == "counter"
            wait_for(lambda: server.rule_states() == {"ok"}, "each rule to be looked at", seconds=60)
    finally:
        served.shutdown()
        served.server_close()
        thread.join(10)


VARIABLES = {"$query": ".*", "$topic": ".*", "$group": ".*", "$__range": "6h"}
"""What Grafana puts into the queries where all is chosen."""

OF_ERRORS = ("tubeclient_send_errors_total", "tubeclient_read_errors_total")
"""Of these there is no series before the first error."""


def test_prometheus_answers_each_query_of_the_dashboard(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    """Grafana itself does no more with them than this: it puts its variables in, and asks Prometheus."""
    registry, queries = CollectorRegistry(), QueryMetrics()
    registry.register(ClientMetrics())
    registry.register(queries)
    served, thread = start_http_server(0, "127.0.0.1", registry)
    settings = ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)
    asked = {text for text in expressions(DASHBOARD) if not text.startswith("label_values(")}
    chosen = {text for text in expressions(DASHBOARD) if text.startswith("label_values(")}
    assert (len(asked), len(chosen)) >= (20, 3)
    try:
        with (
            Producer(settings) as producer,
            PullConsumer(settings, "lookers", ["scraped"], start_from="earliest") as consumer,
            prometheus(tmp_path, f"127.0.0.1:{served.server_port}") as server,
        ):
            producer.publish(["scraped"])

            def answered(text: str) -> bool:
                for variable, value in VARIABLES.items():
                    text = text.replace(variable, value)
                assert "$" not in text, f"a variable that the test does not know: {text}"
                data = server.ask("query", query=text)  # None for a query that Prometheus cannot parse
                return data is not None and bool(data["result"] or any(name in text for name in OF_ERRORS))

            def all_answered() -> bool:
                """After a bit of work of each kind, for the rates."""
                producer.send("scraped", b"x")
                if (pack := consumer.get(timeout_ms=1_000)) is not None:
                    consumer.confirm(pack)
                queries.batch("clicks", QueryBatch(5, 1.0, time.time(), 3, 1))
                return asked == {text for text in asked if answered(text)}

            queries.batch("failed", QueryBatch(5, 1.0, time.time(), 3, 1))
            queries.ended("failed", failed=True)
            wait_for(all_answered, "an answer to each query", seconds=60)
            for text in chosen:
                match = re.fullmatch(r"label_values\((.*), (\w+)\)", text)
                assert match, text
                assert server.ask(f"label/{match[2]}/values", **{"match[]": match[1]}), text
    finally:
        served.shutdown()
        served.server_close()
        thread.join(10)
