#!/usr/bin/env bash
# Looks for the browser of the tests in tests/tubeclient_ui, which `make test-all` runs. It is not fetched: it needs a
# hundred libraries of the system.
set -euo pipefail
if [ -n "${TUBECLIENT_CHROMIUM:-}" ] || command -v chromium >/dev/null || command -v google-chrome >/dev/null; then
    exit 0
fi
printf 'missing: chromium (not on PATH, and TUBECLIENT_CHROMIUM is not set)\n' >&2
printf '    %s\n' \
    "Debian:          apt-get install chromium" \
    "Fedora:          dnf install chromium" \
    "macOS:           brew install --cask chromium" >&2
exit 1
