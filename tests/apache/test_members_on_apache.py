"""One of three members that share a group is stopped, and continued; on Apache's servers, with their own leases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apache.server import ApacheTubeMQ
from tests.tubeclient.member_process import GROUP
from tests.tubeclient.three_members import Owners, stop_one_of_three
from tubeclient import Admin, ClientSettings

pytestmark = [pytest.mark.apache, pytest.mark.timeout(400)]


def test_stopped_member_regains_its_share(apache: ApacheTubeMQ, settings: ClientSettings, tmp_path: Path) -> None:
    """Who has what is as the members report it, which each does within a second."""

    def owners() -> Owners:
        return {key: each.client_id for each in Admin(settings).group(GROUP).members for key in each.partitions}

    stop_one_of_three(settings, "apache_members", tmp_path, owners, seconds=120)
