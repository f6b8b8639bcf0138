#!/bin/sh
# Installs the wheel with what it needs, and Delta's jars beside Spark's own, so that a start needs no network.
# Usage: install.sh PREFIX WHEEL. The Dockerfile runs it, and tests do, into a folder of their own.
set -eu
prefix=$1
wheel=$2

# Beside this file in the image, elsewhere in the repository.
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
find_file() {
    if [ -e "$here/$(basename "$1")" ]; then echo "$here/$(basename "$1")"; else echo "$repository/$1"; fi
}

python=$prefix/bin/python
[ -x "$python" ] || python3 -m venv "$prefix"
"$python" -m pip install --no-cache-dir --disable-pip-version-check "$wheel[quickstart,speed]"

# Spark's programs and the entry point look for Spark here.
ln -sfn "$("$python" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')" "$prefix/spark"

mkdir -p "$prefix/conf"
# What spark-submit takes without --properties-file. The jars lie beside Spark's own, and the log's settings beside this.
grep -Ev '^spark\.(jars\.packages|driver\.extraJavaOptions)' "$(find_file conf/spark-defaults.conf)" \
    >"$prefix/conf/spark-defaults.conf"
cp "$(find_file conf/log4j2.properties)" "$prefix/conf/"
cp "$here/entrypoint.sh" "$prefix/"

ls "$prefix"/spark/jars/delta-spark_*.jar >/dev/null 2>&1 ||
    "$python" "$(find_file tools/fetch_jars.py)" --into "$prefix/spark/jars"
