"""Addresses of masters, as users write them."""

from __future__ import annotations

import pytest

from tubeclient.errors import ConfigurationError
from tubeclient.settings import ClientSettings, parse_master_servers


@pytest.mark.parametrize("text", ["http://u:secretpw@10.0.0.1:8715", "u:sec,secretpw@h:1", "h:1,u:secretpw@h"])
def test_a_password_in_an_address_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"masterServers has an @; .* authUser") as caught:
        parse_master_servers(text)
    assert "sec" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"master_servers has an @; .* credentials") as caught:
        ClientSettings(text)
    assert "sec" not in str(caught.value)
