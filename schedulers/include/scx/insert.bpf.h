/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * insert.bpf.h - handing tasks to the kernel and to this CPU, and setting slices: what every scheduler calls.
 *
 * The kernel has had them under several names. Which one is called is decided when the object is loaded: a function that the
 * kernel lacks is a weak symbol with address 0, and the verifier drops the branch. The part of a name after ___ is not
 * compared with the kernel's.
 */
#ifndef SCHEDLAB_INSERT_BPF_H
#define SCHEDLAB_INSERT_BPF_H

bool scx_bpf_dsq_insert___v2___new(struct task_struct *p, u64 dsq_id, u64 slice,
				   u64 enq_flags) __ksym __weak;
void scx_bpf_dsq_insert___mid(struct task_struct *p, u64 dsq_id, u64 slice,
			      u64 enq_flags) __ksym __weak;
void scx_bpf_dispatch___old(struct task_struct *p, u64 dsq_id, u64 slice,
			    u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local___v2___new(u64 dsq_id, u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local___mid(u64 dsq_id) __ksym __weak;
bool scx_bpf_consume___old(u64 dsq_id) __ksym __weak;
bool scx_bpf_task_set_slice___new(struct task_struct *p, u64 slice) __ksym __weak;

/*
 * Hands @p to the queue @dsq_id for a turn of @slice ns: 6.19 insert___v2, 6.13 insert, 6.12 dispatch. False where the kernel
 * refused, which it says from 6.19 on.
 */
static __always_inline bool scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v2___new))
		return scx_bpf_dsq_insert___v2___new(p, dsq_id, slice, enq_flags);
	if (bpf_ksym_exists(scx_bpf_dsq_insert___mid))
		scx_bpf_dsq_insert___mid(p, dsq_id, slice, enq_flags);
	else
		scx_bpf_dispatch___old(p, dsq_id, slice, enq_flags);
	return true;
}

/* In ops.dispatch(): moves the first task of a queue that may run here to this CPU's own; false when there is none. */
#define scx_bpf_dsq_move_to_local(dsq_id, enq_flags)                               \
	(bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2___new) ?                   \
		 scx_bpf_dsq_move_to_local___v2___new(dsq_id, enq_flags) :         \
	 bpf_ksym_exists(scx_bpf_dsq_move_to_local___mid) ?                        \
		 scx_bpf_dsq_move_to_local___mid(dsq_id) :                         \
		 scx_bpf_consume___old(dsq_id))

/* Sets what is left of @p's slice, in ns; older kernels let us write the member. */
static __always_inline void scx_bpf_task_set_slice(struct task_struct *p, u64 slice)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice___new))
		scx_bpf_task_set_slice___new(p, slice);
	else
		p->scx.slice = slice;
}

#endif
