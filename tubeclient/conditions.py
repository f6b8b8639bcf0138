"""The stable names of errors: what each means, and what to do. Errors of all packages of this project have one.

A name is in the attribute `condition` of an error, and in brackets before the text that Spark and the command line
show.
Names are public: scripts and alerts may look for them. They are not renamed, and never get another meaning.
"""

from __future__ import annotations

from typing import Final


def error_text(error: BaseException) -> str:
    """The text of an error with its name before it, such as "[TOPIC_NOT_FOUND] ..."; without one if it has none."""
    condition, text = getattr(error, "condition", None), str(error)
    return text if condition is None or text.startswith(f"[{condition}] ") else f"[{condition}] {text}"


CONDITIONS: Final[dict[str, tuple[str, str]]] = {
    # Options, arguments and settings
    "UNKNOWN_OPTION": ("No option has this name.", "Correct it; the text names the nearest one."),
    "MISPLACED_OPTION": ("The option belongs to the other of reads and writes.", "Leave it out."),
    "MISSING_OPTION": ("A required option is not given.", "Add the option that the text names."),
    "INVALID_OPTION_VALUE": ("The value of an option cannot be used.", "Write one as the text says."),
    "INVALID_SETTING": ("An argument, option or setting is wrong, or contradicts another.", "Do what the text says."),
    "FILE_NOT_READABLE": ("A file or variable that an option names is not there.", "Put it there, on executors too."),
    "FIXED_SCHEMA": ("A schema was given that is not the source's.", "Leave `.schema(...)` out."),
    "APPEND_ONLY": ("A write would overwrite the topic.", "Use append."),
    "NEEDS_NEWER_SPARK": ("The running Spark lacks what the option or write needs.", "Use a newer one, or leave it."),
    "OTHER_CHECKPOINT": ("The checkpoint is that of a query of other topics.", "Give each query one of its own."),
    # Installation
    "PACKAGE_MISSING": ("A Python package is missing on driver or executors.", "Install it, or set PYSPARK_PYTHON."),
    "NEEDS_NEWER_PYTHON": ("The package is on the path of a Python before 3.11.", "Run Spark with 3.11 or newer."),
    "JAVA_NOT_USABLE": ("Java is missing, or too old for Spark.", "Install JDK 17 or newer, and set JAVA_HOME to it."),
    "USER_WITHOUT_NAME": ("Spark's user has no line in /etc/passwd.", "Add one, or run Spark as another user."),
    "JARS_NOT_FOUND": ("Spark could not get jars, such as Delta's.", "Give `spark.jars`, or a Maven repository."),
    "SPARK_NOT_STARTED": ("Spark did not start.", "Read its log, which the text names."),
    "NEEDS_CLASSIC_SPARK": ("The work needs the driver's JVM, not Spark Connect.", "Use spark-submit, without it."),
    "SESSION_DOES_NOT_FIT": ("A SparkSession runs that lacks what is needed.", "Restart Python; call `session` first."),
    # The cluster
    "MASTER_UNREACHABLE": ("No master answered.", "Check masterServers, the network, and that a master runs there."),
    "BROKER_UNREACHABLE": ("A broker that is needed did not answer in time.", "Start it, or check the network to it."),
    "OTHER_WEB_PORT": ("The web port is another cluster's.", "Set masterWebPort (`master_web_port`) to the masters'."),
    "SERVER_UNREACHABLE": ("A connection could not be made.", "Check address, network and server."),
    "CONNECTION_FAILED": ("There is no usable connection to a server.", "Check address, network and server."),
    "CONNECTION_LOST": ("A connection ended before the answer.", "Try again; look into the server's log."),
    "NO_ANSWER_IN_TIME": ("A server did not answer in time.", "Try again; check its load, or allow more time."),
    "NOT_TUBEMQ": ("The peer does not speak TubeMQ's protocol.", "Check the port, and whether the server wants TLS."),
    "SERVER_FAILED": ("A server could not run a call.", "Look into the server's log."),
    "MASTER_STANDBY": ("The asked master is a standby.", "Name the active master as well."),
    "SERVER_REFUSED": ("A server refused a call.", "The text has its code and words."),
    "SERVER_BUSY": ("A server is busy.", "Try again later."),
    "BAD_REQUEST": ("A value of a call is wrong for the server.", "The text has the server's words."),
    "AUTHENTICATION_FAILED": ("User, password or token were not accepted.", "Check them, and this machine's clock."),
    "AUDIT_FAILED": ("InLong's Audit did not answer, or refused.", "The text has its words; look into its log."),
    "INLONG_MANAGER_FAILED": (
        "InLong's Manager refuses a call, or its answer is not its own.",
        "Do what the text says.",
    ),
    "BROKER_CALL_FAILED": ("An administrative call failed at one broker.", "Mend what the text says, and repeat it."),
    # Topics and partitions
    "TOPIC_NOT_FOUND": ("The cluster does not have the topic.", "Check its spelling, or create and deploy it there."),
    "PARTITION_NOT_FOUND": ("The topic does not have the partition.", "Name one that there is."),
    "PARTITION_UNAVAILABLE": ("The master lists it as not readable or writable.", "Allow it, or start its broker."),
    "NOT_AVAILABLE": ("The broker does not have the topic or partition, or it is closed there.", "Open it."),
    "NOTHING_TO_READ": ("There is nothing to read at this moment.", "Try again later."),
    "NO_MESSAGE_TIME": ("A search by time met a message without a time.", "Begin by offsets instead."),
    "SPEED_LIMITED": ("The broker's flow control requests a wait.", "Wait, or change the group's limits."),
    # Groups
    "GROUP_CONFLICT": ("Live clients of the group use another mode, topics or filters.", "Use another group."),
    "SOURCE_COUNT_CONFLICT": ("Live clients of the group have another sourceCount.", "Use theirs, or another group."),
    "NODE_OCCUPIED": ("A live client, as a second query, holds this node.", "Stop it, or use another consumerGroup."),
    "GROUP_FORBIDDEN": ("The cluster does not let the group consume the topic.", "Authorise it on the master."),
    "GROUP_NOT_FOUND": ("No broker has positions of the group.", "Check its name."),
    "PARTITION_OCCUPIED": ("Another client of the group reads the partition.", "Stop it, or wait until it ends."),
    "PARTITION_TAKEN": ("The partition went to another client.", "Look who else uses the group."),
    "REGISTRATION_LOST": ("The server no longer knows this client.", "Nothing: the client registers again."),
    # Messages
    "DATA_LOSS": ("The broker no longer holds messages to be read.", "Find out why, or set `failOnDataLoss=false`."),
    "CORRUPT_MESSAGE": ("A message does not match its checksum, or cannot be parsed.", "`badMessages=keep` keeps it."),
    "CONTRADICTORY_ANSWERS": (
        "Messages of a broker do not fit their offsets, or come differently each time.",
        "Look for what changes answers on the way to the broker, and at the broker's log.",
    ),
    "STALE_PACK": ("A pack was confirmed too late, or a second time.", "Nothing: what was not confirmed comes again."),
    "CLIENT_CLOSED": ("The client is closed, or belongs to another process.", "Make a new one."),
    "CLIENT_ERROR": ("Another error of the client.", "The text says what is wrong."),
    # The offsets table
    "OFFSETS_TABLE_UNUSABLE": ("The offsets table cannot be read or written.", "Do what the text says."),
    "OFFSETS_TABLE_SCHEMA": ("The Delta table there is not an offsets table of this release.", "Name another path."),
    "OFFSETS_TABLE_CONFLICT": ("Other writers won every try.", "Try again; use one table for fewer writers."),
    "RUN_ALIVE": ("Another run of the group may be alive.", "Stop it, and wait as long as the text says."),
    "RUN_SUPERSEDED": ("A newer run of the group took over.", "Stop one of the two, or use two groups."),
    # tubeclient ingest
    "TARGET_ROWS_UNKNOWN": ("The target's history does not say which rows it has.", "Do what the text says."),
    "OTHER_CLUSTER": ("The target's rows come from other masters.", "former-masters, if they moved."),
    "TARGET_TAKEN_OVER": ("Another run of the group wrote to the target.", "Stop one of the two runs."),
    "TARGET_NOT_WRITABLE": ("Files of a table cannot be written or committed.", "Mend what the text says."),
    "TARGET_COLUMNS": ("The rows do not fit the target's columns.", "Change the schema, or set evolve."),
    "BAD_RECORD": ("A record cannot be parsed, or is refused.", "Correct the format, or give bad-records."),
    "TOO_MANY_BAD_RECORDS": ("A round has more bad records than allowed.", "Correct the format or the limit."),
    "STREAMS_LEFT_BEHIND": ("Streams of an InLong group are not written.", "Mend what the error says of each; start."),
}
"""What is wrong, and what to do."""
