/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/resource.h - from the arguments of a system call to the resources that
 * it is about: what its caller provides by making it, and what it waits for if it
 * blocks.
 *
 * Whatever has two ends is two resources. Side 0 of a pipe or a queue is the room
 * in it, which readers provide and writers wait for, side 1 its content, the other
 * way round. A lock has one for its shared holders and one for its exclusive one.
 */
#ifndef SCHEDLAB_SWAP_RESOURCE_H
#define SCHEDLAB_SWAP_RESOURCE_H

#include "glue/queues.h"
#include "swap/args.h"
#include "swap/files.h"

const volatile u32 swap_types
	TUNABLE("types of resources that count, one bit 1 << enum swap_type each; all by default", "bits", 0,
		4294967295) = ~0u;

/* Sides of what has two. */
#define SIDE_READS 0
#define SIDE_WRITES 1
#define SIDE_SHARED 0
#define SIDE_EXCLUSIVE 1

/* Identity of a resource. Kind 0: none. */
struct swap_key {
	u64 kind, what;
};

/* Kinds of resources that are named by their own identity, apart from SWAP_CALL() ones. */
#define SWAP_NAMED 0x10000
#define SWAP_OBJECT(type, side, where) SWAP_KIND(SWAP_NAMED | (type) << 4 | (side), where)

static __always_inline enum swap_type swap_type_of(u64 kind)
{
	return kind >> 32 & SWAP_NAMED ? kind >> 36 & 0xff : SWAP_OTHER;
}

static __always_inline bool swap_type_counts(enum swap_type type)
{
	return swap_types >> type & 1;
}

static __always_inline void swap_name(struct swap_key *key, enum swap_type type, u32 side, u32 where,
				      u64 what)
{
	key->what = what;
	key->kind = swap_type_counts(type) ? SWAP_OBJECT(type, side, where) : 0;
}

/*
 * Names what a task provides that reads or @writes @file or, if @other, the task at
 * its other end.
 */
static __noinline int swap_name_file(struct swap_key *key, struct file *file, bool writes, bool other)
{
	u32 side = writes != other ? SIDE_WRITES : SIDE_READS;
	struct inode *inode = file->f_inode;
	struct endpoint end;

	key->kind = 0;
	switch (inode->i_mode & S_IFMT) {
	case S_IFIFO:
		swap_name(key, SWAP_PIPE, side, inode->i_sb->s_dev, inode->i_ino);
		return 0;
	case S_IFSOCK: {
		struct sock *sk = cast_kernel(file->private_data, struct socket)->sk;

		if (sk && endpoint_of(sk, other, &end))
			swap_name(key, SWAP_SOCKET, 0, end.ports, end.what);
		return 0;
	}
	}
	switch (inode->i_sb->s_magic) {
	case ANON_INODE_FS_MAGIC:
		swap_name(key, SWAP_EVENTFD, side, 0, read_address(&file->private_data));
		return 0;
	case MQUEUE_MAGIC:
		swap_name(key, SWAP_POSIX_MQ, side, inode->i_sb->s_dev, inode->i_ino);
		return 0;
	}
	return 0;
}

/* Does the call read or write its first argument, a descriptor? */
static __always_inline bool swap_is_transfer(s64 call, bool *writes)
{
	switch (call) {
	case SYS_READ:
	case SYS_READV:
	case SYS_RECVFROM:
	case SYS_RECVMSG:
	case SYS_RECVMMSG:
	case SYS_MQ_TIMEDRECEIVE:
		*writes = false;
		return true;
	case SYS_WRITE:
	case SYS_WRITEV:
	case SYS_SENDTO:
	case SYS_SENDMSG:
	case SYS_SENDMMSG:
	case SYS_SENDFILE:
	case SYS_MQ_TIMEDSEND:
		*writes = true;
		return true;
	}
	return false;
}

/* Names one side of a lock on the file of descriptor @fd. */
static __always_inline void swap_name_lock(struct swap_key *key, struct task_struct *current,
					   enum swap_type type, u32 side, u32 fd)
{
	struct file *file = file_of(current, fd);

	key->kind = 0;
	if (file)
		swap_name(key, type, side, file->f_inode->i_sb->s_dev, file->f_inode->i_ino);
}

/* What flock() and fcntl() do to a lock. */
enum lock_action {
	LOCK_NOTHING,
	LOCK_TAKE_SHARED,
	LOCK_TAKE_EXCLUSIVE,
	LOCK_LEAVE,
};

static __always_inline enum lock_action lock_action(s64 call, struct pt_regs *regs)
{
	s16 type = -1;

	if (call == SYS_FLOCK) {
		if (regs->si & LOCK_UN)
			return LOCK_LEAVE;
		return regs->si & LOCK_EX ? LOCK_TAKE_EXCLUSIVE : LOCK_TAKE_SHARED;
	}
	switch (regs->si) {
	case F_SETLK:
	case F_SETLKW:
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
		/* struct flock begins with its type */
		bpf_probe_read_user(&type, sizeof(type), (void *)regs->dx);
		break;
	}
	switch (type) {
	case F_RDLCK:
		return LOCK_TAKE_SHARED;
	case F_WRLCK:
		return LOCK_TAKE_EXCLUSIVE;
	case F_UNLCK:
		return LOCK_LEAVE;
	}
	return LOCK_NOTHING;
}

static __always_inline enum swap_type lock_type(s64 call)
{
	return call == SYS_FLOCK ? SWAP_FLOCK : SWAP_FCNTL;
}

/* A futex: shared ones by their address too, which differs if they are mapped elsewhere. */
static __always_inline void swap_name_futex(struct swap_key *key, struct task_struct *current,
					    struct pt_regs *regs)
{
	swap_name(key, SWAP_FUTEX, 0, regs->si & FUTEX_PRIVATE_FLAG ? current->tgid : 0, regs->di);
}

/* Names what the current task, by making this call, provides or may come to provide. */
static __noinline int swap_name_provided(struct swap_key *key, struct task_struct *current, s64 call,
					 struct pt_regs *regs)
{
	struct file *file;
	bool writes;

	key->kind = 0;
	if (swap_is_transfer(call, &writes)) {
		file = file_of(current, regs->di);
		if (file)
			swap_name_file(key, file, writes, false);
		return 0;
	}
	switch (call) {
	case SYS_MSGSND:
		swap_name(key, SWAP_SYSV_MSG, SIDE_WRITES, 0, regs->di);
		break;
	case SYS_MSGRCV:
		swap_name(key, SWAP_SYSV_MSG, SIDE_READS, 0, regs->di);
		break;
	case SYS_SEMOP:
	case SYS_SEMTIMEDOP:
		swap_name(key, SWAP_SYSV_SEM, 0, 0, regs->di);
		break;
	case SYS_TGKILL:
	case SYS_RT_TGSIGQUEUEINFO:
	case SYS_KILL:
	case SYS_TKILL:
	case SYS_RT_SIGQUEUEINFO:
		swap_name(key, SWAP_SIGNAL, 0, 0, regs->di);
		break;
	case SYS_FLOCK:
	case SYS_FCNTL:
		switch (lock_action(call, regs)) {
		case LOCK_TAKE_SHARED:
			swap_name_lock(key, current, lock_type(call), SIDE_SHARED, regs->di);
			break;
		case LOCK_TAKE_EXCLUSIVE:
			swap_name_lock(key, current, lock_type(call), SIDE_EXCLUSIVE, regs->di);
			break;
		default:
			break;
		}
		break;
	case SYS_FUTEX:
		switch (FUTEX_CMD(regs->si)) {
		case FUTEX_WAKE:
		case FUTEX_REQUEUE:
		case FUTEX_CMP_REQUEUE:
		case FUTEX_WAKE_OP:
		case FUTEX_UNLOCK_PI:
		case FUTEX_WAKE_BITSET:
			swap_name_futex(key, current, regs);
			break;
		}
		break;
	}
	return 0;
}

/*
 * Names what the current task, which blocks in this call, waits for: resource
 * @nr of at most two, of which the second exists for exclusive locks.
 */
static __noinline int swap_name_wanted(struct swap_key *key, struct task_struct *current, s64 call,
				       struct pt_regs *regs, u32 nr)
{
	enum lock_action action;
	struct file *file;
	bool writes;

	key->kind = 0;
	if (call == SYS_FLOCK || call == SYS_FCNTL) {
		/* shared ones wait for the exclusive holder, the exclusive one for all */
		action = lock_action(call, regs);
		if (action == LOCK_TAKE_EXCLUSIVE || (action == LOCK_TAKE_SHARED && !nr))
			swap_name_lock(key, current, lock_type(call),
				       nr ? SIDE_SHARED : SIDE_EXCLUSIVE, regs->di);
		return 0;
	}
	if (nr)
		return 0;
	if (swap_is_transfer(call, &writes)) {
		file = file_of(current, regs->di);
		if (file)
			swap_name_file(key, file, writes, true);
		return 0;
	}
	switch (call) {
	case SYS_MSGSND:
		swap_name(key, SWAP_SYSV_MSG, SIDE_READS, 0, regs->di);
		break;
	case SYS_MSGRCV:
		swap_name(key, SWAP_SYSV_MSG, SIDE_WRITES, 0, regs->di);
		break;
	case SYS_SEMOP:
	case SYS_SEMTIMEDOP:
		swap_name(key, SWAP_SYSV_SEM, 0, 0, regs->di);
		break;
	case SYS_PAUSE:
	case SYS_RT_SIGSUSPEND:
	case SYS_RT_SIGTIMEDWAIT:
		swap_name(key, SWAP_SIGNAL, 0, 0, current->tgid);
		break;
	case SYS_WAIT4:
	case SYS_WAITID:
		/* a task that waits for children waits for any of them */
		swap_name(key, SWAP_CHILD, 0, current->tgid, 0);
		break;
	case SYS_FUTEX:
		switch (FUTEX_CMD(regs->si)) {
		case FUTEX_WAIT:
		case FUTEX_WAIT_BITSET:
		case FUTEX_WAIT_REQUEUE_PI:
		case FUTEX_LOCK_PI:
		case FUTEX_LOCK_PI2:
			swap_name_futex(key, current, regs);
			break;
		}
		break;
	}
	return 0;
}

/* Is what the current task, which blocks in this call, waits for of a type that counts? */
static __noinline bool swap_call_counts(struct task_struct *current, s64 call, struct pt_regs *regs)
{
	struct swap_key key;

	switch (call) {
	case SYS_SELECT:
	case SYS_PSELECT6:
	case SYS_POLL:
	case SYS_PPOLL:
	case SYS_EPOLL_WAIT:
	case SYS_EPOLL_PWAIT:
	case SYS_EPOLL_PWAIT2:
		return swap_type_counts(SWAP_POLL);
	}
	swap_name_wanted(&key, current, call, regs, 0);
	return key.kind;
}

#endif
