//! How a figure goes with the number of CPUs: growth rows as curves, published and measured.

use crate::outcome::{CellOutcome, OverSeeds, TableOutcome};
use std::collections::BTreeMap;

/// The curves of all schedulers under one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// The workload as `-w` takes it.
    pub workload: String,
    /// One entry a scheduler.
    pub schedulers: Vec<Curve>,
}

/// One scheduler's figures, as multiples of its figure on the smallest number of CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The scheduler with its settings.
    pub scheduler: String,
    /// The published figures.
    pub published: Vec<CurvePoint>,
    /// The measured figures.
    pub measured: Vec<CurvePoint>,
}

/// A figure on one number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// The number of CPUs.
    pub cpus: usize,
    /// How many times the figure on the smallest number of CPUs: the mean over the seeds.
    pub times: f64,
    /// Half width of its 95 % interval over the seeds.
    pub half_width: Option<f64>,
}

impl TableOutcome {
    /// The curves behind the growth rows, in the order of the rows.
    pub fn curves(&self) -> Vec<Curves> {
        let mut all: Vec<Curves> = Vec::new();
        for cell in self.growth.iter().flat_map(|row| &row.cells) {
            let known = all.iter().position(|curves| curves.workload == cell.workload);
            let at = known.unwrap_or_else(|| {
                all.push(Curves { workload: cell.workload.clone(), schedulers: Vec::new() });
                all.len() - 1
            });
            let schedulers = &mut all[at].schedulers;
            if schedulers.iter().all(|curve| curve.scheduler != cell.scheduler) {
                schedulers.push(self.curve(cell));
            }
        }
        all
    }

    /// The curve that goes through a cell.
    fn curve(&self, one: &CellOutcome) -> Curve {
        let cells = self.growth.iter().flat_map(|row| &row.cells);
        let same = cells.filter(|cell| cell.workload == one.workload && cell.scheduler == one.scheduler);
        let by_cpus: BTreeMap<usize, &CellOutcome> =
            same.filter_map(|cell| Some((cell.cpus?, cell))).collect();
        let first = by_cpus.values().next().copied().unwrap_or(one);
        let published = by_cpus.iter().filter_map(|(&cpus, cell)| {
            let times = cell.published?.value / first.published?.value;
            Some(CurvePoint { cpus, times, half_width: None })
        });
        let measured = by_cpus.iter().filter_map(|(&cpus, cell)| {
            let pairs = cell.values.iter().zip(&first.values);
            let over = OverSeeds::of(pairs.map(|(more, fewer)| Some((*more)? / (*fewer)?)));
            Some(CurvePoint { cpus, times: over.mean?, half_width: over.half_width })
        });
        let finite = |point: &CurvePoint| point.times.is_finite();
        Curve {
            scheduler: one.scheduler.clone(),
            published: published.filter(finite).collect(),
            measured: measured.filter(finite).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Judgement, Published, Qualifier};
    use crate::{RowOutcome, Rule};

    fn cell(scheduler: &str, cpus: usize, published: f64, values: &[Option<f64>]) -> CellOutcome {
        CellOutcome {
            name: "fewer".into(),
            scheduler: scheduler.into(),
            workload: "chat:rooms=10".into(),
            machine: "p3-700".into(),
            cpus: Some(cpus),
            metric: "throughput".into(),
            published: Some(Published { value: published, qualifier: Qualifier::Is }),
            measured: None,
            values: values.to_vec(),
        }
    }

    fn table(rows: Vec<[CellOutcome; 2]>) -> TableOutcome {
        let row = |cells: [CellOutcome; 2]| RowOutcome {
            place: "rooms=10".into(),
            cells: cells.to_vec(),
            figure: "more / fewer".into(),
            unit: String::new(),
            published: None,
            says: String::new(),
            measured: None,
            half_width: None,
            values: Vec::new(),
            rule: Rule::factor().text(),
            verdict: Judgement::Agrees,
            counts: true,
            explanation: String::new(),
            unanswerable: String::new(),
        };
        let growth = rows.into_iter().map(row).collect();
        let (id, title, about) = ("chat".into(), "rate".into(), String::new());
        TableOutcome { id, title, about, rows: Vec::new(), growth }
    }

    fn places(points: &[CurvePoint]) -> Vec<(usize, f64)> {
        points.iter().map(|point| (point.cpus, point.times)).collect()
    }

    #[test]
    fn curves_begin_with_the_smallest_number_of_cpus() {
        let at = |cpus, published, values: [f64; 2]| cell("o1", cpus, published, &values.map(Some));
        let (two, four, eight) =
            (at(2, 10.0, [1.0, 10.0]), at(4, 15.0, [2.0, 40.0]), at(8, 5.0, [1.0, 10.0]));
        let other = |cpus| CellOutcome { scheduler: "hamq".into(), ..at(cpus, 7.0, [3.0, 3.0]) };
        // The step that begins with the smallest number comes last.
        let table = table(vec![[four.clone(), eight], [other(2), other(4)], [two, four]]);
        let [curves] = &table.curves()[..] else { panic!("one workload") };
        let names: Vec<&str> = curves.schedulers.iter().map(|curve| curve.scheduler.as_str()).collect();
        assert_eq!((curves.workload.as_str(), names), ("chat:rooms=10", vec!["o1", "hamq"]));
        let o1 = &curves.schedulers[0];
        assert_eq!(places(&o1.published), [(2, 1.0), (4, 1.5), (8, 0.5)]);
        // Seed by seed: twice and four times.
        assert_eq!(places(&o1.measured), [(2, 1.0), (4, 3.0), (8, 1.0)]);
        assert!(o1.measured[1].half_width.is_some_and(|half| half > 1.0));
        assert_eq!(places(&curves.schedulers[1].measured), [(2, 1.0), (4, 1.0)]);
    }

    #[test]
    fn a_figure_that_is_missing_leaves_a_gap() {
        let at = |cpus, value| cell("o1", cpus, 10.0, &[value]);
        let steps = |two, four, eight| table(vec![[at(2, two), at(4, four)], [at(4, four), at(8, eight)]]);
        let measured = |table: TableOutcome| places(&table.curves()[0].schedulers[0].measured);
        assert_eq!(measured(steps(Some(2.0), None, Some(4.0))), [(2, 1.0), (8, 2.0)]);
        assert_eq!(measured(steps(None, Some(2.0), Some(4.0))), []);
        assert_eq!(measured(steps(Some(0.0), Some(2.0), Some(4.0))), []);
        assert!(table(Vec::new()).curves().is_empty());
    }
}
