//! How the priorities of tasks went during a run.

use schedlab_base::{DurationNs, TaskId, TimeNs};

/// Tasks whose priorities are kept: the first ones. Chosen: more courses in one picture are not told apart.
const TASKS: usize = 8;
/// Points kept of a task. Chosen: some for each pixel of a picture.
const POINTS: usize = 4096;

/// What a task's priority is from some time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityPoint {
    /// When, on the run's clock.
    pub at: TimeNs,
    /// The priority in the scheduler's own numbers.
    pub priority: i64,
    /// Whether the task runs.
    pub running: bool,
}

/// The course of a task's priority: from one point to the next it stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriorityCourse {
    /// Changes in order of time. Of changes closer together than the resolution the last one is kept.
    pub points: Vec<PriorityPoint>,
    resolution: DurationNs,
}

impl PriorityCourse {
    /// The course that has these points, in order of time.
    pub fn of(points: Vec<PriorityPoint>) -> PriorityCourse {
        PriorityCourse { points, resolution: DurationNs::ZERO }
    }

    fn add(&mut self, point: PriorityPoint) {
        match self.points.last_mut() {
            Some(last) if (last.priority, last.running) == (point.priority, point.running) => return,
            Some(last) if last.at.0 + self.resolution.0 > point.at.0 || last.at == point.at => {
                (last.priority, last.running) = (point.priority, point.running);
                return;
            }
            _ => {}
        }
        if self.points.len() == POINTS {
            self.thin_out();
        }
        self.points.push(point);
    }

    /// Makes room, at half the resolution that the time so far needs.
    fn thin_out(&mut self) {
        let (first, last) = (self.points[0].at, self.points[POINTS - 1].at);
        self.resolution = DurationNs(2 * (last.since(first).0 / POINTS as u64 + 1));
        let mut kept: Vec<PriorityPoint> = Vec::with_capacity(POINTS);
        for point in self.points.drain(..) {
            match kept.last_mut() {
                Some(before) if before.at.0 + self.resolution.0 > point.at.0 => {
                    (before.priority, before.running) = (point.priority, point.running);
                }
                _ => kept.push(point),
            }
        }
        self.points = kept;
    }
}

/// Collects the courses of the first tasks; memory does not grow with time.
#[derive(Clone, Debug, Default)]
pub struct Priorities {
    courses: Vec<PriorityCourse>,
}

impl Priorities {
    /// Whether a task's priority is kept.
    pub fn keeps(task: TaskId) -> bool {
        task.index() < TASKS
    }

    /// A task has this priority now. `running`: whether it runs, if that is known to have changed.
    pub fn add(&mut self, at: TimeNs, task: TaskId, priority: i64, running: Option<bool>) {
        if !Priorities::keeps(task) {
            return;
        }
        if self.courses.len() <= task.index() {
            self.courses.resize(task.index() + 1, PriorityCourse::default());
        }
        let course = &mut self.courses[task.index()];
        let before = course.points.last().is_some_and(|point| point.running);
        course.add(PriorityPoint { at, priority, running: running.unwrap_or(before) });
    }

    /// The courses by [`TaskId`]; one without points is of a task that was never seen.
    pub fn courses(&self) -> &[PriorityCourse] {
        &self.courses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(samples: impl Iterator<Item = (u64, i64, Option<bool>)>) -> Vec<PriorityPoint> {
        let mut priorities = Priorities::default();
        samples.for_each(|(at, priority, running)| priorities.add(TimeNs(at), TaskId(0), priority, running));
        priorities.courses()[0].points.clone()
    }

    #[test]
    fn only_changes_are_kept() {
        let point = |at, priority, running| PriorityPoint { at: TimeNs(at), priority, running };
        let seen = after(
            [(0, 120, None), (5, 120, Some(true)), (9, 120, None), (10, 121, None), (10, 121, Some(false))]
                .into_iter(),
        );
        assert_eq!(seen, [point(0, 120, false), point(5, 120, true), point(10, 121, false)]);
    }

    #[test]
    fn a_long_run_is_kept_at_a_lower_resolution() {
        let seen = after((0..1_000_000).map(|n| (n * 1000, (n % 7) as i64, Some(true))));
        assert!((POINTS / 4..=POINTS).contains(&seen.len()), "{} points", seen.len());
        assert!(seen.windows(2).all(|pair| pair[0].at < pair[1].at));
        let last = seen.last().unwrap();
        assert!(last.at.0 > 999_000_000 && last.priority == 999_999 % 7, "{last:?}");
    }

    #[test]
    fn only_the_first_tasks_are_kept() {
        let mut priorities = Priorities::default();
        priorities.add(TimeNs(1), TaskId(3), 5, None);
        priorities.add(TimeNs(1), TaskId(TASKS as u32), 5, None);
        assert_eq!(priorities.courses().len(), 4);
        assert!(priorities.courses()[0].points.is_empty());
    }
}
