#!/usr/bin/env bash
# t-digests in Python: 98 of 100 waits are 0, and two of three libraries give a 90th percentile of 82.
#
# Guess:   100 samples of two values fit in any t-digest, so its percentiles are exact, and ports agree. No percentile
#          lies below the minimum.
# Happens: Equal samples end up in one centroid, and tdigest 0.5.2.2 and pytdigest 0.1.4 draw a line from its middle to the
#          next one: p50 is 2 and p90 is 82 where no task waited. tdigest extends the line below the first centroid as
#          well: p1 is -96. fastdigest 0.12.0 keeps equal samples apart and is right.
# Input:   98 waits of 0 us and two of 100 us.
# Seen:    2026-11-29. p1, p50, p90, p99: tdigest -96 2 82 100, pytdigest 0 2 82 100, fastdigest and NumPy 0 0 0 100
set -euo pipefail
. "$(dirname "$0")/common.bash"

pip_install tdigest==0.5.2.2 pytdigest==0.1.4 fastdigest==0.12.0 numpy==2.4.6
"$work/venv/bin/python" - >"$work/out.txt" <<'PY'
import fastdigest, numpy, pytdigest, tdigest

waits = [0.0] * 98 + [100.0] * 2
plain = tdigest.TDigest()
plain.batch_update(waits)
fast = fastdigest.TDigest.from_values(waits)
compiled = pytdigest.TDigest.compute(numpy.array(waits))
for name, quantile in (
    ("tdigest", lambda q: plain.percentile(100 * q)),
    ("pytdigest", compiled.inverse_cdf),
    ("fastdigest", fast.quantile),
    ("numpy", lambda q: numpy.quantile(waits, q)),
):
    print(name, *(f"{float(quantile(q)):.0f}" for q in (0.01, 0.5, 0.9, 0.99)))
PY
seen() { sed -n "s/^$1 //p" "$work/out.txt"; }

echo "1st, 50th, 90th and 99th percentile of 98 zeros and two 100s"
expect "tdigest 0.5.2.2" "-96 2 82 100" "$(seen tdigest)"
expect "pytdigest 0.1.4" "0 2 82 100" "$(seen pytdigest)"
expect "fastdigest 0.12.0" "0 0 0 100" "$(seen fastdigest)"
expect "NumPy 2.4.6" "0 0 0 100" "$(seen numpy)"
