"""One member of a group in its own process, and its record of what it read and confirmed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tubeclient import ClientSettings, Delivery, PartitionKey, PullConsumer, StalePack, TransportError, TubeError

GROUP = "three_members"
REFRESH_MS = 500
_WORK_SECONDS = 0.01


class Member:
    """A member that runs, and what it wrote down, line by line."""

    def __init__(self, file: Path, process: subprocess.Popen[bytes]) -> None:
        self._file = file
        self.process = process

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        """The complete lines so far of these kinds, in order."""
        if not self._file.exists():
            return []
        text = self._file.read_text(encoding="utf-8")
        found = map(json.loads, text[: text.rfind("\n") + 1].splitlines())
        return [line for line in found if line["kind"] in kinds]

    def bodies(self, kind: str, *, partition: str | None = None) -> Counter[bytes]:
        """How often each message is in it."""
        wanted = (line for line in self.lines(kind) if partition in (None, line["partition"]))
        return Counter(body.encode() for line in wanted for body in line["bodies"])

    @property
    def client_id(self) -> str:
        """The member's id; empty until it has started."""
        return next((line["client"] for line in self.lines("started")), "")

    def close(self) -> int:
        """Let it give everything back and end; returns its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(60)


@contextmanager
def member(settings: ClientSettings, topic: str, file: Path) -> Iterator[Member]:
    """A member in a process that reads `topic`, killed at the end unless it was closed."""
    arguments = [*settings.master_servers, str(settings.master_web_port), topic, str(file)]
    process = subprocess.Popen([sys.executable, "-m", __name__, *arguments], stdin=subprocess.PIPE)
    try:
        yield Member(file, process)
    finally:
        process.kill()
        process.wait(60)
        if process.stdin is not None:
            process.stdin.close()


def main(master: str, web_port: str, topic: str, file: str) -> None:
    """Read and confirm until the standard input ends."""
    over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    with open(file, "a", buffering=1, encoding="utf-8") as book:

        def note(kind: str, **more: object) -> None:
            book.write(json.dumps({"kind": kind, **more}) + "\n")

        def note_pack(kind: str, delivery: Delivery) -> None:
            bodies = [body.decode() for body in delivery.bodies]
            note(kind, partition=str(delivery.partition), bodies=bodies)

        def note_lost(partition: PartitionKey, error: TubeError) -> None:
            note("lost", partition=str(partition), error=str(error))

        consumer = PullConsumer(
            ClientSettings((master,), master_web_port=int(web_port), rpc_timeout_ms=2_000),
            GROUP,
            [topic],
            membership="dynamic",
            start_from="earliest",
            balance_interval_ms=REFRESH_MS,
            metadata_interval_ms=REFRESH_MS,
            on_lost=note_lost,
        )
        with consumer:
            note("started", client=consumer.consumer_id)
            while not over.is_set():
                delivery = consumer.get(timeout_ms=100)
                if delivery is None:
                    continue
                note_pack("got", delivery)
                time.sleep(_WORK_SECONDS)
                try:
                    consumer.confirm(delivery)
                except (StalePack, TransportError):
                    note_pack("refused", delivery)
                else:
                    note_pack("confirmed", delivery)


if __name__ == "__main__":
    main(*sys.argv[1:])
