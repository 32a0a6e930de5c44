#!/usr/bin/env bash
# libtraceevent 1.7.1: its sched_switch plugin and the kernel's own format disagree about dead, idle and preempted tasks.
#
# Guess:   A plugin that prints sched_switch (trace-cmd loads it) shortens the line and keeps the letters of prev_state.
# Happens: The plugin has a table of its own, in the order of older kernels. X and Z change places, a parked
#          task (P) is `x`, an idle kernel thread (I) is `W`, and the `+` of a preempted task is lost.
#          So "waits for a page" in such a report is an idle worker, and preemptions cannot be counted in it.
# Input:   the sched_switch format of x86-64 kernels, and one record for each state that the format knows.
# Seen:    2026-11-27, Debian 12, x86-64. prev_state 0 1 2 4 8 16 32 64 128 256:
#          format R S D T t X Z P I R+, plugin R S D T t Z X x W R
set -euo pipefail
. "$(dirname "$0")/common.bash"

version=1:1.7.1-1
deb libtraceevent1=$version libtraceevent-dev=$version libtraceevent1-plugin=$version

cat >"$work/states.c" <<'C'
#include <stdio.h>
#include <string.h>
#include <event-parse.h>
#include <trace-seq.h>

#define REPORTED "REC->prev_state & 0xff"
static const char format[] =
"name: sched_switch\nID: 314\nformat:\n"
"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
"\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
"\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
"\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n"
"\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"
"\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n"
"\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n"
"\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\n"
"print fmt: \"prev_state=%s%s ==>\", (" REPORTED ") ? __print_flags(" REPORTED ", \"|\", { 0x1, \"S\" }, { 0x2, \"D\" }, "
"{ 0x4, \"T\" }, { 0x8, \"t\" }, { 0x10, \"X\" }, { 0x20, \"Z\" }, { 0x40, \"P\" }, { 0x80, \"I\" }) : \"R\", "
"REC->prev_state & 0x100 ? \"+\" : \"\"\n";

struct record {
	unsigned short type; unsigned char flags, preempt_count; int pid;
	char prev_comm[16]; int prev_pid, prev_prio; long prev_state;
	char next_comm[16]; int next_pid, next_prio;
};

int main(int argc, char **argv)
{
	static const long states[] = { 0, 1, 2, 4, 8, 16, 32, 64, 128, 256 };
	struct tep_handle *tep = tep_alloc();
	(void)argv;
	tep_set_long_size(tep, 8);
	if (tep_parse_event(tep, format, strlen(format), "sched"))
		return 1;
	if (argc > 1)
		tep_load_plugins(tep);
	for (unsigned i = 0; i < sizeof(states) / sizeof(*states); i++) {
		struct record data = { .type = 314, .prev_comm = "a", .prev_pid = 7, .prev_prio = 120,
			.prev_state = states[i], .next_comm = "b", .next_pid = 8, .next_prio = 120 };
		struct tep_record record = { .data = &data, .size = sizeof(data), .ts = 1000 };
		struct trace_seq line;
		trace_seq_init(&line);
		tep_print_event(tep, &line, &record, "%s", TEP_PRINT_INFO);
		trace_seq_terminate(&line);
		puts(line.buffer);
		trace_seq_destroy(&line);
	}
	return 0;
}
C
gcc -o "$work/states" "$work/states.c" -I"$root/usr/include/traceevent" -L"$lib" -ltraceevent

by_format=$("$work/states" | sed 's/.*prev_state=\([^ ]*\) ==>.*/\1/' | xargs)
by_plugin=$(TRACEEVENT_PLUGIN_DIR=$lib/traceevent/plugins "$work/states" plugins | sed 's/.*\] \([^ ]*\) ==>.*/\1/' | xargs)

echo "libtraceevent1 $version, prev_state 0 1 2 4 8 16 32 64 128 256"
expect "by the kernel's format" "R S D T t X Z P I R+" "$by_format"
expect "by the plugin" "R S D T t Z X x W R" "$by_plugin"
