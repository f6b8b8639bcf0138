"""Proves the judge: each of these defences is switched off in turn, and a seed sees it.

`python -m tests.simulation.defences` tries each one's own seed; with `--search 20` it looks for another where that
one does not. A defence is a function or a line of the product. What stands here in its place is what the product would
be without it.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import logging
import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from spark_source.offsets.offsets import Offsets
from tubeclient_ingest.commits.history import _Effect

__all__ = ["DEFENCES", "Defence", "switched_off"]

BAD = {"bad_share": 0.15, "bad_records": True}
TABLE = {"offsets_table": True}
TWO = ("a second driver", "the driver stands still")


@dataclass(frozen=True)
class Defence:
    """What stands at a place of the product, what would be there without it, and the seed that sees that it is
    missing."""

    what: str
    place: str
    """module:name of the function, method or property"""
    line: str = ""
    """A line of it; "" if `off` replaces the whole."""
    instead: str = ""
    seed: int = 0
    kinds: tuple[str, ...] = ()
    """The kinds of faults in that run; none: as the seed draws them."""
    given: dict[str, Any] = field(default_factory=dict)
    """Conditions of the run that are not the seed's."""
    off: Callable[[Any], Any] | None = None
    """Makes what stands there instead, of what is there."""


_PLAIN: dict[str, Any] = {"streams": 0, "tasks_write": False, "is_iceberg": False, "leaves_out": None}
INGEST = "tubeclient_ingest."
RANGE = "tubeclient.flows.read_range:RangeRead."

DEFENCES = (
    Defence(
        "a stream that takes no part in a run lacks what it lacked",
        INGEST + "commits.stream_ends:GroupEnds.begin_at",
        "lambda stream: highest([start, stream.ends]) if stream.takes_part else new.merge(stream.ends),",
        "lambda stream: highest([start, stream.ends]),",
        given={"streams": 3, "ingests": True, "leaves_out": 25},
        seed=25,
    ),
    Defence(
        "a run begins where the target's rows end",
        INGEST + "run:of_topics",
        off=lambda _: lambda *_: Offsets({}),
        kinds=("the driver dies",),
        seed=2,
    ),
    Defence(
        "all runs of a group share one transaction",
        INGEST + "commits.record:SinkRecord.transaction_id",
        off=lambda _: property(lambda record: f"{record.consumer_group} {record.run_id}"),
        kinds=TWO,
        given={"dies": False},
        seed=21,
    ),
    Defence(
        "a commit that Delta skipped is noticed",
        INGEST + "rounds.sink:Sink._check_written",
        off=lambda _: lambda *_: None,
        kinds=TWO,
        seed=45,
    ),
    Defence(
        "what RESTORE took out does not count",
        INGEST + "commits.history:_effect",
        off=lambda real: lambda commit: _Effect.KEEPS if commit.operation == "RESTORE" else real(commit),
        kinds=("the target is restored",),
        seed=0,
    ),
    Defence(
        "a RESTORE between a look and a commit is told",
        INGEST + "rounds.group_table:trusted",
        off=lambda _: lambda state, *_: replace(state, taken_out=None),
        kinds=("the target is restored", "storage fails"),
        seed=8,
    ),
    Defence(
        "a number is not used again after RESTORE",
        INGEST + "commits.history:SinkState.numbered",
        off=lambda real: (
            lambda state, record: real(replace(state, sequence=state.record.sequence if state.record else 0), record)
        ),
        kinds=("the target is restored",),
        seed=1,
    ),
    Defence(
        "a commit names what RESTORE undid",
        INGEST + "commits.history:SinkState.numbered",
        off=lambda real: lambda state, record: replace(real(state, record), undone=()),
        kinds=("the target is restored",),
        given=BAD,
        seed=0,
    ),
    Defence(
        "bad records count with their commit",
        "tests.simulation.target:committed",
        off=lambda _: lambda *_: "true",
        kinds=("the target is restored",),
        given=BAD,
        seed=0,
    ),
    Defence(
        "a round ends where the rows of another table end",
        INGEST + "commits.stream_ends:end_of_round",
        off=lambda _: lambda start, end, several: end,
        kinds=("the driver dies",),
        given={"streams": 3, "ingests": True},
        seed=6,
    ),
    Defence(
        "the counts table counts for a table only after the commit that it knows",
        INGEST + "rounds.stream_opener:ends_of",
        off=lambda _: lambda number, ends, reached, group_ends: group_ends,
        kinds=("the driver dies",),
        given={"streams": 3, "ingests": True},
        seed=3,
    ),
    Defence(
        "a stream goes on where the table for the rest has it",
        INGEST + "rounds.stream_opener:StreamOpener._in_rest",
        off=lambda _: lambda *_: None,
        kinds=("the driver dies",),
        given={"streams": 4, "ingests": True},
        seed=16,
    ),
    Defence(
        "offsets of before a loss are stale",
        INGEST + "commits.history:SinkState.stale",
        off=lambda _: lambda *_: [],
        kinds=("the target is restored", "a broker loses its tail"),
        given={"ingests": True},
        seed=560,
    ),
    Defence(
        "a lost tail is seen by the tables that are ahead",
        INGEST + "commits.stream_ends:GroupEnds.ahead",
        off=lambda _: lambda _self: None,
        kinds=("the driver dies", "a broker loses its tail"),
        given={"streams": 3, "ingests": True},
        seed=99,
    ),
    Defence(
        "a position past a lost tail goes back",
        "spark_source.stream.loss_judge:LossJudge.still_available",
        'loss.kind == "tail" and loss.found is not None',
        "False",
        2,
        ("a broker loses its tail", "a broker restarts"),
    ),
    Defence(
        "a loss ends the query unless the user accepts it",
        "spark_source.stream.loss_judge:LossJudge._judge",
        "if lost and self._fail_on_data_loss:",
        "if False:",
        2,
        ("retention", "a broker loses its tail"),
    ),
    Defence(
        "a position past the broker's end is a loss",
        "spark_source.plan.losses:find_lost",
        "if not limits.min_offset <= run.offset <= limits.max_offset",
        "if run.offset < limits.min_offset",
        2,
        ("a broker loses its tail",),
    ),
    Defence(
        "a batch may go back over an accepted loss",
        "spark_source.stream.planner:StreamPlanner.partitions",
        "if begin == self._initial or not self._options.fail_on_data_loss:",
        "if False:",
        2,
        ("a broker loses its tail",),
    ),
    Defence(
        "a new partition is read from its first offset",
        "spark_source.plan.planning:_entry",
        "return limits.min_offset",
        "return limits.max_offset",
        6,
        ("more partitions",),
    ),
    Defence(
        "only what is complete is recorded",
        "spark_source.stream.planner:StreamPlanner._end_of_batch",
        "return end",
        "self._position.record(end, recent)\nreturn end",
        0,
        ("the driver dies",),
        TABLE,
    ),
    Defence(
        "an older run gives way in the offsets table",
        "offsets_store.run:OffsetsRun._check_epoch",
        "newest.run_epoch > self._epoch",
        "False",
        4,
        ("the driver stands still", "the master restarts"),
        TABLE,
    ),
    Defence(
        "a run's epoch is above all in the table",
        "offsets_store.table:OffsetsTable.open_run",
        "now if newest is None else max(now, newest.run_epoch + 1)",
        "now",
        1,
        ("a clock jumps", "the driver dies"),
        TABLE,
    ),
    Defence(
        "a range ends where it ends",
        RANGE + "_settle",
        "if bound > end and pending.messages.ids:",
        "if False:",
        0,
    ),
    Defence(
        "a range that begins with expired messages is a loss",
        RANGE + "_check_bounds",
        "if answer.currOffset > self.position:",
        "if False:",
        8,
        ("retention",),
    ),
    Defence(
        "a range that has expired as a whole is at its end",  # the simulation found that it was not
        RANGE + "_check_bounds",
        "if self.position < self._end:",
        "if True:",
        30,
        ("retention", "a broker loses its tail", "the driver dies"),
    ),
    Defence(
        "a range that ends past the broker's data is a loss",
        RANGE + "_check_bounds",
        "if found < self._end:",
        "if False:",
        7,
        ("a broker loses its tail",),
    ),
    Defence(
        "messages that expired while they were read are a loss",
        "tubeclient.range_reader:RangeReader._check_nothing_expired",
        "self._expired(losses)",
        "()",
        22,
        ("retention", "the driver dies"),
    ),
    Defence(
        "no two readers share a client id",
        "tubeclient.identity:new_client_id",
        'return f"{group}_{_this_process()}-{time.time_ns()}-{unique}-{label}-{__version__}"',
        'return f"{group}-{label}"',
        0,
        (),
        {"speculates": 0.9},
    ),
    Defence(
        "the master lets one client be a node",
        "embedded_tubemq.master.groups:ConsumerGroup.check",
        "other.node_id == joining.node_id and other.client_id != who",
        "False",
        0,
        TWO,
    ),
)


@contextmanager
def switched_off(defence: Defence) -> Iterator[None]:
    """Run without the defence."""
    if defence.off is not None:
        module, _, names = defence.place.partition(":")
        *path, last = names.split(".")
        owner: Any = importlib.import_module(module)
        for name in path:
            owner = getattr(owner, name)
        real = inspect.getattr_static(owner, last)
        setattr(owner, last, defence.off(real))
        try:
            yield
        finally:
            setattr(owner, last, real)
        return
    function = _function(defence.place)
    source = textwrap.dedent(inspect.getsource(function))
    source = source[source.index("def ") :]
    if source.count(defence.line) != 1:
        raise LookupError(f"{defence.place} does not have this line once: {defence.line}")
    line = next(one for one in source.splitlines() if defence.line.partition("\n")[0] in one)
    indent = " " * (len(line) - len(line.lstrip()))
    changed = source.replace(defence.line, defence.instead.replace("\n", "\n" + indent))
    made: dict[str, Any] = {}
    exec(compile("from __future__ import annotations\n" + changed, defence.place, "exec"), function.__globals__, made)
    before = function.__code__
    function.__code__ = made[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = before


def _function(place: str) -> Any:
    module, _, names = place.partition(":")
    found: Any = importlib.import_module(module)
    for name in names.split("."):
        found = inspect.getattr_static(found, name)
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    return inspect.unwrap(found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.defences", description=__doc__)
    parser.add_argument("--search", type=int, default=0, help="how many seeds to try where its own does not see it")
    parser.add_argument("--only", default="", help="a part of what the defence does")
    parser.add_argument(
        "--piece", type=int, nargs=2, default=(0, 1), metavar=("NUMBER", "PIECES"), help="a share of all"
    )
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation.defences", *sys.argv[1:]])
    from tests.simulation.ingest import install
    from tests.simulation.scenario import simulate

    logging.lastResort = None
    logging.getLogger().setLevel(logging.WARNING)
    install()
    unseen = 0
    number, pieces = given.piece
    for defence in DEFENCES[number::pieces]:
        if given.only not in defence.what:
            continue
        for seed in (defence.seed, *range(given.search)):
            with switched_off(defence):
                outcome = simulate(seed, defence.kinds, {**_PLAIN, **defence.given})
            if outcome.wrongs and not simulate(seed, defence.kinds, {**_PLAIN, **defence.given}).wrongs:
                print(f"seen by seed {seed}: {defence.what}: {outcome.wrongs[0].splitlines()[0][:160]}", flush=True)
                break
        else:
            unseen += 1
            print(f"NOT SEEN: {defence.what}", flush=True)
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
