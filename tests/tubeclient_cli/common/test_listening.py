"""Addresses to listen on, as users write them."""

from __future__ import annotations

import pytest

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.listening import check_address


@pytest.mark.parametrize("address", ["", " ", "a..b", "a" * 64])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^--bind is .*give an address: 127\.0\.0\.1"):
        check_address("--bind", address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "0.0.0.0", "localhost", "a.b."])
def test_an_address_is_taken(address: str) -> None:
    check_address("--bind", address)
