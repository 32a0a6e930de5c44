#!/usr/bin/env bash
# binutils-bpf 2.40 on an object of clang: readelf misnames the relocations, and ld writes pointers 32 bits too high.
#
# Guess:   EM_BPF has one numbering of relocations, so GNU's tools may link what clang compiled, or refuse it.
# Happens: The two had numberings of their own. clang's 2 is "64 bits in data" (R_BPF_64_ABS64). GNU's 2 is the immediate
#          of an instruction, bytes 4 to 7. ld exits with 0, and a pointer in .data to 0x100000 is 0x10000000000000. The
#          one in code is right, since number 1 means the same to both.
# Input:   a global, a pointer to it and a function, compiled by clang 18 (of the ziglang wheel) for little-endian BPF.
# Seen:    2026-11-27, Debian 12, x86-64: R_BPF_INSN_32; .data 07000000 00000000 00000000 00001000
set -euo pipefail
. "$(dirname "$0")/common.bash"

version=2.40-2+1
deb binutils-bpf=$version
pip_install ziglang==0.13.0

cat >"$work/pointer.c" <<'C'
int counter = 7;
int *where = &counter;
int get(void) { return *where; }
C
ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig "$work/venv/bin/python" -m ziglang cc -target bpfel-freestanding \
	-O1 -c "$work/pointer.c" -o "$work/pointer.o"

echo "binutils-bpf $version, clang of ziglang 0.13.0"
expect "readelf, number and name of the pointer's relocation" "2 R_BPF_INSN_32" \
	"$("$root/usr/bin/bpf-readelf" -rW "$work/pointer.o" | sed -n '/\.rel\.data/,$p' | awk '$5 == "counter" { print substr($2, 16), $3 }')"

"$root/usr/bin/bpf-ld" -e get -Tdata=0x100000 "$work/pointer.o" -o "$work/linked"
expect "where counter is" 0000000000100000 "$("$root/usr/bin/bpf-nm" "$work/linked" | awk '$3 == "counter" { print $1 }')"
expect "counter and the pointer to it, bytes of .data" "07000000 00000000 00000000 00001000" \
	"$("$root/usr/bin/bpf-objdump" -s -j .data "$work/linked" | sed -n 's/^ 100000 \(.\{35\}\).*/\1/p')"
