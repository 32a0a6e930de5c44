#!/usr/bin/env bash
# HdrHistogram in Python 0.10.8, Go 1.1.2 and JavaScript 3.0.1: the maximum of three is a latency that never occurred.
#
# Guess:   Percentiles are rounded to the bucket, but a histogram keeps the largest and the smallest value exactly, as
#          the format has a place for them. And ports of one library answer alike.
# Happens: Python and Go round the maximum up and the minimum down to the edges of their buckets: 2000895 for a largest
#          sample of 2000005, 999936 for a smallest of 1000003. JavaScript is exact in both, and its 100th percentile is
#          then above its own maximum. "No wakeup took longer than" depends on the language of the reader.
# Input:   the samples 1000003, 1000003 and 2000005 ns; range 1 to 3600000000, three significant digits.
# Seen:    2026-11-27. max, min, p100: Python 2000895 999936 2000895, Go the same, JavaScript 2000005 1000003 2000895
set -euo pipefail
. "$(dirname "$0")/common.bash"

pip_install hdrhistogram==0.10.8
in_python=$("$work/venv/bin/python" - <<'PY'
from hdrh.histogram import HdrHistogram
h = HdrHistogram(1, 3600000000, 3)
for value in (1000003, 1000003, 2000005):
    h.record_value(value)
print(h.get_max_value(), h.get_min_value(), h.get_value_at_percentile(100))
PY
)

mkdir "$work/go" "$work/js"
cat >"$work/go/main.go" <<'G'
package main

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func main() {
	h := hdrhistogram.New(1, 3600000000, 3)
	for _, value := range []int64{1000003, 1000003, 2000005} {
		if err := h.RecordValue(value); err != nil {
			panic(err)
		}
	}
	fmt.Println(h.Max(), h.Min(), h.ValueAtQuantile(100))
}
G
in_go=$(cd "$work/go" && go mod init histogram 2>/dev/null && go get github.com/HdrHistogram/hdrhistogram-go@v1.1.2 2>/dev/null && go run .)

cat >"$work/js/main.js" <<'J'
const hdr = require("hdr-histogram-js");
const h = hdr.build({ lowestDiscernibleValue: 1, highestTrackableValue: 3600000000, numberOfSignificantValueDigits: 3 });
for (const value of [1000003, 1000003, 2000005]) h.recordValue(value);
console.log(h.maxValue, h.minNonZeroValue, h.getValueAtPercentile(100));
J
(cd "$work/js" && npm install --silent --no-fund --no-audit hdr-histogram-js@3.0.1 >/dev/null 2>&1) || exit 2
in_js=$(node "$work/js/main.js")

echo "maximum, minimum and 100th percentile of 1000003, 1000003 and 2000005"
expect "Python, hdrhistogram 0.10.8" "2000895 999936 2000895" "$in_python"
expect "Go, hdrhistogram-go 1.1.2" "2000895 999936 2000895" "$in_go"
expect "JavaScript, hdr-histogram-js 3.0.1" "2000005 1000003 2000895" "$in_js"
