//! One loaded scheduler as the core knows it (`struct scx_sched`).

use crate::class::ext::dump::Dump;
use crate::flags::{SCX_DSP_DFL_MAX_BATCH, SCX_EXIT_DUMP_DFL_LEN, SCX_WATCHDOG_MAX_TIMEOUT_SECS};
use crate::state::ops::{OpsInfo, OpsSet};
use schedlab_base::{CpuId, DsqId, DurationNs, TaskId, TimeNs};
use schedlab_trace::ExitKind;
use std::collections::BTreeMap;

/// The `SCX_EV_*` counters, by their kernel names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "documented in the kernel's struct scx_event_stats")]
pub struct EventCounters {
    pub select_cpu_fallback: u64,
    pub dispatch_local_dsq_offline: u64,
    pub dispatch_keep_last: u64,
    pub enq_skip_exiting: u64,
    pub enq_skip_migration_disabled: u64,
    pub reenq_immed: u64,
    pub reenq_repeat: u64,
    pub refill_slice_dfl: u64,
    pub slice_clamped: u64,
    pub slice_denied: u64,
    pub bypass_duration: u64,
    pub bypass_dispatch: u64,
    pub bypass_activate: u64,
    pub insert_not_owned: u64,
    pub sub_bypass_dispatch: u64,
    pub sub_forced_admit: u64,
    pub sub_preempt_denied: u64,
    pub sub_kick_denied: u64,
    pub sub_reenq_denied: u64,
    pub sub_cidperf_denied: u64,
    pub sub_rescue: u64,
}

impl EventCounters {
    /// The counters with the kernel's names, in the kernel's order.
    pub fn named(&self) -> [(&'static str, u64); 21] {
        [
            ("SCX_EV_SELECT_CPU_FALLBACK", self.select_cpu_fallback),
            ("SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE", self.dispatch_local_dsq_offline),
            ("SCX_EV_DISPATCH_KEEP_LAST", self.dispatch_keep_last),
            ("SCX_EV_ENQ_SKIP_EXITING", self.enq_skip_exiting),
            ("SCX_EV_ENQ_SKIP_MIGRATION_DISABLED", self.enq_skip_migration_disabled),
            ("SCX_EV_REENQ_IMMED", self.reenq_immed),
            ("SCX_EV_REENQ_REPEAT", self.reenq_repeat),
            ("SCX_EV_REFILL_SLICE_DFL", self.refill_slice_dfl),
            ("SCX_EV_SLICE_CLAMPED", self.slice_clamped),
            ("SCX_EV_SLICE_DENIED", self.slice_denied),
            ("SCX_EV_BYPASS_DURATION", self.bypass_duration),
            ("SCX_EV_BYPASS_DISPATCH", self.bypass_dispatch),
            ("SCX_EV_BYPASS_ACTIVATE", self.bypass_activate),
            ("SCX_EV_INSERT_NOT_OWNED", self.insert_not_owned),
            ("SCX_EV_SUB_BYPASS_DISPATCH", self.sub_bypass_dispatch),
            ("SCX_EV_SUB_FORCED_ADMIT", self.sub_forced_admit),
            ("SCX_EV_SUB_PREEMPT_DENIED", self.sub_preempt_denied),
            ("SCX_EV_SUB_KICK_DENIED", self.sub_kick_denied),
            ("SCX_EV_SUB_REENQ_DENIED", self.sub_reenq_denied),
            ("SCX_EV_SUB_CIDPERF_DENIED", self.sub_cidperf_denied),
            ("SCX_EV_SUB_RESCUE", self.sub_rescue),
        ]
    }
}

/// An insert that waits for `ops.dispatch()` to return.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DispatchEntry {
    pub(crate) task: TaskId,
    pub(crate) qseq: u32,
    pub(crate) dsq: DsqId,
    pub(crate) slice: u64,
    pub(crate) vtime: u64,
    pub(crate) enq_flags: u64,
    /// [`crate::Context::site`] of the insert.
    pub(crate) site: Option<u32>,
}

/// An exit that was claimed and waits for the disable path.
#[derive(Clone, Debug)]
pub(crate) struct PendingExit {
    pub(crate) kind: ExitKind,
    pub(crate) message: String,
    pub(crate) cpu: Option<CpuId>,
    pub(crate) current: Option<TaskId>,
    pub(crate) at: TimeNs,
    /// Whose call is at fault ([`crate::Context::site`]).
    pub(crate) site: Option<u32>,
}

/// User queues with ids below this are found by index. Chosen: covers one queue
/// per CPU and the usual constants.
pub(crate) const SMALL_DSQ_IDS: usize = 2048;

/// A loaded scheduler.
#[derive(Debug, Default)]
pub(crate) struct Sched {
    /// `ops.flags`.
    pub(crate) flags: u64,
    /// Its callbacks.
    pub(crate) present: OpsSet,
    pub(crate) info: Option<OpsInfo>,
    pub(crate) timeout: DurationNs,
    pub(crate) max_batch: u32,
    pub(crate) bypassing: bool,
    pub(crate) bypass_since: TimeNs,
    pub(crate) exit: Option<PendingExit>,
    pub(crate) exit_code: i64,
    pub(crate) events: EventCounters,
    /// User queues with ids below [`SMALL_DSQ_IDS`] by id; 0 is none.
    pub(crate) dsq_small: Vec<u32>,
    /// The other user queues by id.
    pub(crate) dsq_index: BTreeMap<u64, u32>,
    pub(crate) buffer: Vec<DispatchEntry>,
    /// Tasks dispatched in this round of `ops.dispatch()`.
    pub(crate) nr_dispatched: u32,
    /// The task that may be dispatched directly; `Some(None)` once it was.
    pub(crate) direct: Option<Option<TaskId>>,
    /// [`crate::Context::site`] of the last direct dispatch.
    pub(crate) direct_site: Option<u32>,
    pub(crate) dump: Dump,
}

impl Sched {
    /// One with these ops, of which the kernel makes the callbacks `present`; zeros stand for the kernel's defaults.
    pub(crate) fn new(info: OpsInfo, present: OpsSet) -> Sched {
        let most = DurationNs::from_secs(SCX_WATCHDOG_MAX_TIMEOUT_SECS);
        let limit = if info.exit_dump_len == 0 { SCX_EXIT_DUMP_DFL_LEN } else { info.exit_dump_len };
        Sched {
            flags: info.flags,
            present,
            timeout: if info.timeout == DurationNs::ZERO { most } else { info.timeout },
            max_batch: match info.dispatch_max_batch {
                0 => SCX_DSP_DFL_MAX_BATCH,
                batch => batch,
            },
            dsq_small: vec![0; SMALL_DSQ_IDS],
            dump: Dump { limit: limit as usize, ..Dump::default() },
            info: Some(info),
            ..Sched::default()
        }
    }

    /// The place of a user queue with a small id.
    pub(crate) fn small(&mut self, id: DsqId) -> Option<&mut u32> {
        self.dsq_small.get_mut(usize::try_from(id.0).ok()?)
    }
}
