#!/usr/bin/env bash
# cpusched (cpusched-ash-win-cpu) 1.0.1: under its EEVDF a task that arrives late has the CPU until it is done.
#
# Guess:   EEVDF places a new task at the average virtual time of the queue, as Linux and the paper do. Two equal tasks
#          take turns from then on, a quantum each.
# Happens: A new task starts at virtual time 0. One that arrives at 500 is 500 behind and runs its 400 units in one
#          piece; the first waits for as long. The quantum of 8 plays no part. If both arrive at 0 they take turns.
# Input:   a of 1000 units at 0, b of 400 units at 500 or at 0; quantum 8.
# Seen:    2026-11-29: a 0-500, b 500-900, a 900-1400; b at 0: 101 pieces, the first four a 0-8 b 8-16 a 16-24 b 24-32
set -euo pipefail
. "$(dirname "$0")/common.bash"

pip_install cpusched-ash-win-cpu==1.0.1
"$work/venv/bin/python" - >"$work/out.txt" <<'PY'
from cpusched import Process, Simulator

for name, arrival in ("late", 500), ("early", 0):
    tasks = [Process("a", 0, 1000), Process("b", arrival, 400)]
    pieces = Simulator(tasks).run("eevdf", quantum=8).gantt
    print(name, len(pieces), *(f"{p.pid} {p.start}-{p.end}" for p in pieces[:4]))
PY
seen() { sed -n "s/^$1 //p" "$work/out.txt"; }

echo "cpusched-ash-win-cpu 1.0.1, EEVDF with a quantum of 8: count of pieces and the first four"
expect "b arrives at 500" "3 a 0-500 b 500-900 a 900-1400" "$(seen late)"
expect "b arrives at 0" "101 a 0-8 b 8-16 a 16-24 b 24-32" "$(seen early)"
