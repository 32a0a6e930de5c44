//! Tasks beside those of a workload: the threads of the kernel that a machine has, and what starts a workload.

use crate::{Amount, End, Identity, Op, ProcessId, ProgramBuilder, ProgramId, Scenario, TaskSpec};
use schedlab_base::{Background, CpuId, CpuMask, DurationNs, Machine, Nice, Policy, Prng, Start};

/// The stream of random numbers of the gaps between wakeups.
const STREAM: u64 = 0x6261_636b;
/// Gaps that are drawn for each thread; then they come again.
const GAPS: usize = 64;

/// Number of tasks that start a workload, where [`Scenario::surrounded`] adds them.
pub const STARTERS: usize = 4;
/// How long the real arm measures the speed of a machine (`SpinRate::measure`): 10 to 25 ms, as it happens to guess. Drawn.
const MEASURING: [DurationNs; 2] = [DurationNs::from_ms(10), DurationNs::from_ms(25)];
/// The stream of random numbers for that.
const MEASURING_STREAM: u64 = 0x6d65_6173;

/// The program of a task that does nothing by itself.
fn sleeps() -> ProgramBuilder {
    let rest = |body: ProgramBuilder| body.op(Op::Sleep(DurationNs::from_secs(3600)));
    ProgramBuilder::new().repeat(Amount::Forever, rest)
}

impl Scenario {
    /// This scenario with all that runs beside it on a machine. The kernel's threads stand behind its tasks, and behind
    /// those what starts it, where the machine's runs begin at a gate.
    #[must_use]
    pub fn surrounded(&self, machine: &Machine, seed: u64) -> Scenario {
        let scenario = self.with_background(&machine.background, machine.cpu_count(), seed);
        if machine.kernel.start == Start::Gate { scenario.with_starters(seed) } else { scenario }
    }

    /// This scenario with the threads of `background` behind its tasks, on a machine with `cpus` CPUs. They keep no
    /// run alive.
    #[must_use]
    fn with_background(&self, background: &[Background], cpus: usize, seed: u64) -> Scenario {
        let mut scenario = self.clone();
        if background.is_empty() {
            return scenario;
        }
        scenario.end_with_own_tasks();
        let mut prng = Prng::stream(seed, STREAM);
        for thread in background {
            if thread.per_cpu {
                for cpu in (0..cpus as u32).map(CpuId) {
                    let name = format!("{}/{}", thread.name, cpu.0);
                    scenario.add_thread(name, thread, Some(CpuMask::single(cpu)), &mut prng);
                }
            } else {
                scenario.add_thread(thread.name.clone(), thread, None, &mut prng);
            }
        }
        scenario
    }

    /// This scenario with what starts its tasks on a real kernel behind them, [`STARTERS`] tasks. The command forks the
    /// leader, which forks all the others. The leader's first child measures how fast the machine computes and ends; the
    /// second one only holds the process group. They keep no run alive.
    #[must_use]
    fn with_starters(&self, seed: u64) -> Scenario {
        let mut scenario = self.clone();
        scenario.end_with_own_tasks();
        let [least, most] = MEASURING;
        let measuring = least.0 + Prng::stream(seed, MEASURING_STREAM).below(most.0 - least.0);
        let measures = ProgramBuilder::new().op(Op::Run(DurationNs(measuring)));
        let (command, leader, anchor) = (sleeps(), sleeps(), sleeps());
        let starters: [_; STARTERS] =
            [("schedlab", command), ("leader", leader), ("measure", measures), ("anchor", anchor)];
        for (name, program) in starters {
            scenario.add_foreign(name.to_string(), program, None, false);
        }
        scenario
    }

    /// This scenario with the scheduler's own user space behind all of that: a task that sleeps, in whose place the
    /// simulator has it take its turns. It keeps no run alive.
    #[must_use]
    pub fn with_user_space(mut self, name: &str, policy: Policy, affinity: CpuMask) -> Scenario {
        self.end_with_own_tasks();
        self.add_foreign(name.to_string(), sleeps(), Some(affinity), false);
        if let Some(task) = self.tasks.last_mut() {
            task.policy = policy;
        }
        self
    }

    /// A run that ends with its last task ends with the last of those that are there now.
    fn end_with_own_tasks(&mut self) {
        if self.end == End::AllExit {
            self.end = End::ForegroundExit;
            self.tasks.iter_mut().for_each(|task| task.background = false);
        }
    }

    fn add_thread(&mut self, name: String, thread: &Background, affinity: Option<CpuMask>, prng: &mut Prng) {
        let half = thread.period.0 / 2;
        let mut gap = || DurationNs(half + prng.below(thread.period.0 + 1));
        let body = ProgramBuilder::new().repeat(Amount::Forever, |body| {
            (0..GAPS).fold(body, |body, _| body.op(Op::Sleep(gap())).op(Op::Run(thread.length)))
        });
        self.add_foreign(name, body, affinity, true);
    }

    /// Adds a task in the background, of a process of its own.
    fn add_foreign(
        &mut self,
        name: String,
        program: ProgramBuilder,
        affinity: Option<CpuMask>,
        kernel_thread: bool,
    ) {
        self.programs.push(program.build().expect("its loop, if it has one, sleeps"));
        let process = self.tasks.iter().map(|task| task.process.0 + 1).max().unwrap_or(0);
        self.tasks.push(TaskSpec {
            name,
            program: ProgramId(self.programs.len() as u32 - 1),
            process: ProcessId(process),
            nice: Nice::ZERO,
            policy: Policy::Other,
            slice: None,
            affinity: affinity.map(Box::new),
            working_set_kib: 0,
            background: true,
            group: None,
            kernel_thread,
            identity: Identity::default(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_come_behind_the_tasks_and_keep_no_run_alive() {
        let workload =
            crate::catalog::build("cpuhog:ntasks=3,ttime=1s", 1).expect("a workload of the catalogue");
        let thread = |name: &str, per_cpu| Background {
            name: name.into(),
            period: DurationNs::from_ms(10),
            length: DurationNs::from_us(15),
            per_cpu,
        };
        let with = workload.with_background(&[thread("a", false), thread("b", true)], 2, 1);
        let names: Vec<&str> = with.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names[3..], ["a", "b/0", "b/1"]);
        assert_eq!(with.tasks[5].affinity.as_deref(), Some(&CpuMask::single(CpuId(1))));
        assert!(with.validate().is_ok() && with.tasks[3..].iter().all(|task| task.background));
        assert_eq!(workload.with_background(&[], 2, 1), workload);
        let gaps = |scenario: &Scenario| scenario.programs.last().cloned();
        assert_ne!(gaps(&with), gaps(&workload.with_background(&[thread("b", true)], 2, 2)));
    }
}
