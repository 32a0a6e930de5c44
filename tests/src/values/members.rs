//! Questions for members of kernel structures: all that the simulated kernel's types have, as C writes them.

use schedlab_bpf::btf::{Btf, Kind, Member, TypeId};

use super::Question;

/// How deep members of members are followed.
const DEPTH: usize = 4;

/// Pointers that are followed; of others the question is whether they are NULL.
const FOLLOWED: [&str; 5] = ["signal", "cred", "mm", "cgroups", "thread_pid"];

/// Members whose values are the machine's own: addresses, numbers of tasks, clocks. The question is whether they are zero.
const OWN: [&str; 22] = [
    "pid",
    "tgid",
    "tid",
    "start_time",
    "start_boottime",
    "exec_start",
    "vruntime",
    "deadline",
    "vlag",
    "sum_exec_runtime",
    "prev_sum_exec_runtime",
    "last_update_time",
    "run_delay",
    "last_arrival",
    "runnable_at",
    "clock",
    "clock_task",
    "clock_pelt",
    "nr_switches",
    "at_ns",
    "at_jiffies",
    "serial_nr",
];

/// Members that depend on what the harness of the real arm has done before the script begins, on its privilege, or on the
/// host's speed.
const HARNESS: [&str; 19] = [
    "nvcsw",
    "nivcsw",
    "pcount",
    "wakee_flips",
    "recent_used_cpu",
    "total_vm",
    "mm_count",
    "usage",
    "sigcnt",
    "utime",
    "stime",
    "nr_migrations",
    "cpu_capacity",
    "lost_idle_time",
    "last_queued",
    "last_wakee",
    "nr_running",
    "nr",
    "selected_cpu",
];

/// The members of the value that `base`, an expression of a pointer to a `root`, points to.
pub(super) fn of(btf: &Btf, base: &str, root: &str) -> Vec<Question> {
    let mut found = Vec::new();
    if let Some(ty) = btf.find_struct(root) {
        walk(btf, &format!("{base}->"), ty, DEPTH, &mut found);
    }
    found
}

fn walk(btf: &Btf, path: &str, ty: TypeId, depth: usize, found: &mut Vec<Question>) {
    if depth == 0 {
        return;
    }
    for member in btf.members(ty) {
        let name = btf.member_name(member);
        if path.ends_with("thread_info.") && name == "flags" {
            // Requests of the kernel's to itself, which come at any time.
            continue;
        }
        if name.is_empty() {
            walk(btf, path, member.ty, depth, found);
        } else if !name.starts_with("__pad") && !HARNESS.contains(&name) {
            one(btf, &format!("{path}{name}"), name, member, depth, found);
        }
    }
}

fn one(btf: &Btf, path: &str, name: &str, member: &Member, depth: usize, found: &mut Vec<Question>) {
    match btf.resolved(member.ty) {
        Kind::Int(_) | Kind::Enum(_) | Kind::Enum64(_) if OWN.contains(&name) => {
            found.push(Question {
                name: format!("{path} != 0"),
                ..question(path, format!("{} != 0", read(path)))
            });
        }
        // Not PF_SUPERPRIV, which root's harness has.
        Kind::Int(_) if path == "p->flags" => {
            let masked = format!("{} & ~0x100ull", read(path));
            found.push(Question { name: "p->flags & ~0x100".to_string(), ..question(path, masked) });
        }
        Kind::Int(_) | Kind::Enum(_) | Kind::Enum64(_) => found.push(question(path, read(path))),
        Kind::Ptr(target) => {
            let told = Question { name: format!("{path} != 0"), ..question(path, format!("{path} != 0")) };
            found.push(told);
            // Not the parent's parent.
            if FOLLOWED.contains(&name) && path.matches("->").count() < 2 {
                walk(btf, &format!("{path}->"), *target, 2, found);
            }
        }
        Kind::Struct(_) | Kind::Union(_) => walk(btf, &format!("{path}."), member.ty, depth - 1, found),
        Kind::Array(array) if matches!(btf.resolved(array.elem), Kind::Int(int) if int.size == 8) => {
            found.push(question(&format!("{path}[0]"), format!("{path}[0]")));
        }
        _ => {}
    }
}

/// Reads the member of an integer's or an enumeration's type.
fn read(path: &str) -> String {
    let (base, field) = path.rsplit_once("->").unwrap_or(("", path));
    format!("BITS({base}, {field})")
}

fn question(path: &str, expression: String) -> Question {
    Question { name: path.to_string(), expression, exists: format!("HAS({path})") }
}
