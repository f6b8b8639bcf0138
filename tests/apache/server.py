"""An Apache TubeMQ 2.4.0 cluster on loopback: a master and brokers as Java processes of this test run.

Times in seconds unless a name says otherwise. The code relies on these facts, all seen on 2.4.0: a master accepts one
broker per IP, so broker i uses 127.0.0.(i+1); a broker is refused until it was added and put online over HTTP; the
servers bind all interfaces whatever their host name is (there is no setting), but all addresses here are loopback.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.apache.jvm import POLL_S, JvmProcess, ServerError, accepts, free_ports
from tests.apache.masters import AdminError, MasterAdmin, MasterGroup
from tests.apache.settings import BrokerFiles, MasterFiles, ServerTls
from tubeclient.errors import TubeError
from tubeclient.net.connection import Connection
from tubeclient.wire.envelope import encode_request
from tubeclient.wire.methods import MASTER
from tubeclient.wire.proto import master_pb2

_TOOLS: Final = "org.apache.inlong.tubemq.server.tools"
# Alone on two cores a server is up in 1.5 s; the bound is for a machine that is busy with everything else.
_START_TIMEOUT: Final = 60.0
# Clean stop of a broker is 4.4 s, of which 4 s are sleeps in its own code.
_STOP_TIMEOUT: Final = 30.0
# 30 s is what the master waits by itself when a broker cannot be hurried.
_TOPIC_TIMEOUT: Final = 120.0
# The TLS port every broker reports where TLS is off; the master refuses a broker whose record says otherwise.
_NO_TLS_PORT: Final = 8124
# Not to ask twice while the broker's next heartbeat, which ends its wait, is on its way.
_HURRY_AGAIN: Final = 4.0
# The step of a broker's state at the master in which it waits out 30 s before it publishes new topics.
_WAIT_SUBSCRIBE_STEP: Final = 4
# The number of the RPC "a broker leaves" (TubeMQ's MasterService.proto), which no client of ours sends otherwise.
_BROKER_CLOSE: Final = 9
_CLOSE_TIMEOUT_MS: Final = 5_000


@dataclass(frozen=True)
class TopicSpec:
    """A topic to deploy: `num_stores` indexes per broker, each shared by `num_partitions` partitions."""

    name: str
    num_partitions: int = 1
    num_stores: int = 1
    # Which brokers (0-based as in `broker_addresses`); None is all.
    brokers: tuple[int, ...] | None = None
    # Further topic properties by TubeMQ's own names, e.g. {"memCacheFlushIntvl": 4000} (milliseconds).
    properties: Mapping[str, object] = field(default_factory=dict)


class ApacheTubeMQ:
    """A master and `brokers` brokers below `workdir`, and perhaps `standbys` of the master, two or none. Brokers are
    numbered from 0 here; broker i has brokerId i+1.
    """

    def __init__(
        self,
        workdir: Path,
        brokers: int = 2,
        *,
        heap_mb: int = 512,
        master_settings: Mapping[str, object] | None = None,
        broker_settings: Mapping[str, object] | None = None,
        tls: ServerTls | None = None,
        standbys: int = 0,
    ) -> None:
        all_ports = free_ports(4 * (1 + standbys) + 3 * brokers)
        of_masters = [all_ports[4 * n : 4 * n + 4] for n in range(1 + standbys)]
        ports = all_ports[4 * len(of_masters) :]
        self.masters = [(f"127.0.0.1:{port}", f"127.0.0.1:{web_port}") for port, web_port, _, _ in of_masters]
        """Each master's address, and that of its web port; without standbys there is one."""
        self.master_address = self.masters[0][0]
        self.master_web_port, first_store_port, master_tls_port = of_masters[0][1:]
        self.master_tls_address = f"127.0.0.1:{master_tls_port}"
        master_files = [
            MasterFiles(
                workdir / f"master{n + 1}",
                port,
                web_port,
                store_port,
                node=n + 1,
                helper_port=first_store_port,
                extra=master_settings or {},
                tls=tls.section(tls_port) if tls is not None else {},
            )
            for n, (port, web_port, store_port, tls_port) in enumerate(of_masters)
        ]
        self._broker_files = [
            BrokerFiles(
                workdir / f"broker{i + 1}",
                broker_id=i + 1,
                host=f"127.0.0.{i + 1}",
                port=ports[3 * i],
                web_port=ports[3 * i + 1],
                master_address=",".join(address for address, _ in self.masters),
                tls_port=ports[3 * i + 2] if tls is not None else _NO_TLS_PORT,
                extra=broker_settings or {},
                tls=tls.section(ports[3 * i + 2]) if tls is not None else {},
            )
            for i in range(brokers)
        ]
        self.broker_ids = [files.broker_id for files in self._broker_files]
        self.broker_addresses = [f"{files.host}:{files.port}" for files in self._broker_files]
        self.broker_tls_addresses = [f"{files.host}:{files.tls_port}" for files in self._broker_files]
        self.broker_web_addresses = [f"{files.host}:{files.web_port}" for files in self._broker_files]
        self._topics: dict[str, TopicSpec] = {}
        self._masters = MasterGroup(
            [
                JvmProcess(
                    files.folder.name, f"{_TOOLS}.MasterStartup", ["-f", str(files.write())], workdir / "logs", heap_mb
                )
                for files in master_files
            ],
            [MasterAdmin(web) for _, web in self.masters],
        )
        self._brokers = [
            JvmProcess(
                f"broker{files.broker_id}",
                f"{_TOOLS}.BrokerStartup",
                ["-f", str(files.write())],
                workdir / "logs",
                heap_mb,
            )
            for files in self._broker_files
        ]

    @property
    def admin(self) -> MasterAdmin:
        """The web port of the active master."""
        return self._masters.admin

    # --- the whole cluster

    def start(self, topics: Sequence[TopicSpec] = ()) -> None:
        """Returns when every broker is online and every topic can be published to and subscribed: 5 to 7 s."""
        # Even where the caller never gets to stop(): an interpreter that ends takes its servers along.
        atexit.register(self._kill_all)
        try:
            self._masters.start()
            self._configure_brokers()
            # Before the brokers register, so that they are given the topics with the registration.
            self._deploy(topics)
            self._start_brokers(range(len(self._brokers)))
            self._await_topics(range(len(self._brokers)), hurry=True)
        except BaseException:
            self.stop(clean=False)
            raise

    def stop(self, *, clean: bool = True) -> None:
        """Ends every process: SIGTERM and a bounded wait (5 s), or SIGKILL where the data is of no use anymore."""
        if clean:
            # All brokers at the same time: each spends 4 s asleep.
            for process in self._brokers:
                process.request_stop()
            for process in (*self._brokers, *self._masters.processes):
                process.terminate(_STOP_TIMEOUT)
        self._kill_all()
        atexit.unregister(self._kill_all)

    def __enter__(self) -> ApacheTubeMQ:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def tail(self, lines: int = 25) -> str:
        """The last log lines of all servers, for a failure's message."""
        return "\n".join(process.tail(lines) for process in (*self._masters.processes, *self._brokers))

    # --- one server

    def restart_master(self) -> None:
        """Clean stop and start on the same ports and data; returns when the running brokers and topics are back."""
        for process in self._masters.processes:
            process.request_stop()
        for process in self._masters.processes:
            self._end(process)
        # Running brokers register again by themselves and bring their topics.
        self._masters.start()
        self._await_topics([i for i, process in enumerate(self._brokers) if process.running], hurry=True)

    def stop_broker(self, broker: int) -> None:
        """SIGTERM: the broker says good-bye to the master, writes its memory and its groups' positions. About 4.5 s."""
        self._end(self._brokers[broker])

    def kill_broker(self, broker: int) -> None:
        """SIGKILL: what was in its memory is lost. The master notices after its lease, 12 s."""
        self._brokers[broker].kill()

    def start_broker(self, broker: int) -> None:
        """Starts a stopped or killed broker on the same ports and data; returns when its topics are to be had again."""
        self._start_brokers([broker])
        self._await_topics([broker], hurry=True)

    def standing_still(self, broker: int | None) -> AbstractContextManager[None]:
        """A broker, or the master for None, does nothing for the length of the block; after it the server goes on."""
        process = self._masters.processes[self._masters.active] if broker is None else self._brokers[broker]
        return process.standing_still()

    @contextmanager
    def without_active_master(self, *, silent: bool) -> Iterator[None]:
        """Where there are standbys: one of them has taken over when the block begins. The master that was active is
        killed, and started again after the block; or with `silent` it stands still, goes on after the block, and has to
        learn that it is not active any more."""
        with self._masters.without_active(silent=silent):
            self._await_topics([i for i, process in enumerate(self._brokers) if process.running], hurry=True)
            yield

    # --- topics

    def create_topics(self, topics: Sequence[TopicSpec]) -> None:
        """Deploys topics and waits until clients can publish and subscribe them: about 3 s, in which the master shows
        no topics of a broker for up to half a second (`_forget_broker`)."""
        self._deploy(topics)
        self.admin.modify("admin_reload_broker_configure", brokerId=self.broker_ids)
        self._await_topics([i for i, process in enumerate(self._brokers) if process.running], hurry=True)

    def grow_topic(self, name: str, *, partitions: int) -> None:
        """Gives each store of a topic so many partitions, and waits until clients are shown them: about 35 s.

        Clients notice nothing else: without `hurry`, as an operator does it.
        """
        grown = replace(self._topics[name], num_partitions=partitions)
        where = [self.broker_ids[i] for i in self._brokers_of(grown)]
        self.admin.modify("admin_modify_topic_info", topicName=name, brokerId=where, numPartitions=partitions)
        self._topics[name] = grown
        self.admin.modify("admin_reload_broker_configure", brokerId=where)
        self._await_topics(self._brokers_of(grown), hurry=False)

    # --- inside

    def _kill_all(self) -> None:
        for process in (*self._brokers, *self._masters.processes):
            process.kill()

    @staticmethod
    def _end(process: JvmProcess) -> None:
        if not process.terminate(_STOP_TIMEOUT):
            raise ServerError(f"{process.name} did not end within {_STOP_TIMEOUT:.0f} s of SIGTERM\n{process.tail()}")

    def _configure_brokers(self) -> None:
        known = self.admin.broker_states()
        for files in self._broker_files:
            if files.broker_id not in known:
                self.admin.modify(
                    "admin_add_broker_configure",
                    brokerId=files.broker_id,
                    brokerIp=files.host,
                    brokerPort=files.port,
                    brokerWebPort=files.web_port,
                    brokerTLSPort=files.tls_port,
                )
        # A broker that registers before it is "online" in the master's books is refused for good.
        drafts = [i for i in self.broker_ids if known.get(i, {}).get("manageStatus") != "online"]
        if drafts:
            self.admin.modify("admin_online_broker_configure", brokerId=drafts)

    def _deploy(self, topics: Sequence[TopicSpec]) -> None:
        # Those of an earlier start() are still in the master's store.
        for topic in [t for t in topics if t.name not in self._topics]:
            self.admin.modify(
                "admin_add_new_topic_record",
                topicName=topic.name,
                brokerId=[self.broker_ids[i] for i in self._brokers_of(topic)],
                numPartitions=topic.num_partitions,
                numTopicStores=topic.num_stores,
                **topic.properties,
            )
            self._topics[topic.name] = topic

    def _brokers_of(self, topic: TopicSpec) -> tuple[int, ...]:
        return topic.brokers if topic.brokers is not None else tuple(range(len(self._brokers)))

    def _start_brokers(self, brokers: Sequence[int]) -> None:
        for i in brokers:
            self._brokers[i].start()
        for i in brokers:
            files = self._broker_files[i]
            # Its port opens after it registered, so what the master says of it from now on is about this start.
            self._brokers[i].wait_for("listens", lambda f=files: accepts(f.host, f.port), _START_TIMEOUT)  # type: ignore[misc]

    def _await_topics(self, brokers: Sequence[int], hurry: bool) -> None:
        """Until the master shows clients every topic on every one of `brokers`; ServerError after 120 s."""
        deadline = time.monotonic() + _TOPIC_TIMEOUT
        hurried: dict[int, float] = {}
        while True:
            missing = self._missing(brokers, hurried if hurry else None)
            if not missing:
                return
            dead = [self._brokers[i].name for i in brokers if self._brokers[i].failed_to_start()]
            if dead or time.monotonic() >= deadline:
                reason = f"{dead} died" if dead else f"not within {_TOPIC_TIMEOUT:.0f} s"
                raise ServerError(f"topics: {reason}, missing: {missing}\n{self.tail()}")
            time.sleep(POLL_S)

    def _missing(self, brokers: Sequence[int], hurried: dict[int, float] | None) -> list[str]:
        """What clients cannot use yet, in words; hurries brokers that do nothing but wait."""
        states = self.admin.broker_states()
        shown = self.admin.topic_states(list(self._topics)) if self._topics else {}
        missing: list[str] = []
        for i in brokers:
            broker_id = self.broker_ids[i]
            state = states.get(broker_id, {})
            if state.get("runStatus") != "running":
                missing.append(f"broker {broker_id} is {state.get('runStatus')}")
            deployed = [topic for topic in self._topics.values() if i in self._brokers_of(topic)]
            lacking = [topic.name for topic in deployed if not _shows(shown, topic, broker_id)]
            missing += [f"{name} on broker {broker_id}" for name in lacking]
            if hurried is not None and state.get("stepOp") == _WAIT_SUBSCRIBE_STEP:
                # Even with nothing lacking: whatever is changed next would have to wait for the end of this first.
                missing.append(f"broker {broker_id} waits for subscribers")
                if time.monotonic() - hurried.get(broker_id, -1e9) > _HURRY_AGAIN:
                    _forget_broker(self.masters[self._masters.active][0], broker_id)
                    hurried[broker_id] = time.monotonic()
        return missing


def _shows(shown: Mapping[tuple[str, int], Mapping[str, object]], topic: TopicSpec, broker_id: int) -> bool:
    run = shown.get((topic.name, broker_id), {})
    return (
        run.get("acceptPublish") is True
        and run.get("acceptSubscribe") is True
        and run.get("numPartitions") == topic.num_partitions
        and run.get("numTopicStores") == topic.num_stores
    )


def _forget_broker(address: str, broker_id: int) -> None:
    """Makes the master at `address` drop the broker's registration. The broker's next heartbeat is answered "unknown,
    register again"; it does, and reports its topics with it, which the master then publishes at once, without the 30 s
    for which there is no setting. In between, for at most one heartbeat, the master shows no topic of that broker.
    """
    # CloseRequestB2M has a producer's CloseRequestP2M's shape: one string, who leaves, as field 1.
    request = master_pb2.CloseRequestP2M(clientId=str(broker_id)).SerializeToString()
    try:
        connection = Connection(address, connect_timeout_ms=_CLOSE_TIMEOUT_MS, send_timeout_ms=_CLOSE_TIMEOUT_MS)
        try:
            stream = encode_request(MASTER, _BROKER_CLOSE, request, _CLOSE_TIMEOUT_MS)
            connection.submit(stream).result(_CLOSE_TIMEOUT_MS / 1000)
        finally:
            connection.close()
    except (TubeError, TimeoutError) as error:
        raise AdminError(f"master {address}: closing broker {broker_id}: {error}") from error
