#!/usr/bin/env bash
# stress-ng 0.15.06 and PyYAML 6.0.3: the date of a run is a number, and its time is a number from ten o'clock on.
#
# Guess:   date-yyyy-mm-dd and time-hh-mm-ss of `--yaml` are strings, whatever the hour.
# Happens: The date is written with colons, 2026:11:27, and without quotes. YAML 1.1 reads that as an integer to base 60,
#          7294287. The time is a string before 10:00:00, since such a number has no leading zero, and an integer after.
#          A table of results has two types in one column, and a filter on the date finds nothing.
# Input:   two runs of 1,000 bogo operations, in time zones where it is 8 and 12 o'clock.
# Seen:    2026-11-27, Debian 12, x86-64: date int, time str at 8 and int at 12, each number equal to its base 60 value
set -euo pipefail
. "$(dirname "$0")/common.bash"

version=0.15.06-2
deb stress-ng=$version libipsec-mb1=1.3-2 libjudydebian1=1.0.5-5+b2 libsctp1=1.0.19+dfsg-2
pip_install pyyaml==6.0.3

types_at() { # HOUR
	zone=ZZZ$(($(date -u +%-H) - $1))
	(cd "$work" && TZ=$zone "$root/usr/bin/stress-ng" --nop 1 --nop-ops 1000 --metrics-brief --yaml run.yaml) >/dev/null 2>&1
	"$work/venv/bin/python" - "$work/run.yaml" <<-'PY'
	import re, sys, yaml

	text = open(sys.argv[1]).read()
	read = yaml.safe_load(text)["system-info"]
	seen = []
	for key in ("date-yyyy-mm-dd", "time-hh-mm-ss"):
	    written = re.search(key + r": (\S+)", text).group(1)
	    a, b, c = (int(part) for part in written.split(":"))
	    equal = read[key] in (written, a * 3600 + b * 60 + c)
	    seen.append(f"{type(read[key]).__name__}{'' if equal else '?'}")
	print(*seen)
	PY
}

echo "stress-ng $version, PyYAML 6.0.3: types of date and time"
expect "at 8 o'clock" "int str" "$(types_at 8)"
expect "at 12 o'clock" "int int" "$(types_at 12)"
