//! How the CPU time of tasks lies over a run.

use schedlab_base::{DurationNs, TaskId, TimeNs};
use schedlab_trace::{Event, EventKind, Sink};

/// Parts that time is counted in. Chosen: a tenth of the shortest third.
const PART: DurationNs = DurationNs::from_ms(10);

/// Counts CPU time of the first tasks in parts of [`PART`].
#[derive(Debug)]
pub(super) struct Progress {
    /// By task: nanoseconds of each part.
    parts: Vec<Vec<u64>>,
    /// By CPU: the task that runs, and since when.
    running: Vec<Option<(TaskId, TimeNs)>>,
}

impl Progress {
    /// For a run with so many tasks at its start.
    pub(super) fn new(tasks: usize, cpus: usize) -> Progress {
        Progress { parts: vec![Vec::new(); tasks], running: vec![None; cpus] }
    }

    fn add(&mut self, task: TaskId, since: TimeNs, until: TimeNs) {
        let Some(parts) = self.parts.get_mut(task.index()) else { return };
        let mut at = since.0;
        while at < until.0 {
            let part = (at / PART.0) as usize;
            let end = until.0.min((part as u64 + 1) * PART.0);
            if parts.len() <= part {
                parts.resize(part + 1, 0);
            }
            parts[part] += end - at;
            at = end;
        }
    }

    /// The CPU time of each task in the thirds of a run that was so long.
    pub(super) fn thirds(mut self, duration: DurationNs) -> Vec<[f64; 3]> {
        let end = TimeNs::ZERO + duration;
        for (task, since) in std::mem::take(&mut self.running).into_iter().flatten() {
            self.add(task, since, end);
        }
        let third = (duration.0 / PART.0).max(3) / 3;
        let of = |parts: &Vec<u64>| {
            let mut thirds = [0.0; 3];
            for (at, time) in parts.iter().enumerate() {
                thirds[(at as u64 / third).min(2) as usize] += *time as f64;
            }
            thirds
        };
        self.parts.iter().map(of).collect()
    }
}

impl Sink for Progress {
    fn event(&mut self, event: &Event) {
        let EventKind::SchedSwitch { next, .. } = event.kind else { return };
        let Some(running) = self.running.get_mut(event.cpu.index()) else { return };
        let before = std::mem::replace(running, next.map(|task| (task, event.time)));
        if let Some((task, since)) = before {
            self.add(task, since, event.time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::CpuId;
    use schedlab_trace::TaskState;

    #[test]
    fn time_is_counted_in_its_third() {
        let mut progress = Progress::new(2, 1);
        let switch = |ms: u64, next: Option<u32>| Event {
            time: TimeNs(ms * 1_000_000),
            cpu: CpuId(0),
            kind: EventKind::SchedSwitch {
                prev: None,
                prev_state: TaskState::Runnable,
                next: next.map(TaskId),
            },
        };
        for event in [switch(0, Some(0)), switch(95, Some(1)), switch(105, None), switch(250, Some(1))] {
            progress.event(&event);
        }
        let ms = |thirds: [f64; 3]| thirds.map(|ns| (ns / 1e6) as u64);
        let thirds = progress.thirds(DurationNs::from_ms(300));
        assert_eq!((ms(thirds[0]), ms(thirds[1])), ([95, 0, 0], [5, 5, 50]));
    }
}
