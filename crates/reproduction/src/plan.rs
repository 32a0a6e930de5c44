//! The runs behind the cells of documents: which there are, and what they say about each cell.

use crate::definition::{Cell, Document, Row};
use crate::outcome::{DocumentOutcome, TableOutcome};
use schedlab_stats::mean;
use schedlab_trace::RunRecord;

/// What the names of metrics from samples of `schedule()` begin with.
const SAMPLES: &str = "samples.";

impl Cell {
    /// True when its metric is one of samples of `schedule()`.
    pub fn is_sampled(&self) -> bool {
        self.metric.starts_with(SAMPLES)
    }

    /// True when two cells are values of the same run.
    fn is_of_run(&self, other: &Cell) -> bool {
        let sampled = |cell: &Cell| cell.is_sampled().then(|| cell.sampling.clone());
        self.scheduler == other.scheduler
            && self.settings == other.settings
            && self.workload == other.workload
            && self.machine == other.machine
            && self.cpus == other.cpus
            && self.duration == other.duration
            && sampled(self) == sampled(other)
    }
}

/// The different runs behind all cells: rows share them.
#[derive(Clone, Debug)]
pub struct Plan {
    cells: Vec<Cell>,
    /// The number of seeds that was asked for.
    asked: usize,
}

impl Plan {
    /// The runs of the documents' tables, with at least `asked` seeds for each.
    pub fn new(documents: &[Document], asked: usize) -> Plan {
        let rows = documents.iter().flat_map(|document| &document.tables).flat_map(|table| &table.rows);
        Plan::of(rows.flat_map(|row| &row.cells), asked)
    }

    /// The runs behind these cells.
    pub fn of<'a>(cells: impl IntoIterator<Item = &'a Cell>, asked: usize) -> Plan {
        let mut kept: Vec<Cell> = Vec::new();
        for cell in cells {
            match kept.iter_mut().find(|known| known.is_of_run(cell)) {
                Some(known) => known.seeds = known.seeds.max(cell.seeds),
                None => kept.push(cell.clone()),
            }
        }
        Plan { cells: kept, asked }
    }

    /// A cell for each run, with the number of its seeds. Records of the runs are given to [`Plan::outcome`] in this order, those of
    /// one cell's seeds one after the other.
    pub fn runs(&self) -> impl Iterator<Item = (&Cell, usize)> {
        self.cells.iter().map(|cell| (cell, cell.seeds.max(self.asked)))
    }

    /// A cell's share of the records of all runs.
    ///
    /// # Panics
    /// If the cell is none of the plan's.
    pub fn records<'a, R>(&self, cell: &Cell, records: &'a [R]) -> &'a [R] {
        let at = self.cells.iter().position(|known| known.is_of_run(cell)).expect("every cell is planned");
        let seeds: Vec<usize> = self.runs().map(|(_, seeds)| seeds).collect();
        let begin: usize = seeds[..at].iter().sum();
        &records[begin..begin + seeds[at]]
    }

    /// What a document's rows say with the records of all runs; a run that was not made says nothing.
    pub fn outcome(&self, document: &Document, records: &[Option<RunRecord>]) -> DocumentOutcome {
        let values = |cell: &Cell| -> Vec<Option<f64>> {
            let value = |run: &Option<RunRecord>| value_of(run.as_ref()?, &cell.metric);
            let runs = self.records(cell, records).iter();
            runs.map(|run| value(run).map(|value| value / cell.divide)).collect()
        };
        let mut tables = Vec::new();
        for table in &document.tables {
            let judge = |row: &Row| row.judge(&row.cells.iter().map(values).collect::<Vec<_>>());
            let rows = table.rows.iter().map(judge).chain(table.recomputed.iter().cloned()).collect();
            // Cells of growth rows are cells of the others: their runs are planned.
            let growth = table.growth.iter().map(judge).collect();
            let (id, title, about) = (table.id.clone(), table.title.clone(), table.about.clone());
            tables.push(TableOutcome { id, title, about, rows, growth });
        }
        let (name, title) = (document.name.clone(), document.title.clone());
        DocumentOutcome { name, title, wanted_percent: document.wanted_percent, tables }
    }
}

/// What a run says about a metric: a metric by name, `counters.NAME`, or the mean of `series.NAME[FROM..TO]`, counted from 1.
/// Nothing where the scheduler was ejected: the figures are the fair class's then.
pub fn value_of(run: &RunRecord, metric: &str) -> Option<f64> {
    if run.is_void() {
        return None;
    }
    if let Some(name) = metric.strip_prefix("counters.") {
        return run.counters.iter().find(|counter| counter.name == name).map(|counter| counter.value as f64);
    }
    if let Some((name, range)) = metric.strip_prefix("series.").and_then(|series| series.split_once('[')) {
        let (from, to) = range.strip_suffix(']')?.split_once("..")?;
        let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
        let series = run.series.iter().find(|series| series.name == name)?;
        return mean(series.values.get(from.checked_sub(1)?..to)?);
    }
    run.metric(metric).filter(|value| value.is_finite())
}
