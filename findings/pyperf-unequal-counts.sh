#!/usr/bin/env bash
# pyperf 2.10.0: two results with different numbers of values always differ significantly.
#
# Guess:   compare_to tests with Student's t, which has no need of equal numbers: 20 values and 21 values of one even
#          spread do not differ.
# Happens: Its t score wants equal numbers. Where they differ the test fails inside, the line says "ERROR when testing if
#          values are significant", and the verdict below it is "Significant". With --table the error is not shown: a
#          row that should be hidden is there. The same values with equal numbers are "Not significant!".
# Input:   1.000, 1.001, ... seconds: 20 values, 21 values, and 20 values a second time.
# Seen:    2026-11-27, pyperf 2.10.0: 20 against 21 "Significant", 20 against 20 "Not significant!"
set -euo pipefail
. "$(dirname "$0")/common.bash"

pip_install pyperf==2.10.0
python=$work/venv/bin/python
"$python" - "$work" <<'PY'
import sys
import pyperf

def write(name, count):
    metadata = {"name": "wakeup", "unit": "second"}
    runs = [pyperf.Run([1 + i / 1000], collect_metadata=False, metadata=metadata) for i in range(count)]
    pyperf.BenchmarkSuite([pyperf.Benchmark(runs)]).dump(f"{sys.argv[1]}/{name}.json")

write("old", 20)
write("same", 20)
write("new", 21)
PY
compare() { (cd "$work" && "$python" -m pyperf compare_to "$@" 2>&1); }

echo "pyperf 2.10.0"
expect "20 values against 20" "Not significant!" "$(compare -v old.json same.json | tail -n 1)"
expect "20 values against 21" "ERROR when testing if values are significant Significant" "$(compare -v old.json new.json | tail -n 2 | xargs)"
expect "rows and errors of the table" "1 0" \
	"$(compare --table old.json new.json >"$work/table"; echo "$(grep -c '^| wakeup' "$work/table")" "$(grep -c ERROR "$work/table" || true)")"
