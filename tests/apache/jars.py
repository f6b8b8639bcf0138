"""The jars of an Apache TubeMQ 2.4.0 master, broker and Java client, with exact versions: `python -m tests.apache.jars`
fetches them, `class_path()` is for the fixtures.

The list was found by running the servers and adding each class of a `NoClassDefFoundError`; the versions are those of
TubeMQ's build files, where these have one. It is resolved without the artifacts' own dependency lists: the parent of
tubemq-server 2.4.0 was never published, so no resolver could follow them.
"""

from __future__ import annotations

import functools
from typing import Final

from tools.maven_jars import JarsError, JarSet, java_executable, parse_artifacts, pyspark_jar

__all__ = ["TUBEMQ_JARS", "JarsError", "class_path", "java_executable", "pyspark_jar"]

# tubemq-server 2.4.0 is the newest published one; core and client were last published as 1.13.0 and fit it.
_TUBEMQ = """
org.apache.inlong:tubemq-server:2.4.0
org.apache.inlong:tubemq-core:1.13.0
org.apache.inlong:tubemq-client:1.13.0
"""

# What core and client need: RPC, its messages, logging.
_CLIENT = """
io.netty:netty-buffer:4.1.118.Final
io.netty:netty-codec:4.1.118.Final
io.netty:netty-common:4.1.118.Final
io.netty:netty-handler:4.1.118.Final
io.netty:netty-resolver:4.1.118.Final
io.netty:netty-transport:4.1.118.Final
io.netty:netty-transport-classes-epoll:4.1.118.Final
io.netty:netty-transport-native-unix-common:4.1.118.Final
com.google.protobuf:protobuf-java:3.19.6
com.google.code.gson:gson:2.8.9
commons-codec:commons-codec:1.15
org.apache.commons:commons-lang3:3.11
org.slf4j:slf4j-api:1.7.36
org.apache.logging.log4j:log4j-api:2.17.2
org.apache.logging.log4j:log4j-core:2.17.2
org.apache.logging.log4j:log4j-slf4j-impl:2.17.2
"""

# What the servers need on top: ini files, the master's store, the web ports (javax.servlet-api 3.1.0 would break
# the master's web filter), metrics, old logging calls.
_SERVER = """
org.ini4j:ini4j:0.5.4
commons-io:commons-io:2.11.0
commons-cli:commons-cli:1.4
commons-logging:commons-logging:1.2
com.beust:jcommander:1.81
com.google.guava:guava:32.1.2-jre
com.google.guava:failureaccess:1.0.1
com.sleepycat:je:18.3.12
org.apache.zookeeper:zookeeper:3.7.2
org.apache.zookeeper:zookeeper-jute:3.7.2
org.apache.httpcomponents:httpclient:4.5.13
org.apache.httpcomponents:httpcore:4.4.13
org.apache.velocity:velocity-engine-core:2.3
org.apache.velocity.tools:velocity-tools-generic:3.1
org.apache.velocity.tools:velocity-tools-view:3.1
org.apache.commons:commons-digester3:3.2
commons-beanutils:commons-beanutils:1.9.4
commons-collections:commons-collections:3.2.2
org.dom4j:dom4j:2.1.3
javax.servlet:javax.servlet-api:4.0.1
org.eclipse.jetty:jetty-http:9.4.51.v20230217
org.eclipse.jetty:jetty-io:9.4.51.v20230217
org.eclipse.jetty:jetty-security:9.4.51.v20230217
org.eclipse.jetty:jetty-server:9.4.51.v20230217
org.eclipse.jetty:jetty-servlet:9.4.51.v20230217
org.eclipse.jetty:jetty-util:9.4.51.v20230217
org.eclipse.jetty:jetty-util-ajax:9.4.51.v20230217
org.springframework:spring-aop:5.3.27
org.springframework:spring-beans:5.3.27
org.springframework:spring-context:5.3.27
org.springframework:spring-core:5.3.27
org.springframework:spring-expression:5.3.27
org.springframework:spring-jcl:5.3.27
io.prometheus:simpleclient:0.14.1
io.prometheus:simpleclient_common:0.14.1
io.prometheus:simpleclient_httpserver:0.14.1
io.prometheus:simpleclient_tracer_common:0.14.1
io.prometheus:simpleclient_tracer_otel:0.14.1
io.prometheus:simpleclient_tracer_otel_agent:0.14.1
org.apache.logging.log4j:log4j-1.2-api:2.17.2
"""

# InLong's own packs of records, made and read by Apache's code: the oracle of tubeclient.inlong. And messages and
# SDK of its Audit, of which no newer ones were published: they lack audit_tag and audit_version.
_INLONG = """
org.apache.inlong:inlong-common:1.11.0
org.xerial.snappy:snappy-java:1.1.10.4
org.apache.inlong:audit-common:1.5.0
org.apache.inlong:audit-sdk:1.5.0
"""

# opentelemetry-javaagent, which the published build names too, stays off the class path on purpose.
TUBEMQ_JARS: Final = JarSet("apache-tubemq", parse_artifacts(_TUBEMQ + _CLIENT + _SERVER + _INLONG))


@functools.lru_cache(maxsize=1)
def class_path() -> str:
    """A java class path of all the jars, in the order of the list; what the fixtures call."""
    return TUBEMQ_JARS.class_path()


if __name__ == "__main__":
    raise SystemExit(TUBEMQ_JARS.report())
