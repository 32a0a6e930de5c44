/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mechanism.h - through what a task waits: the kind of kernel object behind a
 * system call, from the call's number and, for calls on descriptors, the file.
 */
#ifndef SCHEDLAB_MECHANISM_H
#define SCHEDLAB_MECHANISM_H

#include "calls.h"
#include "swap/files.h"

/* User space finds the numbers by these names, which are those of results: THROUGH_PIPE is "pipe". */
enum mechanism {
	THROUGH_NOTHING = 0,	/* a sleep, or no call */
	THROUGH_OTHER = 1,
	THROUGH_PIPE = 2,
	THROUGH_UNIX = 3,
	THROUGH_TCP = 4,
	THROUGH_UDP = 5,
	THROUGH_SEM = 6,
	THROUGH_MSG = 7,
	THROUGH_MQ = 8,
	THROUGH_SIGNAL = 9,
	THROUGH_FLOCK = 10,
	THROUGH_FCNTL = 11,
	THROUGH_FUTEX = 12,
	THROUGH_EVENTFD = 13,
	THROUGH_POLL = 14,
	THROUGH_SELECT = 15,
	THROUGH_EPOLL = 16,
	THROUGH_CHILD = 17,
	THROUGH_IO_URING = 18,
};

#define AF_INET6 10
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17

static __always_inline enum mechanism socket_mechanism(struct file *file)
{
	struct socket *socket = cast_kernel(file->private_data, struct socket);
	struct sock *sk = socket->sk;

	if (sk->__sk_common.skc_family == AF_UNIX)
		return THROUGH_UNIX;
	if (sk->__sk_common.skc_family != AF_INET && sk->__sk_common.skc_family != AF_INET6)
		return THROUGH_OTHER;
	switch (sk->sk_protocol) {
	case IPPROTO_TCP:
		return THROUGH_TCP;
	case IPPROTO_UDP:
		return THROUGH_UDP;
	default:
		return THROUGH_OTHER;
	}
}

/* Files without a place in a file system go by the names that their kinds have. */
static __always_inline enum mechanism named_mechanism(struct file *file)
{
	char name[8] = {};

	bpf_probe_read_kernel_str(name, sizeof(name), file->f_path.dentry->d_name.name);
	if (name[0] != '[')
		return THROUGH_OTHER;
	if (name[1] == 'e' && name[2] == 'v' && name[3] == 'e' && name[4] == 'n' && name[5] == 't' &&
	    name[6] == 'f')
		return THROUGH_EVENTFD;
	if (name[1] == 's' && name[2] == 'i' && name[3] == 'g')
		return THROUGH_SIGNAL;
	return THROUGH_OTHER;
}

static __noinline enum mechanism file_mechanism(struct task_struct *p, u32 fd)
{
	struct file *file = file_of(p, fd);

	if (!file)
		return THROUGH_OTHER;
	switch (file->f_inode->i_mode & S_IFMT) {
	case S_IFIFO:
		return THROUGH_PIPE;
	case S_IFSOCK:
		return socket_mechanism(file);
	default:
		return named_mechanism(file);
	}
}

/* Of a call that names what it acts on by number, type or address. */
static __always_inline enum mechanism call_mechanism(s64 call)
{
	switch (call) {
	case SYS_POLL:
	case SYS_PPOLL:
		return THROUGH_POLL;
	case SYS_SELECT:
	case SYS_PSELECT6:
		return THROUGH_SELECT;
	case SYS_EPOLL_WAIT:
	case SYS_EPOLL_PWAIT:
	case SYS_EPOLL_PWAIT2:
		return THROUGH_EPOLL;
	case SYS_SEMOP:
	case SYS_SEMTIMEDOP:
		return THROUGH_SEM;
	case SYS_MSGSND:
	case SYS_MSGRCV:
		return THROUGH_MSG;
	case SYS_MQ_TIMEDSEND:
	case SYS_MQ_TIMEDRECEIVE:
		return THROUGH_MQ;
	case SYS_PAUSE:
	case SYS_RT_SIGSUSPEND:
	case SYS_RT_SIGTIMEDWAIT:
		return THROUGH_SIGNAL;
	case SYS_FLOCK:
		return THROUGH_FLOCK;
	case SYS_FCNTL:
		return THROUGH_FCNTL;
	case SYS_FUTEX:
	case SYS_FUTEX_WAITV:
	case SYS_FUTEX_WAIT:
		return THROUGH_FUTEX;
	case SYS_WAIT4:
	case SYS_WAITID:
		return THROUGH_CHILD;
	case SYS_IO_URING_ENTER:
		return THROUGH_IO_URING;
	case SYS_NANOSLEEP:
	case SYS_CLOCK_NANOSLEEP:
		return THROUGH_NOTHING;
	default:
		return THROUGH_OTHER;
	}
}

/* Through what the call with these registers, in which the current task @p is, acts or waits. */
static __always_inline enum mechanism mechanism_of(struct task_struct *p, struct pt_regs *regs)
{
	s64 call = regs->orig_ax;

	if (call < 0)
		return THROUGH_NOTHING;
	switch (call) {
	case SYS_READ:
	case SYS_WRITE:
	case SYS_READV:
	case SYS_WRITEV:
	case SYS_SENDFILE:
	case SYS_CONNECT:
	case SYS_ACCEPT:
	case SYS_SENDTO:
	case SYS_RECVFROM:
	case SYS_SENDMSG:
	case SYS_RECVMSG:
	case SYS_SHUTDOWN:
	case SYS_SPLICE:
	case SYS_TEE:
	case SYS_ACCEPT4:
	case SYS_RECVMMSG:
	case SYS_SENDMMSG:
	case SYS_PREADV2:
	case SYS_PWRITEV2:
		return file_mechanism(p, regs->di);
	default:
		return call_mechanism(call);
	}
}

/* Can what is sent over the network arrive there? */
static __always_inline bool reached_by_network(enum mechanism through)
{
	switch (through) {
	case THROUGH_TCP:
	case THROUGH_UDP:
	case THROUGH_POLL:
	case THROUGH_SELECT:
	case THROUGH_EPOLL:
		return true;
	default:
		return false;
	}
}

#endif
