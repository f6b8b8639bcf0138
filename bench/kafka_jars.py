"""Apache Kafka's jars: `python -m bench.kafka_jars` fetches them into `.cache/` and says where they are.

The broker's list is what Kafka 3.9.1's own build files name for running, without the libraries of other log4j
versions and command line tools; found by leaving out and running it. Logging is what TubeMQ's servers have, since
kafka itself calls log4j 1.2's classes and ships none.
"""

from __future__ import annotations

from typing import Final

from tools.maven_jars import JarSet, parse_artifacts

__all__ = ["BROKER_JARS", "SPARK_SOURCE_JARS", "session_confs"]

_KAFKA = """
org.apache.kafka:kafka_2.13:3.9.1
org.apache.kafka:kafka-clients:3.9.1
org.apache.kafka:kafka-group-coordinator:3.9.1
org.apache.kafka:kafka-group-coordinator-api:3.9.1
org.apache.kafka:kafka-metadata:3.9.1
org.apache.kafka:kafka-raft:3.9.1
org.apache.kafka:kafka-server:3.9.1
org.apache.kafka:kafka-server-common:3.9.1
org.apache.kafka:kafka-storage:3.9.1
org.apache.kafka:kafka-storage-api:3.9.1
org.apache.kafka:kafka-tools-api:3.9.1
org.apache.kafka:kafka-transaction-coordinator:3.9.1
"""

_LIBRARIES = """
org.scala-lang:scala-library:2.13.15
org.scala-lang:scala-reflect:2.13.15
org.scala-lang.modules:scala-collection-compat_2.13:2.10.0
org.scala-lang.modules:scala-java8-compat_2.13:1.0.2
com.typesafe.scala-logging:scala-logging_2.13:3.9.5
com.fasterxml.jackson.core:jackson-annotations:2.16.2
com.fasterxml.jackson.core:jackson-core:2.16.2
com.fasterxml.jackson.core:jackson-databind:2.16.2
com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.16.2
com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.16.2
com.fasterxml.jackson.module:jackson-module-scala_2.13:2.16.2
com.github.ben-manes.caffeine:caffeine:2.9.3
com.github.luben:zstd-jni:1.5.6-4
com.thoughtworks.paranamer:paranamer:2.8
com.yammer.metrics:metrics-core:2.2.0
commons-cli:commons-cli:1.4
commons-io:commons-io:2.14.0
commons-validator:commons-validator:1.7
io.dropwizard.metrics:metrics-core:4.1.12.1
net.sf.jopt-simple:jopt-simple:5.0.4
net.sourceforge.argparse4j:argparse4j:0.7.0
org.apache.zookeeper:zookeeper:3.8.4
org.apache.zookeeper:zookeeper-jute:3.8.4
org.bitbucket.b_c:jose4j:0.9.4
org.lz4:lz4-java:1.8.0
org.pcollections:pcollections:4.0.1
org.xerial.snappy:snappy-java:1.1.10.5
"""

_LOGGING = """
org.slf4j:slf4j-api:1.7.36
org.apache.logging.log4j:log4j-api:2.17.2
org.apache.logging.log4j:log4j-core:2.17.2
org.apache.logging.log4j:log4j-slf4j-impl:2.17.2
org.apache.logging.log4j:log4j-1.2-api:2.17.2
"""

BROKER_JARS: Final = JarSet("apache-kafka", parse_artifacts(_KAFKA + _LIBRARIES + _LOGGING))
"""One process that is broker and controller, and its StorageTool."""

# spark-token-provider-kafka was last published as 4.0.0 and fits.
_SPARK_SOURCE = """
org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0
org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0
org.apache.kafka:kafka-clients:3.9.1
org.apache.commons:commons-pool2:2.12.0
"""

SPARK_SOURCE_JARS: Final = JarSet("spark-kafka-source", parse_artifacts(_SPARK_SOURCE))
"""What `format("kafka")` needs besides Spark, for `spark.jars`."""


def session_confs() -> dict[str, str]:
    """What a session that is made with it needs for `format("kafka")`; fetches the jars if need be."""
    return {"spark.jars": ",".join(map(str, SPARK_SOURCE_JARS.files()))}


if __name__ == "__main__":
    raise SystemExit(BROKER_JARS.report() or SPARK_SOURCE_JARS.report())
