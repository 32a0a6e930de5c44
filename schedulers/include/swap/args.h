/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/args.h - types of resources, and arguments that say what a call does to one.
 * x86-64.
 */
#ifndef SCHEDLAB_SWAP_ARGS_H
#define SCHEDLAB_SWAP_ARGS_H

#include "../calls.h"

/* What tasks wait for. Also bits of the tunable swap_types. */
enum swap_type {
	SWAP_OTHER,	/* anything that is none of the following */
	SWAP_PIPE,	/* pipes and FIFOs */
	SWAP_SOCKET,	/* Unix sockets, TCP and UDP within the machine */
	SWAP_SYSV_MSG,
	SWAP_SYSV_SEM,
	SWAP_POSIX_MQ,
	SWAP_SIGNAL,
	SWAP_FLOCK,
	SWAP_FCNTL,
	SWAP_FUTEX,
	SWAP_EVENTFD,	/* and other files without an inode of their own */
	SWAP_POLL,	/* select, poll, epoll: whatever is watched */
	SWAP_CHILD,	/* wait4, waitid */
	SWAP_NR_TYPES,
};

/* Arguments that say what a call does. */
#define IPC_RMID 0
#define LOCK_SH 1
#define LOCK_EX 2
#define LOCK_UN 8
#define F_SETLK 6
#define F_SETLKW 7
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_REQUEUE 3
#define FUTEX_CMP_REQUEUE 4
#define FUTEX_WAKE_OP 5
#define FUTEX_LOCK_PI 6
#define FUTEX_UNLOCK_PI 7
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAKE_BITSET 10
#define FUTEX_WAIT_REQUEUE_PI 11
#define FUTEX_LOCK_PI2 13
#define FUTEX_PRIVATE_FLAG 128
#define FUTEX_CMD(op) ((op) & 0x7f)
#define FUTEX_TID_MASK 0x3fffffff
#define POLLIN 1
#define POLLOUT 4
#define EPOLLIN 1
#define EPOLLOUT 4
#define IORING_ENTER_GETEVENTS 1

#endif
