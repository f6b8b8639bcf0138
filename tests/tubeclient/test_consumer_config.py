"""What a consumer says of its settings: all of them, plain, and no secret."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import fields
from typing import Any

import pytest

from tubeclient import (
    BootstrapOffset,
    ClientBalanceConsumer,
    ClientSettings,
    Credentials,
    PartitionKey,
    PullConsumer,
    TlsSettings,
    __version__,
)
from tubeclient.assignment import Hints
from tubeclient.consumers.pull_consumer import ConsumerOptions

SECRET = "open sesame"
SETTINGS = ClientSettings(
    "10.0.0.1",
    credentials=Credentials("alice", password=SECRET),
    tls=TlsSettings(ca_file="ca.pem", certificate_file="own.pem", key_password=SECRET),
)
CALLBACKS = {"on_assigned", "on_revoked", "on_lost"}


@pytest.mark.parametrize(
    ("make", "options"), [(ClientBalanceConsumer, set[str]()), (PullConsumer, set(ConsumerOptions.__annotations__))]
)
def test_config_has_all_settings(make: Any, options: set[str]) -> None:
    """The configuration has each argument and each field of the settings and nothing else."""
    arguments = {*inspect.signature(make.__init__).parameters, *options} - {"self", "options", "settings", *CALLBACKS}
    assert set(make(SETTINGS, "etl", ["clicks"]).consumer_config) == arguments | {one.name for one in fields(SETTINGS)}


def test_the_values_are_those_in_use_as_json_has_them() -> None:
    consumer = PullConsumer(
        SETTINGS,
        " etl ",
        {"clicks": ["web", "app"]},
        strategy="config",
        hints=Hints(plan={PartitionKey(1, "clicks", 0): 0}),
        start_offsets={PartitionKey(1, "clicks", 0): BootstrapOffset.EARLIEST},
        prefetch=7,
    )
    config = consumer.consumer_config
    assert json.loads(json.dumps(config)) == config
    assert (config["consumer_group"], config["topics"]) == ("etl", {"clicks": ["app", "web"]})
    assert (config["master_servers"], config["prefetch"], config["node_id"]) == (["10.0.0.1:8716"], 7, 0)
    assert config["start_offsets"] == {"1:clicks:0": -10}
    assert config["hints"] == {**dict.fromkeys(config["hints"]), "plan": {"1:clicks:0": 0}, "virtual_nodes": 10}  # type: ignore[call-overload]
    config["topics"]["clicks"].clear()  # type: ignore[index]
    assert consumer.consumer_config["topics"] == {"clicks": ["app", "web"]}
    assert consumer.client_version == __version__


def test_pattern() -> None:
    """The configuration shows a pattern, which also shortens the balance interval."""
    config = PullConsumer(SETTINGS, "etl", subscribe_pattern=re.compile("clicks_.*")).consumer_config
    assert (config["subscribe_pattern"], config["topics"]) == ("clicks_.*", {})
    assert (config["balance_interval_ms"], config["metadata_interval_ms"]) == (10_000, 10_000)


def test_no_secret_is_shown() -> None:
    config = PullConsumer(SETTINGS, "etl", ["clicks"]).consumer_config
    assert SECRET not in repr(config)
    assert config["credentials"] == {"user": "alice", "password_file": None, "password_env": None}
    assert "key_password" not in config["tls"]  # type: ignore[operator]
