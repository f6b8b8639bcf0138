"""What a producer consists of: its registration at the master, its heartbeats, and its outbox."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Mapping

from tubeclient.access import masters_of
from tubeclient.errors import ClientClosed, TubeError
from tubeclient.flows.effects import backoff_ms
from tubeclient.flows.hold_group import HEARTBEAT_INTERVAL_MS
from tubeclient.flows.produce import ProducerSession, Routes
from tubeclient.identity import host_name, new_client_id, own_address
from tubeclient.keys import PartitionKey
from tubeclient.net.outbox import Outbox
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner
from tubeclient.net.sending import Sending
from tubeclient.net.waiting import OneThread
from tubeclient.settings import ClientSettings
from tubeclient.wire.envelope import encode_request
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import checksum
from tubeclient.wire.proto import broker_pb2

_log = logging.getLogger(__name__)

_JOIN_SECONDS = 5.0
_FIRST_BEAT_RETRY_MS = 1_000
_SEND = Method.SEND_MESSAGE.spec


class Publishing:
    """Everything of a producer that its threads hold. They do not hold the producer itself, so that one that nothing
    refers to any more is noticed."""

    def __init__(self, settings: ClientSettings, max_in_flight: int) -> None:
        self.client_id = new_client_id("producer", "Producer")
        masters = masters_of(settings)
        self.session = ProducerSession(masters, self.client_id, host_name())
        self.routes = Routes()
        self.pool = ConnectionPool(settings)
        self.outbox = Outbox(self.pool, self.routes, self._encode, max_in_flight)
        self.closed = threading.Event()
        self.runner = FlowRunner(self.pool)
        self._settings = settings
        self._authority = masters.authority
        self._session_lock = threading.Lock()  # held while the master is asked
        self._registered = False
        self._thread = OneThread(self._beat, "tubeclient-producer")
        self._sent_from = own_address()

    def check_open(self) -> None:
        if self.closed.is_set():
            raise ClientClosed("this producer is closed; make a new one")

    def register(self) -> None:
        """Register the producer at the master, once, and start its heartbeats."""
        with self._session_lock:
            self.check_open()
            if not self._registered:
                self.runner.run(self.session.register())
                self._registered = True
            self._thread.ensure()

    def refresh(self, starts: Mapping[str, int] | None = None) -> list[str]:
        """Ask the master where topics can be written, and publish those of `starts` that can; returns the others,
        sorted. `starts` as for PartitionChoice."""
        with self._session_lock:
            self.check_open()
            with self.outbox.lock:
                topics = {*self.routes.topics, *(starts or {})}
            self.runner.run(self.session.refresh(sorted(topics)))
            with self.outbox.lock:
                return self.routes.publish(starts or {}, self.session.layouts, self.session.brokers)

    def close(self, seconds: float) -> None:
        """Wait up to `seconds` for open messages, leave the master, end all threads. May be called again."""
        self.outbox.close(seconds)
        self.closed.set()
        try:
            # Not by `acquire`, which an interrupt may leave held. Who has it ends within the time of its calls.
            with self._session_lock:
                if self._registered:
                    self.runner.run(self.session.close())
        except TubeError as error:
            _log.info("could not unregister the producer; the master's lease will end: %s", error)
        self._registered = False  # only now: an interrupted caller comes here again
        self.pool.close()
        self.outbox.join()
        self._thread.join(_JOIN_SECONDS)

    def end(self) -> None:
        """Close for a producer that nobody closed: nobody may look at its futures either, so say what is lost."""
        self.outbox.close(0)
        for topic, count in self.outbox.unsent.items():
            _log.error(
                "%d messages to topic %s were given up: no broker acknowledged them before they were late or the "
                "program ended. Call flush or close to wait for them",
                count,
                topic,
            )
        self.close(0)

    def _encode(self, sending: Sending, key: PartitionKey) -> bytes:
        request = broker_pb2.SendMessageRequestP2B(
            clientId=self.client_id,
            topicName=sending.topic,
            partitionId=key.partition_id,
            data=sending.payload,
            flag=sending.flag,
            checkSum=checksum(sending.payload),
            sentAddr=self._sent_from,
            msgType=sending.tag or None,
            msgTime=sending.time or None,
        )
        self._authority.to_broker(request)
        return encode_request(
            _SEND.service, _SEND.method_id, request.SerializeToString(), self._settings.rpc_timeout_ms
        )

    def _beat(self) -> None:
        """Send heartbeats until closed; after a failed one the next comes sooner."""
        failures = 0
        pause_ms = float(HEARTBEAT_INTERVAL_MS)
        while not self.closed.wait(pause_ms / 1000):
            try:
                self.refresh()
                failures = 0
                pause_ms = HEARTBEAT_INTERVAL_MS
            except TubeError as error:
                pause_ms = backoff_ms(
                    failures, random.random(), first_ms=_FIRST_BEAT_RETRY_MS, limit_ms=HEARTBEAT_INTERVAL_MS
                )
                failures += 1
                if not self.closed.is_set():
                    _log.warning("a producer's heartbeat failed; the next try is in %.1f s: %s", pause_ms / 1000, error)
