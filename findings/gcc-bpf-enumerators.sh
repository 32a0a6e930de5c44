#!/usr/bin/env bash
# gcc-bpf 12.2: BTF loses the enumerators above 2^31 - 1, and turns the negative ones of another enum positive.
#
# Guess:   A member of BTF's enum has 32 bits and a sign flag for all, so every enum that fits 32 bits arrives whole, as
#          it does from clang.
# Happens: An enum with 4000000000 has no members in BTF: libbpf prints it as a declaration, `enum big;`, which a
#          structure cannot contain, so its header does not compile. An enum with -1 is marked unsigned: 4294967295.
#          Both compile without a warning.
# Input:   two enums of 32 bits in a structure; read with libbpf 1.1.2.
# Seen:    2026-11-27, Debian 12, x86-64: "enum big;", "MINUS = 4294967295", "has incomplete type"
set -euo pipefail
. "$(dirname "$0")/common.bash"

version=12.2.0-14+deb12u1+
deb gcc-bpf=$version binutils-bpf=2.40-2+1
build_btf_to_c

cat >"$work/enums.c" <<'C'
enum big { LARGE = 4000000000 };
enum with_sign { MINUS = -1, PLUS = 1 };
struct both { enum big big; enum with_sign with_sign; };
int read_both(struct both *both) { return both->big + both->with_sign; }
C
PATH=$root/usr/bin:$PATH bpf-gcc -B"$root/usr/bin/bpf-" -B"$root/usr/lib/bpf/bin" -Wall -O2 -gbtf \
	-c "$work/enums.c" -o "$work/enums.o" 2>"$work/warnings"
"$work/btf-to-c" "$work/enums.o" >"$work/enums.h"

echo "gcc-bpf $version, libbpf 1.1.2"
expect "warnings of the compiler" 0 "$(wc -l <"$work/warnings")"
expect "the enum with 4000000000" "enum big;" "$(grep '^enum big' "$work/enums.h")"
expect "the enumerator -1" "MINUS = 4294967295," "$(grep MINUS "$work/enums.h" | xargs)"
expect "the header, compiled" "has incomplete type" "$(gcc -fsyntax-only -x c "$work/enums.h" 2>&1 | grep -o 'has incomplete type' | head -n 1)"
