"""The demonstration's proof: it holds where it should, and fails for each thing that can be wrong."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from jobs import demo
from jobs.demo import prove_rows
from tests.tubeclient_cli.clusters import ClusterCommands
from tubeclient import ClientSettings

FLIGHTS = pa.table({"seq": pa.array(range(40), pa.int64()), "dest": [f"D{number}" for number in range(40)]})
BROKEN = {7: b'{"seq": 7, "de', 31: b'{"seq": 31, "d'}

Rows = list[dict[str, Any]]


def place(number: int) -> dict[str, Any]:
    """Four records to a message, in two stores that give the same ids, as two stores of one broker may."""
    message = number // 4
    key = f"1:flights:{10_000 * (message % 2) + message % 3}"
    return {"partitionKey": key, "messageId": message // 2, "recordIndex": number % 4}


class Tables:
    """The rows of the target and of the table of bad records, as they should be."""

    def __init__(self) -> None:
        self.rows: Rows = [
            {"seq": number, "dest": f"D{number}", "tubemq": place(number)}
            for number in range(40)
            if number not in BROKEN
        ]
        self.bad: Rows = [{**place(number), "value": value} for number, value in BROKEN.items()]
        self.held = 10
        """Messages of the brokers."""

    def failing(self, folder: Path) -> list[str]:
        """What the proof finds wrong, by the first words."""
        write_deltalake(str(folder / "table"), pa.Table.from_pylist(self.rows))
        write_deltalake(str(folder / "bad_records"), pa.Table.from_pylist(self.bad))
        checks = prove_rows(folder / "table", folder / "bad_records", FLIGHTS, BROKEN, self.held)
        return [check.statement.split(",")[0] for check in checks if not check.holds]


def test_all_records_are_proven_in_whatever_order(tmp_path: Path) -> None:
    tables = Tables()
    tables.rows.reverse()
    assert tables.failing(tmp_path) == []


def test_message_stored_twice(tmp_path: Path) -> None:
    """The proof expects two rows for a message that the brokers store twice."""
    tables = Tables()
    tables.rows += [{**row, "tubemq": {**row["tubemq"], "messageId": 20}} for row in tables.rows[:4]]
    tables.held = 11
    assert tables.failing(tmp_path) == []


MESSAGES = "the messages that the brokers hold"
ONCE = "each record once"
GOOD = "each good flight is in the table"
BAD = "each broken record is among the bad records"


@pytest.mark.parametrize(
    ("damage", "noticed_by"),
    [
        pytest.param(lambda tables: tables.rows.pop(), [GOOD], id="a record is lost"),
        pytest.param(lambda tables: tables.rows.__delitem__(slice(4)), [MESSAGES, GOOD], id="a message is lost"),
        pytest.param(lambda tables: tables.rows.append(tables.rows[7]), [ONCE], id="a record is doubled"),
        pytest.param(lambda tables: tables.rows[5].update(dest=None), [GOOD], id="a value is another"),
        pytest.param(lambda tables: tables.bad[0].update(value=b"{"), [BAD], id="a bad record is another"),
        pytest.param(
            lambda tables: tables.rows.append({"seq": 7, "dest": "D7", "tubemq": place(7)}),
            [ONCE, GOOD],
            id="a bad record is in the table too",
        ),
    ],
)
def test_every_damage_is_noticed(damage: Callable[[Tables], object], noticed_by: list[str], tmp_path: Path) -> None:
    tables = Tables()
    damage(tables)
    assert tables.failing(tmp_path) == noticed_by


def test_the_line_at_the_end_shows_the_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server has what a server of the demonstration stored, where its page looks."""
    monkeypatch.setattr(demo, "OUTPUT", tmp_path)
    server, page = (shlex.split(command)[1:] for command in demo.SHOW.split(" & "))
    assert page == ["ui", "--master-servers=127.0.0.1"]
    assert server[-2:] == ["--master-port=8715", "--master-web-port=8080"]
    assert "--data-dir=demo-output/tubemq" in server
    words = [word for word in server[:-2] if "data-dir" not in word]
    for number in range(2):
        ready = tmp_path / f"ready-{number}"
        with demo.Child("tubemq", [*words, f"--data-dir={tmp_path / 'tubemq'}", f"--ready-file={ready}"]) as child:
            child.wait("it was ready", ready.exists)
            found = json.loads(ready.read_text())
            if number == 0:
                demo.send(found["master"], [b"flight"])
            else:
                commands = ClusterCommands(ClientSettings((found["master"],), master_web_port=found["masterWebPort"]))
                assert commands.json("consume", demo.TOPIC, "--payload", "raw")["value"] == "flight"
