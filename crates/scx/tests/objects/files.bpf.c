/* Follows the arguments of system calls to what they are about: files, peers, user memory. */
#define MORE_OPS .quiescent = (void *)lab_quiescent,
#include "lab.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct super_block {
	unsigned long s_magic;
};
struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
	struct super_block *i_sb;
};
struct file {
	struct inode *f_inode;
	void *private_data;
	unsigned int f_mode;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
struct sock_common {
	unsigned short skc_family;
	unsigned short skc_num;
	unsigned short skc_dport;
};
struct sock {
	struct sock_common __sk_common;
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
	struct rb_node *rb_right;
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
struct task_struct___files {
	struct files_struct *files;
};
struct pt_regs___all {
	unsigned long si;
	unsigned long dx;
	unsigned long ax;
};
#pragma clang attribute pop

static long (*const probe_read_kernel)(void *dst, u32 size, const void *src) = (void *)113;
static long (*const probe_read_user)(void *dst, u32 size, const void *src) = (void *)112;

/* What was found at the last call of a number: the inode, the peer's or the content of user memory. */
u64 nr_fifo;
u64 nr_sockets;
u64 nr_regular;
u64 nr_epoll_items;
u64 first_inode;
u64 last_inode;
u64 last_peer;
u64 last_magic;
u64 last_mode;
u64 last_ports;
u64 last_private;
u64 last_user;
u64 last_ret;
u64 last_nr;
u64 last_si;
u64 blocked_di;
u64 files_of_others;

static struct file *file_of(struct task_struct *p, u64 fd)
{
	struct files_struct *files = ((struct task_struct___files *)p)->files;
	struct file *file = NULL;

	if (!files || fd >= files->fdt->max_fds)
		return NULL;
	probe_read_kernel(&file, sizeof(file), &files->fdt->fd[fd]);
	return file;
}

static void look_at_socket(struct file *file)
{
	struct socket *socket = file->private_data;
	struct sock *sk = socket->sk;

	nr_sockets++;
	if (socket->file != file || sk->sk_socket != socket)
		return;
	if (sk->__sk_common.skc_family == 1) {
		struct sock *peer = ((struct unix_sock *)sk)->peer;

		last_peer = peer->sk_socket->file->f_inode->i_ino;
	} else {
		last_ports = sk->__sk_common.skc_num | (u32)sk->__sk_common.skc_dport << 16;
	}
}

static void look_at_epoll(struct file *file)
{
	struct eventpoll *ep = file->private_data;
	struct rb_node *node = ep->rbr.rb_root.rb_node;

	for (int i = 0; i < 4 && node; i++) {
		struct epitem *item = (void *)node;

		nr_epoll_items++;
		last_peer = item->ffd.file->f_inode->i_ino;
		node = node->rb_right;
	}
}

SEC("tp_btf/sys_enter") int watch_enter(u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	struct pt_regs___all *all = (void *)regs;
	struct task_struct *p = current_task();
	u32 user = 0;

	last_nr = ctx[1];
	last_si = all->si;
	if (ctx[1] == 202 || ctx[1] == 7)
		probe_read_user(&user, 4, (void *)regs->di);
	else if (ctx[1] == 72)
		probe_read_user(&user, 2, (void *)all->dx);
	else if (ctx[1] == 65)
		probe_read_user(&user, 4, (void *)all->si);
	if (user)
		last_user = user;
	/* read write poll sendto recvfrom fcntl flock mq_timedsend mq_timedreceive epoll_wait */
	if (ctx[1] != 0 && ctx[1] != 1 && ctx[1] != 44 && ctx[1] != 45 && ctx[1] != 72 && ctx[1] != 73 &&
	    ctx[1] != 232 && ctx[1] != 242 && ctx[1] != 243)
		return 0;
	struct file *file = file_of(p, regs->di);
	if (!file)
		return 0;
	last_inode = file->f_inode->i_ino;
	if (!first_inode)
		first_inode = last_inode;
	last_magic = file->f_inode->i_sb->s_magic;
	last_mode = file->f_mode;
	last_private = (u64)file->private_data;
	if (ctx[1] == 232)
		look_at_epoll(file);
	switch (file->f_inode->i_mode & 0170000) {
	case 0010000:
		nr_fifo++;
		break;
	case 0140000:
		look_at_socket(file);
		break;
	case 0100000:
		nr_regular++;
		break;
	}
	return 0;
}

SEC("tp_btf/sys_exit") int watch_exit(u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	struct pt_regs___all *all = (void *)regs;

	if (regs->orig_ax == last_nr && all->ax == ctx[1])
		last_ret = ctx[1];
	return 0;
}

/* A blocked task shows the call that it is in. */
SEC("struct_ops/lab_quiescent") void lab_quiescent(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct pt_regs *regs = (void *)task_pt_regs(p);

	if ((ctx[1] & 1) && regs->orig_ax != 230 && regs->orig_ax != 231)
		blocked_di = regs->di;
	if (!((struct task_struct___files *)p)->files)
		files_of_others++;
}
SCHEDULER
