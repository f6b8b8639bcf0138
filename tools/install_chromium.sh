#!/usr/bin/env bash
# Makes sure that there is a Chromium for the tests of the dashboard: $CHROMIUM, or one on PATH. If there is none, and
# apt-get may be used, installs Debian's; else prints what to install, exit status 1.
set -euo pipefail

for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
    if [ -n "$name" ] && command -v "$name" >/dev/null 2>&1; then
        exit 0
    fi
done

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    printf 'installing chromium with apt-get\n'
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # Without what it recommends: printing, a desktop, udev.
    apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
    command -v chromium >/dev/null 2>&1 && exit 0
fi

printf 'missing: Chromium, which looks at the dashboard in its tests\n' >&2
printf '    %s\n' "Debian:   apt-get install chromium" "Fedora:   dnf install chromium" \
    "It is elsewhere? CHROMIUM=/path/to/chromium make setup-all" >&2
exit 1
