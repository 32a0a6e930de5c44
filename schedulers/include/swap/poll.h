/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/poll.h - a task that blocks in select, poll or epoll waits for the other ends
 * of all that it watches, up to SWAP_REQUESTS of them. From then on it is known to
 * serve its own ends: it is going to read or write them.
 */
#ifndef SCHEDLAB_SWAP_POLL_H
#define SCHEDLAB_SWAP_POLL_H

#include "swap/provide.h"

/* Words of a descriptor set that are looked at: descriptors below 1024, as select() has them. */
#define SET_WORDS 16
/* Entries of a poll() that are looked at. */
#define POLL_ENTRIES 64
/* Nodes of an epoll tree that wait to be looked at: one more than are visited. */
#define EPOLL_NODES (SWAP_REQUESTS + 1)

/* As user space has it. */
struct pollfd {
	s32 fd;
	s16 events, revents;
};

/*
 * The current task, whose descriptor is @task, watches the file at @address for data
 * or, if it @writes, for room. A global function: the verifier looks at it once, and not
 * at each of the turns of the loops that call it.
 */
__noinline int swap_watch(u64 task, u64 address, bool writes, u64 now)
{
	struct file *file = cast_kernel(address, struct file);
	task_t *t = (task_t *)task;
	struct swap_key key;

	use_arena();
	swap_name_file(&key, file, writes, false);
	if (!key.kind)
		return 0;
	swap_provide(t, &key, false);
	swap_name_file(&key, file, writes, true);
	if (key.kind)
		swap_want(t, &key, now);
	return 0;
}

/* One set of select(): descriptors that are watched for data or for room. */
static __noinline int swap_watch_set(task_t *t, struct task_struct *current, u64 set, bool writes, u64 now)
{
	u32 i, bit;
	u64 word, file;

	use_arena();
	for (i = zero; i < SET_WORDS && can_loop; i++) {
		if (bpf_probe_read_user(&word, sizeof(word), (void *)(set + i * sizeof(word))))
			return 0;
		while (word && can_loop) {
			bit = __builtin_ctzll(word);
			word &= word - 1;
			file = file_address(current, i * 64 + bit);
			if (file)
				swap_watch((u64)t, file, writes, now);
			if (t->base.swap.nr_requests >= SWAP_REQUESTS)
				return 0;
		}
	}
	return 0;
}

static __always_inline void swap_watch_polled(task_t *t, struct task_struct *current,
					      struct pt_regs *regs, u64 now)
{
	struct pollfd watched;
	u64 file;
	u32 i;

	for (i = zero; i < POLL_ENTRIES && i < regs->si && can_loop; i++) {
		if (bpf_probe_read_user(&watched, sizeof(watched),
					(void *)(regs->di + i * sizeof(watched))))
			return;
		file = watched.fd >= 0 ? file_address(current, watched.fd) : 0;
		if (!file)
			continue;
		if (watched.events & POLLIN)
			swap_watch((u64)t, file, false, now);
		if (watched.events & POLLOUT)
			swap_watch((u64)t, file, true, now);
	}
}

/*
 * The first nodes of the tree of an epoll instance, from its root downwards. All are
 * taken to be watched for data: a task that watches for room has written already.
 */
static __always_inline void swap_watch_epoll(task_t *t, struct file *instance, u64 now)
{
	struct eventpoll *ep = cast_kernel(instance->private_data, struct eventpoll);
	u64 pending[EPOLL_NODES];
	u32 nr = 1, visited;
	struct epitem *item;
	u64 file, left, right;

	pending[0] = read_address(&ep->rbr.rb_root.rb_node);
	for (visited = zero; visited < SWAP_REQUESTS && nr && can_loop; visited++) {
		nr--;
		hide_value(nr);
		if (nr >= EPOLL_NODES || !pending[nr])
			continue;
		item = cast_kernel(pending[nr] - bpf_core_field_offset(struct epitem, rbn), struct epitem);
		file = read_address(&item->ffd.file);
		right = read_address(&item->rbn.rb_right);
		left = read_address(&item->rbn.rb_left);
		if (right && nr < EPOLL_NODES)
			pending[nr++] = right;
		hide_value(nr);
		if (left && nr < EPOLL_NODES)
			pending[nr++] = left;
		if (file)
			swap_watch((u64)t, file, false, now);
	}
}

/* @t blocks in this call: if it is one that watches, it waits for all that it watches. */
static __always_inline void swap_watches(task_t *t, struct task_struct *current, s64 call,
					 struct pt_regs *regs, u64 now)
{
	struct file *instance;

	use_arena();
	switch (call) {
	case SYS_SELECT:
	case SYS_PSELECT6:
		if (regs->si)
			swap_watch_set(t, current, regs->si, false, now);
		if (regs->dx)
			swap_watch_set(t, current, regs->dx, true, now);
		break;
	case SYS_POLL:
	case SYS_PPOLL:
		swap_watch_polled(t, current, regs, now);
		break;
	case SYS_EPOLL_WAIT:
	case SYS_EPOLL_PWAIT:
	case SYS_EPOLL_PWAIT2:
		instance = file_of(current, regs->di);
		if (instance)
			swap_watch_epoll(t, instance, now);
		break;
	}
}

#endif
