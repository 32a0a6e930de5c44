#!/usr/bin/env bash
# cyclictest 2.4: the histogram in its JSON lacks the samples above its limit, and nothing in the file says so.
#
# Guess:   The JSON has the bins and the count of overflows, as the text has. Together they are the cycles, so a
#          percentile can be computed from the file.
# Happens: The text has "Histogram Overflows", the JSON has no such member; its bins add up to less than its cycles. A
#          percentile from the JSON is one of the good samples only. Two keys end in a colon of their own: "cmdline:"
#          and "rt_test_version:"; and that version is 2.40 for release 2.4.
# Input:   1,000 cycles of one SCHED_OTHER thread, histogram of 3 us (the timer slack alone is 50 us). cyclictest wants
#          to be root, or an RLIMIT_RTPRIO, also without a real-time priority.
# Seen:    2026-11-27, Debian 12, x86-64: text 1000 overflows, JSON: cycles 1000, bins add up to 0
set -euo pipefail
. "$(dirname "$0")/common.bash"

version=2.4-1
deb rt-tests=$version libnuma1=2.0.16-1

(cd "$work" && "$root/usr/bin/cyclictest" --quiet --threads=1 --interval=200 --loops=1000 --histogram=3 --json=run.json) >"$work/text" 2>&1 || {
	cat "$work/text" >&2
	exit 2
}
python3 - "$work/run.json" "$work/text" >"$work/facts" <<'PY'
import json, re, sys

text = open(sys.argv[1]).read()
run = json.loads(text)
thread = run["thread"]["0"]
bins = sum(thread["histogram"].values())
overflows = int(re.search(r"Histogram Overflows: (\d+)", open(sys.argv[2]).read()).group(1))
print("cycles", thread["cycles"])
print("text", bins + overflows == thread["cycles"] and overflows > 0)
print("json", bins == thread["cycles"], "overflow" in text.lower())
print("keys", *(key for key in run if key.endswith(":")))
print("version", run.get("rt_test_version:"))
PY
seen() { sed -n "s/^$1 //p" "$work/facts"; }

echo "cyclictest of rt-tests $version"
expect "cycles" 1000 "$(seen cycles)"
expect "bins and the text's overflows are all cycles" True "$(seen text)"
expect "the JSON's bins are all cycles; it names overflows" "False False" "$(seen json)"
expect "keys that end in a colon" "cmdline: rt_test_version:" "$(seen keys)"
expect "version" 2.40 "$(seen version)"
