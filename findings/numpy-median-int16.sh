#!/usr/bin/env bash
# NumPy 2.4.6: the 50th percentile of small integers is not their median, and can lie outside of their range.
#
# Guess:   percentile() of an int16 array computes in float64, as its result is one, and as median() does.
# Happens: The difference of two neighbours is taken in int16 and wraps around. For -20000, -15000, 18000 and 20000 the
#          50th percentile is 34268, more than the type can hold; the median is 1500. p25 and p75 are right, so
#          nothing looks wrong. With one percentile asked for there is a RuntimeWarning, with a list there is none.
# Input:   lags in microseconds as int16, which saves memory in a long trace: no value is near the type's bounds.
# Seen:    2026-11-29: int16 -16250 34268 24507.2 18500, float64 -16250 1500 11400 18500; warnings 1 and 0
set -euo pipefail
. "$(dirname "$0")/common.bash"

pip_install numpy==2.4.6
"$work/venv/bin/python" - >"$work/out.txt" <<'PY'
import warnings
import numpy

lags = numpy.array([-20000, -15000, 18000, 20000], dtype=numpy.int16)
asked = [25, 50, 60, 75]

def count(percentiles):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        numpy.percentile(lags, percentiles)
    return len(caught)

print("warnings", count(50), count(asked))
warnings.simplefilter("ignore")
print("int16", *(f"{v:g}" for v in numpy.percentile(lags, asked)))
print("float64", *(f"{v:g}" for v in numpy.percentile(lags.astype(float), asked)))
print("median", f"{numpy.median(lags):g}")
PY
seen() { sed -n "s/^$1 //p" "$work/out.txt"; }

echo "NumPy 2.4.6, percentiles 25, 50, 60 and 75 of -20000, -15000, 18000 and 20000"
expect "as int16" "-16250 34268 24507.2 18500" "$(seen int16)"
expect "as float64" "-16250 1500 11400 18500" "$(seen float64)"
expect "median of the int16 array" "1500" "$(seen median)"
expect "warnings for one percentile, for a list" "1 0" "$(seen warnings)"
