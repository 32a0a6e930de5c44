//! Questions about cgroups: asked while a task moves in a small tree of groups, and while the groups change.
//!
//! Every callback about groups is a site of its own, and so are some about tasks. One more site, `order`, has all of them at
//! once and keeps the order in which they are called.

use schedlab_workload::Scenario;

use super::calls::{question, rows};
use super::{Question, Shape, Site};

/// Calls that a site about groups keeps: all that the script makes.
pub(super) const SHAPE: Shape = Shape { phases: 128, calls: 1 };

/// A tree of three levels that the watched task makes, moves in, writes to, and removes: all of it under the scheduler. A group
/// that is removed leaves the scheduler two grace periods later, so the task sleeps until that is over.
const SCRIPT: &str = r#"
name = "watched"
end = "all-exit"
[[groups]]
name = "a"
cpu_weight = 300
later = true
[[groups]]
name = "a/b"
cpu_max = "50ms/100ms"
cpu_max_burst = "10ms"
later = true
[[groups]]
name = "a/b/c"
cpu_idle = true
later = true
[[groups]]
name = "a/e"
later = true
[[groups]]
name = "d"
later = true
[[groups]]
name = "late"
cpu_weight = 7
cpu_max = "2ms/10ms"
later = true
[programs]
watched = [
  "cpus self 0", "sleep 5ms",
  "cgroup a make", "cgroup d make", "cgroup a/b make", "cgroup a/e make", "cgroup a/b/c make",
  "group self a/e", "group zzb d", "sleep 5ms",
  "nice self 1", "run 1ms", "group self d", "run 1ms", "sleep 5ms",
  "nice self 2", "group self a/b/c", "run 1ms", "group self a/b/c", "run 1ms",
  "nice self 3", "group zzb a/b/c", "run 1ms", "group zzb d", "run 1ms",
  "nice self 4", "cgroup d weight 400", "cgroup d weight 400", "cgroup a weight 100", "run 1ms",
  "nice self 5", "cgroup d max 5ms/20ms", "cgroup d burst 1ms", "cgroup d max max", "run 1ms",
  "nice self 6", "cgroup d idle 1", "cgroup d weight 50", "cgroup d idle 0", "cgroup d weight 400", "run 1ms",
  "nice self 7", "cgroup late make", "group self late", "run 1ms", "sleep 5ms",
  "nice self 8", "group self /", "cgroup late remove", "run 1ms", "sleep 300ms",
  "nice self 9", "group self a/e", "fork child", "wait-child", "run 1ms", "sleep 5ms",
  "nice self 10", "cgroup late make", "cgroup d nice -5", "run 1ms",
  "nice self 11", "cgroup late remove", "run 1ms", "sleep 300ms", "cgroup late make", "run 1ms",
  "group self /", "group zzb /", "cgroup late remove", "sleep 300ms", "cgroup a/b/c remove", "sleep 300ms",
  "cgroup a/e remove", "sleep 300ms",
]
child = ["run 1ms"]
partner = ["sleep 4s"]
[[tasks]]
name = "zza"
program = "watched"
[[tasks]]
name = "zzb"
program = "partner"
cpus = [1]
"#;

/// A tree that is there before the scheduler attaches, and after it has left.
const STANDING: &str = r#"
name = "watched"
end = "all-exit"
[[groups]]
name = "a"
cpu_weight = 300
[[groups]]
name = "a/b"
cpu_max = "50ms/100ms"
cpu_max_burst = "10ms"
[[groups]]
name = "d"
[[groups]]
name = "a/b/c"
cpu_idle = true
[[groups]]
name = "a/e"
cpu_weight_nice = 5
[[groups]]
name = "d/f"
cpu_max = "20ms/20ms"
[programs]
watched = [
  "cpus self 0", "sleep 5ms",
  "nice self 1", "group self a/b/c", "run 1ms", "sleep 5ms",
  "nice self 2", "group self d/f", "run 1ms", "group self /", "sleep 5ms",
]
[[tasks]]
name = "zza"
program = "watched"
"#;

/// What a sheet is asked under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Phases of one task, in the root group.
    Phases,
    /// A tree that comes and goes under the scheduler.
    Tree,
    /// A tree that the scheduler meets.
    Standing,
}

/// A script with groups as a workload.
pub(super) fn script(script: Script) -> Scenario {
    let text = if script == Script::Standing { STANDING } else { SCRIPT };
    schedlab_workload::file::parse(text, "tree").expect("the script is a workload")
}

/// Declarations behind those of all objects.
pub(super) const PRELUDE: &str = r#"
static u64 (*const bpf_get_current_cgroup_id)(void) = (void *)80;
static u64 (*const bpf_get_current_ancestor_cgroup_id)(int) = (void *)123;
static void *(*const bpf_cgrp_storage_get)(void *, struct cgroup *, void *, u64) = (void *)210;
static long (*const bpf_cgrp_storage_delete)(void *, struct cgroup *) = (void *)211;
int bpf_iter_css_new(struct bpf_iter_css *it, struct cgroup_subsys_state *start, u32 flags) __attribute__((section(".ksyms"), weak));
struct cgroup_subsys_state *bpf_iter_css_next(struct bpf_iter_css *it) __attribute__((section(".ksyms"), weak));
void bpf_iter_css_destroy(struct bpf_iter_css *it) __attribute__((section(".ksyms"), weak));
u64 newest;
struct { __uint(type, 32); __uint(map_flags, 1); __type(key, int); __type(value, u64); } gs SEC(".maps");
/* The first bytes of a group's name, as a number. */
#define NAME(group) ({ u64 bits = 0; const char *at = (group)->kn->name; bpf_probe_read_kernel_str(&bits, 8, at); bits; })
/* What is found of the group with this number, -1000 if there is none; the group is held meanwhile. */
#define HELD(number, what) ({ struct cgroup *c = bpf_cgroup_from_id(number); s64 found = -1000; \
	if (c) { found = (what); bpf_cgroup_release(c); } found; })
/* One digit for each group of a walk, its level and one more, behind the result of the walk's start. */
#define WALK(from, order) ({ struct bpf_iter_css it; struct cgroup_subsys_state *css; \
	s64 n = bpf_iter_css_new(&it, from, order); \
	while ((css = bpf_iter_css_next(&it))) n = n * 10 + css->cgroup->level + 1; bpf_iter_css_destroy(&it); n; })
static inline __attribute__((always_inline)) struct answer *next_page(void)
{
	u32 at = __sync_fetch_and_add(&calls[0], 1);

	if (at >= PHASES)
		return NULL;
	asm volatile("" : "+r"(at));
	return &answers[(at & (PAGES - 1)) * QUESTIONS];
}
"#;

/// Asked of `cg`, the group of the callback or of its task.
const OF_GROUP: &str = r#"
group name | NAME(cg)
group level | cg->level
group members | cg->nr_descendants * 1000 + (u64)cg->max_depth % 1000
group ancestor 0 name | NAME(cg->ancestors[0])
group id | ({ s64 v = cg->kn->id > newest; if (v) newest = cg->kn->id; v * 2 + (cg->kn->id >> 32); })
group parent | ({ struct cgroup_subsys_state *s = cg->self.parent; s ? s->cgroup->level : -1; })
from_id own | HELD(cg->kn->id, c->level)
from_id is the group | HELD(cg->kn->id, c == cg)
from_id 0 | HELD(0, c->level)
from_id -1 | HELD(-1ull, c->level)
acquire | HELD(cg->kn->id, ({ struct cgroup *o = bpf_cgroup_acquire(c); s64 v = o == c; if (o) bpf_cgroup_release(o); v; }))
ancestor 0 | HELD(cg->kn->id, ({ struct cgroup *o = bpf_cgroup_ancestor(c, 0); s64 v = -1; if (o) { v = o->level; bpf_cgroup_release(o); } v; }))
ancestor 1 name | HELD(cg->kn->id, ({ struct cgroup *o = bpf_cgroup_ancestor(c, 1); s64 v = -1; if (o) { v = NAME(o); bpf_cgroup_release(o); } v; }))
ancestor own level | HELD(cg->kn->id, ({ struct cgroup *o = bpf_cgroup_ancestor(c, c->level); s64 v = -1; if (o) { v = o == c; bpf_cgroup_release(o); } v; }))
ancestor below | HELD(cg->kn->id, ({ struct cgroup *o = bpf_cgroup_ancestor(c, c->level + 1); s64 v = -1; if (o) { v = o->level; bpf_cgroup_release(o); } v; }))
ancestor -1 | HELD(cg->kn->id, ({ struct cgroup *o = bpf_cgroup_ancestor(c, -1); s64 v = -1; if (o) { v = o->level; bpf_cgroup_release(o); } v; }))
ancestor far | HELD(cg->kn->id, ({ struct cgroup *o = bpf_cgroup_ancestor(c, 1000); s64 v = -1; if (o) { v = o->level; bpf_cgroup_release(o); } v; }))
walk before | HELD(1, WALK(&c->self, 2))
walk after | HELD(1, WALK(&c->self, 3))
walk up | HELD(cg->kn->id, WALK(&c->self, 4))
walk children | HELD(1, WALK(&c->self, 5))
walk own before | HELD(cg->kn->id, WALK(&c->self, 2))
walk own after | HELD(cg->kn->id, WALK(&c->self, 3))
walk own children | HELD(cg->kn->id, WALK(&c->self, 5))
walk order 0 | HELD(1, WALK(&c->self, 0))
walk order 1 | HELD(1, WALK(&c->self, 1))
walk order 6 | HELD(1, WALK(&c->self, 6))
walk order far | HELD(1, WALK(&c->self, 1 << 31))
storage miss | HELD(cg->kn->id, bpf_cgrp_storage_get(&gs, c, 0, 0) != 0)
storage create | HELD(cg->kn->id, ({ u64 v = 9, *s = bpf_cgrp_storage_get(&gs, c, &v, 1); s64 r = s ? *s : -1; bpf_cgrp_storage_delete(&gs, c); r; }))
storage create zero | HELD(cg->kn->id, ({ u64 *s = bpf_cgrp_storage_get(&gs, c, 0, 1); s64 r = s ? *s : -1; bpf_cgrp_storage_delete(&gs, c); r; }))
storage flags 2 | HELD(cg->kn->id, ({ u64 v = 9; bpf_cgrp_storage_get(&gs, c, &v, 2) != 0; }))
storage delete | HELD(cg->kn->id, ({ bpf_cgrp_storage_get(&gs, c, 0, 1); bpf_cgrp_storage_delete(&gs, c); }))
storage delete miss | HELD(cg->kn->id, ({ bpf_cgrp_storage_delete(&gs, c); bpf_cgrp_storage_delete(&gs, c); }))
current under root | HELD(1, bpf_task_under_cgroup(bpf_get_current_task_btf(), c))
current ancestor 9 | bpf_get_current_ancestor_cgroup_id(9)
current ancestor -1 | bpf_get_current_ancestor_cgroup_id(-1)
current ancestor 0 | bpf_get_current_ancestor_cgroup_id(0)
"#;

/// Asked of the site's task besides.
const OF_TASK: &str = r#"
under own | HELD(cg->kn->id, bpf_task_under_cgroup(p, c))
under root | HELD(1, bpf_task_under_cgroup(p, c))
"#;

/// Asked of the running task, which is the site's while its callback runs on its own behalf.
const OF_CURRENT: &str = r#"
current is p | bpf_get_current_task_btf() == p
current id is p's | bpf_get_current_cgroup_id() == cg->kn->id
current group name | HELD(bpf_get_current_cgroup_id(), NAME(c))
current ancestor 1 name | HELD(bpf_get_current_ancestor_cgroup_id(1), NAME(c))
current ancestor 2 name | HELD(bpf_get_current_ancestor_cgroup_id(2), NAME(c))
"#;

/// `scx_bpf_task_cgroup()`, where the kernel lets the callback ask about its task.
const OF_OWN_TASK: &str = r#"
task_cgroup name | ({ struct cgroup *c = scx_bpf_task_cgroup(p); s64 v = NAME(c); bpf_cgroup_release(c); v; })
task_cgroup is p's | ({ struct cgroup *c = scx_bpf_task_cgroup(p); s64 v = c->kn->id == cg->kn->id; bpf_cgroup_release(c); v; })
"#;

/// Callbacks about tasks that are asked in the tree.
pub(super) const TASK_SITES: [&str; 9] = [
    "select_cpu",
    "enqueue",
    "runnable",
    "running",
    "stopping",
    "quiescent",
    "init_task",
    "exit_task",
    "set_weight",
];

/// Callbacks about groups that are asked in the tree that the scheduler meets.
pub(super) const STANDING_SITES: [&str; 2] = ["cgroup_init", "cgroup_exit"];

/// The prefixes of sites that have the name of another: callbacks about tasks, and those in the tree that the scheduler meets.
pub(super) const PREFIXES: [&str; 2] = ["tree/", "standing/"];

/// Whether a site of this name is asked under a script with groups.
pub(super) fn is_about_groups(site: &str) -> bool {
    plain(site) != site || site == ORDER_SITE || site.starts_with("cgroup_")
}

/// The name of a site without its prefix.
pub(super) fn plain(name: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// The questions of a site.
pub(super) fn questions(site: &Site) -> Vec<Question> {
    let callback = plain(&site.name);
    let mut tables = vec![OF_GROUP];
    if site.task.is_some() {
        tables.push(OF_TASK);
    }
    // What runs while the kernel attaches a scheduler or takes it off is the harness.
    if !["cgroup_init", "cgroup_exit", "init_task", "exit_task"].contains(&callback) {
        tables.push(OF_CURRENT);
    }
    // `SCX_CALL_OP_TASK()` (kernel/sched/ext/ext.c, 7.3).
    if site.task.is_some() && !["init_task", "cgroup_prep_move", "cgroup_cancel_move"].contains(&callback) {
        tables.push(OF_OWN_TASK);
    }
    let asked = tables.into_iter().flat_map(rows);
    let asked = asked.filter(|row| site.task.is_some() || !is_about_task(&row[1..].join(" | ")));
    asked
        .map(|row| {
            let one = question(row[0], row[1..].join(" | "));
            Question { exists: format!("cg && {}", one.exists), ..one }
        })
        .collect()
}

fn is_about_task(expression: &str) -> bool {
    ["(p,", "(p)", "== p", "cg->kn->id == "].iter().any(|part| expression.contains(part))
        || expression.ends_with("== cg->kn->id")
}

/// What `order` keeps of each call; 0 where a callback has no such argument.
const KEPT: [&str; 7] = ["callback name", "task name", "group name", "to name", "first", "second", "third"];

/// The callbacks of `order`: its name, a short one, the condition under which a call counts, and what is kept behind the name.
type Kept = (&'static str, &'static str, &'static str, [&'static str; KEPT.len() - 1]);

/// The callbacks of `order`.
const ORDER: [Kept; 13] = [
    (
        "cgroup_init",
        "init",
        "1",
        ["0", "GROUP(0)", "0", "INIT->weight", "INIT->bw_quota_us", "INIT->sched_idle"],
    ),
    ("cgroup_exit", "exit", "1", ["0", "GROUP(0)", "0", "0", "0", "0"]),
    ("cgroup_prep_move", "prepare", "1", ["COMM", "GROUP(1)", "GROUP(2)", "0", "0", "0"]),
    ("cgroup_move", "move", "1", ["COMM", "GROUP(1)", "GROUP(2)", "0", "0", "0"]),
    ("cgroup_cancel_move", "cancel", "1", ["COMM", "GROUP(1)", "GROUP(2)", "0", "0", "0"]),
    ("cgroup_set_weight", "weight", "1", ["0", "GROUP(0)", "0", "(u32)registers[1]", "0", "0"]),
    (
        "cgroup_set_bandwidth",
        "max",
        "1",
        ["0", "GROUP(0)", "0", "registers[1]", "registers[2]", "registers[3]"],
    ),
    ("cgroup_set_idle", "idle", "1", ["0", "GROUP(0)", "0", "(u8)registers[1]", "0", "0"]),
    ("init_task", "task", "moved && OWN", ["COMM", "0", "0", "0", "0", "0"]),
    ("exit_task", "gone", "OWN", ["COMM", "0", "0", "0", "0", "0"]),
    ("enable", "enable", "moved && OWN", ["COMM", "0", "0", "0", "0", "0"]),
    ("runnable", "queued", "moving && OWN", ["COMM", "0", "0", "0", "0", "0"]),
    ("quiescent", "dequeue", "moving && OWN", ["COMM", "0", "0", "0", "0", "0"]),
];

/// What those expressions mean.
const ORDER_PRELUDE: &str = r#"
#define TASK ((struct task_struct *)registers[0])
#define OWN (TASK->comm[0] == 'z' && TASK->comm[1] == 'z')
#define COMM (TASK->comm[0] | TASK->comm[1] << 8 | TASK->comm[2] << 16)
#define INIT ((struct scx_cgroup_init_args *)registers[1])
#define GROUP(n) ({ struct cgroup *g = (struct cgroup *)registers[n]; NAME(g); })
#define SHORT(text) ({ static const char s[8] = text; *(const u64 *)s; })
/* A task is between two groups; one has been. Forks of the harness come before. */
u32 moving, moved;
"#;

/// The name of the site that keeps the order of callbacks.
const ORDER_SITE: &str = "order";

/// The site that keeps the order of callbacks.
pub(super) fn order_site() -> Site {
    Site {
        name: ORDER_SITE.to_string(),
        section: String::new(),
        arguments: Vec::new(),
        returns: None,
        task: None,
        sleeps: false,
        locks: false,
    }
}

/// What is kept of each call, as questions.
pub(super) fn order_questions() -> Vec<Question> {
    KEPT.iter().map(|name| question(name, String::new())).collect()
}

/// The programs of `order`, and its part of the table of callbacks.
pub(super) fn order_programs() -> (String, Vec<String>) {
    let (mut text, mut table) = (ORDER_PRELUDE.to_string(), Vec::new());
    for (callback, short, when, kept) in ORDER {
        let (returns, end) = match callback {
            "cgroup_init" | "cgroup_prep_move" | "init_task" => ("int", "\treturn 0;\n"),
            _ => ("void", ""),
        };
        let moving = match callback {
            "cgroup_prep_move" => "\tmoving = 1;\n",
            "cgroup_move" => "\tmoving = 0;\n\tmoved = 1;\n",
            _ => "",
        };
        text.push_str(&format!(
            "SEC(\"struct_ops/{callback}\") {returns} o_{callback}(u64 *registers)\n{{\n{moving}\tif ({when}) {{\n\
             \tstruct answer *page = next_page();\n\tif (page) {{\n\tSAY(0, SHORT(\"{short}\"));\n"
        ));
        for (number, read) in kept.iter().enumerate() {
            text.push_str(&format!("\tSAY({}, {read});\n", number + 1));
        }
        text.push_str(&format!("\t}}\n\t}}\n{end}}}\n"));
        table.push(format!(".{callback} = (void *)o_{callback}"));
    }
    (text, table)
}
