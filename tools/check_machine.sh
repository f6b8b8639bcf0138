#!/usr/bin/env bash
# Checks that this machine has what the project needs: Python 3.11 or newer with venv, and Java 17 or newer.
# Usage: check_machine.sh PYTHON. Prints what is missing and how to get it; exit status 1 if anything is.
set -uo pipefail

python=${1:-}
missing=0

complain() {
    missing=1
    printf 'missing: %s\n' "$1" >&2
    shift
    printf '    %s\n' "$@" >&2
}

if [ -z "$python" ]; then
    complain "Python 3.11 or newer (looked for python3.11, python3.12, python3.13, python3)" \
        "Debian, Ubuntu:  apt-get install python3 python3-venv" \
        "Fedora:          dnf install python3" \
        "macOS:           brew install python@3.11" \
        "It has another name here? make PYTHON=name ..."
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
    complain "Python 3.11 or newer ($python is older, or does not run)" "make PYTHON=name ... takes another one"
elif ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    complain "the venv module of $python" "Debian, Ubuntu:  apt-get install python3-venv"
fi

java=java
if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
    java=$JAVA_HOME/bin/java
fi
# `openjdk version "17.0.15" ...`, or `java version "1.8.0_392"` of old.
version=$("$java" -version 2>&1 </dev/null | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1)
if [ -z "$version" ]; then
    complain "Java 17 or newer (no java that runs on PATH or in JAVA_HOME); Spark needs it" \
        "Debian, Ubuntu:  apt-get install openjdk-17-jdk-headless" \
        "Fedora:          dnf install java-17-openjdk-headless" \
        "macOS:           brew install openjdk@17"
elif [ "$version" -lt 17 ]; then
    complain "Java 17 or newer (found $version); Spark 4 needs it" \
        "Set JAVA_HOME to a newer one, or install it: apt-get install openjdk-17-jdk-headless"
fi

exit "$missing"
