"""Packs that DataProxy writes to Kafka, through Spark's own Kafka source, on a real broker: batch and stream, in a
classic session and over Connect.

Headers are those of DataProxy's DefaultEventHandler (MessageObjs) and SimplePackProfile (an InLongMsg as its SDK sent
it), read in apache/inlong a6c7a6a670.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from bench.kafka import KafkaBroker
from bench.kafka_jars import session_confs
from tests.spark_source.connect_server import ConnectServer
from tests.spark_source.other_driver import HERE, SMALL, OtherDriver, places
from tests.tubeclient.inlong.packs import Group, OwnRecord, encode_bin_pack, encode_groups, encode_message_objs

pytestmark = pytest.mark.spark

AT_MS = 1_700_000_000_000
STREAM = {"groupId": "shop", "streamId": "orders", "dt": str(AT_MS)}
PARTITIONS = 2


def of_batch(compression: str) -> dict[str, str]:
    """Headers of a pack that DataProxy made."""
    names = {"inlongGroupId": "shop", "inlongStreamId": "orders", "proxyName": "10.0.0.9", "packTime": str(AT_MS + 5)}
    return {"msgEnType": "1", "version": "1", **names, "msgCount": "2", "srcLength": "9", "compressType": compression}


def of_simple(kind: str = "2") -> dict[str, str]:
    """Headers of a pack that DataProxy handed on."""
    return {"msgRcvTime": "1", "msgSendTime": "2", "msgEnType": kind, "version": kind, "RemoteIP": "10.0.0.8"}


def pack(version: Any, *bodies: bytes) -> bytes:
    return encode_groups([Group(STREAM, list(bodies), [{"k": "v"} for _ in bodies])], version)


def objs(compression: Any, *bodies: bytes) -> bytes:
    return encode_message_objs([OwnRecord(body, {"k": "v"}) for body in bodies], [AT_MS] * len(bodies), compression)


def in_hex(body: bytes) -> str:
    return body.hex().upper()


TORN = pack(1, b"0,torn")[:-9] + b"\x0f\x01"
SENT: list[tuple[bytes | None, Mapping[str, str], list[bytes]]] = [
    (objs("snappy", b"1,a", b"2,b"), of_batch("INLONG_SNAPPY"), [b"1,a", b"2,b"]),
    (objs("gzip", b"3,c"), of_batch("INLONG_GZ"), [b"3,c"]),
    (objs("none", b"4,d", b"5,e"), of_batch("NONE"), [b"4,d", b"5,e"]),
    (pack(1, b"6,f", b"7,g"), of_simple(), [b"6,f", b"7,g"]),
    (pack(2, b"8,h"), of_simple(), [b"8,h"]),
    (pack(3, b"9,i", b"10,j"), {}, [b"9,i", b"10,j"]),
    (
        encode_bin_pack([b"11,k"], {"groupId": "shop", "streamId": "orders"}, data_time_s=AT_MS // 1000),
        of_simple(),
        [b"11,k"],
    ),
]
"""Packs with their headers and records; each is sent several times."""
TIMES = 30


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), heap_mb=512) as broker:
        broker.create_topic("shop", PARTITIONS)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
        others: list[tuple[bytes | None, Mapping[str, str], list[bytes]]] = [(TORN, of_simple(), []), (None, {}, [])]
        for body, headers, _ in [*SENT * TIMES, *others]:
            producer.produce("shop", body, headers=list(headers.items()))
        assert producer.flush(30) == 0
        yield broker


@pytest.fixture(scope="module", params=["classic", "connect"])
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherDriver]:
    with ExitStack() as stack:
        confs = {**SMALL, **session_confs()}
        if request.param == "connect":
            server = stack.enter_context(ConnectServer(tmp_path_factory.mktemp("server"), session_confs()))
            confs = {"spark.remote": server.url}
        yield stack.enter_context(OtherDriver(HERE, tmp_path_factory.mktemp("driver"), confs))


def test_kafka_packs_in_batch_and_stream(driver: OtherDriver, broker: KafkaBroker, tmp_path: Path) -> None:
    """Packs from Kafka become the same typed rows in batch and in stream."""
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": "shop",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    batch = driver.call("unpack", options=options, schema="id INT, name STRING")
    limited = {**options, "maxOffsetsPerTrigger": "50"}
    assert driver.call("unpack", options=limited, schema="id INT, name STRING", stream=places(tmp_path)) == batch
    good = sorted((*row[:2], *row[3:7], *row[9:]) for row in batch if row[2] is None)
    assert good == sorted(
        (int(body.split(b",")[0]), body.split(b",")[1].decode(), "shop", "orders", index, "shop", AT_MS, in_hex(body))
        for _, _, bodies in SENT * TIMES
        for index, body in enumerate(bodies)
    )
    # Records have the place of their pack, and each pack one of its own.
    assert len({tuple(row[7:9]) for row in batch}) == len(SENT) * TIMES + 2
    bad = {row[-1]: row[2] for row in batch if row[2] is not None}
    assert bad.keys() == {None, in_hex(TORN)}
    assert bad[None] == "the message has no value"
    assert bad[in_hex(TORN)].startswith("group 0 of 1 of the pack")
    assert all(row[3:6] == [None] * 3 for row in batch if row[2] is not None)
