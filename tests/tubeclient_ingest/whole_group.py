"""A group of InLong's whose streams have records of each format, and what was sent of them."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from embedded_tubemq import EmbeddedTubeMQ, NewMessage
from tests.tubeclient import inlong_manager
from tests.tubeclient.inlong.packs import Group
from tests.tubeclient.records.avro_records import zigzag

__all__ = ["AVRO", "GROUP", "KINDS", "Sent", "Stream", "WholeGroup", "ids_of"]

GROUP: Final = "shop"
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
KINDS: Final = {
    "csv": {"dataType": "CSV", "dataSeparator": "124"},
    "kv": {"dataType": "KV", "dataSeparator": "38", "kvSeparator": "61"},
    "json": {"dataType": "JSON"},
    "canal": {"dataType": "CANAL"},
    "debezium": {"dataType": "DEBEZIUM_JSON"},
    "raw": {"dataType": "RAW"},
}
"""Manager's definition of each format. Its streams of type AVRO say no more than that."""
AVRO: Final = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
_BAD: Final = 0.01


class Sent(NamedTuple):
    """A record."""

    stream: str
    """Empty for a message that is no pack."""
    number: int
    minute_ms: int | None
    is_bad: bool
    is_wide: bool
    """It has the field that came later."""


def ids_of(kind: str, number: int) -> list[int]:
    """The ids of a record's rows: Canal's have up to two."""
    return [2 * number, 2 * number + 1][: 1 + number % 2] if kind == "canal" else [number]


@dataclass
class Stream:
    name: str
    kind: str
    is_wide: bool = False
    sent: int = 0

    def definition(self) -> dict[str, Any]:
        fields = [inlong_manager.field("id", "bigint")]
        fields += [inlong_manager.field("more", "string")] * self.is_wide
        return inlong_manager.stream(self.name, *fields, **KINDS[self.kind])

    def body(self, number: int) -> bytes:
        rows: list[dict[str, Any]] = [{"id": one} for one in ids_of(self.kind, number)]
        for row in rows if self.is_wide else ():
            row["more"] = f"y{row['id']}"
        match self.kind:
            case "csv":
                text = "|".join(map(str, rows[0].values()))
            case "kv":
                text = "&".join(f"{name}={value}" for name, value in rows[0].items())
            case "json":
                text = json.dumps(rows[0])
            case "canal":
                text = json.dumps({"data": rows, "type": "INSERT", "es": 5, "ts": 6, "id": number, "isDdl": False})
            case "debezium":
                text = json.dumps({"op": "c", "after": rows[0], "source": {"ts_ms": 5}})
            case "avro":
                return zigzag(number)
            case _:
                text = self.no_record(number).decode()
        return text.encode()

    def no_record(self, number: int) -> bytes:
        """What is a record of no format but raw."""
        return f"{self.name} {number}".encode()


@dataclass
class WholeGroup:
    """`pack` makes a message of groups of records; `unknown` are streams that nobody defines."""

    tube: EmbeddedTubeMQ
    rng: random.Random
    pack: Callable[[list[Group]], bytes]
    streams: dict[str, Stream]
    unknown: dict[str, Stream]
    sent: dict[tuple[str, bytes], Sent] = field(default_factory=dict)
    """By stream and bytes, which no two records have in common."""
    packs: int = 0
    began_ms: int = (int(time.time() * 1000) // HOUR_MS - 5) * HOUR_MS

    def send(self, packs: int) -> None:
        """Packs of some streams each, every one of a minute of its own; now and then one that is damaged."""
        everybody = [*self.streams.values(), *self.unknown.values()]
        for _ in range(packs):
            self.packs += 1
            at = self.began_ms + self.packs * MINUTE_MS
            # The first packs have all of them.
            some = everybody[3 * self.packs - 3 :][:3] or self.rng.sample(everybody, min(3, len(everybody)))
            made = [self._records(one, at) for one in some]
            self._load(self.pack(made))
        whole = self.pack(made)
        broken = whole[:-5] + whole[-2:]  # by its magics at both ends it is a pack
        self.sent["", broken] = Sent("", len(self.sent), None, is_bad=True, is_wide=False)
        self._load(broken)

    def _load(self, data: bytes) -> None:
        self.tube.load(GROUP, [NewMessage(self.rng.choice((0, 10_000)), data)])

    def _records(self, one: Stream, at: int) -> Group:
        bodies = []
        for _ in range(self.rng.randrange(4, 12)):
            is_bad = self.rng.random() < _BAD and one.kind not in ("", "raw")
            bodies.append(one.no_record(one.sent) if is_bad else one.body(one.sent))
            self.sent[one.name, bodies[-1]] = Sent(one.name, one.sent, at, is_bad, one.is_wide)
            one.sent += 1
        own = [{"place": str(place)} for place in range(len(bodies))]
        return Group({"groupId": GROUP, "streamId": one.name, "dt": str(at)}, bodies, own)

    def table_of(self, one: Sent) -> str:
        return one.stream if one.stream in self.streams else "_rest"

    def minutes(self) -> dict[str, Counter[int | None]]:
        """How many records were sent, by table and minute."""
        found: dict[str, Counter[int | None]] = {}
        for one in self.sent.values():
            found.setdefault(self.table_of(one), Counter())[one.minute_ms] += 1
        return found
