"""RocketMQ's own results on the same input.

The sorted partitions stand for the queues that RocketMQ's strategies are given, and nodes 0, 1, ... for its client ids,
sorted. RocketMQ assigns the queues of each topic by themselves; the input is the same where there is one topic. Nothing
here was computed with our code: each table says where it comes from.
"""

from __future__ import annotations

import pytest

from tubeclient import PartitionKey, assign
from tubeclient.assignment import Hints


def queues(count: int, broker_id: int = 1, first: int = 0) -> list[PartitionKey]:
    return [PartitionKey(broker_id, "topic", number) for number in range(first, first + count)]


def numbers(nodes: list[list[PartitionKey]]) -> list[list[int]]:
    return [[key.partition_id for key in of_node] for of_node in nodes]


# RocketMQ's design document compares this with pages: the records in order, a page for each client, each of the average
# size. AllocateMessageQueueAveragelyTest gives the sizes for 10 queues and 4 clients as 3, 3, 2, 2, so that the longer
# pages come first. The lists follow from the two. With fewer queues than clients, a page holds one queue and the last
# clients have none.
AVERAGELY = [
    (10, 4, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
    (8, 4, [[0, 1], [2, 3], [4, 5], [6, 7]]),
    (2, 4, [[0], [1], [], []]),
]
# AllocateMessageQueueAveragelyByCircleTest expects the first; the other goes round in the same way.
BY_CIRCLE = [(10, 4, [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]), (2, 4, [[0], [1], [], []])]
# AllocateMessageQueueByMachineRoomTest expects the first of the five queues in the room that is read, for two clients:
# runs of two, and the one that is left over goes to the first client. (Five more, in a room that nobody is set to read,
# stay unread there.) The other follows the same rule: what is left over is the end of the list.
BY_MACHINE_ROOM = [(5, 2, [[0, 1, 4], [2, 3]]), (11, 4, [[0, 1, 8], [2, 3, 9], [4, 5, 10], [6, 7]])]


@pytest.mark.parametrize(
    ("strategy", "count", "clients", "expected"),
    [
        *(("averagely", *row) for row in AVERAGELY),
        *(("averagely_by_circle", *row) for row in BY_CIRCLE),
        *(("machine_room", *row) for row in BY_MACHINE_ROOM),
    ],
)
def test_queues_of_one_room(strategy: str, count: int, clients: int, expected: list[list[int]]) -> None:
    assert numbers(assign(strategy, queues(count), clients, Hints(rooms={1: "room1"}))) == expected


# AllocateMachineRoomNearByTest, with AllocateMessageQueueAveragely inside, says what must hold: queues of a room with
# clients stay there; those of a room without are shared by all; none is left. Which they are is averagely's table.
def test_machine_room_nearby() -> None:
    keys = [*queues(5), *queues(3, broker_id=2, first=10), *queues(5, broker_id=3, first=20)]
    hints = Hints(rooms={1: "IDC1", 2: "IDC2", 3: "IDC3"}, node_rooms={0: "IDC1", 1: "IDC1", 2: "IDC2", 3: "IDC4"})
    assert numbers(assign("machine_room_nearby", keys, 4, hints)) == [
        [0, 1, 2, 20, 21],
        [3, 4, 22],
        [10, 11, 12, 23],
        [24],
    ]


# AllocateMessageQueueByConfigTest gives each client the list it was set up with; a plan is such lists.
def test_config() -> None:
    lists = [[1, 2], [], [0, 3]]
    plan = {queues(4)[number]: node for node, of_node in enumerate(lists) for number in of_node}
    assert numbers(assign("config", queues(4), 3, Hints(plan=plan))) == lists


# AllocateMessageQueueConsitentHashTest has no table, but names: clients CID-0, CID-1, ..., three virtual nodes each,
# named CID-0-0, CID-0-1 and so on, and queues of topic_test, hashed as MessageQueue's text. Brokers have their ids for
# names here. The ring below was made with coreutils alone, and sorted by its first column:
#     printf 'CID-1-0' | md5sum | cut -c1-8
#     printf 'MessageQueue [topic=topic_test, brokerName=1, queueId=0]' | md5sum | cut -c1-8
# Each queue goes to the client below it; those behind the last one to the first.
RING = """
    105779b7  1:topic_test:0
    4229c993  CID-1
    44401f7a  CID-1
    551b7de6  2:topic_test:1
    57c8dcde  2:topic_test:5
    71479af9  CID-0
    759cb478  CID-1
    7a6d04fa  CID-2
    8273bebc  1:topic_test:2
    8e2c79bd  2:topic_test:0
    9ba72d02  CID-0
    a0067ebf  CID-0
    a5ac6721  2:topic_test:3
    ab32050d  1:topic_test:3
    b32e3ade  1:topic_test:5
    bbc66399  2:topic_test:4
    bca3309d  1:topic_test:1
    c0647fc0  2:topic_test:2
    c58ca775  CID-2
    cfc59838  CID-2
    db5bcaf0  1:topic_test:4
"""
ON_THE_RING = [
    ["1:topic_test:2", "2:topic_test:0", "2:topic_test:1", "2:topic_test:5"],
    ["1:topic_test:0", "1:topic_test:4"],
    ["1:topic_test:1", "1:topic_test:3", "1:topic_test:5", "2:topic_test:2", "2:topic_test:3", "2:topic_test:4"],
]


def test_consistent_hash() -> None:
    keys = [PartitionKey.parse(line.split()[1]) for line in RING.split("\n") if ":" in line]
    hints = Hints(node_names=["CID-0", "CID-1", "CID-2"], virtual_nodes=3)
    nodes = assign("consistent_hash", keys, 3, hints)
    assert [[str(key) for key in of_node] for of_node in nodes] == ON_THE_RING
