//! The debug dump of an ejection, in the kernel's layout (`scx_dump_state()`).

use crate::Kernel;
use crate::flags::*;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use crate::state::task::{OpsState, RunState, SchedClass, Task};
use schedlab_base::{CpuId, TimeNs};
use schedlab_trace::ExitRecord;
use std::fmt::Write as _;

/// What the kernel puts where a dump was cut off.
const TRUNCATED: &str = "\n\n~~~~ TRUNCATED ~~~~\n";

/// The dump under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dump {
    pub(crate) text: String,
    pub(crate) limit: usize,
    /// What the running dump callback has printed.
    pub(crate) ops_text: String,
}

fn state_char(state: RunState) -> char {
    match state {
        RunState::Runnable | RunState::New => 'R',
        RunState::Interruptible => 'S',
        RunState::Uninterruptible => 'D',
        RunState::Dead => 'X',
    }
}

fn class_name(class: SchedClass) -> &'static str {
    match class {
        SchedClass::Dl => "dl_sched_class",
        SchedClass::Rt => "rt_sched_class",
        SchedClass::Fair => "fair_sched_class",
        SchedClass::Ext => "ext_sched_class",
    }
}

/// A mask as the kernel's `%*pb` prints it: hexadecimal words of 32 bits.
fn mask_text(mask: &schedlab_base::CpuMask, cpus: usize) -> String {
    let words = cpus.div_ceil(32);
    let word = |index: usize| (mask.words()[index / 2] >> (index % 2 * 32)) as u32;
    let mut text = String::new();
    for index in (0..words).rev() {
        let digits = if index == words - 1 && !cpus.is_multiple_of(32) { (cpus % 32).div_ceil(4) } else { 8 };
        let separator = if index == 0 { "" } else { "," };
        let _ = write!(text, "{:0digits$x}{separator}", word(index));
    }
    text
}

/// One task's block.
fn task_text(k: &Kernel, task: &Task, marker: char, at: TimeNs) -> String {
    let scx = &task.scx;
    let waited = at.since(scx.runnable_at).0 / 1_000_000;
    let dsq = scx.dsq.map_or("(n/a)".to_string(), |ix| format!("{:#x}", k.dsq(ix).id.0));
    let ops_state = match scx.ops_state {
        OpsState::None => 0,
        OpsState::Queueing => 1,
        OpsState::Queued => 2,
        OpsState::Dispatching => 3,
    };
    let qseq = if ops_state == 0 { 0 } else { scx.ops_qseq };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "\n {marker}{} {}[{}] *root -{waited}ms",
        state_char(task.state),
        task.name(),
        task.pid
    );
    let _ = writeln!(
        text,
        "      scx_state/flags={}/{:#x} dsq_flags={:#x} ops_state/qseq={ops_state}/{qseq}",
        (scx.flags & SCX_TASK_STATE_MASK) >> SCX_TASK_STATE_SHIFT,
        scx.flags & !SCX_TASK_STATE_MASK,
        u32::from(scx.on_priq),
    );
    let _ = writeln!(text, "      sticky/holding_cpu=-1/-1 dsq_id={dsq}");
    let _ = writeln!(text, "      dsq_vtime={} slice={} weight={}", scx.dsq_vtime, scx.slice, scx.weight);
    let _ = writeln!(
        text,
        "      cpus={} no_mig={}",
        mask_text(&task.cpus_allowed, k.nr_cpu_ids() as usize),
        task.migration_disabled
    );
    text
}

impl<S: SchedExt> Sim<S> {
    fn dump_push(&mut self, text: &str) {
        self.k.sched.dump.text.push_str(text);
    }

    /// Calls a dump callback and indents what it printed.
    fn dump_ops(&mut self, op: OpKind, prefix: &str, body: impl FnOnce(&mut S, &mut Kernel)) -> bool {
        if !self.has(op) || self.k.stop.is_raised() {
            return false;
        }
        self.call(op, None, None, body);
        let printed = std::mem::take(&mut self.k.sched.dump.ops_text);
        if printed.is_empty() {
            return false;
        }
        let lines: String = printed.lines().map(|line| format!("{prefix}{line}\n")).collect();
        self.dump_push(&format!("\n{lines}"));
        true
    }

    /// Writes the dump of the claimed exit.
    pub(crate) fn dump_state(&mut self) {
        let exit = self.k.sched.exit.clone().expect("a dump belongs to an exit");
        let record = ExitRecord { dump: String::new(), ..self.exit_record() };
        let name = self.k.sched.info.as_ref().map(|info| info.name.clone()).unwrap_or_default();
        let here = exit.cpu.unwrap_or(CpuId(0));
        let (comm, pid) = match exit.current.and_then(|task| self.k.get_task(task)) {
            Some(task) => (task.name().to_string(), task.pid),
            None => (format!("swapper/{}", here.0), 0),
        };
        self.k.sched.dump.text.clear();
        self.dump_push(&format!("{name}: root\n"));
        self.dump_push(&format!(
            "{comm}[{pid}] triggered exit kind {} on CPU {}:\n  {} ({})\n\nBacktrace:\n",
            exit.kind.code(),
            here.0,
            record.reason,
            record.message
        ));
        self.dump_ops(OpKind::Dump, "", |ops, k| ops.dump(k, &record));
        self.dump_push("\nCPU states\n----------\n");
        let others = (0..self.k.cpus.len() as u32).map(CpuId).filter(|&cpu| cpu != here);
        let order: Vec<CpuId> = std::iter::once(here).chain(others).collect();
        for cpu in order {
            self.dump_cpu(cpu, &record, exit.at);
        }
        let mut counters = String::from("\nEvent counters\n--------------\n");
        for (name, value) in self.k.sched.events.named() {
            let _ = writeln!(counters, "{name:>40}: {value:>16}");
        }
        self.dump_push(&counters);
        self.truncate_dump();
    }

    fn truncate_dump(&mut self) {
        let Dump { text, limit, .. } = &mut self.k.sched.dump;
        if text.len() < *limit {
            return;
        }
        let mut end = limit.saturating_sub(TRUNCATED.len() + 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(TRUNCATED);
    }

    /// One CPU: nothing for an idle one without text of the scheduler.
    fn dump_cpu(&mut self, cpu: CpuId, record: &ExitRecord, at: TimeNs) {
        let waits = |task: &&Task| task.cpu == cpu && task.scx.runnable_seq != 0;
        let mut waiting: Vec<_> =
            self.k.live_tasks().filter(waits).map(|task| (task.scx.runnable_seq, task.id)).collect();
        waiting.sort_unstable();
        let entry = self.k.cpu(cpu);
        let curr = entry.curr;
        let idle = curr.is_none() && waiting.is_empty();
        let (comm, pid, class) = match curr {
            Some(task) => {
                let task = self.k.task(task);
                (task.name().to_string(), task.pid, class_name(task.class))
            }
            None => (format!("swapper/{}", cpu.0), 0, "idle_sched_class"),
        };
        let head = format!(
            "\nCPU {:<4}: nr_run={} flags=0x1 cpu_rel={} ksync={}\n          curr={comm}[{pid}] class={class}\n",
            cpu.0,
            entry.scx_nr_running,
            u32::from(entry.cpu_released),
            entry.kick_sync
        );
        let before = self.k.sched.dump.text.len();
        self.dump_push(&head);
        let said = self.dump_ops(OpKind::DumpCpu, "  ", |ops, k| ops.dump_cpu(k, record, cpu, idle));
        if idle && !said {
            self.k.sched.dump.text.truncate(before);
            return;
        }
        let running = curr.filter(|&task| self.k.task(task).class == SchedClass::Ext);
        let marked = running.map(|task| (task, '*'));
        for (task, marker) in marked.into_iter().chain(waiting.into_iter().map(|(_, task)| (task, ' '))) {
            if self.k.sched.dump.text.len() > self.k.sched.dump.limit {
                return;
            }
            let text = task_text(&self.k, self.k.task(task), marker, at);
            self.dump_push(&text);
            self.dump_ops(OpKind::DumpTask, "    ", |ops, k| ops.dump_task(k, record, task));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::CpuMask;

    #[test]
    fn masks_print_as_the_kernel_prints_them() {
        assert_eq!(mask_text(&CpuMask::first(8), 8), "ff");
        assert_eq!(mask_text(&CpuMask::single(CpuId(0)), 6), "01");
        assert_eq!(mask_text(&CpuMask::first(33), 40), "01,ffffffff");
    }
}
