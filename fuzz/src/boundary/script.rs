//! Bytes as a script for the driver: which calls its callbacks make, with arguments mostly of the type that each wants.
//!
//! A script is what `struct script` of `driver/driver.bpf.c` is. It has 16 numbers, the first step of each kind of
//! callback, a flag, and 128 steps of 8 bytes. A step is what it does, where the result goes, five arguments, and what
//! follows (1: skip a step if the result is 0, 2: if it is not). An argument below 16 is an earlier result, below 32 a
//! number of the table, below 64 a pointer. Below 80 and 96 it is the timer and the pointer in a value that was a result.
//! Below 112 it is a result with an offset, below 128 a pointer with one, else a number from -64 to 63. Results from the
//! seventh on are of one type each.

use crate::calls::{self, Call};
use std::sync::OnceLock;

/// Bytes of the driver's script.
pub(super) const SCRIPT_BYTES: usize = 128 + KINDS + 8 + STEPS * 8;
const KINDS: usize = 40;
const STEPS: usize = 128;
/// Steps that a callback has in a script of ours.
const BLOCK: usize = 8;
/// Codes beyond the calls.
const ACCESS: u8 = calls::MOST;
const GOTO: u8 = 254;
const END: u8 = 255;

/// Callbacks that have a block of their own, by the driver's numbers, most called first: what a busy scheduler runs.
const BUSY: [u8; 16] = [1, 3, 0, 6, 7, 25, 16, 32, 34, 33, 5, 8, 28, 4, 13, 20];

/// Numbers that programs and attackers like.
const NUMBERS: [u64; 32] = [
    0,
    1,
    2,
    3,
    4,
    8,
    16,
    64,
    128,
    255,
    4095,
    4096,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 30,
    1 << 32 | 8,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
    u64::MAX - 3,
    // SCX_DSQ_GLOBAL, SCX_DSQ_LOCAL, SCX_DSQ_LOCAL_ON of CPU 1
    0x8000_0000_0000_0001,
    0x8000_0000_0000_0002,
    0xc000_0000_0000_0001,
    // SCX_ENQ_PREEMPT, SCX_KICK_PREEMPT with WAIT, an odd time
    1 << 32,
    6,
    50_000,
    1_000_000_000,
    // NULL's neighbourhood and the end of the guest's memory
    0xfff8,
    2 << 32,
];

/// The next bytes of an input; 0 when it is at its end.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.next()) % from.len()]
    }
}

/// A call with the arguments that fit each parameter.
struct Choice {
    call: Call,
    params: Vec<&'static [u8]>,
    /// By the driver's number of a callback.
    allowed: [bool; KINDS],
    /// The call, by number, that has to come first.
    needs: Option<usize>,
}

/// By number of the call.
fn choices() -> &'static [Choice] {
    static CHOICES: OnceLock<Vec<Choice>> = OnceLock::new();
    CHOICES.get_or_init(|| {
        let calls = calls::all();
        let names: Vec<String> = calls.iter().map(|call| call.name.clone()).collect();
        let choice = |call: Call| {
            let params = match call.params.is_empty() {
                false => call.params.iter().map(|param| wanted(param)).collect(),
                true => wanted_by_name(&call.name).to_vec(),
            };
            let allowed = std::array::from_fn(|kind| is_allowed(&call.name, kind as u8));
            let needs = needed(&call.name).and_then(|needed| names.iter().position(|name| name == needed));
            Choice { call, params, allowed, needs }
        };
        calls.into_iter().map(choice).collect()
    })
}

/// Results of earlier steps that are numbers.
const RESULT: &[u8] = &[0, 1, 2, 3, 4, 5];
/// Tasks: the one of the last callback about a task, and one that was found.
const TASK: &[u8] = &[9, 9, 9, 9, 8];
/// Masks of any kind: made ones, the kernel's.
const MASK: &[u8] = &[11, 7, 11, 7, 11];
const OWN_MASK: &[u8] = &[11];
const ITERATOR: &[u8] = &[53];
const CPU: &[u8] = &[192, 193];
/// Made ones (7, 8), the local one, built-in ones and those that are not there.
const QUEUE: &[u8] = &[199, 200, 199, 200, 199, 200, 199, 16];
const NUMBER: &[u8] = &[192, 192, 192, 193, 194, 196, 200, 0, 17, 18];
const BUFFER: &[u8] = &[36, 36, 36, 55, 36, 39];
const SIZE: &[u8] = &[200, 208, 196, 224, 200, 208, 224, 200, 18];
const TEXT: &[u8] = &[38, 38, 38, 36];
const CGROUP: &[u8] = &[14];
const MAP: &[u8] = &[40];
const KEYED: &[u8] = &[40, 41, 42, 43, 44, 50];
const QUEUES: &[u8] = &[45, 46];
const RING: &[u8] = &[47];
const ARENA: &[u8] = &[51];
const STORAGE: &[u8] = &[48];
const CGROUPS: &[u8] = &[49];
const PAGE: &[u8] = &[15];
const RECORD: &[u8] = &[10];
/// Values of maps, which earlier look-ups found: their lock, timer and pointers.
const LOCK: &[u8] = &[12, 13];
const TIMER: &[u8] = &[76, 77];
const SLOT: &[u8] = &[92, 93, 62];
const POINTER: &[u8] = &[192, 192, 11, 9];
const LOOPED: &[u8] = &[56];
const VISITED: &[u8] = &[57];
const EXPIRED: &[u8] = &[58];
const NUMBERED: &[u8] = &[54];
const SAVED: &[u8] = &[61];
const NONE: &[u8] = &[192];
/// Where the program's own loads go, and its stores.
const LOADED: &[u8] = &[36, 35, 39, 9, 9, 12, 13, 15, 7, 6, 14];
const STORED: &[u8] = &[36, 35, 39, 12, 13, 15, 37];

/// Where a call's result goes: places from 6 on are for one type each.
fn place_of(call: &Call, chosen: u8) -> u8 {
    match call.name.as_str() {
        "bpf_map_lookup_elem" | "bpf_map_lookup_percpu_elem" | "bpf_task_storage_get" => 12 + chosen % 2,
        "bpf_ringbuf_reserve" => 10,
        "bpf_arena_alloc_pages" => 15,
        "bpf_get_current_task_btf" | "bpf_get_current_task" => 8,
        _ => match call.result.as_str() {
            "struct task_struct *" => 8,
            "struct bpf_cpumask *" => 11,
            "const struct cpumask *" => 7,
            "struct cgroup *" => 14,
            _ => chosen % 6,
        },
    }
}

/// Whether the kernel lets a callback, by the driver's number, call this.
fn is_allowed(name: &str, kind: u8) -> bool {
    let inserts = name.contains("_insert") || matches!(name, "scx_bpf_dispatch" | "scx_bpf_dispatch_vtime");
    let moves = name.contains("dsq_move") || name.contains("from_dsq");
    match name {
        "scx_bpf_create_dsq" => matches!(kind, 16 | 20 | 25 | 34),
        "scx_bpf_consume"
        | "scx_bpf_dispatch_nr_slots"
        | "scx_bpf_dispatch_cancel"
        | "scx_bpf_sub_dispatch" => kind == 3,
        "scx_bpf_reenqueue_local" => kind == 15,
        "scx_bpf_locked_rq" => matches!(kind, 2..=8),
        "scx_bpf_dump_bstr" => matches!(kind, 20..=22),
        _ if name.contains("move_to_local") => kind == 3,
        _ if name.contains("select_cpu") => matches!(kind, 0 | 1),
        _ if inserts => matches!(kind, 0 | 1 | 3),
        _ if moves => matches!(kind, 3 | 16 | 20 | 25 | 34),
        // What ends a run, and what has no cid form, comes by chance only.
        "scx_bpf_error_bstr" | "scx_bpf_exit_bstr" => matches!(kind, 8),
        _ => true,
    }
}

/// What fits a parameter of a kernel function, as C declares it.
fn wanted(param: &str) -> &'static [u8] {
    let name = param.rsplit([' ', '*']).next().unwrap_or("");
    match param {
        _ if param.contains("struct task_struct") => TASK,
        _ if param.contains("struct bpf_cpumask") => OWN_MASK,
        _ if param.contains("cpumask") => MASK,
        _ if param.contains("bpf_iter_scx_dsq") => ITERATOR,
        _ if param.contains("struct cgroup") => CGROUP,
        _ if param.contains("char *fmt") => TEXT,
        _ if param.contains('*') => BUFFER,
        _ if name.ends_with("__sz") => SIZE,
        _ if matches!(name, "cpu" | "cid" | "prev_cpu" | "node") => CPU,
        _ if name == "dsq_id" => QUEUE,
        _ => NUMBER,
    }
}

/// What fits the parameters of a helper or a generic kernel function.
fn wanted_by_name(name: &str) -> &'static [&'static [u8]] {
    match name {
        "bpf_map_lookup_elem" | "bpf_map_delete_elem" => &[KEYED, BUFFER],
        "bpf_map_lookup_percpu_elem" => &[KEYED, BUFFER, CPU],
        "bpf_map_update_elem" => &[KEYED, BUFFER, BUFFER, NUMBER],
        "bpf_map_push_elem" | "bpf_map_pop_elem" | "bpf_map_peek_elem" => &[QUEUES, BUFFER, NUMBER],
        "bpf_for_each_map_elem" => &[KEYED, VISITED, BUFFER, NONE],
        "bpf_loop" => &[NUMBER, LOOPED, BUFFER, NONE],
        "bpf_timer_init" => &[TIMER, MAP, NUMBER],
        "bpf_timer_set_callback" => &[TIMER, EXPIRED],
        "bpf_timer_start" | "bpf_timer_cancel" => &[TIMER, NUMBER, NUMBER],
        "bpf_kptr_xchg" => &[SLOT, POINTER],
        "bpf_spin_lock" | "bpf_spin_unlock" => &[LOCK],
        "bpf_ringbuf_output" => &[RING, BUFFER, SIZE, NONE],
        "bpf_ringbuf_reserve" => &[RING, SIZE, NONE],
        "bpf_ringbuf_query" => &[RING, NUMBER],
        "bpf_ringbuf_submit" | "bpf_ringbuf_discard" => &[RECORD, NONE],
        "bpf_task_storage_get" => &[STORAGE, TASK, BUFFER, NUMBER],
        "bpf_task_storage_delete" => &[STORAGE, TASK],
        "bpf_cgrp_storage_get" => &[CGROUPS, CGROUP, BUFFER, NUMBER],
        "bpf_cgrp_storage_delete" => &[CGROUPS, CGROUP],
        "bpf_snprintf" => &[BUFFER, SIZE, TEXT, BUFFER, SIZE],
        "bpf_trace_printk" => &[TEXT, SIZE, NUMBER, BUFFER, TASK],
        "bpf_trace_vprintk" => &[TEXT, SIZE, BUFFER, SIZE],
        "bpf_strncmp" => &[BUFFER, SIZE, TEXT],
        "bpf_get_current_comm" => &[BUFFER, SIZE],
        "bpf_task_pt_regs" => &[TASK],
        "bpf_arena_alloc_pages" => &[ARENA, NONE, NUMBER, CPU, NONE],
        "bpf_arena_free_pages" => &[ARENA, PAGE, NUMBER],
        "bpf_iter_num_new" => &[NUMBERED, NUMBER, NUMBER],
        "bpf_iter_num_next" | "bpf_iter_num_destroy" => &[NUMBERED],
        "bpf_local_irq_save" | "bpf_local_irq_restore" => &[SAVED],
        "bpf_res_spin_lock" | "bpf_res_spin_unlock" => &[LOCK],
        "bpf_res_spin_lock_irqsave" | "bpf_res_spin_unlock_irqrestore" => &[LOCK, SAVED],
        _ if name.contains("probe_read") => &[BUFFER, SIZE, BUFFER],
        "bpf_rdonly_cast" | "bpf_cast_to_kern_ctx" => &[RESULT, NUMBER],
        _ => &[BUFFER, NUMBER, BUFFER, NUMBER, NUMBER],
    }
}

/// An input as a script.
pub(super) fn of(input: &[u8]) -> [u8; SCRIPT_BYTES] {
    let mut bytes = Bytes(input.iter());
    let mut out = [0; SCRIPT_BYTES];
    for number in 0..16 {
        let mut value = bytes.pick(&NUMBERS);
        if value == 255 {
            value = u64::from_le_bytes(std::array::from_fn(|_| bytes.next()));
        }
        out[number * 8..number * 8 + 8].copy_from_slice(&value.to_le_bytes());
    }
    // All others share the last block.
    let (starts, rest) = out[128..].split_at_mut(KINDS);
    starts.fill(((STEPS / BLOCK - 1) * BLOCK) as u8);
    for (block, kind) in BUSY.iter().enumerate() {
        starts[usize::from(*kind)] = (block * BLOCK) as u8;
    }
    rest[0] = u8::from(bytes.next() & 3 != 0);
    let mut made = Vec::new();
    for (index, step) in rest[8..].chunks_exact_mut(8).enumerate() {
        let callback = BUSY.get(index / BLOCK).copied().unwrap_or(0);
        if index.is_multiple_of(BLOCK) {
            made.clear();
        }
        step.copy_from_slice(&self::step(&mut bytes, index, callback, &mut made));
    }
    out
}

/// What must be called before a call of this name.
fn needed(name: &str) -> Option<&'static str> {
    Some(match name {
        "bpf_ringbuf_submit" | "bpf_ringbuf_discard" => "bpf_ringbuf_reserve",
        "bpf_spin_unlock" => "bpf_spin_lock",
        "bpf_res_spin_unlock" => "bpf_res_spin_lock",
        "bpf_res_spin_unlock_irqrestore" => "bpf_res_spin_lock_irqsave",
        "bpf_local_irq_restore" => "bpf_local_irq_save",
        "bpf_iter_num_next" | "bpf_iter_num_destroy" => "bpf_iter_num_new",
        "bpf_timer_set_callback" => "bpf_timer_init",
        "bpf_timer_start" | "bpf_timer_cancel" => "bpf_timer_set_callback",
        "bpf_iter_scx_dsq_next" | "bpf_iter_scx_dsq_destroy" => "bpf_iter_scx_dsq_new",
        _ if name.contains("dsq_move") && !name.contains("local") || name.contains("from_dsq") => {
            "bpf_iter_scx_dsq_new"
        }
        _ => return None,
    })
}

/// One step of a callback, by the driver's number; `made` has the calls of the same block so far.
fn step(bytes: &mut Bytes<'_>, index: usize, callback: u8, made: &mut Vec<usize>) -> [u8; 8] {
    let kind = bytes.next();
    let choices = choices();
    if kind < 16 {
        return [END; 8];
    }
    let to = bytes.next();
    let then = to >> 6;
    match kind {
        16..32 => {
            let what = ACCESS + bytes.next() % 15;
            let places = if matches!(what - ACCESS, 0..4 | 12 | 14) { LOADED } else { STORED };
            let place = if bytes.next() < 244 { bytes.pick(places) } else { bytes.next() };
            [what, to % 6, place, bytes.next(), 192, 192, 192, then]
        }
        32..36 => [GOTO, (index / BLOCK * BLOCK) as u8 + bytes.next() % (2 * BLOCK as u8), 0, 0, 0, 0, 0, 0],
        _ => {
            // Mostly one that the callback may make.
            let (first, wild) = (usize::from(bytes.next()), bytes.next() >= 250);
            let fits = |what: &usize| wild || choices[*what].allowed[usize::from(callback)];
            let count = choices.len();
            let mut what = (first..first + count).map(|what| what % count).find(fits).unwrap_or(0);
            while let Some(needed) = choices[what].needs.filter(|needed| !wild && !made.contains(needed)) {
                what = needed;
            }
            made.push(what);
            let choice = &choices[what];
            let mut step = [what as u8, place_of(&choice.call, to), 192, 192, 192, 192, 192, then];
            for (arg, fitting) in step[2..7].iter_mut().zip(&choice.params) {
                // Mostly of the right type, sometimes anything.
                let byte = bytes.next();
                *arg = if byte < 248 { fitting[usize::from(byte) % fitting.len()] } else { bytes.next() };
            }
            step
        }
    }
}
