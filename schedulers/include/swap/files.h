/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/files.h - from a descriptor of the current task to the objects behind it.
 *
 * Reading through untrusted pointers gives zeros where there is nothing, so a file
 * that another thread closes meanwhile is no danger, only a wrong guess.
 */
#ifndef SCHEDLAB_SWAP_FILES_H
#define SCHEDLAB_SWAP_FILES_H

#include "../compat.h"

#define S_IFMT 0170000
#define S_IFIFO 0010000
#define S_IFREG 0100000
#define S_IFSOCK 0140000
#define FMODE_READ 1
#define FMODE_WRITE 2
#define AF_UNIX 1
#define AF_INET 2
/* include/uapi/linux/magic.h */
#define ANON_INODE_FS_MAGIC 0x09041934
#define MQUEUE_MAGIC 0x19800202

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	unsigned int s_dev;
	unsigned long s_magic;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	unsigned int f_mode;
	struct path f_path;
	void *private_data;
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct sock_common {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	unsigned short skc_family;
};

struct socket;

struct sock {
	struct sock_common __sk_common;
	u16 sk_protocol;
	struct socket *sk_socket;
};

struct unix_sock {
	struct sock *peer;
};

struct socket {
	struct file *file;
	struct sock *sk;
};

struct rb_node {
	unsigned long __rb_parent_color;
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
};

struct eventpoll {
	struct rb_root_cached rbr;
};

struct epoll_filefd {
	struct file *file;
	int fd;
};

struct epitem {
	struct rb_node rbn;
	struct epoll_filefd ffd;
};

#pragma clang attribute pop

/* A kernel pointer read from memory, as one that can be followed. */
#define cast_kernel(pointer, type) \
	((type *)bpf_rdonly_cast((void *)(pointer), \
				 __builtin_btf_type_id(*(type *)0, BPF_TYPE_ID_TARGET)))

/* A pointer in kernel memory, as a number that the verifier does not guard. */
static __always_inline u64 read_address(const void *from)
{
	u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), from);
	return address;
}

/* Where the current task's file of this descriptor is, or 0. */
static __always_inline u64 file_address(struct task_struct *current, u32 fd)
{
	struct files_struct *files = current->files;
	struct fdtable *table;

	if (!files)
		return 0;
	table = files->fdt;
	if (!table || fd >= table->max_fds)
		return 0;
	return read_address(&table->fd[fd]);
}

/* The current task's file of this descriptor, or NULL. */
static __always_inline struct file *file_of(struct task_struct *current, u32 fd)
{
	u64 file = file_address(current, fd);

	return file ? cast_kernel(file, struct file) : NULL;
}

/*
 * What names a socket's endpoint among all: its inode or, as the other end of a
 * connection over IP is not linked to it, its addresses and ports.
 */
struct endpoint {
	u32 ports;	/* own, peer's; 0: a Unix socket */
	u64 what;
};

static __always_inline u16 swap_bytes(u16 x)
{
	return x >> 8 | x << 8;
}

/* Names the endpoint @sk, or the @other one that it is connected with; false: it is not known. */
static __always_inline bool endpoint_of(struct sock *sk, bool other, struct endpoint *to)
{
	struct socket *socket;
	u32 local, remote, here, there;

	if (sk->__sk_common.skc_family == AF_UNIX) {
		if (other)
			sk = cast_kernel(sk, struct unix_sock)->peer;
		if (!sk)
			return false;
		socket = sk->sk_socket;
		if (!socket || !socket->file)
			return false;
		to->ports = 0;
		to->what = socket->file->f_inode->i_ino;
		return true;
	}
	if (sk->__sk_common.skc_family != AF_INET)
		return false;
	local = sk->__sk_common.skc_num;
	remote = swap_bytes(sk->__sk_common.skc_dport);
	here = sk->__sk_common.skc_rcv_saddr;
	there = sk->__sk_common.skc_daddr;
	/* within the machine: 127.x.y.z, or both addresses the same */
	if (!remote || (here != there && (there & 0xff) != 127))
		return false;
	to->ports = other ? remote << 16 | local : local << 16 | remote;
	to->what = other ? (u64)there << 32 | here : (u64)here << 32 | there;
	return true;
}

#endif
