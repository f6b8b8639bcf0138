#!/usr/bin/env bash
# Puts prometheus and promtool, which the tests run, into .cache/prometheus, unless they are on PATH or there already.
# They are unpacked from Debian's package, which is not installed: it would start a service, and bring web files. Needs no
# root, unless apt-get has no list of packages yet.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=.cache/prometheus
if command -v prometheus promtool >/dev/null || { [ -x $folder/prometheus ] && [ -x $folder/promtool ]; }; then
    exit 0
fi

give_up() {
    printf 'missing: prometheus and promtool (%s)\n' "$1" >&2
    printf '    %s\n' \
        "Debian, Ubuntu:  apt-get install prometheus" \
        "Fedora:          dnf install golang-github-prometheus" \
        "macOS:           brew install prometheus" >&2
    exit 1
}

command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || give_up "not on PATH, and there is no apt-get"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
download() { (cd "$work" && apt-get download prometheus >"$work/log" 2>&1); }
if ! download; then
    [ "$(id -u)" -eq 0 ] || give_up "apt-get download prometheus failed; try apt-get update as root"
    apt-get update >"$work/log" 2>&1 && download || give_up "apt-get: $(tail -n 1 "$work/log")"
fi
dpkg-deb -x "$work"/prometheus_*.deb "$work/unpacked"
mkdir -p $folder
cp "$work"/unpacked/usr/bin/{prometheus,promtool} $folder/
