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
    "UNKNOWN_OPTION": Condition("No option has this name.", "Correct it; the text names the nearest one.", USAGE),
    "MISPLACED_OPTION": Condition("The option belongs to the other of reads and writes.", "Leave it out.", USAGE),
    "MISSING_OPTION": Condition("A required option is not given.", "Add the option that the text names.", USAGE),
    "INVALID_OPTION_VALUE": Condition("The value of an option cannot be used.", "Write one as the text says.", USAGE),
    "INVALID_SETTING": Condition(
        "An argument, option or setting is wrong, or contradicts another.", "Do what the text says.", USAGE
    ),
    "FILE_NOT_READABLE": Condition(
        "A file or variable that an option names is not there.", "Put it there, on executors too.", USAGE
    ),
    "FIXED_SCHEMA": Condition("A schema was given that is not the source's.", "Leave `.schema(...)` out.", USAGE),
    "APPEND_ONLY": Condition("A write would overwrite the topic.", "Use append.", USAGE),
    "NEEDS_NEWER_SPARK": Condition(
        "The running Spark lacks what the option or write needs.", "Use a newer one, or leave it.", USAGE
    ),
    "OTHER_CHECKPOINT": Condition(
        "The checkpoint is that of a query of other topics.", "Give each query one of its own.", USAGE
    ),
    # Installation
    "PACKAGE_MISSING": Condition(
        "A Python package is missing on driver or executors.", "Install it, or set PYSPARK_PYTHON.", USAGE
    ),
    "NEEDS_NEWER_PYTHON": Condition(
        "The package is on the path of a Python before 3.11.", "Run Spark with 3.11 or newer.", USAGE
    ),
    "JAVA_NOT_USABLE": Condition(
        "Java is missing, or too old for Spark.", "Install JDK 17 or newer, and set JAVA_HOME to it.", USAGE
    ),
    "USER_WITHOUT_NAME": Condition(
        "Spark's user has no line in /etc/passwd.", "Add one, or run Spark as another user.", USAGE
    ),
    "JARS_NOT_FOUND": Condition(
        "Spark could not get jars, such as Delta's.", "Give `spark.jars`, or a Maven repository.", USAGE
    ),
    "SPARK_NOT_STARTED": Condition("Spark did not start.", "Read its log, which the text names."),
    "NEEDS_CLASSIC_SPARK": Condition(
        "The work needs the driver's JVM, not Spark Connect.", "Use spark-submit, without it.", USAGE
    ),
    "SESSION_DOES_NOT_FIT": Condition(
        "A SparkSession runs that lacks what is needed.", "Restart Python; call `session` first.", USAGE
    ),
    # The cluster
    "MASTER_UNREACHABLE": Condition(
        "No master answered.", "Check masterServers, the network, and that a master runs there.", UNREACHABLE
    ),
    "BROKER_UNREACHABLE": Condition(
        "A broker that is needed did not answer in time.", "Start it, or check the network to it.", UNREACHABLE
    ),
    "OTHER_WEB_PORT": Condition(
        "The web port is another cluster's.", "Set masterWebPort (`master_web_port`) to the masters'.", USAGE
    ),
    "SERVER_UNREACHABLE": Condition(
        "A connection could not be made.", "Check address, network and server.", UNREACHABLE
    ),
    "CONNECTION_FAILED": Condition(
        "There is no usable connection to a server.", "Check address, network and server.", UNREACHABLE
    ),
    "CONNECTION_LOST": Condition(
        "A connection ended before the answer.", "Try again; look into the server's log.", UNREACHABLE
    ),
    "NO_ANSWER_IN_TIME": Condition(
        "A server did not answer in time.", "Try again; check its load, or allow more time.", UNREACHABLE
    ),
    "NOT_TUBEMQ": Condition(
        "The peer does not speak TubeMQ's protocol.", "Check the port, and whether the server wants TLS.", UNREACHABLE
    ),
    "SERVER_FAILED": Condition("A server could not run a call.", "Look into the server's log."),
    "MASTER_STANDBY": Condition("The asked master is a standby.", "Name the active master as well.", UNREACHABLE),
    "SERVER_REFUSED": Condition("A server refused a call.", "The text has its code and words."),
    "SERVER_BUSY": Condition("A server is busy.", "Try again later.", UNREACHABLE),
    "BAD_REQUEST": Condition("A value of a call is wrong for the server.", "The text has the server's words."),
    "AUTHENTICATION_FAILED": Condition(
        "User, password or token were not accepted.", "Check them, and this machine's clock.", USAGE
    ),
    "AUDIT_FAILED": Condition(
        "InLong's Audit did not answer, or refused.", "The text has its words; look into its log.", UNREACHABLE
    ),
    "INLONG_MANAGER_FAILED": Condition(
        "InLong's Manager refuses a call, or its answer is not its own.",
        "Do what the text says.",
    ),
    "BROKER_CALL_FAILED": Condition(
        "An administrative call failed at one broker.", "Mend what the text says, and repeat it."
    ),
    # Topics and partitions
    "TOPIC_NOT_FOUND": Condition(
        "The cluster does not have the topic.", "Check its spelling, or create and deploy it there.", USAGE
    ),
    "PARTITION_NOT_FOUND": Condition("The topic does not have the partition.", "Name one that there is.", USAGE),
    "PARTITION_UNAVAILABLE": Condition(
        "The master lists it as not readable or writable.", "Allow it, or start its broker.", UNREACHABLE
    ),
    "NOT_AVAILABLE": Condition(
        "The broker does not have the topic or partition, or it is closed there.", "Open it.", UNREACHABLE
    ),
    "NOTHING_TO_READ": Condition("There is nothing to read at this moment.", "Try again later."),
    "NO_MESSAGE_TIME": Condition("A search by time met a message without a time.", "Begin by offsets instead."),
    "SPEED_LIMITED": Condition("The broker's flow control requests a wait.", "Wait, or change the group's limits."),
    # Groups
    "GROUP_CONFLICT": Condition("Live clients of the group use another mode, topics or filters.", "Use another group."),
    "SOURCE_COUNT_CONFLICT": Condition(
        "Live clients of the group have another sourceCount.", "Use theirs, or another group."
    ),
    "NODE_OCCUPIED": Condition(
        "A live client, as a second query, holds this node.", "Stop it, or use another consumerGroup."
    ),
    "GROUP_FORBIDDEN": Condition(
        "The cluster does not let the group consume the topic.", "Authorise it on the master.", USAGE
    ),
    "GROUP_NOT_FOUND": Condition("No broker has positions of the group.", "Check its name.", USAGE),
    "PARTITION_OCCUPIED": Condition(
        "Another client of the group reads the partition.", "Stop it, or wait until it ends."
    ),
    "PARTITION_TAKEN": Condition("The partition went to another client.", "Look who else uses the group."),
    "REGISTRATION_LOST": Condition("The server no longer knows this client.", "Nothing: the client registers again."),
    # Messages
    "DATA_LOSS": Condition(
        "The broker no longer holds messages to be read.", "Find out why, or set `failOnDataLoss=false`."
    ),
    "CORRUPT_MESSAGE": Condition(
        "A message does not match its checksum, or cannot be parsed.", "`badMessages=keep` keeps it."
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
    "OFFSETS_TABLE_UNUSABLE": Condition(
        "The offsets table cannot be read or written.", "Do what the text says.", UNREACHABLE
    ),
    "OFFSETS_TABLE_SCHEMA": Condition(
        "The Delta table there is not an offsets table of this release.", "Name another path.", USAGE
    ),
    "OFFSETS_TABLE_CONFLICT": Condition("Other writers won every try.", "Try again; use one table for fewer writers."),
    "RUN_ALIVE": Condition(
        "Another run of the group may be alive.", "Stop it, and wait as long as the text says.", USAGE
    ),
    "RUN_SUPERSEDED": Condition("A newer run of the group took over.", "Stop one of the two, or use two groups."),
    # tubeclient ingest
    "TARGET_ROWS_UNKNOWN": Condition(
        "The target's history does not say which rows it has.", "Do what the text says.", USAGE
    ),
    "OTHER_CLUSTER": Condition("The target's rows come from other masters.", "former-masters, if they moved.", USAGE),
    "TARGET_TAKEN_OVER": Condition("Another run of the group wrote to the target.", "Stop one of the two runs."),
    "TARGET_NOT_WRITABLE": Condition("Files of a table cannot be written or committed.", "Mend what the text says."),
    "TARGET_COLUMNS": Condition(
        "The rows do not fit the target's columns.", "Change the schema, or set evolve.", USAGE
    ),
    "BAD_RECORD": Condition("A record cannot be parsed, or is refused.", "Correct the format, or give bad-records."),
    "TOO_MANY_BAD_RECORDS": Condition("A round has more bad records than allowed.", "Correct the format or the limit."),
    "STREAMS_LEFT_BEHIND": Condition(
        "Streams of an InLong group are not written.", "Mend what the error says of each; start."
    ),
}
