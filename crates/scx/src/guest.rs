//! Arguments of callbacks in guest memory: the word array that programs start with, and the structs it points to.

use crate::kernel_model::Offsets;
use crate::kfunc::Cids;
use crate::masks::{CmaskRange, write_mask};
use crate::mirror::kernel_perm;
use schedlab_base::{CpuMask, MAX_CPUS, Place, Shared};
use schedlab_bpf::memory::PAGE_SIZE;
use schedlab_bpf::{GuestAddr, Memory, MemoryError, Perm};
use schedlab_sim::{GroupKnobs, Kernel, PreemptReason};
use schedlab_trace::ExitRecord;

/// Words of the context: more than any callback or trace point has arguments.
const CONTEXT_WORDS: usize = 8;
const CONTEXT_BYTES: usize = CONTEXT_WORDS * 8;
/// Room for the reason of an exit (`UEI_REASON_LEN` of loaders is 128).
const REASON_LEN: usize = 128;
/// Room for its message (`SCX_EXIT_MSG_LEN`).
const MSG_LEN: usize = 1024;
/// `SCX_EFLAG_INITIALIZED`.
const EFLAG_INITIALIZED: u64 = 1;
/// Bytes between two small argument structs.
const SLOT: u64 = 64;

/// The guest's view of callback arguments.
#[derive(Clone, Debug)]
pub(crate) struct Guest {
    context: GuestAddr,
    /// The words at it.
    words: Shared<CONTEXT_BYTES>,
    /// An all-zero object for arguments that have no content.
    pub(crate) scratch: GuestAddr,
    cgroup_init_args: GuestAddr,
    /// `struct scx_enable_args`.
    pub(crate) enable_args: GuestAddr,
    task_args: GuestAddr,
    release_args: GuestAddr,
    dump_context: GuestAddr,
    exit_info: GuestAddr,
    reason: GuestAddr,
    msg: GuestAddr,
    dump: GuestAddr,
    dump_len: usize,
    cpumask: GuestAddr,
    /// In the arena, for cid-form schedulers.
    cmask: GuestAddr,
}

impl Guest {
    /// Maps them. `cmask` is where cid masks go, NULL for CPU-form schedulers.
    pub(crate) fn new(
        mem: &mut Memory,
        offsets: &Offsets,
        dump_len: usize,
        cmask: GuestAddr,
    ) -> Result<Guest, MemoryError> {
        // Compiled code checks several members at once by the page where they begin and the next one.
        let page = mem.map(SLOT * 16 + PAGE_SIZE, Perm::READ)?;
        let slot = |index: u64| page.offset(index * SLOT);
        let mut guest = Guest {
            context: slot(0),
            words: mem.share(slot(0)).expect("just mapped"),
            scratch: slot(2),
            cgroup_init_args: slot(3),
            enable_args: slot(4),
            task_args: slot(5),
            release_args: slot(6),
            dump_context: slot(7),
            exit_info: slot(9),
            reason: GuestAddr::NULL,
            msg: GuestAddr::NULL,
            dump: GuestAddr::NULL,
            dump_len,
            cpumask: mem.map((MAX_CPUS / 8) as u64, kernel_perm())?,
            cmask,
        };
        assert!(
            offsets.exit_info.size <= 2 * SLOT && offsets.dump_ctx.size <= 2 * SLOT,
            "structs fit their slots"
        );
        guest.reason = mem.map((REASON_LEN + MSG_LEN + dump_len) as u64, kernel_perm())?;
        guest.msg = guest.reason.offset(REASON_LEN as u64);
        guest.dump = guest.msg.offset(MSG_LEN as u64);
        mem.write_u64(guest.enable_args, cmask.0).expect("just mapped");
        Ok(guest)
    }

    /// Stores a program's arguments and says where.
    #[inline(always)]
    pub(crate) fn context<const N: usize>(&self, args: &[u64; N]) -> u64 {
        const { assert!(N <= CONTEXT_WORDS, "arguments fit the context") };
        for (index, arg) in args.iter().enumerate() {
            self.words.set(Place::new(index * size_of::<u64>()), *arg);
        }
        self.context.0
    }

    /// The words of the context, which the next program's arguments overwrite.
    pub(crate) fn context_words(&self, mem: &mut Memory) -> Vec<u64> {
        let word = |index| mem.read_u64(self.context.offset(index * size_of::<u64>() as u64));
        (0..CONTEXT_WORDS as u64).map(word).map(|word| word.expect("mapped at load")).collect()
    }

    /// Puts them back.
    pub(crate) fn set_context_words(&self, words: &[u64]) {
        for (index, word) in words.iter().enumerate() {
            self.words.set(Place::new(index * size_of::<u64>()), *word);
        }
    }

    /// `struct scx_init_task_args`.
    pub(crate) fn write_init_task_args(&self, fork: bool, cgroup: GuestAddr, mem: &mut Memory) -> u64 {
        mem.write_u64(self.task_args, u64::from(fork)).expect("mapped at load");
        mem.write_u64(self.task_args.offset(8), cgroup.0).expect("mapped at load");
        self.task_args.0
    }

    /// `struct scx_cgroup_init_args`.
    pub(crate) fn write_cgroup_init_args(&self, knobs: &GroupKnobs, mem: &mut Memory) -> u64 {
        let weight = u64::from(knobs.weight);
        let words = [weight, knobs.period_us, knobs.quota_us, knobs.burst_us, u64::from(knobs.idle)];
        for (index, word) in words.into_iter().enumerate() {
            mem.write_u64(self.cgroup_init_args.offset(index as u64 * 8), word).expect("mapped at load");
        }
        self.cgroup_init_args.0
    }

    /// `struct scx_exit_task_args`.
    pub(crate) fn write_exit_task_args(&self, cancelled: bool, mem: &mut Memory) -> u64 {
        mem.write_u64(self.task_args, u64::from(cancelled)).expect("mapped at load");
        self.task_args.0
    }

    /// `struct scx_cpu_release_args`.
    pub(crate) fn write_release_args(&self, reason: PreemptReason, task: u64, mem: &mut Memory) -> u64 {
        mem.write_u64(self.release_args, reason as u64).expect("mapped at load");
        mem.write_u64(self.release_args.offset(8), task).expect("mapped at load");
        self.release_args.0
    }

    /// The mask argument of `ops.set_cpumask()`.
    pub(crate) fn write_cpumask(&self, mask: &CpuMask, mem: &mut Memory) -> u64 {
        write_mask(mem, self.cpumask, mask).expect("mapped at load");
        self.cpumask.0
    }

    /// The mask argument of `ops.set_cmask()`, in the arena.
    pub(crate) fn write_cmask(&self, cids: &Cids, mask: &CpuMask, mem: &mut Memory) -> u64 {
        let count = cids.count() as u32;
        debug_assert!(count > 0, "a machine has CPUs");
        // SCX_CMASK_NR_WORDS(): one word more, for masks that begin within a word.
        let header = [0, count, count.div_ceil(64) + 1];
        let written = header
            .into_iter()
            .enumerate()
            .try_for_each(|(index, word)| mem.write_u32(self.cmask.offset(index as u64 * 4), word))
            .and_then(|()| {
                let range = CmaskRange::read(mem, self.cmask)?;
                range.fill(mem, self.cmask, |cid| cids.cpu(cid as i32).is_some_and(|cpu| mask.contains(cpu)))
            });
        // A program can free arena pages that are not its own; it then sees an unmapped mask.
        written.map_or(0, |()| self.cmask.0)
    }

    /// `struct scx_exit_info`.
    pub(crate) fn write_exit_info(
        &self,
        offsets: &Offsets,
        exit: &ExitRecord,
        k: &Kernel,
        initialized: bool,
        mem: &mut Memory,
    ) -> u64 {
        let at = offsets.exit_info;
        let texts = [
            (self.reason, REASON_LEN, &exit.reason),
            (self.msg, MSG_LEN, &exit.message),
            (self.dump, self.dump_len, &exit.dump),
        ];
        for (addr, room, text) in texts {
            write_text(mem, addr, room, text);
        }
        let words = [
            (at.exit_code, k.exit_code() as u64),
            (at.flags, if initialized { EFLAG_INITIALIZED } else { 0 }),
            (at.reason, self.reason.0),
            (at.msg, self.msg.0),
            (at.dump, self.dump.0),
        ];
        for (offset, value) in words {
            mem.write_u64(self.exit_info.offset(offset), value).expect("mapped at load");
        }
        mem.write_u32(self.exit_info.offset(at.kind), exit.kind.code() as u32).expect("mapped at load");
        mem.write_u32(self.exit_info.offset(at.exit_cpu), k.exit_cpu() as u32).expect("mapped at load");
        self.exit_info.0
    }

    /// `struct scx_dump_ctx`.
    pub(crate) fn write_dump_context(
        &self,
        offsets: &Offsets,
        exit: &ExitRecord,
        k: &Kernel,
        mem: &mut Memory,
    ) -> u64 {
        let at = offsets.dump_ctx;
        let now = k.now().0;
        let jiffies = now / k.machine().tick_period().0;
        write_text(mem, self.reason, REASON_LEN, &exit.reason);
        let words = [
            (at.exit_code, k.exit_code() as u64),
            (at.reason, self.reason.0),
            (at.at_ns, now),
            (at.at_jiffies, jiffies),
        ];
        for (offset, value) in words {
            mem.write_u64(self.dump_context.offset(offset), value).expect("mapped at load");
        }
        mem.write_u32(self.dump_context.offset(at.kind), exit.kind.code() as u32).expect("mapped at load");
        self.dump_context.0
    }
}

/// Writes a text with its closing zero, cut to the room there is.
fn write_text(mem: &mut Memory, addr: GuestAddr, room: usize, text: &str) {
    let len = text.len().min(room - 1);
    let to = mem.slice_mut(addr, room as u64).expect("mapped at load");
    to.fill(0);
    to[..len].copy_from_slice(&text.as_bytes()[..len]);
}
