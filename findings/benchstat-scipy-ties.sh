#!/usr/bin/env bash
# benchstat and scipy 1.17.1 make one Mann-Whitney test and come to opposite verdicts about four runs each.
#
# Guess:   Both compute the exact U test for samples this small, so a gate may use either. At least one says so where
#          the p value is an approximation.
# Happens: One value that occurs in both samples is enough. scipy's method "auto" then leaves the exact distribution for
#          the normal one and says nothing: p = 0.041, significant at 5 %. Go's benchstat has the exact distribution with ties:
#          p = 0.057, "~". With five runs benchstat finds +200 % significant and prints an infinite interval beside it:
#          its verdict wants 4 runs and its interval 6.
# Input:   1 1 2 3 against 3 4 5 6 ns, and 1 2 2 3 4 against 4 5 6 7 8 ns.
# Seen:    2026-11-27, golang.org/x/perf of 2026-09-08, scipy 1.17.1, numpy 2.4.6: 0.041 against 0.057;
#          "+200.00% (p=0.016 n=5)" beside "± ∞"
set -euo pipefail
. "$(dirname "$0")/common.bash"

perf=v0.0.0-20260908200009-22c9c6c9d4da
pip_install scipy==1.17.1 numpy==2.4.6
GOBIN=$work/bin go install "golang.org/x/perf/cmd/benchstat@$perf" 2>"$work/go.err" || {
	tail -n 3 "$work/go.err" >&2
	exit 2
}

bench() { # FILE VALUE...
	out=$1
	shift
	for value in "$@"; do echo "BenchmarkX 1 $value ns/op"; done >"$work/$out"
}
bench old4 1 1 2 3
bench new4 3 4 5 6
bench old5 1 2 2 3 4
bench new5 4 5 6 7 8
p4=$("$work/venv/bin/python" - <<'PY'
from scipy.stats import mannwhitneyu
old, new = [1, 1, 2, 3], [3, 4, 5, 6]
print(*(f"{mannwhitneyu(old, new, method=m).pvalue:.3f}" for m in ("auto", "exact", "asymptotic")))
PY
)
(cd "$work" && bin/benchstat old4 new4 >four.txt && bin/benchstat old5 new5 >five.txt)

echo "scipy 1.17.1, benchstat $perf"
expect "scipy auto, exact, asymptotic; n=4" "0.041 0.057 0.041" "$p4"
expect "benchstat, n=4" "~ (p=0.057 n=4)" "$(grep -o '~ (p=.*)' "$work/four.txt")"
expect "benchstat, n=5" "± ∞ +200.00% (p=0.016 n=5)" \
	"$(grep '^X' "$work/five.txt" | grep -oE '± ∞|\+.*\)' | sort -u | sort -r | xargs)"
