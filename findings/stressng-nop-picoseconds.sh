#!/usr/bin/env bash
# stress-ng 0.15.06: a nop takes a fraction of a picosecond, by its own metrics.
#
# Guess:   "picosecs per nop instruction" is a duration on this machine: 100 to 1000 at one to four nops a cycle.
# Happens: The value is below 1, so its unit is nanoseconds. Light goes 0.3 mm in that picosecond. The text output and
#          the YAML key say picoseconds alike, so machines compared with another tool differ by three digits.
# Input:   `--nop 1 --nop-ops 100000`. The value depends on the CPU; that it is below 1 does not: a CPU would have to
#          retire less than one nop a nanosecond.
# Seen:    2026-11-27, Debian 12, x86-64: picosecs-per-nop-instruction: 0.126
set -euo pipefail
. "$(dirname "$0")/common.bash"

version=0.15.06-2
deb stress-ng=$version libipsec-mb1=1.3-2 libjudydebian1=1.0.5-5+b2 libsctp1=1.0.19+dfsg-2

(cd "$work" && "$root/usr/bin/stress-ng" --nop 1 --nop-ops 100000 --metrics-brief --yaml run.yaml) >/dev/null 2>&1
value=$(sed -n 's/.*picosecs-per-nop-instruction: //p' "$work/run.yaml")

echo "stress-ng $version, seen now: ${value:-no such key}"
expect "below one picosecond" yes "$(awk -v value="$value" 'BEGIN { print (value > 0 && value < 1) ? "yes" : "no" }')"
