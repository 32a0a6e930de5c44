//! How the figures of a scheduler change with the number of CPUs. Its own runs on fewer CPUs are the baseline, and the verdict is
//! made as in any other comparison.

use crate::cells::distinct;
use crate::comparison::{Comparison, Sample, judge};
use schedlab_stats::Level;

/// Each scheduler on the largest number of CPUs against itself on the next smaller one, in the order of the comparisons. They are
/// those of one workload, machine and metric. Nothing where one number of CPUs has figures. The wider of the simulator's error bars of
/// both numbers of CPUs is heeded.
pub(crate) fn scaling(comparisons: &[&Comparison]) -> Vec<Comparison> {
    let mut counts = distinct(comparisons.iter().map(|c| c.cell.cpus));
    counts.sort_unstable();
    let [.., fewer, more] = counts[..] else { return Vec::new() };
    let sides = |c: &&Comparison| [c.baseline.scheduler.clone(), c.candidate.scheduler.clone()];
    let schedulers = distinct(comparisons.iter().flat_map(sides));
    let step = |name: &String| {
        let (less, more) = (on(comparisons, name, fewer)?, on(comparisons, name, more)?);
        let (first, sample) = more;
        let level = level(first)?;
        let place = (first.cell.clone(), first.metric.clone());
        let sides = [less.1.clone(), sample.clone()];
        let mut step = judge(place, first.unit, first.better, sides, (level, first.at_least_percent));
        // The bars are of changes between schedulers; none is measured for a change between numbers of CPUs.
        let factors = [less.0, first].into_iter().filter_map(|c| c.kernel_factor);
        if let Some(factor) = factors.reduce(f64::max) {
            step.heed_factor(factor);
        }
        Some(step)
    };
    schedulers.iter().filter_map(step).collect()
}

/// The values of a scheduler on so many CPUs.
fn on<'a>(
    comparisons: &[&'a Comparison],
    scheduler: &str,
    cpus: usize,
) -> Option<(&'a Comparison, &'a Sample)> {
    let here = comparisons.iter().filter(|c| c.cell.cpus == cpus);
    let mut sides = here.flat_map(|&c| [(c, &c.baseline), (c, &c.candidate)]);
    sides.find(|(_, sample)| sample.scheduler == scheduler)
}

/// The level of a comparison's intervals.
fn level(comparison: &Comparison) -> Option<Level> {
    let permille = 10.0 * comparison.level_percent;
    Level::ALL.into_iter().find(|level| (f64::from(level.permille()) - permille).abs() < 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{Verdict, compare};
    use crate::made_up::runs;

    #[test]
    fn a_scheduler_is_its_own_baseline_on_fewer_cpus() {
        let mut all = runs(&[90.0, 91.0, 92.0], &[50.0, 51.0, 52.0]);
        let mut more = runs(&[60.0, 61.0, 62.0], &[80.0, 81.0, 82.0]);
        more.iter_mut().for_each(|run| run.cpus = 8);
        let few = compare(&all, Level::P90, 1.0);
        assert_eq!(scaling(&[&few[0]]), []);
        all.extend(more);
        let compared = compare(&all, Level::P90, 1.0);
        let compared: Vec<&Comparison> = compared.iter().filter(|c| c.metric == "throughput").collect();
        let steps = scaling(&compared);
        let verdicts: Vec<Verdict> = steps.iter().map(|step| step.verdict).collect();
        assert_eq!(verdicts, [Verdict::Worse, Verdict::Better]);
        assert_eq!((steps[1].baseline.moments.mean, steps[1].candidate.moments.mean), (51.0, 81.0));
        assert!(steps.iter().all(|step| step.paired && level(step) == Some(Level::P90)));
    }

    #[test]
    fn a_step_inside_the_bar_is_not_decided() {
        let mut all = runs(&[90.0, 91.0, 92.0], &[50.0, 51.0, 52.0]);
        let mut more = runs(&[70.0, 71.0, 72.0], &[90.0, 91.0, 92.0]);
        more.iter_mut().for_each(|run| run.cpus = 8);
        all.extend(more);
        let mut compared = compare(&all, Level::P95, 1.0);
        compared.retain(|c| c.metric == "throughput");
        compared[0].heed_factor(1.5);
        compared[1].heed_factor(1.1);
        let steps = scaling(&compared.iter().collect::<Vec<_>>());
        let verdicts: Vec<Verdict> = steps.iter().map(|step| step.verdict).collect();
        assert_eq!(verdicts, [Verdict::NotDecided, Verdict::Better]);
    }
}
