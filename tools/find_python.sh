#!/usr/bin/env bash
# Prints the name of the first Python that runs and is 3.11 or newer; nothing if there is none.
# 3.11 comes first because the project is tested with it.
for name in python3.11 python3.12 python3.13 python3; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 </dev/null; then
        echo "$name"
        exit 0
    fi
done
