#!/usr/bin/env bash
# Polars 2.1.0: describe() calls 10 the 50 % of 1, 2, 10 and 20, and its median() is 6.
#
# Guess:   The line "50%" of describe() is the median, as in pandas, whose describe() has the same lines. And "nearest"
#          is one rule for Polars, pandas and NumPy.
# Happens: Polars takes the nearest sample, and of two that are equally near the higher: 50 % and 75 % are both 10, while
#          median() is 6. pandas and NumPy with "nearest" take the sample of even index: of 1 and 2 they choose 1 and
#          Polars 2, of four samples all three choose the third.
# Input:   latencies of 1, 2, 10 and 20 us; 1 and 2; 1 to 6.
# Seen:    2026-11-29. describe: Polars 2 10 10, pandas 1.75 6 12.5; nearest of 1 and 2: 2 1 1, of 1 to 6: 4 3 3
set -euo pipefail
. "$(dirname "$0")/common.bash"

pip_install polars==2.1.0 pandas==3.1.1 numpy==2.4.6
"$work/venv/bin/python" - >"$work/out.txt" <<'PY'
import numpy, pandas, polars

waits = [1, 2, 10, 20]
lines = ("25%", "50%", "75%")
table = dict(polars.DataFrame({"wait": waits}).describe().iter_rows())
print("polars", *(f"{table[line]:g}" for line in lines), f"{polars.Series(waits).median():g}")
table = pandas.DataFrame({"wait": waits}).describe()["wait"]
print("pandas", *(f"{table[line]:g}" for line in lines), f"{pandas.Series(waits).median():g}")
for samples in ([1, 2], waits, [1, 2, 3, 4, 5, 6]):
    three = (
        polars.Series(samples).quantile(0.5, interpolation="nearest"),
        pandas.Series(samples).quantile(0.5, interpolation="nearest"),
        numpy.quantile(samples, 0.5, method="nearest"),
    )
    print(f"of{len(samples)}", *(f"{value:g}" for value in three))
PY
seen() { sed -n "s/^$1 //p" "$work/out.txt"; }

echo "25, 50 and 75 % of describe() and median() of 1, 2, 10 and 20"
expect "Polars 2.1.0" "2 10 10 6" "$(seen polars)"
expect "pandas 3.1.1" "1.75 6 12.5 6" "$(seen pandas)"
echo "nearest to 50 % for Polars, pandas and NumPy"
expect "of 1 and 2" "2 1 1" "$(seen of2)"
expect "of 1, 2, 10 and 20" "10 10 10" "$(seen of4)"
expect "of 1 to 6" "4 3 3" "$(seen of6)"
