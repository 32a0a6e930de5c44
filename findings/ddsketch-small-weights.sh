#!/usr/bin/env bash
# DDSketch for Python 3.0.1: fractional weights move the percentiles, at a total weight below 1 to a negative latency.
#
# Guess:   `add(value, weight)` takes fractional weights, so only their proportions count: 100 samples of weight 0.01
#          have the same percentiles as 100 samples of weight 1.
# Happens: The rank is counted as (total weight - 1) times the quantile. At a total weight of 1 every percentile is the
#          minimum. Below 1 the rank is negative, and the sketch answers from its empty store of negative values:
#          -0.99 for samples that are all positive. Weights in seconds are such: a run queue's length over half a second.
# Input:   1 to 100 with weights 1, 0.1 and 0.01; 1, 2 and 3 with weight 0.2; relative accuracy 1 %.
# Seen:    2026-11-29. p50 and p99: weight 1 49.9 98.5, weight 0.1 45.2 89.1, weight 0.01 1.0 1.0; of 1, 2, 3: -0.99
set -euo pipefail
. "$(dirname "$0")/common.bash"

pip_install ddsketch==3.0.1
"$work/venv/bin/python" - >"$work/out.txt" <<'PY'
from ddsketch import DDSketch

def percentiles(name, values, weight):
    sketch = DDSketch(0.01)
    for value in values:
        sketch.add(value, weight)
    print(name, *(f"{sketch.get_quantile_value(q):.2f}" for q in (0.5, 0.99)))

percentiles("1", range(1, 101), 1)
percentiles("0.1", range(1, 101), 0.1)
percentiles("0.01", range(1, 101), 0.01)
percentiles("0.2", (1, 2, 3), 0.2)
PY
seen() { sed -n "s/^$1 //p" "$work/out.txt"; }

echo "ddsketch 3.0.1, 50th and 99th percentile"
expect "1 to 100, weight 1" "49.90 98.50" "$(seen 1)"
expect "1 to 100, weight 0.1" "45.15 89.13" "$(seen 0.1)"
expect "1 to 100, weight 0.01" "0.99 0.99" "$(seen 0.01)"
expect "1, 2 and 3, weight 0.2" "-0.99 -0.99" "$(seen 0.2)"
