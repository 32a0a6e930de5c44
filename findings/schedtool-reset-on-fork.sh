#!/usr/bin/env bash
# schedtool 1.3.0: a batch task that resets its policy on fork has policy 1073741827, unknown.
#
# Guess:   schedtool prints "B: SCHED_BATCH" for it, as for any batch task; reset on fork is a flag, no policy.
# Happens: The system call returns the policy with the flag in bit 30, and schedtool looks the sum up as a policy. A
#          SCHED_FIFO task with the flag, which wants a privilege, is 1073741825.
# Input:   a process that makes itself SCHED_BATCH with and without the flag; no privilege is needed.
# Seen:    2026-11-27, Debian 12, x86-64: "B: SCHED_BATCH" and "1073741827 <UNKNOWN>"
set -euo pipefail
. "$(dirname "$0")/common.bash"

version=1.3.0-4
deb schedtool=$version

policy() { # FLAG
	python3 - "$root/usr/bin/schedtool" "$1" <<-'PY' | sed 's/.*POLICY \([^,]*\),.*/\1/' | xargs
	import os, subprocess, sys

	os.sched_setscheduler(0, os.SCHED_BATCH | int(sys.argv[2], 0), os.sched_param(0))
	subprocess.run([sys.argv[1], str(os.getpid())], check=True)
	PY
}

echo "schedtool $version"
expect "batch" "B: SCHED_BATCH" "$(policy 0)"
expect "batch, reset on fork" "1073741827 <UNKNOWN>" "$(policy 0x40000000)"
