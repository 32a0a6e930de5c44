//! The outcome: rows with their measured figures and verdicts, and the share of rows
//! that agree.

use crate::definition::{Cell, Row};
use crate::rule::{Judgement, Published};
use schedlab_stats::{Level, Moments, mean_interval};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A document, measured again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Document")]
pub struct DocumentOutcome {
    /// Its short name.
    pub name: String,
    /// Author, title, date.
    pub title: String,
    /// The part of the rows that has to agree, in percent.
    pub wanted_percent: f64,
    /// Its tables.
    pub tables: Vec<TableOutcome>,
}

/// A table, measured again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DocumentTable")]
pub struct TableOutcome {
    /// Its short name.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What a reader must know for it.
    #[serde(default)]
    pub about: String,
    /// Its rows.
    pub rows: Vec<RowOutcome>,
    /// [Rows about growth](reproduction.md#growth): each scheduler's figure on more CPUs over its own on fewer, counted
    /// apart. Their cells are named `fewer` and `more`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<RowOutcome>,
}

/// A row with its measured figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Row")]
pub struct RowOutcome {
    /// What tells it from the others of the table.
    pub place: String,
    /// The runs behind it; empty where the figure is computed from published ones.
    #[serde(default)]
    pub cells: Vec<CellOutcome>,
    /// How the figure is made of the cells.
    pub figure: String,
    /// Unit of the figure.
    #[serde(default)]
    pub unit: String,
    /// The published figure; null where there are words only.
    pub published: Option<Published>,
    /// What was published in words.
    #[serde(default)]
    pub says: String,
    /// The measured figure, in `unit`: the mean over the seeds.
    pub measured: Option<f64>,
    /// Half width of its 95 % interval over the seeds, in `unit`.
    pub half_width: Option<f64>,
    /// The figure of each seed.
    #[serde(default)]
    pub values: Vec<f64>,
    /// The rule in words.
    pub rule: String,
    /// What it says.
    pub verdict: Judgement,
    /// Whether the row counts for the document.
    pub counts: bool,
    /// What is known if it does not agree.
    #[serde(default)]
    pub explanation: String,
    /// Why [no scheduler can answer it](reproduction.md#rows-that-no-scheduler-can-answer); only in rows that are marked
    /// so.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unanswerable: String,
}

/// The runs behind one value of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Cell")]
pub struct CellOutcome {
    /// Its name in the figure.
    pub name: String,
    /// The scheduler with its settings.
    pub scheduler: String,
    /// The workload as `-w` takes it.
    pub workload: String,
    /// The machine.
    pub machine: String,
    /// Number of CPUs; the machine's own without.
    pub cpus: Option<usize>,
    /// What is measured.
    pub metric: String,
    /// As printed in the document.
    pub published: Option<Published>,
    /// The measured value: the mean over the seeds.
    pub measured: Option<f64>,
    /// The value of each seed; null where a run gave none.
    pub values: Vec<Option<f64>>,
}

impl Row {
    /// Judges the row by the values of its cells, one list a cell with one value a seed.
    /// The figure is made seed by seed, since a seed is the same work for all cells.
    /// A row without cells has one value, which follows from published ones.
    pub fn judge(&self, measured: &[Vec<Option<f64>>]) -> RowOutcome {
        // A figure of nothing stands for words that cannot be compared with anything.
        let computed = usize::from(!self.given.is_empty());
        let seeds = measured.iter().map(Vec::len).min().unwrap_or(computed);
        let figure = |seed: usize| {
            let run = |name: &str| measured[self.cells.iter().position(|cell| cell.name == name)?][seed];
            self.figure.value(&|name| self.given.get(name).copied().or_else(|| run(name)))
        };
        let OverSeeds { values, mean, half_width } = OverSeeds::of((0..seeds).map(figure));
        RowOutcome {
            place: self.place.clone(),
            cells: self.cells.iter().zip(measured).map(|(cell, values)| cell.outcome(values)).collect(),
            figure: self.figure.to_string(),
            unit: self.unit.clone(),
            published: self.published,
            says: self.says.clone(),
            measured: mean,
            half_width,
            values,
            rule: self.rule.text(),
            verdict: self.rule.judge(self.published, mean),
            counts: self.counts,
            explanation: self.explanation.clone(),
            unanswerable: self.unanswerable.clone(),
        }
    }
}

/// A figure over the seeds; nothing where one run has none, since the mean would be of other work.
pub(crate) struct OverSeeds {
    /// The figure of each seed.
    pub(crate) values: Vec<f64>,
    pub(crate) mean: Option<f64>,
    /// Half width of the mean's 95 % interval.
    pub(crate) half_width: Option<f64>,
}

impl OverSeeds {
    pub(crate) fn of(figures: impl Iterator<Item = Option<f64>>) -> OverSeeds {
        let values: Vec<f64> = figures.collect::<Option<_>>().unwrap_or_default();
        let moments = Moments::of(&values).ok();
        let interval = moments.and_then(|moments| mean_interval(&moments, Level::P95).ok());
        let mean = moments.map(|moments| moments.mean);
        OverSeeds { values, mean, half_width: interval.map(|interval| interval.half_width) }
    }
}

impl Cell {
    fn outcome(&self, values: &[Option<f64>]) -> CellOutcome {
        let all: Option<Vec<f64>> = values.iter().copied().collect();
        let settings: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let settings = if settings.is_empty() { String::new() } else { format!("[{}]", settings.join(",")) };
        CellOutcome {
            name: self.name.clone(),
            scheduler: format!("{}{settings}", self.scheduler),
            workload: self.workload.clone(),
            machine: self.machine.clone(),
            cpus: self.cpus,
            metric: self.metric.clone(),
            published: self.published,
            measured: all.and_then(|values| schedlab_stats::mean(&values)),
            values: values.to_vec(),
        }
    }
}

/// How many rows agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Rows that agree.
    pub agreeing: usize,
    /// Rows that count.
    pub rows: usize,
}

impl Share {
    /// The share of some rows; those that are not comparable do not count.
    pub fn of<'a>(rows: impl Iterator<Item = &'a RowOutcome>) -> Share {
        let mut share = Share::default();
        for row in rows.filter(|row| row.verdict.counts()) {
            share.rows += 1;
            share.agreeing += usize::from(row.verdict == Judgement::Agrees);
        }
        share
    }

    /// In percent; 100 of no rows, since nothing disagrees.
    pub fn percent(&self) -> f64 {
        if self.rows == 0 { 100.0 } else { 100.0 * self.agreeing as f64 / self.rows as f64 }
    }
}

impl DocumentOutcome {
    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = &RowOutcome> {
        self.tables.iter().flat_map(|table| &table.rows)
    }

    /// The measured rows that decide about the document.
    pub fn measured(&self) -> Share {
        Share::of(self.deciding())
    }

    /// Those of the deciding rows that a scheduler can answer.
    pub fn answerable(&self) -> Share {
        Share::of(self.deciding().filter(|row| row.unanswerable.is_empty()))
    }

    fn deciding(&self) -> impl Iterator<Item = &RowOutcome> {
        self.rows().filter(|row| row.counts && !row.cells.is_empty())
    }

    /// The rows that are computed from published figures.
    pub fn recomputed(&self) -> Share {
        Share::of(self.rows().filter(|row| row.cells.is_empty()))
    }

    /// The rows about growth with the number of CPUs, which decide nothing.
    pub fn growth(&self) -> Share {
        Share::of(self.tables.iter().flat_map(|table| &table.growth))
    }

    /// True when as many rows agree as are wanted, and all recomputed ones.
    pub fn reached(&self) -> bool {
        let recomputed = self.recomputed();
        self.measured().percent() >= self.wanted_percent && recomputed.agreeing == recomputed.rows
    }
}

/// What becomes of documents when one parameter of the machine is changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sensitivity {
    /// The parameter, as machine files name it.
    pub parameter: String,
    /// What it was multiplied by.
    pub factor: f64,
    /// Measured rows that agree then.
    pub agreeing: usize,
    /// Measured rows.
    pub rows: usize,
    /// The rows with another verdict.
    pub changed: Vec<ChangedRow>,
}

/// A row whose verdict depends on a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedRow {
    /// Its document and table.
    pub table: String,
    /// What tells it from the others of the table, with its figure.
    pub place: String,
    /// Its verdict with the machine as it is.
    pub before: String,
    /// Its verdict with the parameter changed.
    pub after: String,
}

impl Sensitivity {
    /// What changes from one outcome of some documents to another one of the same.
    pub fn of(
        parameter: &str,
        factor: f64,
        before: &[DocumentOutcome],
        after: &[DocumentOutcome],
    ) -> Sensitivity {
        let shares = after.iter().map(DocumentOutcome::measured);
        let (agreeing, rows) = shares.fold((0, 0), |sum, share| (sum.0 + share.agreeing, sum.1 + share.rows));
        let mut changed = Vec::new();
        for (old, new) in before.iter().zip(after) {
            for (old_table, new_table) in old.tables.iter().zip(&new.tables) {
                for (a, b) in old_table.rows.iter().zip(&new_table.rows) {
                    let agrees = |row: &RowOutcome| row.verdict == Judgement::Agrees;
                    if agrees(a) != agrees(b) {
                        changed.push(ChangedRow {
                            table: format!("{} {}", old.name, old_table.id),
                            place: format!("{} ({})", a.place, a.figure),
                            before: a.verdict.text(),
                            after: b.verdict.text(),
                        });
                    }
                }
            }
        }
        Sensitivity { parameter: parameter.to_string(), factor, agreeing, rows, changed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Expression;
    use crate::rule::{Qualifier, Rule};

    fn cell(name: &str) -> Cell {
        Cell {
            name: name.into(),
            scheduler: "o1".into(),
            settings: vec![("profile".into(), "d1".into())],
            workload: "chat".into(),
            machine: "p3-700".into(),
            cpus: Some(2),
            duration: None,
            metric: "throughput".into(),
            divide: 1.0,
            sampling: Default::default(),
            seeds: 1,
            published: None,
        }
    }

    fn row() -> Row {
        Row {
            place: "2 CPUs".into(),
            cells: vec![cell("a"), cell("b")],
            given: Default::default(),
            figure: Expression::parse("b / a").unwrap(),
            unit: String::new(),
            published: Some(Published { value: 2.0, qualifier: Qualifier::Is }),
            says: String::new(),
            rule: Rule::Factor { tie: 1.05, off: 2.0 },
            counts: true,
            explanation: String::new(),
            unanswerable: String::new(),
        }
    }

    #[test]
    fn figures_are_made_seed_by_seed() {
        let outcome = row().judge(&[vec![Some(1.0), Some(10.0)], vec![Some(2.0), Some(40.0)]]);
        assert_eq!((outcome.values.as_slice(), outcome.measured), (&[2.0, 4.0][..], Some(3.0)));
        assert_eq!((outcome.verdict, outcome.cells[0].measured), (Judgement::Agrees, Some(5.5)));
        assert_eq!(outcome.cells[0].scheduler, "o1[profile=d1]");
    }

    #[test]
    fn one_run_without_a_figure_leaves_the_row_without() {
        let outcome = row().judge(&[vec![Some(1.0), None], vec![Some(2.0), Some(4.0)]]);
        assert_eq!((outcome.measured, outcome.verdict), (None, Judgement::NoFigure));
    }

    #[test]
    fn shares_count_what_can_be_compared() {
        let good = row().judge(&[vec![Some(1.0)], vec![Some(2.0)]]);
        let bad = row().judge(&[vec![Some(2.0)], vec![Some(1.0)]]);
        let none = RowOutcome { verdict: Judgement::NotComparable("x".into()), ..good.clone() };
        let share = Share::of([good.clone(), bad.clone(), none].iter());
        assert_eq!(share, Share { agreeing: 1, rows: 2 });
        let table = |rows| TableOutcome {
            id: "t".into(),
            title: "t".into(),
            about: String::new(),
            rows,
            growth: Vec::new(),
        };
        let mut document = DocumentOutcome {
            name: "d".into(),
            title: "d".into(),
            wanted_percent: 80.0,
            tables: vec![table(vec![good.clone(), RowOutcome { counts: false, ..bad.clone() }])],
        };
        assert!(document.reached());
        document.tables[0].rows.push(RowOutcome { unanswerable: "alone".into(), ..bad.clone() });
        assert_eq!(document.measured(), Share { agreeing: 1, rows: 2 });
        assert_eq!(document.answerable(), Share { agreeing: 1, rows: 1 });
        assert!(!document.reached(), "a row that no scheduler can answer counts all the same");
        document.tables[0].rows.pop();
        document.tables[0].growth = vec![good.clone(), bad.clone(), bad.clone()];
        assert_eq!(document.growth(), Share { agreeing: 1, rows: 3 });
        assert!(document.reached() && document.measured() == Share { agreeing: 1, rows: 1 });
        let mut other = document.clone();
        other.tables[0].rows[0] = RowOutcome { place: good.place.clone(), ..bad.clone() };
        let sensitivity = Sensitivity::of("fork", 2.0, &[document.clone()], &[other]);
        assert_eq!((sensitivity.agreeing, sensitivity.rows, sensitivity.changed.len()), (0, 1, 1));
        assert!(sensitivity.changed[0].after.contains("other order"));
        let wrong = RowOutcome { cells: Vec::new(), ..bad };
        document.tables.push(table(vec![wrong]));
        assert!(!document.reached());
    }
}
