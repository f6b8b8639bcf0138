"""Apache Iceberg's own REST catalog server: `python -m tests.iceberg_rest` fetches its jars."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.apache.jvm import JvmProcess, free_ports
from tools.maven_jars import JarSet, parse_artifacts, pyspark_jar

__all__ = ["iceberg_rest"]

_ICEBERG: Final = "1.11.0"
_JETTY: Final = "12.1.14"

# The server and its servlet are among Iceberg's jars of tests. Jackson, Avro, Hadoop, servlets and logging are Spark's.
_JARS: Final = JarSet(
    "iceberg-rest",
    parse_artifacts(f"""
org.apache.iceberg:iceberg-open-api:{_ICEBERG}:test-fixtures
org.apache.iceberg:iceberg-core:{_ICEBERG}:tests
org.apache.iceberg:iceberg-core:{_ICEBERG}
org.apache.iceberg:iceberg-api:{_ICEBERG}
org.apache.iceberg:iceberg-common:{_ICEBERG}
org.apache.iceberg:iceberg-bundled-guava:{_ICEBERG}
org.apache.iceberg:iceberg-aws:{_ICEBERG}
org.apache.iceberg:iceberg-aws-bundle:{_ICEBERG}
org.apache.httpcomponents.core5:httpcore5:5.4.2
org.xerial:sqlite-jdbc:3.54.1.0
dev.failsafe:failsafe:3.3.2
org.eclipse.jetty:jetty-server:{_JETTY}
org.eclipse.jetty:jetty-http:{_JETTY}
org.eclipse.jetty:jetty-io:{_JETTY}
org.eclipse.jetty:jetty-util:{_JETTY}
org.eclipse.jetty:jetty-session:{_JETTY}
org.eclipse.jetty:jetty-security:{_JETTY}
org.eclipse.jetty.ee10:jetty-ee10-servlet:{_JETTY}
org.eclipse.jetty.compression:jetty-compression-server:{_JETTY}
org.eclipse.jetty.compression:jetty-compression-common:{_JETTY}
org.eclipse.jetty.compression:jetty-compression-gzip:{_JETTY}
"""),
)

_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 20.0


@contextmanager
def iceberg_rest(folder: Path, warehouse: str, properties: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """While it runs: a server whose catalog is in SQLite, in `folder`; tables are in `warehouse`, a URI. `properties`
    are of Iceberg's catalog. Gives its URI. It lets everybody in."""
    folder.mkdir(parents=True, exist_ok=True)
    [port] = free_ports(1)
    own = {"rest.port": str(port), "warehouse": warehouse, "uri": f"jdbc:sqlite:{folder}/catalog.db", **properties}
    # (Source: RCKUtils.environmentCatalogConfig, "__" is a hyphen and "_" a dot.)
    environment = {f"CATALOG_{name.replace('-', '__').replace('.', '_').upper()}": one for name, one in own.items()}
    main = "org.apache.iceberg.rest.RESTCatalogServer"
    jars = os.pathsep.join([_JARS.class_path(), str(pyspark_jar("py4j").parent / "*")])
    server = JvmProcess("iceberg-rest", main, [], folder, 256, jars=jars, environment=environment)
    try:
        server.start()
        uri = f"http://127.0.0.1:{port}"
        server.wait_for("an answer", lambda: _answers(f"{uri}/v1/config"), _START_SECONDS)
        yield uri
    except BaseException as error:
        error.add_note(server.tail())
        raise
    finally:
        server.terminate(_STOP_SECONDS)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except urllib.error.URLError:
        return False


if __name__ == "__main__":
    raise SystemExit(_JARS.report())
