/* SPDX-License-Identifier: GPL-2.0-only */
/* errno.bpf.h - errors that callbacks return and functions of the kernel give, negated. */
#ifndef SCHEDLAB_ERRNO_BPF_H
#define SCHEDLAB_ERRNO_BPF_H

#ifndef EINVAL
#define EPERM 1
#define ENOENT 2
#define ESRCH 3
#define EINTR 4
#define EIO 5
#define ENXIO 6
#define E2BIG 7
#define EAGAIN 11
#define ENOMEM 12
#define EACCES 13
#define EFAULT 14
#define EBUSY 16
#define EEXIST 17
#define ENODEV 19
#define EINVAL 22
#define ENOSPC 28
#define EDOM 33
#define ERANGE 34
#define EDEADLK 35
#define ENOSYS 38
#define ENODATA 61
#define EPROTO 71
#define EOVERFLOW 75
#define EOPNOTSUPP 95
#define ETIMEDOUT 110
#define EALREADY 114
#endif

#endif
