#!/usr/bin/env bash
# QEMU 7.2 with -icount: `rep stosb` of 1,000 bytes takes the time of 1,000 instructions.
#
# Guess:   -icount shift=N gives each guest instruction 2^N ns. A string instruction with a repeat prefix is one
#          instruction, as the hardware's counter of retired instructions has it, so clearing memory with it is free.
# Happens: Each repetition is counted: 1,003 for the instruction and what surrounds it, half of the 2,002 of a loop of two
#          instructions 1,000 times. So a guest kernel that clears and copies memory with such instructions pays by the
#          byte. The time stamp counter counts nanoseconds: with shift 3 all differences are eight times as large.
# Input:   a boot sector that reads the time stamp counter around each and writes the differences to the serial line.
# Seen:    2026-11-27, Debian 12, x86-64. Two reads in sequence, rep stosb, loop: shift 0: 2 1003 2002, shift 3: 16 8024 16016
set -euo pipefail
. "$(dirname "$0")/common.bash"

version=1:7.2+dfsg-7+deb12u18+b3
deb_with_dependencies qemu-system-x86=$version

cat >"$work/boot.s" <<'S'
	.code16
	.globl _start
	.macro stamp slot
	rdtsc
	mov %eax, 0x8000 + 4 * \slot
	.endm
_start:
	cli
	xor %ax, %ax
	mov %ax, %ds
	mov %ax, %es
	mov %ax, %ss
	mov $0x7000, %sp
	cld
	stamp 0
	stamp 1
	mov $0x9000, %di
	mov $1000, %cx
	stamp 2
	rep stosb
	stamp 3
	mov $1000, %cx
	stamp 4
1:	dec %cx
	jnz 1b
	stamp 5

	mov $0x8000, %si
	mov $3, %bp
2:	mov 4(%si), %eax
	sub (%si), %eax
	mov $8, %cx
3:	rol $4, %eax
	push %eax
	and $0xf, %al
	add $'0', %al
	cmp $'9', %al
	jbe 4f
	add $39, %al
4:	mov $0x3f8, %dx
	out %al, %dx
	pop %eax
	loop 3b
	mov $10, %al
	out %al, %dx
	add $8, %si
	dec %bp
	jnz 2b
	mov $0x501, %dx
	out %al, %dx
5:	hlt
	jmp 5b
	.org 510
	.word 0xaa55
S
as --32 "$work/boot.s" -o "$work/boot.o"
ld -m elf_i386 -Ttext 0x7c00 --oformat binary "$work/boot.o" -o "$work/boot.img"

differences() { # SHIFT; the guest ends QEMU with the exit code 21 by its debug port
	timeout 60 "$root/usr/bin/qemu-system-x86_64" -accel tcg -icount "shift=$1" -display none -monitor none -net none \
		-serial "file:$work/serial" -drive "file=$work/boot.img,format=raw" -device isa-debug-exit >"$work/qemu.log" 2>&1 || true
	while read -r hex; do echo $((16#$hex)); done <"$work/serial" | xargs
}

echo "qemu-system-x86 $version: two reads in sequence, rep stosb of 1000 bytes, loop of 1000 passes"
expect "shift=0" "2 1003 2002" "$(differences 0)"
expect "shift=3" "16 8024 16016" "$(differences 3)"
