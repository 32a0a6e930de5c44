#!/usr/bin/env bash
# rt-app 1.0: `"log_size": "file"` logs nothing, and `"disable"` logs every period.
#
# Guess:   The tutorial that comes with it says: "file" writes the log without a buffer, "disable" turns logging off,
#          "auto" falls back to "file". So "file" is the safe choice for a run of unknown length.
# Happens: The opposite. With "file" and "auto" the log has its header only; with "disable" it has one row for each
#          period, as with a number of megabytes. Nothing is said, and the exit code is 0.
# Input:   one SCHED_OTHER task that runs 1 ms of every 10 ms, 20 times; no privilege is needed.
# Seen:    2026-11-27, Debian 12, x86-64. Rows: file 0, auto 0, disable 20, 2 (MB) 20
set -euo pipefail
. "$(dirname "$0")/common.bash"

version=1.0-1
deb rt-app=$version libjson-c5=0.16-2 libnuma1=2.0.16-1

rows() {
	cat >"$work/task.json" <<-JSON
	{
	  "tasks": { "t": { "loop": 20, "phases": { "p": { "run": 1000, "timer": { "ref": "x", "period": 10000 } } } } },
	  "global": { "duration": 2, "calibration": 100, "default_policy": "SCHED_OTHER", "lock_pages": false,
	              "logdir": "$work", "log_basename": "log", "log_size": $1 }
	}
	JSON
	rm -f "$work"/log-*.log
	"$root/usr/bin/rt-app" "$work/task.json" >"$work/rt-app.out" 2>&1
	grep -vc '^#' "$work"/log-t-0.log || true
}

echo "rt-app $version, rows of the log of 20 periods"
expect '"log_size": 2' 20 "$(rows 2)"
expect '"log_size": "file"' 0 "$(rows '"file"')"
expect '"log_size": "auto"' 0 "$(rows '"auto"')"
expect '"log_size": "disable"' 20 "$(rows '"disable"')"
