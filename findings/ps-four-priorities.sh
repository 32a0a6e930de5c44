#!/usr/bin/env bash
# ps of procps 4.0.2: four columns, all headed PRI, show four views of one priority.
#
# Guess:   PRI is the kernel's priority as in `ps -l`, and `-o pri`, `-o opri`, `-o intpri` and `-o priority` are names
#          for it, as their common heading says.
# Happens: At nice 5 the four are 14, 85, 85 and 25, none is the kernel's 125. `-o pri` grows with importance, the others
#          fall; `-l` shows opri. Scripts that read "PRI" by its heading order tasks one way or the other.
# Input:   a process at nice 5; run from a shell at nice 0.
# Seen:    2026-11-27, Debian 12, x86-64: "PRI PRI PRI PRI" "14 85 85 25"; `ps -l`: 85; nice 0: 19 80 80 20
set -euo pipefail
. "$(dirname "$0")/common.bash"

version=2:4.0.2-3
deb procps=$version libproc2-0=$version
ps=$(find "$root" -path '*/bin/ps' | head -n 1)
[ "$(nice)" = 0 ] || { echo "wants to be run at nice 0" >&2; exit 2; }

columns() { "$ps" -o pri,opri,intpri,priority -p "$1" | xargs; }
sleep 60 &
plain=$!
nice -n 5 sleep 60 &
niced=$!
trap 'kill $plain $niced 2>/dev/null || true; rm -rf "$work"' EXIT
until [ "$("$ps" -o ni= -p $niced | xargs)" = 5 ]; do sleep 0.05; done

echo "ps of procps $version, -o pri,opri,intpri,priority"
expect "nice 0" "PRI PRI PRI PRI 19 80 80 20" "$(columns $plain)"
expect "nice 5" "PRI PRI PRI PRI 14 85 85 25" "$(columns $niced)"
expect "nice 5, PRI of ps -l" 85 "$("$ps" -l -p $niced | awk 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "PRI") c = i } NR == 2 { print $c }')"
