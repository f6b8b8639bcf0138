"""Addresses of masters and time limits, as users write them."""

from __future__ import annotations

from typing import Any

import pytest

from tubeclient.errors import ConfigurationError
from tubeclient.settings import ClientSettings, parse_master_servers


@pytest.mark.parametrize("text", ["http://u:secretpw@10.0.0.1:8715", "u:sec,secretpw@h:1", "h:1,u:secretpw@h"])
def test_a_password_in_an_address_is_not_repeated(text: str) -> None:
    for given in (parse_master_servers, ClientSettings):
        with pytest.raises(ConfigurationError, match=r"master_servers has an @; .* credentials") as caught:
            given(text)
        assert "sec" not in str(caught.value)


@pytest.mark.parametrize("name", ["connect_timeout_ms", "rpc_timeout_ms", "http_timeout_ms", "retry_limit_ms"])
@pytest.mark.parametrize("limit", ["8s", None, 0, -1, float("nan"), True])
def test_a_time_limit_that_is_none_is_refused(name: str, limit: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be a number of milliseconds above 0, not "):
        ClientSettings("10.0.0.1", **{name: limit})


@pytest.mark.parametrize("name", ["connect_timeout_ms", "rpc_timeout_ms", "http_timeout_ms"])
@pytest.mark.parametrize("limit", [0.5, float("inf"), 1e12, 1 << 31])
def test_a_call_has_an_end_in_whole_milliseconds(name: str, limit: float) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be 1 to 2147483647 milliseconds, not "):
        ClientSettings("10.0.0.1", **{name: limit})  # type: ignore[arg-type]
    whole = getattr(ClientSettings("10.0.0.1", **{name: 8e3}), name)  # type: ignore[arg-type]
    assert (whole, type(whole)) == (8_000, int)
