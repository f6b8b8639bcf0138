"""Whose client an id names, also where a server made the id up."""

from __future__ import annotations

import re

from tubeclient.identity import maker_of, names_this_process, new_client_id


def test_an_id_of_this_process_is_told_from_others() -> None:
    own = new_client_id("g", "one")
    assert names_this_process(f"occupied by {own}")
    assert maker_of(own, "g").startswith("this process, ")
    older = re.sub(r"-(\d+)-(\d+)-", r"-\1-1-", own, count=1)
    assert older != own
    assert not names_this_process(older)
    assert maker_of(older, "g").startswith("process ")


def test_an_id_with_an_endless_number_is_of_nobody() -> None:
    """Python refuses to read numbers of more than 4300 digits."""
    endless = re.sub(r"-(\d+)-(\d+)-", rf"-\1-{'9' * 5000}-", new_client_id("g", "one"), count=1)
    assert not names_this_process(endless)
