/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * invariants.h - states that cannot be. The glue and the policies check them where
 * they rely on them; the first broken one ends the scheduler, with its name.
 *
 * A check costs a comparison. Most of them run under a spin lock, where no kernel
 * function may be called. So a check notes what it found, and the next entry of
 * ops.dispatch reports it by scx_bpf_error().
 */
#ifndef SCHEDLAB_INVARIANTS_H
#define SCHEDLAB_INVARIANTS_H

#include "compat.h"

/* Each with the text of the report. */
#define IMPOSSIBLE_STATES(is)                                                              \
	is(NO_SUCH_LOCK, "a lock was asked for that does not exist")                       \
	is(LINKED_TWICE, "a task was linked that is linked already")                       \
	is(LINKED_ELSEWHERE, "a task was unlinked from a queue that it is not linked on")  \
	is(PICKED_UNLINKED, "a task was picked that is not linked on the queue")           \
	is(SLICE_BELOW_ZERO, "a task was picked whose slice is below zero")                \
	is(RAN_BACKWARDS, "the run time of a task went back")                              \
	is(BAD_NICE, "a nice value is outside of -20..19")                                 \
	is(BAD_PRIORITY, "a priority is outside of its range")                             \
	is(NOT_ON_ARRAY, "a queued task is on no array of its queue")                      \
	is(BAD_SCORE, "an interactivity score is outside of 0..100")                       \
	is(BAD_SLEEP, "a sleep average is above its limit")                                \
	is(BAD_COUNTER, "a task owns more ticks than an epoch gives")                      \
	is(BAD_CPU, "a CPU has a number that this machine does not have")                  \
	is(LOAD_BELOW_ZERO, "a count of tasks went below zero")                            \
	is(BAD_STEP, "a task is on a step that its stairs do not have")                    \
	is(NO_HOME, "a queue loses a task that does not belong to it")                     \
	is(BAD_CONFIDENCE, "a confidence is above twice its default")                      \
	is(REQUESTS_BELOW_ZERO, "a resource loses a requester that it does not count")     \
	is(BAD_LINK, "the neighbours of a linked list's entry do not point to it")         \
	is(BAD_STATE, "a task is in a state that this step does not allow")                \
	is(BAD_ORDER, "a task waits before one that has waited longer")                    \
	is(BAD_SEARCH, "a search for a CPU found more than there is")                      \
	is(BAD_HISTORY, "a task has run or slept for longer than its history holds")       \
	is(BAD_ESTIMATE, "an estimate of CPU use is above its limit, or grew by decay")    \
	is(TABLE_OVERRUN, "a table counts more entries than it has")

enum impossible {
	NOTHING_IMPOSSIBLE,
#define AS_NAME(name, text) name,
	IMPOSSIBLE_STATES(AS_NAME)
#undef AS_NAME
};

static u32 impossible;		/* enum impossible: found and not reported yet */
static bool impossible_told;

/* @condition holds, whatever tasks and users do; @state is what else there is. */
#define expect(condition, state)                                            \
	({                                                                  \
		if (unlikely(!(condition)))                                 \
			*(volatile u32 *)&impossible = (state);             \
	})

/*
 * expect() for what costs too much in every object: in loops and lists, on each switch and
 * tick. Compiled in by -DDEBUG_EXPECT alone (make DEBUG_EXPECT=1), as Rust's debug_assert!().
 */
#ifdef DEBUG_EXPECT
#define debug_expect(condition, state) expect(condition, state)
#else
#define debug_expect(condition, state) ((void)sizeof(condition))
#endif

/* By enum impossible. A table, so that the verifier walks one call for all of them. */
static char impossible_texts[][80] = {
	"impossible: nothing",
#define AS_TEXT(name, text) "impossible: " text,
	IMPOSSIBLE_STATES(AS_TEXT)
#undef AS_TEXT
};

/* Ends the scheduler with the text of the state that was found. Global: the verifier walks it once. */
__weak int tell_impossible(void)
{
	u64 none = 0;
	u32 state = impossible;

	impossible_told = true;
	if (state < sizeof(impossible_texts) / sizeof(impossible_texts[0]))
		scx_bpf_error_bstr(impossible_texts[state], &none, 0);
	return 0;
}

/* No lock is held: the place to report. */
static __always_inline void report_impossible(void)
{
	if (unlikely(impossible) && !impossible_told)
		tell_impossible();
}

#endif
