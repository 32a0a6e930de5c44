#!/usr/bin/env bash
# benchstat: runs whose latency is 0 ns leave the sample, and a latency that fell becomes one that rose.
#
# Guess:   A metric in nanoseconds is one metric. If half of the new runs wait 0 ns and half about 51 ns, where all old
#          runs waited about 41 ns, the median has fallen to 25 ns.
# Happens: Values in "ns" are turned into seconds, zeros are left in "ns", and the unit is part of a metric's name. The
#          zeros get a table of their own; the other table compares six runs with three: +22.89 % (p=0.024 n=6+3). The
#          same metric in a unit that is not converted, "ms", keeps all six. "ns/op" and "MB/s" are split like "ns".
# Input:   a custom unit, p99-ns: 40 40 41 42 43 44 against 0 0 0 50 51 52; and the second in p99-ms.
# Seen:    2026-11-27, golang.org/x/perf of 2026-09-08: "+22.89% (p=0.024 n=6+3)"; p99-ms: 25.00
set -euo pipefail
. "$(dirname "$0")/common.bash"

perf=v0.0.0-20260908200009-22c9c6c9d4da
GOBIN=$work/bin go install "golang.org/x/perf/cmd/benchstat@$perf" 2>"$work/go.err" || {
	tail -n 3 "$work/go.err" >&2
	exit 2
}

bench() { # FILE UNIT VALUE...
	out=$1 unit=$2
	shift 2
	for value in "$@"; do echo "BenchmarkWakeup 1 $value $unit"; done >"$work/$out"
}
bench old p99-ns 40 40 41 42 43 44
bench new p99-ns 0 0 0 50 51 52
bench new-ms p99-ms 0 0 0 50 51 52
(cd "$work" && bin/benchstat old new >pair.txt && bin/benchstat new-ms >single.txt)

echo "benchstat $perf"
expect "units of one metric" "p99-sec p99-ns" "$(grep -oE 'p99-[a-z]+' "$work/pair.txt" | uniq | xargs)"
expect "verdict" "+22.89% (p=0.024 n=6+3)" "$(grep -o '+.*(p=.*)' "$work/pair.txt")"
expect "median of the same six in ms" 25.00 "$(awk '$1 == "Wakeup" { print $2 }' "$work/single.txt")"
