"""What users may rely on: names, settings, identities."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tubeclient
from tubeclient import (
    Admin,
    ClientBalanceConsumer,
    ClientSettings,
    ConfigurationError,
    GroupMembership,
    OffsetLookup,
    Producer,
    PullConsumer,
    RangeReader,
    TlsSettings,
    fetch_view,
    parse_master_servers,
    reader_groups_of,
)
from tubeclient.names import why_no_group


def test_homes_match_type_checking_imports() -> None:
    """Each name is imported from the module in which type checkers see it."""
    tree = ast.parse(Path(tubeclient.__file__).read_text())
    [seen] = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for node in seen.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name: node.module for node in imports for alias in node.names} == tubeclient._HOMES


def test_keys_alone_load_next_to_nothing() -> None:
    code = "import sys, tubeclient.keys; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-S", "-c", code], check=True, capture_output=True, text=True, timeout=60)
    loaded = set(ran.stdout.split())
    assert {name for name in loaded if name.startswith("tubeclient.")} == {
        "tubeclient._version",
        "tubeclient.errors",
        "tubeclient.keys",
        "tubeclient.names",
    }
    heavy = {"asyncio", "concurrent.futures", "google.protobuf", "http.client", "logging", "pyarrow", "socket", "ssl"}
    assert loaded & heavy == set()


def test_master_servers() -> None:
    assert parse_master_servers(" a:1, b ,a:1,[::1]:9 ") == ("a:1", "b:8715", "[::1]:9")
    assert ClientSettings(["a:1", "b"], tls=TlsSettings()).master_servers == ("a:1", "b:8716")
    for text in ("", " , ", "a:b", "a:0", "a:70000", "http://a:1", "a b"):
        with pytest.raises(ConfigurationError, match=r"master_servers .*host:port"):
            ClientSettings(text)
    for value in (7, None, ["a:1", 7]):
        with pytest.raises(ConfigurationError, match="master_servers must be a host:port text or a list of them"):
            ClientSettings(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["http://u:secretpw@10.0.0.1:8715", "u:sec,secretpw@h:1", "h:1,u:secretpw@h"])
def test_a_password_in_an_address_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"master_servers has an @; .* credentials") as caught:
        ClientSettings(text)
    assert "sec" not in str(caught.value)


@pytest.mark.parametrize("name", ["rpc_timeout_ms", "retry_limit_ms"])
@pytest.mark.parametrize("limit", ["8s", 0, float("nan"), True])
def test_a_time_limit_that_is_none_is_refused(name: str, limit: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be a number of milliseconds above 0, not "):
        ClientSettings("10.0.0.1", **{name: limit})


def test_a_reader_groups_name_is_no_groups_own() -> None:
    for name in (*reader_groups_of("etl"), *reader_groups_of("etl-r0"), "etl-r12"):
        assert why_no_group(name) is not None, name
    for name in ("etl", "etl-r", "-r0", "etl-r0x", "etl_r0", "etl-r-0", "r0"):
        assert why_no_group(name) is None, name


@pytest.mark.parametrize("consumer", [ClientBalanceConsumer, PullConsumer])
def test_a_consumer_of_such_a_name_is_warned(
    consumer: type[ClientBalanceConsumer | PullConsumer], caplog: pytest.LogCaptureFixture
) -> None:
    settings = ClientSettings(("127.0.0.1:1",))
    consumer(settings, "etl", ["clicks"])
    assert not caplog.records
    consumer(settings, "etl-r3", ["clicks"])
    assert "consumer_group is etl-r3, the form of a reader group: reading ranges for group etl" in caplog.text


WITH_SETTINGS: dict[str, Callable[[Any], Any]] = {
    "Producer": Producer,
    "Admin": Admin,
    "ClientBalanceConsumer": lambda settings: ClientBalanceConsumer(settings, "etl", ["single"]),
    "PullConsumer": lambda settings: PullConsumer(settings, "etl", ["single"]),
    "members": lambda settings: PullConsumer(settings, "etl", ["single"], membership="dynamic"),
    "GroupMembership": lambda settings: GroupMembership(settings, "etl", ["single"], 1),
    "OffsetLookup": lambda settings: OffsetLookup(settings, ["etl-r0"]),
    "RangeReader": lambda settings: RangeReader(settings, ("etl-r0",)),
    "fetch_view": lambda settings: fetch_view(settings, ["single"], ["etl-r0"]),
}


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_an_address_in_place_of_the_settings(name: str) -> None:
    example = r'settings must be a ClientSettings, such as ClientSettings\("10.0.0.1:8715"\), not '
    with pytest.raises(ConfigurationError, match=example + "a str") as caught:
        WITH_SETTINGS[name]("alice:secret@10.0.0.1:8715")
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=example + "None"):
        WITH_SETTINGS[name](None)
