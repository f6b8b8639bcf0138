"""The stable names of errors: what each means, and what to do. Errors of all packages of this project have one.

A name is in the attribute `condition` of an error, and in brackets before the text that Spark and the command line
show.
Names are public: scripts and alerts may look for them. They are not renamed, and never get another meaning.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["CONDITIONS", "Condition", "said"]


class Condition(NamedTuple):
    """One kind of error."""

    meaning: str
    action: str


def said(error: BaseException) -> str:
    """The text of an error with its name before it, such as "[TOPIC_NOT_FOUND] ..."; without one if it has none."""
    condition, text = getattr(error, "condition", None), str(error)
    return text if condition is None or text.startswith(f"[{condition}] ") else f"[{condition}] {text}"


CONDITIONS: Final[dict[str, Condition]] = {
    # Options, arguments and settings
    "UNKNOWN_OPTION": Condition("No option has this name.", "Correct it; the text names the nearest one."),
    "MISPLACED_OPTION": Condition("The option belongs to the other of reads and writes.", "Leave it out."),
    "MISSING_OPTION": Condition("A required option is not given.", "Add the option that the text names."),
    "INVALID_OPTION_VALUE": Condition("The value of an option cannot be used.", "Write one as the text says."),
    "INVALID_SETTING": Condition(
        "An argument, option or setting is wrong, or contradicts another one.", "Do what the text says."
    ),
    "FILE_NOT_READABLE": Condition(
        "A file or environment variable that an option names is not there.",
        "Put it on the machine that the text names, and on every executor's.",
    ),
    "FIXED_SCHEMA": Condition("A schema was given that is not the source's.", "Leave `.schema(...)` out."),
    "APPEND_ONLY": Condition("A write would overwrite the topic.", "Use append."),
    "NEEDS_NEWER_SPARK": Condition(
        "The running Spark lacks what the option or the write needs.",
        "Use a newer Spark, or leave the option out.",
    ),
    "OTHER_CHECKPOINT": Condition(
        "The checkpoint belongs to a query of other topics.", "Give the query a checkpointLocation of its own."
    ),
    # Installation
    "PACKAGE_MISSING": Condition(
        "A Python package is not installed where it is needed: on the driver or on executors.",
        "Install it into the Python that the text names, or set PYSPARK_PYTHON to a Python that has it.",
    ),
    "NEEDS_NEWER_PYTHON": Condition(
        "The package was put on the path of a Python before 3.11.",
        "Run driver and executors with Python 3.11 or newer.",
    ),
    "JAVA_NOT_USABLE": Condition(
        "Java is missing, or too old for Spark.", "Install JDK 17 or newer, and set JAVA_HOME to it."
    ),
    "JARS_NOT_FOUND": Condition(
        "Spark could not get jars, such as Delta's, or runs without them.",
        "Let the machine reach a Maven repository (`spark.jars.repositories`), or give the jars with `spark.jars`.",
    ),
    "SPARK_NOT_STARTED": Condition("Spark did not start.", "Read its log, which the text names."),
    "NEEDS_CLASSIC_SPARK": Condition(
        "The session is, or would be, a client of Spark Connect, and the work needs the driver's JVM.",
        "Start it with spark-submit or `--spark-master`, without SPARK_REMOTE.",
    ),
    "SESSION_DOES_NOT_FIT": Condition(
        "A SparkSession runs already, and lacks what `pyspark_tubeclient.session` was asked for.",
        "Restart the Python process or the notebook's kernel, and call `session` first.",
    ),
    # The cluster
    "MASTER_UNREACHABLE": Condition(
        "No master answered.", "Check masterServers, the network, and that a master runs there."
    ),
    "BROKER_UNREACHABLE": Condition(
        "A broker that is needed did not answer in time.", "Start the broker, or check the network to it."
    ),
    "OTHER_WEB_PORT": Condition(
        "The web port belongs to another cluster than the masters.",
        "Set masterWebPort (`master_web_port`) to the web port of this cluster's masters.",
    ),
    "SERVER_UNREACHABLE": Condition("A connection could not be made.", "Check address, network and server."),
    "CONNECTION_FAILED": Condition("There is no usable connection to a server.", "Check address, network and server."),
    "CONNECTION_LOST": Condition("A connection ended before the answer.", "Try again; look into the server's log."),
    "NO_ANSWER_IN_TIME": Condition(
        "A server did not answer in time.", "Try again; check the server's load, or allow more time."
    ),
    "NOT_TUBEMQ": Condition(
        "The peer does not speak TubeMQ's protocol.", "Check the port, and whether the server wants TLS."
    ),
    "SERVER_FAILED": Condition("A server could not run a call.", "Look into the server's log."),
    "MASTER_STANDBY": Condition("The asked master is a standby.", "Name the active master as well."),
    "SERVER_REFUSED": Condition("A server refused a call.", "The text has its code and words."),
    "SERVER_BUSY": Condition("A server is busy.", "Try again later."),
    "BAD_REQUEST": Condition("A value of a call is wrong for the server.", "The text has the server's words."),
    "AUTHENTICATION_FAILED": Condition(
        "User, password or token were not accepted.", "Check user, password, token and this machine's clock."
    ),
    "BROKER_CALL_FAILED": Condition(
        "An administrative call failed at one broker.", "Mend what the text says, and repeat the call: that is safe."
    ),
    # Topics and partitions
    "TOPIC_NOT_FOUND": Condition(
        "The cluster does not have the topic.", "Check its spelling, or create and deploy it on the cluster."
    ),
    "PARTITION_NOT_FOUND": Condition("The topic does not have the partition.", "Name one that there is."),
    "PARTITION_UNAVAILABLE": Condition(
        "The master's list has the partition or topic as not readable or not writable.",
        "Allow it on the topic's brokers, or bring them online.",
    ),
    "NOT_AVAILABLE": Condition("The broker does not have the topic or partition, or it is closed there.", "Open it."),
    "NOTHING_TO_READ": Condition("There is nothing to read at this moment.", "Try again later."),
    "NO_MESSAGE_TIME": Condition("A search by time met a message without a time.", "Begin by offsets instead."),
    "SPEED_LIMITED": Condition("The broker's flow control requests a wait.", "Wait, or change the group's limits."),
    # Groups
    "GROUP_CONFLICT": Condition(
        "Live clients of the group use another mode, other topics or other filters.",
        "Stop them, or use another consumerGroup.",
    ),
    "SOURCE_COUNT_CONFLICT": Condition(
        "Live clients of the group have another sourceCount.", "Use theirs, stop them, or use another consumerGroup."
    ),
    "NODE_OCCUPIED": Condition(
        "A live client holds this node of the group, for example a second query.",
        "Stop it, or use another consumerGroup.",
    ),
    "GROUP_FORBIDDEN": Condition(
        "The cluster does not let the group consume the topic.", "Authorise the group for the topic on the master."
    ),
    "GROUP_NOT_FOUND": Condition("No broker has positions of the group.", "Check its name."),
    "PARTITION_OCCUPIED": Condition(
        "Another client of the group reads the partition.", "Stop that client, or wait until it releases it."
    ),
    "PARTITION_TAKEN": Condition("The partition went to another client.", "Look who else uses the group."),
    "REGISTRATION_LOST": Condition("The server no longer knows this client.", "Nothing: the client registers again."),
    # Messages
    "DATA_LOSS": Condition(
        "The broker no longer holds messages that should be read.",
        "Find out why; `failOnDataLoss=false`, in Python `fail_on_data_loss=False`, goes on without them.",
    ),
    "CORRUPT_MESSAGE": Condition(
        "A message does not match its checksum, or cannot be parsed.",
        "`badMessages=keep` makes it a row.",
    ),
    "CONTRADICTORY_ANSWERS": Condition(
        "Messages of a broker do not fit their offsets, or come differently each time.",
        "Look for what changes answers on the way to the broker, and at the broker's log.",
    ),
    "STALE_PACK": Condition(
        "A pack was confirmed too late, or a second time.", "Nothing: what was not confirmed comes again."
    ),
    "CLIENT_CLOSED": Condition("The client is closed, or belongs to another process.", "Make a new one."),
    "CLIENT_ERROR": Condition("Another error of the client.", "The text says what is wrong."),
    # The offsets table
    "OFFSETS_TABLE_UNUSABLE": Condition("The offsets table cannot be read or written.", "Do what the text says."),
    "OFFSETS_TABLE_SCHEMA": Condition(
        "The Delta table there is not an offsets table, or has rows that this release does not write.",
        "Name another path, or do what the text says.",
    ),
    "OFFSETS_TABLE_CONFLICT": Condition("Other writers won every try.", "Try again; use one table for fewer writers."),
    "RUN_ALIVE": Condition("Another run of the group may be alive.", "Stop it, and wait as long as the text says."),
    "RUN_SUPERSEDED": Condition("A newer run of the group took over.", "Stop one of the two, or use two groups."),
    # tubeclient ingest
    "TARGET_ROWS_UNKNOWN": Condition("The target's history does not say which rows it has.", "Do what the text says."),
    "OTHER_CLUSTER": Condition("The target's rows come from other masters.", "former-masters, if they moved."),
    "TARGET_TAKEN_OVER": Condition("Another run of the group wrote to the target.", "Stop one of the two runs."),
    "TARGET_COLUMNS": Condition("The rows do not fit the target's columns.", "Change the schema, or set evolve."),
    "BAD_RECORD": Condition("A record cannot be parsed, or is refused.", "Correct the format, or give bad-records."),
    "TOO_MANY_BAD_RECORDS": Condition("A round has more bad records than allowed.", "Correct the format or the limit."),
}
