#!/usr/bin/env bash
# BTF by pahole 1.24, printed as C by libbpf 1.1.2: sizes and offsets survive, alignment does not.
#
# Guess:   A header from BTF (vmlinux.h) reproduces the layout, since libbpf writes padding where it is needed. So a BPF
#          program that uses it agrees with a user program that uses the original header.
# Happens: BTF has no alignment. A line of 64 bytes, aligned to 64, is a structure of 64 bytes aligned to 4 with seven
#          members `long: 64`. Structures that come out of BTF have padding around it. One of your own that contains
#          it has 128 bytes with the original header and 68 with the generated one, so a map's two sides disagree.
# Input:   a structure aligned to 64 bytes, one that contains it, and a third that includes the header of either kind.
# Seen:    2026-11-27, Debian 12, x86-64. Sizes of the three: original 64 128 128, generated 64 128 68
set -euo pipefail
. "$(dirname "$0")/common.bash"

pahole=1.24-4.1
deb pahole=$pahole
build_btf_to_c

cat >"$work/original.h" <<'C'
struct line { int value; } __attribute__((aligned(64)));
struct from_btf { char c; struct line line; };
C
printf '#include "original.h"\nstruct line line; struct from_btf from_btf;\n' >"$work/types.c"
gcc -g -c "$work/types.c" -o "$work/types.o"
"$root/usr/bin/pahole" --btf_encode "$work/types.o"
"$work/btf-to-c" "$work/types.o" >"$work/generated.h"

sizes() { # HEADER
	printf '#include "%s"\n' "$1" >"$work/sizes.c"
	cat >>"$work/sizes.c" <<-'C'
	#include <stdio.h>
	struct mine { char c; struct line line; };
	int main(void) { printf("%zu %zu %zu\n", sizeof(struct line), sizeof(struct from_btf), sizeof(struct mine)); }
	C
	gcc -o "$work/sizes" "$work/sizes.c" && "$work/sizes"
}

echo "pahole $pahole, libbpf 1.1.2: sizes of line, of a structure from BTF with it, of one of your own with it"
expect "original header" "64 128 128" "$(sizes original.h)"
expect "generated header" "64 128 68" "$(sizes generated.h)"
