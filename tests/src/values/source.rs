//! Writes the objects that ask: for each site one, in C, with the types that the simulated kernel shows.

use schedlab_bpf::btf::{Btf, Kind, Member};
use schedlab_scx::{kernel_declarations, kernel_types, prototypes};

use super::tree::Script;
use super::{CALLS, PHASES, Question, Shape, Site, calls, members, tree};

/// A site with what is asked there.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// Where.
    pub site: Site,
    /// What, in order.
    pub questions: Vec<Question>,
    /// Its pages.
    pub shape: Shape,
    /// What it is asked under.
    pub script: Script,
}

/// Callbacks that may sleep (`bpf_scx_check_member()`, kernel/sched/ext/ext.c, 7.3).
const SLEEPABLE: [&str; 5] = ["init_task", "cpu_online", "cpu_offline", "init", "exit"];

/// Callbacks that run without the lock of a run queue (`SCX_CALL_OP*()` with `NULL`, the same file).
const UNLOCKED: [&str; 9] =
    ["select_cpu", "init_task", "cpu_online", "cpu_offline", "init", "exit", "dump", "dump_cpu", "dump_task"];

/// Callbacks that no script reaches: sub-schedulers.
const UNREACHED: &str = "sub_";
/// Callbacks about groups.
const GROUPS: &str = "cgroup_";

/// What every object begins with, behind the kernel's types.
const PRELUDE: &str = r#"
#pragma clang attribute pop
#define SEC(name) __attribute__((section(name), used))
#define NULL ((void *)0)
#define HAS(member) __builtin_preserve_field_info(member, 2)
/* The member by what the kernel says of its place, width and sign, which differ between versions. */
#define BITS(base, member) ({ const void *at = (const char *)(base) + __builtin_preserve_field_info((base)->member, 0); \
	/* Or the compiler joins sum and load, and libbpf refuses a load whose width or sign is another one. */ \
	asm volatile("" : "+r"(at)); \
	u64 bits = 0; switch (__builtin_preserve_field_info((base)->member, 1)) { \
	case 1: bits = *(const u8 *)at; break; case 2: bits = *(const u16 *)at; break; \
	case 4: bits = *(const u32 *)at; break; case 8: bits = *(const u64 *)at; break; } \
	bits <<= __builtin_preserve_field_info((base)->member, 4); \
	__builtin_preserve_field_info((base)->member, 3) \
		? (s64)bits >> __builtin_preserve_field_info((base)->member, 5) \
		: (s64)(bits >> __builtin_preserve_field_info((base)->member, 5)); })
#define EXISTS(function) (!!(function))
#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name
static void *(*const bpf_map_lookup_elem)(void *, const void *) = (void *)1;
static long (*const bpf_map_update_elem)(void *, const void *, const void *, u64) = (void *)2;
static long (*const bpf_map_delete_elem)(void *, const void *) = (void *)3;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
static u64 (*const bpf_get_current_uid_gid)(void) = (void *)15;
static long (*const bpf_get_current_comm)(void *, u32) = (void *)16;
static long (*const bpf_get_numa_node_id)(void) = (void *)42;
static long (*const bpf_map_push_elem)(void *, const void *, u64) = (void *)87;
static long (*const bpf_map_pop_elem)(void *, void *) = (void *)88;
static long (*const bpf_map_peek_elem)(void *, void *) = (void *)89;
static long (*const bpf_probe_read_user)(void *, u32, const void *) = (void *)112;
static long (*const bpf_probe_read_kernel)(void *, u32, const void *) = (void *)113;
static long (*const bpf_probe_read_user_str)(void *, u32, const void *) = (void *)114;
static long (*const bpf_probe_read_kernel_str)(void *, u32, const void *) = (void *)115;
static u64 (*const bpf_jiffies64)(void) = (void *)118;
static u64 (*const bpf_ktime_get_boot_ns)(void) = (void *)125;
static long (*const bpf_ringbuf_output)(void *, void *, u64, u64) = (void *)130;
static void *(*const bpf_ringbuf_reserve)(void *, u64, u64) = (void *)131;
static void (*const bpf_ringbuf_discard)(void *, u64) = (void *)133;
static u64 (*const bpf_ringbuf_query)(void *, u64) = (void *)134;
static void *(*const bpf_task_storage_get)(void *, struct task_struct *, void *, u64) = (void *)156;
static long (*const bpf_task_storage_delete)(void *, struct task_struct *) = (void *)157;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static long (*const bpf_for_each_map_elem)(void *, void *, void *, u64) = (void *)164;
static long (*const bpf_snprintf)(char *, u32, const char *, const void *, u32) = (void *)165;
static long (*const bpf_timer_init)(struct bpf_timer *, void *, u64) = (void *)169;
static long (*const bpf_timer_set_callback)(struct bpf_timer *, void *) = (void *)170;
static long (*const bpf_timer_start)(struct bpf_timer *, u64, u64) = (void *)171;
static long (*const bpf_timer_cancel)(struct bpf_timer *) = (void *)172;
static long (*const bpf_trace_vprintk)(const char *, u32, const void *, u32) = (void *)177;
static long (*const bpf_loop)(u32, void *, void *, u64) = (void *)181;
static long (*const bpf_strncmp)(const char *, u32, const char *) = (void *)182;
static void *(*const bpf_map_lookup_percpu_elem)(void *, const void *, u32) = (void *)195;
struct { __uint(type, 1); __uint(max_entries, 2); __type(key, u32); __type(value, u64); } h SEC(".maps");
struct { __uint(type, 2); __uint(max_entries, 2); __type(key, u32); __type(value, u64); } arr SEC(".maps");
struct { __uint(type, 6); __uint(max_entries, 2); __type(key, u32); __type(value, u64); } pa SEC(".maps");
struct { __uint(type, 9); __uint(max_entries, 2); __type(key, u32); __type(value, u64); } lru SEC(".maps");
struct { __uint(type, 22); __uint(max_entries, 2); __type(value, u64); } q SEC(".maps");
struct { __uint(type, 23); __uint(max_entries, 2); __type(value, u64); } st SEC(".maps");
struct { __uint(type, 27); __uint(max_entries, 4096); } rb SEC(".maps");
struct { __uint(type, 27); __uint(max_entries, 4096); } small SEC(".maps");
struct { __uint(type, 29); __uint(map_flags, 1); __type(key, int); __type(value, u64); } ts SEC(".maps");
struct clock { struct bpf_timer timer; };
struct { __uint(type, 2); __uint(max_entries, 2); __type(key, u32); __type(value, struct clock); } timers SEC(".maps");
struct answer { u64 asked; u64 value; };
struct answer answers[PAGES * QUESTIONS] __attribute__((btf_decl_tag("answers")));
u32 calls[16];
int watched;
u64 words[16];
char buffer[64], big[8192];
const char abc[8] = "abc";
s64 sink;
static long turn(u32 number, void *context) { sink += number; return number == 5; }
static long each(void *map, u32 *key, u64 *value, void *context) { return 0; }
static long stop(void *map, u32 *key, u64 *value, void *context) { return 1; }
static int rings(void *map, u32 *key, struct clock *clock) { return 0; }
#define CLEAR __builtin_memset(buffer, 0, sizeof(buffer))
#define MASK(get, put, what) ({ const struct cpumask *m = get; s64 found = what(m); put(m); found; })
/* One mask for all questions of a page: with interrupts off the kernel's allocator runs dry after some tens. */
#define BITS2(bits, what) ({ s64 found = -1000; if (B) { \
	const struct cpumask *C = (const struct cpumask *)B; bpf_cpumask_clear(B); \
	if ((bits) & 1) bpf_cpumask_set_cpu(0, B); if ((bits) & 2) bpf_cpumask_set_cpu(1, B); \
	found = (what); } found; })
#define TIMER(number, what) ({ u32 key = number; struct clock *c = bpf_map_lookup_elem(&timers, &key); \
	struct bpf_timer *t = c ? &c->timer : NULL; t ? (what) : -1000; })
#define FORMAT(format, count, list...) ({ static const char f[] = format; u64 data[] = { list }; CLEAR; \
	bpf_snprintf(buffer, 32, f, data, 8 * (count)); })
#define TRACE(format, count, list...) ({ static const char f[] = format; u64 data[] = { list }; \
	bpf_trace_vprintk(f, sizeof(f), data, 8 * (count)); })
#define SAY(number, is) (page[number].value = (u64)(s64)(is), page[number].asked = 1)
#define NONE(number) (page[number].asked = 2)

static inline __attribute__((always_inline)) struct answer *page_of(u32 phase)
{
	u32 call, at;

	if (phase >= PHASES)
		return NULL;
	call = calls[phase & 15];
	if (call >= CALLS)
		return NULL;
	calls[phase & 15] = call + 1;
	at = phase * CALLS + call;
	/* The verifier forgets the bounds that it knows of sums; a mask it keeps. */
	asm volatile("" : "+r"(at));
	return &answers[(at & (PAGES - 1)) * QUESTIONS];
}

/* The watched task by its phase. Its children have its name, and are asked while they are made. */
static inline __attribute__((always_inline)) struct answer *page_of_task(struct task_struct *p)
{
	if (p->comm[0] != 'z' || p->comm[1] != 'z' || p->comm[2] != 'a' || p->static_prio <= 120)
		return NULL;
	if (!CHILDREN && watched && watched != p->pid)
		return NULL;
	watched = p->pid;
	return page_of(p->static_prio - 120);
}
"#;

impl Sheet {
    /// All sites, in a fixed order.
    pub fn all() -> Vec<Sheet> {
        let btf = kernel_types();
        let (groups, own): (Vec<Site>, Vec<Site>) =
            callbacks(&btf).into_iter().partition(|site| site.name.starts_with(GROUPS));
        let mut sheets: Vec<Sheet> =
            own.iter().map(|site| Sheet::new(site.clone(), of_callback(&btf, site))).collect();
        sheets.extend(kinds().map(|site| Sheet::new(site, calls::everywhere())));
        for sheet in sheets.iter_mut().filter(|sheet| sheet.site.task.is_none()) {
            // It is about no task, and which one runs depends on the harness.
            sheet.questions.retain(|question| !calls::is_about_task(question));
        }
        sheets.extend(Sheet::about_groups(&btf, own, groups));
        sheets
    }

    /// The sites of the scripts with groups.
    fn about_groups(btf: &Btf, own: Vec<Site>, groups: Vec<Site>) -> Vec<Sheet> {
        let [tree, standing] = tree::PREFIXES;
        let under =
            |prefix: &str, site: &Site| Site { name: format!("{prefix}{}", site.name), ..site.clone() };
        let in_tree = own.iter().filter(|site| tree::TASK_SITES.contains(&site.name.as_str()));
        let mut sheets: Vec<Sheet> = in_tree
            .map(|site| Sheet::new(under(tree, site), tree::questions(site)))
            .map(|sheet| Sheet { script: Script::Tree, ..sheet })
            .collect();
        for site in groups {
            let mut questions = of_arguments(btf, &site);
            questions.extend(tree::questions(&site));
            let met = tree::STANDING_SITES.contains(&site.name.as_str());
            let met = met.then(|| Sheet::new(under(standing, &site), questions.clone()));
            let sheet = Sheet { shape: tree::SHAPE, script: Script::Tree, ..Sheet::new(site, questions) };
            sheets.push(sheet);
            sheets.extend(met.map(|met| Sheet { shape: tree::SHAPE, script: Script::Standing, ..met }));
        }
        let order = Sheet::new(tree::order_site(), tree::order_questions());
        let met = Sheet::new(under(standing, &order.site), order.questions.clone());
        for (sheet, script) in [(order, Script::Tree), (met, Script::Standing)] {
            sheets.push(Sheet { shape: tree::SHAPE, script, ..sheet });
        }
        sheets
    }

    fn new(site: Site, questions: Vec<Question>) -> Sheet {
        let shape = Shape { phases: PHASES, calls: CALLS };
        Sheet { site, questions, shape, script: Script::Phases }
    }

    /// It is about groups.
    pub fn has_groups(&self) -> bool {
        self.script != Script::Phases
    }

    /// The object's source.
    pub fn source(&self) -> String {
        let mut text = format!(
            "/* SPDX-License-Identifier: GPL-2.0-only */\n#define PHASES {}\n#define CALLS {}\n\
             #define CHILDREN {}\n#define PAGES {}\n#define QUESTIONS {}\n",
            self.shape.phases,
            self.shape.calls,
            u8::from(self.site.name.ends_with("init_task")),
            (self.shape.phases * self.shape.calls).next_power_of_two(),
            self.questions.len()
        );
        text.push_str(
            "#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)\n",
        );
        text.push_str(&kernel_declarations());
        text.push_str(PRELUDE);
        for prototype in prototypes() {
            let declared = prototype.trim_end_matches(';');
            text.push_str(&format!("{declared} __attribute__((section(\".ksyms\"), weak));\n"));
        }
        for declared in [
            "void bpf_rcu_read_lock(void)",
            "void bpf_rcu_read_unlock(void)",
            "int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end)",
            "int *bpf_iter_num_next(struct bpf_iter_num *it)",
            "void bpf_iter_num_destroy(struct bpf_iter_num *it)",
        ] {
            text.push_str(&format!("{declared} __attribute__((section(\".ksyms\"), weak));\n"));
        }
        if self.has_groups() {
            text.push_str(tree::PRELUDE);
        }
        text.push_str("char _license[] SEC(\"license\") = \"GPL\";\n");
        let mut table = Vec::new();
        if self.site.section.is_empty() {
            let programs;
            (programs, table) = tree::order_programs();
            text.push_str(&programs);
        } else {
            text.push_str(&self.program());
        }
        text.push_str(&self.scheduler(table));
        text
    }

    /// The program that asks.
    fn program(&self) -> String {
        let site = &self.site;
        let returns = site.returns.map_or("void", |_| "int");
        let mut text =
            format!("SEC(\"{}\") {returns} v_{}(u64 *registers)\n{{\n", site.section, site.program_name());
        for (number, (ty, name)) in site.arguments.iter().enumerate() {
            text.push_str(&format!("\t{ty} {name} = ({ty})registers[{number}];\n"));
        }
        text.push_str(
            "\tstruct answer *page = NULL;\n\tstruct task_struct *p = NULL;\n\tstruct rq *rq = NULL;\n",
        );
        if site.name == "init" {
            text.push_str("\tif (scx_bpf_create_dsq(7, -1))\n\t\treturn -1;\n");
        }
        if site.sleeps {
            text.push_str("\tbpf_rcu_read_lock();\n");
        }
        text.push_str(match site.task {
            _ if self.has_groups() => "",
            Some(_) => "",
            None => "\tp = bpf_get_current_task_btf();\n\tpage = page_of(0);\n",
        });
        if let Some(task) = site.task {
            let page = if self.shape == tree::SHAPE { "" } else { "\tif (p)\n\t\tpage = page_of_task(p);\n" };
            text.push_str(&format!("\tp = {task};\n{page}"));
        }
        if self.has_groups() {
            text.push_str(&self.group());
        }
        text.push_str("\tif (page) {\n\tstruct bpf_cpumask *B = bpf_cpumask_create();\n");
        if site.locks {
            text.push_str("\tif (EXISTS(scx_bpf_locked_rq))\n\t\trq = scx_bpf_locked_rq();\n");
        }
        for (number, question) in self.questions.iter().enumerate() {
            text.push_str(&format!(
                "\tif ({}) SAY({number}, {}); else NONE({number});\n",
                question.exists, question.expression
            ));
        }
        text.push_str("\tif (B)\n\t\tbpf_cpumask_release(B);\n\t}\n");
        if site.sleeps {
            text.push_str("\tbpf_rcu_read_unlock();\n");
        }
        if tree::plain(&site.name) == "enqueue" {
            text.push_str("\tscx_bpf_dsq_insert(p, 0x8000000000000001ull, 20000000, enq_flags);\n");
        }
        if let Some(value) = site.returns {
            text.push_str(&format!("\treturn {value};\n"));
        }
        text.push_str("}\n");
        text
    }

    /// The group that is asked about, and the page of a call that is counted.
    fn group(&self) -> String {
        let of_task = "p ? p->cgroups->dfl_cgrp : NULL";
        let is_group = |argument: &&(String, String)| argument.0.contains("struct cgroup *");
        let group = match self.site.arguments.iter().rfind(is_group) {
            Some((_, name)) => name,
            None => of_task,
        };
        let page = if self.shape == tree::SHAPE { "\tpage = next_page();\n" } else { "" };
        format!("\tstruct cgroup *cg = {group};\n{page}")
    }

    /// The rest of the scheduler: one queue, the kernel's.
    fn scheduler(&self, mut table: Vec<String>) -> String {
        let site = &self.site;
        let mut text = String::new();
        table.push(".name = \"values\", .flags = 1, .timeout_ms = 20000".to_string());
        let own = site.section.starts_with("struct_ops");
        if own {
            let member = site.section.rsplit('/').next().unwrap_or_default();
            table.push(format!(".{member} = (void *)v_{}", site.program_name()));
        }
        if site.name != "init" {
            text.push_str(
                "SEC(\"struct_ops.s/init\") int other_init(u64 *ctx) { return scx_bpf_create_dsq(7, -1); }\n",
            );
            table.push(".init = (void *)other_init".to_string());
        }
        let table = table.join(", ");
        text + &format!("SEC(\".struct_ops.link\") struct sched_ext_ops values = {{ {table} }};\n")
    }
}

/// The questions for a site's arguments.
fn of_arguments(btf: &Btf, site: &Site) -> Vec<Question> {
    let mut questions = Vec::new();
    for (ty, name) in &site.arguments {
        match ty.strip_prefix("const ").unwrap_or(ty).strip_prefix("struct ") {
            Some(root) => {
                let root = root.trim_end_matches([' ', '*']);
                let base = if site.task == Some(name.as_str()) { "p" } else { name.as_str() };
                let asked = members::of(btf, base, root);
                let guarded = |one: Question| Question { exists: format!("{base} && {}", one.exists), ..one };
                questions.extend(asked.into_iter().map(guarded));
            }
            None => questions.push(Question {
                name: format!("argument {name}"),
                expression: name.clone(),
                exists: "1".to_string(),
            }),
        }
    }
    questions
}

/// The questions of a callback about tasks or CPUs.
fn of_callback(btf: &Btf, site: &Site) -> Vec<Question> {
    let mut questions = of_arguments(btf, site);
    if site.locks {
        let of_rq = members::of(btf, "rq", "rq").into_iter();
        questions.extend(of_rq.map(|one| Question { exists: format!("rq && {}", one.exists), ..one }));
        questions.extend(calls::locked());
    }
    questions.extend(calls::everywhere());
    questions
}

impl Site {
    fn program_name(&self) -> String {
        self.name.replace(['/', ' '], "_")
    }
}

/// The callbacks of `struct sched_ext_ops`.
fn callbacks(btf: &Btf) -> Vec<Site> {
    let table = btf.find_struct("sched_ext_ops").expect("the simulated kernel has it");
    btf.members(table).iter().filter_map(|member| callback(btf, member)).collect()
}

fn callback(btf: &Btf, member: &Member) -> Option<Site> {
    let name = btf.member_name(member).to_string();
    let Kind::Ptr(target) = btf.resolved(member.ty) else { return None };
    let Kind::FuncProto(proto) = btf.resolved(*target) else { return None };
    if name.starts_with(UNREACHED) || name == "init_cids" {
        return None;
    }
    let named = |param: &schedlab_bpf::btf::Param| (btf.spell(param.ty), btf.param_name(param).to_string());
    let arguments: Vec<(String, String)> = proto.params.iter().map(named).collect();
    let task = match name.as_str() {
        "dispatch" => Some("prev"),
        "yield" => Some("from"),
        "core_sched_before" => Some("a"),
        _ if arguments.first().is_some_and(|(ty, _)| ty.contains("task_struct")) => Some("p_"),
        _ => None,
    };
    let sleeps = SLEEPABLE.contains(&name.as_str());
    let returns = match (name.as_str(), btf.spell(proto.ret).as_str()) {
        (_, "void") => None,
        ("select_cpu", _) => Some("prev_cpu"),
        _ => Some("0"),
    };
    let locks = !UNLOCKED.contains(&name.as_str()) && !name.starts_with(GROUPS);
    let section = format!("struct_ops{}/{name}", if sleeps { ".s" } else { "" });
    // The task has the name `p` in programs.
    let arguments =
        arguments.into_iter().map(|(ty, name)| (ty, if name == "p" { "p_".to_string() } else { name }));
    let arguments = arguments.collect();
    Some(Site { name, section, arguments, returns, task, sleeps, locks })
}

/// Other kinds of programs.
fn kinds() -> impl Iterator<Item = Site> {
    let switch = Site {
        name: "tp_btf/sched_switch".to_string(),
        section: "tp_btf/sched_switch".to_string(),
        arguments: vec![("bool".into(), "preempt".into()), ("struct task_struct *".into(), "prev".into())],
        returns: Some("0"),
        task: Some("prev"),
        sleeps: false,
        locks: false,
    };
    [switch].into_iter()
}
