//! The types of the simulated kernel, as text for [`super::reader::Reader`].
//!
//! Names and meanings are those of Linux 7.3; the layout is our own, and only members that have a value here exist. An
//! object that reads another one finds out through CO-RE, as on a kernel that lacks it. Members that are always zero
//! are marked.

/// Base names, and the structs that stand for kernel objects.
pub(super) const TYPES: &str = "
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
typedef _Bool bool;
typedef unsigned long size_t;
typedef long ssize_t;
typedef unsigned short umode_t;
typedef int pid_t;
typedef long ktime_t;
typedef struct { int counter; } atomic_t;
typedef struct { s64 counter; } atomic64_t;
typedef atomic64_t atomic_long_t;
typedef struct refcount_struct { atomic_t refs; } refcount_t;
typedef struct { void *lock; } class_rcu_t;
typedef struct { u32 val; } kuid_t;
typedef struct { u32 val; } kgid_t;
typedef struct { unsigned long bits[1]; } nodemask_t;

struct list_head { struct list_head *next; struct list_head *prev; };
struct cpumask { unsigned long bits[64]; };
typedef struct cpumask cpumask_t;
struct bpf_cpumask { cpumask_t cpumask; refcount_t usage; };

struct pt_regs {
    unsigned long r15; unsigned long r14; unsigned long r13; unsigned long r12;
    unsigned long bp; unsigned long bx; unsigned long r11; unsigned long r10;
    unsigned long r9; unsigned long r8; unsigned long ax; unsigned long cx;
    unsigned long dx; unsigned long si; unsigned long di; unsigned long orig_ax;
    unsigned long ip; unsigned long cs; unsigned long flags; unsigned long sp; unsigned long ss;
};

struct thread_info { unsigned long flags; u32 status; u32 cpu; };
struct load_weight { unsigned long weight; u32 inv_weight; };
struct sched_avg { u64 last_update_time; unsigned long load_avg; unsigned long runnable_avg; unsigned long util_avg; };
struct sched_entity {
    u64 exec_start; u64 nr_migrations; unsigned char on_rq; unsigned char sched_delayed;
    u64 prev_sum_exec_runtime; u64 vruntime;
    struct load_weight load;
    u64 deadline; s64 vlag; u64 slice;
    int depth; struct sched_entity *parent;
    struct sched_avg avg;
    u64 sum_exec_runtime;
};
struct sched_rt_entity { unsigned int time_slice; unsigned short on_rq; };
struct sched_info { unsigned long pcount; u64 run_delay; u64 last_arrival; u64 last_queued; };

struct scx_dispatch_q { u32 nr; u64 id; };
struct sched_ext_entity {
    u64 slice; u64 dsq_vtime;
    u32 flags; u32 weight;
    u64 tid;
    s32 selected_cpu; s32 runnable_cpu;
    atomic_long_t ops_state;
    unsigned long runnable_at;
    s32 sticky_cpu; s32 holding_cpu;
    bool disallow;
    u64 ddsp_dsq_id; u64 ddsp_enq_flags;
};

struct upid { int nr; void *ns; };
struct pid { refcount_t count; unsigned int level; struct upid numbers[1]; };
struct cred { atomic_long_t usage; kuid_t uid; kgid_t gid; kuid_t suid; kgid_t sgid; kuid_t euid; kgid_t egid; kuid_t fsuid; kgid_t fsgid; };
struct signal_struct { refcount_t sigcnt; atomic_t live; int nr_threads; int group_exit_code; unsigned int flags; struct pid *pids[4]; };
struct mm_struct { atomic_t mm_count; atomic_t mm_users; struct task_struct *owner; unsigned long total_vm; };

struct kernfs_node { u64 id; const char *name; struct kernfs_node *__parent; };
struct cgroup_subsys_state { struct cgroup *cgroup; int id; unsigned int flags; u64 serial_nr; struct cgroup_subsys_state *parent; };
struct scx_task_group { u32 flags; u32 weight; u64 bw_period_us; u64 bw_quota_us; u64 bw_burst_us; bool idle; };
struct task_group { struct cgroup_subsys_state css; int idle; unsigned long shares; struct scx_task_group scx; };
struct cgroup {
    struct cgroup_subsys_state self; unsigned long flags; int level; int max_depth; int nr_descendants;
    struct kernfs_node *kn; struct cgroup_subsys_state *subsys[16]; struct cgroup *ancestors[1];
};
struct css_set { struct cgroup_subsys_state *subsys[16]; struct cgroup *dfl_cgrp; };

struct super_block { unsigned int s_dev; unsigned long s_magic; };
struct file_operations { void *owner; };
struct pipe_inode_info { unsigned int readers; unsigned int writers; };
struct inode {
    umode_t i_mode; kuid_t i_uid; struct super_block *i_sb; unsigned long i_ino; struct pipe_inode_info *i_pipe;
};
struct file {
    unsigned int f_mode; const struct file_operations *f_op; void *private_data; struct inode *f_inode;
    unsigned int f_flags;
};
struct fdtable { unsigned int max_fds; struct file **fd; };
struct files_struct { atomic_t count; struct fdtable *fdt; };
struct sock_common {
    __u32 skc_daddr; __u32 skc_rcv_saddr; __u16 skc_dport; __u16 skc_num;
    unsigned short skc_family; unsigned char skc_state;
};
struct sock { struct sock_common __sk_common; u16 sk_type; u16 sk_protocol; struct socket *sk_socket; };
struct unix_sock { struct sock sk; struct sock *peer; };
struct socket { unsigned int state; short type; unsigned long flags; struct file *file; struct sock *sk; };
struct rb_node { unsigned long __rb_parent_color; struct rb_node *rb_right; struct rb_node *rb_left; };
struct rb_root { struct rb_node *rb_node; };
struct rb_root_cached { struct rb_root rb_root; struct rb_node *rb_leftmost; };
struct eventpoll { struct rb_root_cached rbr; struct file *file; };
struct epoll_filefd { struct file *file; int fd; };
struct epitem { struct rb_node rbn; struct epoll_filefd ffd; struct eventpoll *ep; };

struct mempolicy { atomic_t refcnt; unsigned short mode; unsigned short flags; nodemask_t nodes; int home_node; };

struct task_struct {
    struct sched_entity se;
    struct thread_info thread_info;
    unsigned int __state; unsigned int flags;
    pid_t pid; pid_t tgid;
    u8 on_cpu; u8 on_rq; u8 is_blocked; u8 __pad;
    int recent_used_cpu; int wake_cpu;
    unsigned short migration_disabled; unsigned short migration_flags;
    int exit_state;
    struct sched_ext_entity scx;
    int prio; int static_prio; int normal_prio; unsigned int rt_priority; unsigned int policy;
    int nr_cpus_allowed;
    const cpumask_t *cpus_ptr; cpumask_t *user_cpus_ptr;
    struct mm_struct *mm; struct mm_struct *active_mm;
    cpumask_t cpus_mask;
    u64 stime;
    u64 start_time; u64 start_boottime;
    struct task_struct *real_parent; struct task_struct *parent; struct task_struct *group_leader;
    struct task_struct *last_wakee; unsigned int wakee_flips;
    struct pid *thread_pid;
    struct signal_struct *signal;
    const struct cred *real_cred; const struct cred *cred;
    struct css_set *cgroups;
    struct task_group *sched_task_group;
    struct sched_rt_entity rt;
    struct sched_info sched_info;
    int exit_code; int exit_signal; int rcu_read_lock_nesting;
    unsigned int in_execve : 1; unsigned int in_iowait : 1; unsigned int sched_reset_on_fork : 1; unsigned int frozen : 1;
    void *stack;
    struct files_struct *files;
    char comm[16];
    unsigned long nvcsw; unsigned long nivcsw; u64 utime;
    struct mempolicy *mempolicy;
};

struct scx_rq {
    struct scx_dispatch_q local_dsq;
    u32 nr_running; u32 cpuperf_target; bool cpu_released; u32 flags; u64 clock;
};
struct rq {
    unsigned int nr_running; int cpu; int online;
    unsigned long cpu_capacity;
    union { struct task_struct *donor; struct task_struct *curr; };
    struct task_struct *idle; struct task_struct *stop;
    u64 nr_switches; u64 clock; u64 clock_task; u64 clock_pelt; u64 lost_idle_time;
    struct scx_rq scx;
};

struct cpufreq_cpuinfo { unsigned int max_freq; unsigned int min_freq; unsigned int transition_latency; };
struct cpufreq_policy {
    unsigned int cpu; struct cpufreq_cpuinfo cpuinfo; unsigned int min; unsigned int max; unsigned int cur;
};

struct linux_binprm { const char *filename; int argc; };
";

/// The interface of sched_ext: arguments of callbacks and kernel functions, and the callback tables.
pub(super) const SCX_TYPES: [&str; 3] = [SCX_ARGUMENTS, crate::callbacks::STRUCTS, SCX_VALUES];

const SCX_ARGUMENTS: &str = "
struct scx_init_task_args { bool fork; struct cgroup *cgroup; };
struct scx_exit_task_args { bool cancelled; };
struct scx_enable_args { u64 cmask_arena_addr; };
struct scx_cpu_acquire_args { };
struct scx_cpu_release_args { enum scx_cpu_preempt_reason reason; struct task_struct *task; };
struct scx_exit_info {
    enum scx_exit_kind kind; s32 exit_cpu; s64 exit_code; u64 flags; const char *reason;
    unsigned long *bt; u32 bt_len; char *msg; char *dump;
};
struct scx_dump_ctx { enum scx_exit_kind kind; s64 exit_code; const char *reason; u64 at_ns; u64 at_jiffies; };
struct scx_cgroup_init_args { u32 weight; u64 bw_period_us; u64 bw_quota_us; u64 bw_burst_us; bool sched_idle; };
struct scx_cid_topo {
    s32 core_cid; s32 core_idx; s32 llc_cid; s32 llc_idx; s32 node_cid; s32 node_idx; s32 shard_cid; s32 shard_idx;
};
struct scx_cmask { u32 base; u32 nr_cids; u32 alloc_words; u64 bits[0]; };
struct scx_sub_attach_args { struct sched_ext_ops *ops; char *cgroup_path; };
struct scx_sub_detach_args { struct sched_ext_ops *ops; char *cgroup_path; };
struct scx_bpf_dsq_insert_vtime_args { u64 dsq_id; u64 slice; u64 vtime; u64 enq_flags; };
struct scx_bpf_select_cpu_and_args { s32 prev_cpu; u64 wake_flags; u64 flags; };
struct scx_event_stats {
    s64 SCX_EV_SELECT_CPU_FALLBACK; s64 SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE; s64 SCX_EV_DISPATCH_KEEP_LAST;
    s64 SCX_EV_ENQ_SKIP_EXITING; s64 SCX_EV_ENQ_SKIP_MIGRATION_DISABLED; s64 SCX_EV_REENQ_IMMED;
    s64 SCX_EV_REENQ_REPEAT; s64 SCX_EV_REFILL_SLICE_DFL; s64 SCX_EV_SLICE_CLAMPED; s64 SCX_EV_SLICE_DENIED;
    s64 SCX_EV_BYPASS_DURATION; s64 SCX_EV_BYPASS_DISPATCH; s64 SCX_EV_BYPASS_ACTIVATE; s64 SCX_EV_INSERT_NOT_OWNED;
    s64 SCX_EV_SUB_BYPASS_DISPATCH; s64 SCX_EV_SUB_FORCED_ADMIT; s64 SCX_EV_SUB_PREEMPT_DENIED;
    s64 SCX_EV_SUB_KICK_DENIED; s64 SCX_EV_SUB_REENQ_DENIED; s64 SCX_EV_SUB_CIDPERF_DENIED; s64 SCX_EV_SUB_RESCUE;
};
struct bpf_iter_scx_dsq { u64 __opaque[6]; };
struct bpf_iter_css { u64 __opaque[3]; };
struct bpf_iter_num { u64 __opaque[1]; };
struct bpf_iter_task { u64 __opaque[3]; };
struct bpf_iter_bits { u64 __opaque[2]; };
struct bpf_spin_lock { u32 val; };
struct bpf_res_spin_lock { u32 val; };
struct bpf_timer { u64 __opaque[2]; };
struct bpf_refcount { u32 __opaque[1]; };
struct bpf_list_head { u64 __opaque[2]; };
struct bpf_list_node { u64 __opaque[3]; };
struct bpf_rb_root { u64 __opaque[2]; };
struct bpf_rb_node { u64 __opaque[4]; };

";

const SCX_VALUES: &str = "\
struct bpf_struct_ops_common_value { refcount_t refcnt; int state; };
struct bpf_struct_ops_sched_ext_ops { struct bpf_struct_ops_common_value common; struct sched_ext_ops data; };
struct bpf_struct_ops_sched_ext_ops_cid { struct bpf_struct_ops_common_value common; struct sched_ext_ops_cid data; };
";

/// Trace points with typed arguments, functions that objects hook to learn of the scheduler's registration, and places that
/// nothing here reaches.
pub(super) const TRACE_POINTS: &str = "
typedef void (*btf_trace_sched_switch)(void *data, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state);
typedef void (*btf_trace_sched_waking)(void *data, struct task_struct *p);
typedef void (*btf_trace_sched_wakeup)(void *data, struct task_struct *p);
typedef void (*btf_trace_sched_wakeup_new)(void *data, struct task_struct *p);
typedef void (*btf_trace_sched_migrate_task)(void *data, struct task_struct *p, int dest_cpu);
typedef void (*btf_trace_sched_process_fork)(void *data, struct task_struct *parent, struct task_struct *child);
typedef void (*btf_trace_sched_process_exec)(void *data, struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm);
typedef void (*btf_trace_sched_process_exit)(void *data, struct task_struct *p, bool group_dead);
typedef void (*btf_trace_sys_enter)(void *data, struct pt_regs *regs, long id);
typedef void (*btf_trace_sys_exit)(void *data, struct pt_regs *regs, long ret);
int bpf_scx_reg(void *kdata, void *link);
void bpf_scx_unreg(void *kdata, void *link);
typedef void (*btf_trace_task_rename)(void *data, struct task_struct *task, const char *comm);
typedef void (*btf_trace_cgroup_mkdir)(void *data, struct cgroup *cgrp, const char *path);
typedef void (*btf_trace_cgroup_rmdir)(void *data, struct cgroup *cgrp, const char *path);
typedef void (*btf_trace_cgroup_release)(void *data, struct cgroup *cgrp, const char *path);
typedef void (*btf_trace_cgroup_rename)(void *data, struct cgroup *cgrp, const char *path);
typedef void (*btf_trace_cgroup_freeze)(void *data, struct cgroup *cgrp, const char *path);
typedef void (*btf_trace_cgroup_unfreeze)(void *data, struct cgroup *cgrp, const char *path);
typedef void (*btf_trace_cgroup_attach_task)(void *data, struct cgroup *dst_cgrp, const char *path, struct task_struct *task, bool threadgroup);
typedef void (*btf_trace_cgroup_transfer_tasks)(void *data, struct cgroup *dst_cgrp, const char *path, struct task_struct *task, bool threadgroup);
typedef void (*btf_trace_irq_handler_entry)(void *data, int irq, struct irqaction *action);
typedef void (*btf_trace_irq_handler_exit)(void *data, int irq, struct irqaction *action, int ret);
typedef void (*btf_trace_softirq_entry)(void *data, unsigned int vec_nr);
typedef void (*btf_trace_softirq_exit)(void *data, unsigned int vec_nr);
typedef void (*btf_trace_softirq_raise)(void *data, unsigned int vec_nr);
long cpuset_write_resmask(void *of, char *buf, u64 nbytes, s64 off);
";

/// Functions by whose presence loaders know what the kernel can do: that it has `ops.cgroup_set_bandwidth()`, and that a program of
/// that callback may sleep.
pub(super) const MARKERS: &str = "
void scx_group_set_bandwidth(struct task_group *tg, u64 period_us, u64 quota_us, u64 burst_us);
void scx_compat_marker_cgroup_set_bandwidth_may_sleep(void);
";

/// Functions that are not of sched_ext, as loaders look them up.
pub(super) const GENERIC_FUNCTIONS: &str = "
void *bpf_arena_alloc_pages(void *p__map, void *addr__ign, u32 page_cnt, int node_id, u64 flags);
void bpf_arena_free_pages(void *p__map, void *ptr__ign, u32 page_cnt);
int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end);
int *bpf_iter_num_next(struct bpf_iter_num *it);
void bpf_iter_num_destroy(struct bpf_iter_num *it);
void *bpf_rdonly_cast(const void *obj__ign, u32 btf_id__k);
void *bpf_cast_to_kern_ctx(void *obj);
void bpf_local_irq_save(unsigned long *flags__irq_flag);
void bpf_local_irq_restore(unsigned long *flags__irq_flag);
void bpf_rcu_read_lock(void);
void bpf_rcu_read_unlock(void);
void bpf_preempt_disable(void);
void bpf_preempt_enable(void);
int bpf_res_spin_lock(struct bpf_res_spin_lock *lock);
void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock);
int bpf_res_spin_lock_irqsave(struct bpf_res_spin_lock *lock, unsigned long *flags__irq_flag);
void bpf_res_spin_unlock_irqrestore(struct bpf_res_spin_lock *lock, unsigned long *flags__irq_flag);
void *bpf_obj_new_impl(u64 local_type_id__k, void *meta__ign);
void *bpf_obj_new(u64 local_type_id__k);
void *bpf_percpu_obj_new_impl(u64 local_type_id__k, void *meta__ign);
void *bpf_percpu_obj_new(u64 local_type_id__k);
void bpf_obj_drop_impl(void *p__alloc, void *meta__ign);
void bpf_obj_drop(void *p__alloc);
void bpf_percpu_obj_drop_impl(void *p__alloc, void *meta__ign);
void bpf_percpu_obj_drop(void *p__alloc);
void *bpf_refcount_acquire_impl(void *p__refcounted_kptr, void *meta__ign);
void *bpf_refcount_acquire(void *p__refcounted_kptr);
int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node, bool (*less)(struct bpf_rb_node *a, const struct bpf_rb_node *b), void *meta__ign, u64 off);
int bpf_rbtree_add(struct bpf_rb_root *root, struct bpf_rb_node *node, bool (*less)(struct bpf_rb_node *a, const struct bpf_rb_node *b));
struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root, struct bpf_rb_node *node);
struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root);
int bpf_list_push_front_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta__ign, u64 off);
int bpf_list_push_front(struct bpf_list_head *head, struct bpf_list_node *node);
int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta__ign, u64 off);
int bpf_list_push_back(struct bpf_list_head *head, struct bpf_list_node *node);
struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head);
struct bpf_list_node *bpf_list_pop_back(struct bpf_list_head *head);
struct bpf_list_node *bpf_list_front(struct bpf_list_head *head);
struct bpf_list_node *bpf_list_back(struct bpf_list_head *head);
struct bpf_list_node *bpf_list_del(struct bpf_list_head *head, struct bpf_list_node *node);
bool bpf_list_empty(struct bpf_list_head *head);
bool bpf_list_is_first(struct bpf_list_head *head, struct bpf_list_node *node);
bool bpf_list_is_last(struct bpf_list_head *head, struct bpf_list_node *node);
int bpf_list_add(struct bpf_list_head *head, struct bpf_list_node *node, struct bpf_list_node *prev);
struct bpf_rb_node *bpf_rbtree_root(struct bpf_rb_root *root);
struct bpf_rb_node *bpf_rbtree_left(struct bpf_rb_root *root, struct bpf_rb_node *node);
struct bpf_rb_node *bpf_rbtree_right(struct bpf_rb_root *root, struct bpf_rb_node *node);
";
