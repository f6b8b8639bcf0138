"""Three processes share a group; one of them is paused while it reads, and continued."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.tubeclient.member_process import GROUP, Member, member
from tests.tubeclient.reading import Writer
from tests.waiting import wait_for
from tubeclient import Admin, ClientSettings, PartitionKey, assign

__all__ = ["Owners", "stop_one_of_three"]

Owners = dict[PartitionKey, str]
"""Client ids by partition; a partition that nobody has is left out."""


def shares(partitions: list[PartitionKey], *members: Member) -> Owners:
    """Who is to own each partition."""
    ids = sorted(each.client_id for each in members)
    return {key: name for name, keys in zip(ids, assign("modulo", partitions, len(ids)), strict=True) for key in keys}


def are_owners(wanted: Owners, found: Owners) -> bool:
    """Whether these are they. A member holds a partition under another id, its own and a number, if an older request of
    its may come late."""
    return wanted.keys() == found.keys() and all(
        re.fullmatch(rf"{re.escape(name)}(\.\d+)?", found[key]) for key, name in wanted.items()
    )


def in_all(members: list[Member], kind: str, **wanted: str) -> Counter[bytes]:
    """How often each message is in the members' books."""
    return sum((one.bodies(kind, **wanted) for one in members), Counter())


def wait_until_read(writer: Writer, members: list[Member], keys: list[PartitionKey]) -> None:
    """Until the members have confirmed a message of each partition that was not sent yet."""
    new = len(writer.sent)

    def unread() -> list[PartitionKey]:
        return [
            key
            for key in keys
            if not any(int(body) >= new for body in in_all(members, "confirmed", partition=str(key)))
        ]

    wait_for(lambda: not unread(), "what is new in each partition to be read")


@contextmanager
def stopped(one: Member) -> Iterator[None]:
    os.kill(one.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(one.process.pid, signal.SIGCONT)


def stop_one_of_three(
    settings: ClientSettings, topic: str, folder: Path, owners: Callable[[], Owners], *, seconds: float = 30.0
) -> None:
    """Let three members read `topic` while it is written to, stop one, continue it, and count what they read.

    `owners` says who has which partition; each step is waited for so many `seconds`.
    """
    admin = Admin(settings)
    partitions = admin.topics([topic])[0].partitions()
    with Writer(settings, topic) as writer, ExitStack() as processes:
        members = [processes.enter_context(member(settings, topic, folder / f"book-{number}")) for number in range(3)]

        def wait_until_shared(*by: Member) -> None:
            wait_for(lambda: are_owners(shares(partitions, *by), owners()), f"{len(by)} to share", seconds=seconds)

        wait_for(lambda: all(one.client_id for one in members), "three processes to start", seconds=60)
        wait_until_shared(*members)
        wait_until_read(writer, members, partitions)
        victim, others = members[0], members[1:]
        its_keys = [key for key, owner in shares(partitions, *members).items() if owner == victim.client_id]
        with stopped(victim):
            wait_until_shared(*others)
            assert {one.client_id for one in admin.group(GROUP).members} == {one.client_id for one in others}
            wait_until_read(writer, others, its_keys)
        wait_until_shared(*members)
        wait_until_read(writer, [victim], its_keys)
        assert victim.lines("lost")
        writer.stop()
        wait_for(lambda: admin.group_offsets(GROUP, [topic]).rows_behind == 0, "all messages to be confirmed")
        assert [one.close() for one in members] == [0, 0, 0]
    got, confirmed, refused = (in_all(members, kind) for kind in ("got", "confirmed", "refused"))
    assert set(writer.sent) == set(got), "none is lost"
    assert got == confirmed + refused
    again = sorted(body for body, count in confirmed.items() if count > 1)
    assert not again, "confirmed ones come again"
