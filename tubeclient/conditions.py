"""The stable names of errors: what each means, what to do, and how a command ends. All errors of this project have one.

A name is in the attribute `condition` of an error, and in brackets before the text that Spark and the command line
show.
Names are public: scripts and alerts may look for them. They are not renamed, and never get another meaning.
"""

from __future__ import annotations

from typing import Final, NamedTuple

FAILED: Final = 1
"""The work failed, or the answer is that something is not well."""
USAGE: Final = 2
"""Wrong usage or settings, which the user can change."""
UNREACHABLE: Final = 3
"""The cluster, a table or Spark cannot be reached."""


class Condition(NamedTuple):
    """An error."""

    meaning: str
    """What is wrong."""
    advice: str
    """What to do."""
    exit_code: int = FAILED
    """With which a command ends that meets it."""


def error_text(error: BaseException) -> str:
    """The text of an error with its name before it, such as "[TOPIC_NOT_FOUND] ..."; without one if it has none."""
    condition, text = getattr(error, "condition", None), str(error)
    return text if condition is None or text.startswith(f"[{condition}] ") else f"[{condition}] {text}"


CONDITIONS: Final[dict[str, Condition]] = {
    # Options, arguments and settings
    "UNKNOWN_OPTION": Condition(
        "No option has this name.", "Correct the name; the text gives the closest match.", USAGE
    ),
    "MISPLACED_OPTION": Condition("This option applies only to reads, or only to writes.", "Remove it.", USAGE),
    "MISSING_OPTION": Condition("A required option is missing.", "Add the option named in the text.", USAGE),
    "INVALID_OPTION_VALUE": Condition("An option has an invalid value.", "Use a value that the text describes.", USAGE),
    "INVALID_SETTING": Condition(
        "An argument, option or setting is invalid, or conflicts with another.", "Do what the text says.", USAGE
    ),
    "FILE_NOT_READABLE": Condition(
        "An option names a file or variable that does not exist.", "Create it, on the executors too.", USAGE
    ),
    "FIXED_SCHEMA": Condition(
        "The query sets a schema, but the source has a fixed one.", "Remove `.schema(...)`.", USAGE
    ),
    "APPEND_ONLY": Condition("A write would overwrite the topic.", "Use mode append.", USAGE),
    "NEEDS_NEWER_SPARK": Condition(
        "The option or write needs a newer Spark than the one running.", "Upgrade Spark, or do without it.", USAGE
    ),
    "OTHER_CHECKPOINT": Condition(
        "The checkpoint belongs to a query that reads other topics.", "Give each query its own checkpoint.", USAGE
    ),
    # Installation
    "PACKAGE_MISSING": Condition(
        "A Python package is missing on the driver or an executor.", "Install it, or set PYSPARK_PYTHON.", USAGE
    ),
    "NEEDS_NEWER_PYTHON": Condition(
        "The package was loaded by a Python older than 3.11.", "Run Spark with Python 3.11 or newer.", USAGE
    ),
    "JAVA_NOT_USABLE": Condition(
        "Java is missing, or too old for Spark.", "Install JDK 17 or newer, and point JAVA_HOME to it.", USAGE
    ),
    "USER_WITHOUT_NAME": Condition(
        "The user that runs Spark has no entry in /etc/passwd.", "Add one, or run Spark as another user.", USAGE
    ),
    "JARS_NOT_FOUND": Condition(
        "Spark could not find or download jars, such as Delta's.",
        "Set `spark.jars`, or make a Maven repository reachable.",
        USAGE,
    ),
    "SPARK_NOT_STARTED": Condition("Spark did not start.", "Read Spark's log; the text has its path."),
    "NEEDS_CLASSIC_SPARK": Condition(
        "This needs the driver's JVM, so it cannot run over Spark Connect.",
        "Use spark-submit instead of Spark Connect.",
        USAGE,
    ),
    "SESSION_DOES_NOT_FIT": Condition(
        "The running SparkSession lacks something that is needed.", "Restart Python, then call `session` first.", USAGE
    ),
    # The cluster
    "MASTER_UNREACHABLE": Condition(
        "No master answered.", "Check masterServers and the network, and that a master is running there.", UNREACHABLE
    ),
    "BROKER_UNREACHABLE": Condition(
        "A required broker did not answer in time.", "Start the broker, or check the network.", UNREACHABLE
    ),
    "OTHER_WEB_PORT": Condition(
        "The web port belongs to another cluster.",
        "Set masterWebPort (`master_web_port`) to the web port of this cluster's masters.",
        USAGE,
    ),
    "SERVER_UNREACHABLE": Condition(
        "The client could not connect to a server.", "Check the address, the network and the server.", UNREACHABLE
    ),
    "CONNECTION_FAILED": Condition(
        "There is no usable connection to a server.", "Check the address, the network and the server.", UNREACHABLE
    ),
    "CONNECTION_LOST": Condition(
        "A connection closed before the answer arrived.", "Try again; check the server's log.", UNREACHABLE
    ),
    "NO_ANSWER_IN_TIME": Condition(
        "A server did not answer in time.", "Try again; check the server's load, or raise the timeout.", UNREACHABLE
    ),
    "NOT_TUBEMQ": Condition(
        "The peer does not speak TubeMQ's protocol.",
        "Check the port, and whether the server requires TLS.",
        UNREACHABLE,
    ),
    "SERVER_FAILED": Condition("A call failed on the server.", "Check the server's log."),
    "MASTER_STANDBY": Condition("The master that was asked is a standby.", "List the active master too.", UNREACHABLE),
    "SERVER_REFUSED": Condition("A server refused a call.", "The text has the server's code and message."),
    "SERVER_BUSY": Condition("A server is busy.", "Try again later.", UNREACHABLE),
    "BAD_REQUEST": Condition("The server rejected a value in a call.", "The text has the server's message."),
    "AUTHENTICATION_FAILED": Condition(
        "The server rejected the user, password or token.", "Check them, and this machine's clock.", USAGE
    ),
    "AUDIT_FAILED": Condition(
        "InLong's Audit did not answer, or refused the request.",
        "The text has its message; check Audit's log.",
        UNREACHABLE,
    ),
    "INLONG_MANAGER_FAILED": Condition(
        "InLong's Manager refused a call, or the answer is not Manager's.",
        "Do what the text says.",
    ),
    "BROKER_CALL_FAILED": Condition(
        "An administrative call failed on one broker.", "Fix the cause that the text gives, then repeat the call."
    ),
    # Topics and partitions
    "TOPIC_NOT_FOUND": Condition(
        "The cluster does not have the topic.", "Check the spelling, or create and deploy the topic.", USAGE
    ),
    "PARTITION_NOT_FOUND": Condition("The topic does not have the partition.", "Use an existing partition.", USAGE),
    "PARTITION_UNAVAILABLE": Condition(
        "The master lists the partition as not readable or not writable.",
        "Allow reads or writes on it, or start its broker.",
        UNREACHABLE,
    ),
    "NOT_AVAILABLE": Condition(
        "The topic or partition is missing or closed on the broker.", "Create or open it there.", UNREACHABLE
    ),
    "NOTHING_TO_READ": Condition("There is nothing to read right now.", "Try again later."),
    "NO_MESSAGE_TIME": Condition("A search by time found a message that has no time.", "Start from offsets instead."),
    "SPEED_LIMITED": Condition(
        "The broker's flow control asks the client to wait.", "Wait, or raise the group's limits."
    ),
    # Groups
    "GROUP_CONFLICT": Condition(
        "Live clients of the group use a different mode, topics or filters.", "Use another group."
    ),
    "SOURCE_COUNT_CONFLICT": Condition(
        "Live clients of the group use a different sourceCount.", "Use the same sourceCount, or another group."
    ),
    "NODE_OCCUPIED": Condition(
        "Another live client, such as a second query, holds this node.", "Stop it, or use another consumerGroup."
    ),
    "GROUP_FORBIDDEN": Condition(
        "The group is not authorized to consume the topic.", "Authorize it on the master.", USAGE
    ),
    "GROUP_NOT_FOUND": Condition("No broker has a position for the group.", "Check the group's name.", USAGE),
    "PARTITION_OCCUPIED": Condition(
        "Another client of the group is reading the partition.", "Stop that client, or wait until it ends."
    ),
    "PARTITION_TAKEN": Condition("The partition was given to another client.", "Check who else uses the group."),
    "REGISTRATION_LOST": Condition("The server no longer knows this client.", "Nothing: the client registers again."),
    # Messages
    "DATA_LOSS": Condition(
        "The broker no longer has messages that this read needs.",
        "Find out why, or set `failOnDataLoss=false` to skip them.",
    ),
    "CORRUPT_MESSAGE": Condition(
        "A message does not match its checksum, or cannot be parsed.", "Set `badMessages=keep` to get it as a row."
    ),
    "CONTRADICTORY_ANSWERS": Condition(
        "A broker's messages do not match their offsets, or differ on each read.",
        "Look for something that alters the broker's answers, such as a proxy, and check the broker's log.",
    ),
    "STALE_PACK": Condition(
        "A pack was confirmed too late, or a second time.", "Nothing: unconfirmed messages are delivered again."
    ),
    "CLIENT_CLOSED": Condition("The client is closed, or belongs to another process.", "Create a new one."),
    "CLIENT_ERROR": Condition("Any other client error.", "The text says what is wrong."),
    # The offsets table
    "OFFSETS_TABLE_UNUSABLE": Condition(
        "The offsets table cannot be read or written.", "Do what the text says.", UNREACHABLE
    ),
    "OFFSETS_TABLE_SCHEMA": Condition(
        "The Delta table at this path is not an offsets table of this release.", "Use another path.", USAGE
    ),
    "OFFSETS_TABLE_CONFLICT": Condition(
        "Other writers committed first on every try.", "Try again, or let fewer writers share the table."
    ),
    "RUN_ALIVE": Condition(
        "Another run of the group may still be alive.", "Stop that run, and wait as long as the text says.", USAGE
    ),
    "RUN_SUPERSEDED": Condition("A newer run of the group took over.", "Stop one of the runs, or use two groups."),
    # tubeclient ingest
    "TARGET_ROWS_UNKNOWN": Condition(
        "The target's history does not show which rows the target has.", "Do what the text says.", USAGE
    ),
    "OTHER_CLUSTER": Condition(
        "The target's rows come from a cluster with other masters.", "If the masters moved, set former-masters.", USAGE
    ),
    "TARGET_TAKEN_OVER": Condition("Another run of the group wrote to the target.", "Stop one of the two runs."),
    "TARGET_NOT_WRITABLE": Condition(
        "The job cannot write or commit a table's files.", "Fix the cause that the text gives."
    ),
    "TARGET_COLUMNS": Condition(
        "The rows do not match the target's columns.", "Change the schema, or set evolve.", USAGE
    ),
    "BAD_RECORD": Condition("A record cannot be parsed, or was refused.", "Correct the format, or set bad-records."),
    "TOO_MANY_BAD_RECORDS": Condition(
        "A round has more bad records than max-bad-records allows.", "Correct the format, or raise the limit."
    ),
    "STREAMS_LEFT_BEHIND": Condition(
        "Some streams are not being written.", "Fix the cause reported for each stream, then restart."
    ),
}
