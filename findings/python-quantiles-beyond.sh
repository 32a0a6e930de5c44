#!/usr/bin/env bash
# Python 3.11's statistics.quantiles: the 99th percentile of ten latencies lies above the longest, the first below zero.
#
# Guess:   A percentile lies between the smallest and the largest sample. NumPy's method "weibull" is the same rule (R's
#          type 6), so both agree.
# Happens: With fewer than 99 samples the rank of p99 is past the last sample. NumPy stays at the sample; the standard
#          library continues the line through the last two. Of ten latencies with a maximum of 100 us, p99 is 173 us.
#          At the other end p1 is -43 us, where the shortest is 1 us.
# Input:   10 to 18 and 100 us; 1 and 50 to 58 us; n=100, method "exclusive", which is what it takes unasked.
# Seen:    2026-11-29, Python 3.11, NumPy 2.4.6: 172.98 against 100.0; -42.61 against 1.0; "inclusive": 92.62
set -euo pipefail
. "$(dirname "$0")/common.bash"

pip_install numpy==2.4.6
"$work/venv/bin/python" - >"$work/out.txt" <<'PY'
import statistics
import numpy

late = [10, 11, 12, 13, 14, 15, 16, 17, 18, 100]
early = [1, 50, 51, 52, 53, 54, 55, 56, 57, 58]
print("p99", statistics.quantiles(late, n=100)[98], numpy.percentile(late, 99, method="weibull"))
print("p1", statistics.quantiles(early, n=100)[0], numpy.percentile(early, 1, method="weibull"))
print("inclusive", statistics.quantiles(late, n=100, method="inclusive")[98])
PY
seen() { sed -n "s/^$1 //p" "$work/out.txt"; }

echo "statistics of $("$work/venv/bin/python" --version), NumPy 2.4.6"
expect "p99, longest sample 100" "172.98 100.0" "$(seen p99)"
expect "p1, shortest sample 1" "-42.61 1.0" "$(seen p1)"
expect "p99, inclusive" "92.62" "$(seen inclusive)"
