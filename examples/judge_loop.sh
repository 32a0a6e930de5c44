#!/bin/sh
# Judges each source of a folder and prints the accepted ones, the best first: examples/judge_loop.sh FOLDER [BASE]
set -u
folder=${1:?name a folder with sources (*.bpf.c)}
base=${2:-eevdf}
for source in "$folder"/*.bpf.c; do
	# One key for all: they are compared under the same loads.
	answer=$(schedlab judge "$source" --against "$base" --seed-key "${KEY:-loop}" --json -)
	case $? in
	0) score=$(printf '%s' "$answer" | sed 's/.*"score":\([0-9.]*\),"interval":\[.*"candidate".*/\1/') ;;
	1) echo "rejected: $source" >&2; continue ;;
	*) exit 2 ;;
	esac
	printf '%s %s\n' "$score" "$source"
done | sort -rn
