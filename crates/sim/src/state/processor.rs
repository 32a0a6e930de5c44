//! One processor of which all CPUs are turns ([`Machine::one_processor`](schedlab_base::Machine::one_processor)).
//!
//! A turn is short against everything that is simulated: `n` CPUs that execute at the same time have an `n`th of the speed each.
//! Tasks that compute change their pace when a CPU becomes busy or idle, as those of hardware threads do. A kernel path is as slow
//! as it is when each of its parts begins. The path by which a CPU goes idle is over for the simulation before others see it. A
//! CPU that executes during the rest of it shares with it then, and moves its end.
//!
//! Everything here looks at each CPU; such machines have few.

use crate::Kernel;
use schedlab_base::{CpuId, DurationNs, TimeNs};

impl Kernel {
    /// The number of CPUs that execute something.
    pub(crate) fn executing(&self) -> u32 {
        self.busy_cpus + u32::from(self.idle_path)
    }

    /// How long `work` of the CPU of the context takes beside the others.
    #[inline(never)]
    pub(crate) fn share_processor(&mut self, work: DurationNs) -> DurationNs {
        let (here, now) = (self.ctx.cpu.index(), self.ctx.now);
        // Within a switch the run queue has the next task already, and the CPU is counted by the one before.
        let others = self.busy_cpus - u32::from(self.ctx.current.is_some());
        let mut span = work * u64::from(others + 1);
        for (number, other) in self.cpus.iter_mut().enumerate() {
            if number != here && other.curr.is_none() && other.clock > now {
                let shared = work.min(other.clock.since(now));
                other.clock += shared;
                span += shared;
            }
        }
        span
    }

    /// An idle CPU begins to execute at `time`, or goes back to being idle.
    #[inline(never)]
    pub(crate) fn set_idle_path(&mut self, cpu: CpuId, time: TimeNs, begins: bool) {
        if self.topology.one_processor && self.idle_path != begins {
            self.idle_path = begins;
            self.set_pace_beside(cpu, time);
        }
    }
}
