/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tags.h - what a scheduler says of its variables and programs, as tags of their type information.
 *
 * Reports, lists and loaders of schedlab read these tags. Nothing else depends on them, so a source that moves to another tree
 * defines them as nothing there:
 *
 *   #ifndef TUNABLE
 *   #define TUNABLE(...)
 *   #define COUNTS(meaning)
 *   #endif
 */
#ifndef SCHEDLAB_TAGS_H
#define SCHEDLAB_TAGS_H

/* Says what a counter counts, for reports to show: u64 nr_things COUNTS("things that ..."); */
#define COUNTS(meaning) __attribute__((btf_decl_tag(meaning)))

/*
 * Says what a tunable means and which values it takes, in the tag that our loaders, lists and tests read:
 *
 *   const volatile u32 weight TUNABLE("weight of the own average", "percent", 1, 100) = 3;
 *   const volatile u64 tick_ns TUNABLE_OR_0("length of a tick", "ns", 100000, 100000000, "1 ms") = 0;
 *   const volatile bool boost SETS("a woken task goes first") = true;
 *
 * TUNABLE is for numbers, also those in an array; loaders refuse what is not within @lowest and @highest, which are plain
 * decimal numbers or names of such. TUNABLE_OR_0 takes 0 as well: @zero is what it stands for. SETS is for variables
 * whose type has the values: switches, enumerations and texts. @unit and @zero have no '|'.
 */
#define TUNABLE(meaning, unit, lowest, highest) TUNABLE_TAG(meaning, unit, lowest, highest, "")
#define TUNABLE_OR_0(meaning, unit, lowest, highest, zero) TUNABLE_TAG(meaning, unit, lowest, highest, zero)
#define SETS(meaning) __attribute__((btf_decl_tag("tunable:||||" meaning)))
#define TUNABLE_TAG(meaning, unit, lowest, highest, zero) \
	__attribute__((btf_decl_tag("tunable:" unit "|" #lowest "|" #highest "|" zero "|" meaning)))

/*
 * Says what an array of structures shows: struct row rows[N] TABLE("tasks that ...");
 * it is read when the scheduler has left. Rows of zeros are none.
 */
#define TABLE(meaning) __attribute__((btf_decl_tag(meaning)))

/*
 * Says when an optional program, one whose section begins with '?', is loaded: when
 * the constant NAME has the value VALUE, "NAME=VALUE", once all settings are made. The
 * others cost nothing. The text is in the object, as a tag of the program's type
 * information, where our loaders find it.
 */
#define LOADED_IF(setting) __attribute__((btf_decl_tag("loaded_if:" setting)))

#endif
