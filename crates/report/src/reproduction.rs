//! Published figures beside measured ones, with a verdict per row.
//!
//! The rules are those of `docs/reproduction.md`: the order of two schedulers must
//! be the same on both sides, and the factor between them within a factor of two.

use crate::format::number;
use crate::table::table;
use schedlab_base::Better;

/// Figures that differ by no more than this factor are a tie.
const TIE: f64 = 1.05;

/// How far the measured factor may be from the published one.
const FACTOR: f64 = 2.0;

/// The part of the rows that has to agree, in percent.
pub const AGREEMENT_PERCENT: f64 = 75.0;

/// A reference figure and a candidate's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// The scheduler that is compared with.
    pub reference: f64,
    /// The other one.
    pub candidate: f64,
}

/// One row of a published table, measured again.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedRow {
    /// Name of the workload.
    pub workload: String,
    /// The reference and the candidate, by name.
    pub schedulers: [String; 2],
    /// What tells this row from the others of the two: `rooms=10, 8 CPUs`.
    pub place: String,
    /// Name of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Its good direction.
    pub better: Better,
    /// As printed in the document.
    pub published: Figures,
    /// As measured; nothing when a run gave no figure.
    pub measured: Option<Figures>,
}

/// Which of the two is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Reference,
    Candidate,
    Tie,
}

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowVerdict {
    /// Same order, factor within bounds.
    Agrees,
    /// The schedulers rank differently.
    OtherOrder,
    /// Same order; the measured factor is this many times too large or small.
    FactorOff(f64),
    /// Both.
    OrderAndFactor(f64),
    /// There is no measured figure.
    NoFigure,
}

impl RowVerdict {
    /// The words in the table.
    pub fn text(&self) -> String {
        match self {
            RowVerdict::Agrees => "agrees".to_string(),
            RowVerdict::OtherOrder => "other order".to_string(),
            RowVerdict::FactorOff(off) => format!("factor off {off:.1}x"),
            RowVerdict::OrderAndFactor(off) => format!("other order, factor off {off:.1}x"),
            RowVerdict::NoFigure => "no figure".to_string(),
        }
    }
}

impl Figures {
    /// How many times better the candidate is than the reference; nothing unless both
    /// figures are positive.
    pub fn factor(&self, better: Better) -> Option<f64> {
        let usable = |value: f64| value.is_finite() && value > 0.0;
        if !usable(self.reference) || !usable(self.candidate) {
            return None;
        }
        Some(match better {
            Better::Lower => self.reference / self.candidate,
            Better::Higher | Better::Neither => self.candidate / self.reference,
        })
    }
}

fn order(factor: f64) -> Order {
    if factor > TIE {
        Order::Candidate
    } else if factor < 1.0 / TIE {
        Order::Reference
    } else {
        Order::Tie
    }
}

impl PublishedRow {
    /// Judges the row.
    pub fn verdict(&self) -> RowVerdict {
        let factors = self.measured.and_then(|measured| measured.factor(self.better));
        let (Some(measured), Some(published)) = (factors, self.published.factor(self.better)) else {
            return RowVerdict::NoFigure;
        };
        let off = (measured / published).max(published / measured);
        match (order(measured) == order(published), off <= FACTOR) {
            (true, true) => RowVerdict::Agrees,
            (false, true) => RowVerdict::OtherOrder,
            (true, false) => RowVerdict::FactorOff(off),
            (false, false) => RowVerdict::OrderAndFactor(off),
        }
    }
}

/// The number of rows that agree.
pub fn agreeing(rows: &[PublishedRow]) -> usize {
    rows.iter().filter(|row| row.verdict() == RowVerdict::Agrees).count()
}

/// One table a workload and pair of schedulers, and the counts of agreeing rows.
pub fn reproduction_table(rows: &[PublishedRow]) -> String {
    let mut text = String::new();
    let mut tables: Vec<(&str, &[String; 2])> = Vec::new();
    let mut pairs: Vec<&[String; 2]> = Vec::new();
    for row in rows {
        if !tables.contains(&(&row.workload, &row.schedulers)) {
            tables.push((&row.workload, &row.schedulers));
        }
        if !pairs.contains(&&row.schedulers) {
            pairs.push(&row.schedulers);
        }
    }
    for (workload, pair) in tables {
        let of_table = |row: &&PublishedRow| row.workload == workload && row.schedulers == *pair;
        text.push_str(&workload_table(&rows.iter().filter(of_table).collect::<Vec<_>>()));
        text.push('\n');
    }
    for pair in pairs.iter().filter(|_| pairs.len() > 1) {
        let of_pair: Vec<PublishedRow> =
            rows.iter().filter(|row| row.schedulers == **pair).cloned().collect();
        text.push_str(&format!("{} against {}: {}\n", pair[1], pair[0], share_of_rows(&of_pair)));
    }
    text + &format!("{}\n", share_of_rows(rows))
}

fn share_of_rows(rows: &[PublishedRow]) -> String {
    let agreeing = agreeing(rows);
    let percent = if rows.is_empty() { 0.0 } else { 100.0 * agreeing as f64 / rows.len() as f64 };
    format!("{agreeing} of {} rows agree ({percent:.1} %)", rows.len())
}

fn workload_table(group: &[&PublishedRow]) -> String {
    let first = group[0];
    let names = &first.schedulers;
    let direction = match first.better {
        Better::Higher => ", higher is better",
        Better::Lower => ", lower is better",
        Better::Neither => "",
    };
    let header = [
        "row".to_string(),
        format!("{} publ.", names[0]),
        format!("{} publ.", names[1]),
        "factor".to_string(),
        names[0].clone(),
        names[1].clone(),
        "factor".to_string(),
        "verdict".to_string(),
    ];
    let lines: Vec<Vec<String>> = group.iter().map(|row| line(row)).collect();
    let right: Vec<usize> = (1..header.len() - 1).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let agreeing = group.iter().filter(|row| row.verdict() == RowVerdict::Agrees).count();
    format!(
        "{}: {} in {}{direction}; {agreeing} of {} rows agree\n\n{}",
        first.workload,
        first.metric,
        first.unit,
        group.len(),
        table(&header, &right, &lines)
    )
}

fn line(row: &PublishedRow) -> Vec<String> {
    let factor = |figures: Option<Figures>| {
        figures.and_then(|f| f.factor(row.better)).map_or_else(|| "-".to_string(), |f| format!("{f:.2}"))
    };
    let measured = |part: fn(&Figures) -> f64| {
        row.measured.as_ref().map_or_else(|| "-".to_string(), |figures| number(part(figures)))
    };
    vec![
        row.place.clone(),
        number(row.published.reference),
        number(row.published.candidate),
        factor(Some(row.published)),
        measured(|figures| figures.reference),
        measured(|figures| figures.candidate),
        factor(row.measured),
        row.verdict().text(),
    ]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(better: Better, published: (f64, f64), measured: Option<(f64, f64)>) -> PublishedRow {
        let figures = |(reference, candidate)| Figures { reference, candidate };
        PublishedRow {
            workload: "chat".into(),
            schedulers: ["vanilla".into(), "o1".into()],
            place: "rooms=10, 2 CPUs".into(),
            metric: "throughput".into(),
            unit: "messages/s".into(),
            better,
            published: figures(published),
            measured: measured.map(figures),
        }
    }

    fn verdict(better: Better, published: (f64, f64), measured: (f64, f64)) -> RowVerdict {
        row(better, published, Some(measured)).verdict()
    }

    #[test]
    fn order_and_factor_decide() {
        let higher = Better::Higher;
        assert_eq!(verdict(higher, (100.0, 300.0), (10.0, 20.0)), RowVerdict::Agrees);
        assert_eq!(verdict(higher, (100.0, 110.0), (10.0, 9.0)), RowVerdict::OtherOrder);
        assert_eq!(verdict(higher, (100.0, 900.0), (10.0, 20.0)), RowVerdict::FactorOff(4.5));
        assert_eq!(verdict(higher, (100.0, 300.0), (30.0, 10.0)), RowVerdict::OrderAndFactor(9.0));
        assert_eq!(verdict(Better::Lower, (20.0, 10.0), (3.0, 2.0)), RowVerdict::Agrees);
        assert_eq!(verdict(Better::Lower, (10.0, 20.0), (3.0, 2.0)), RowVerdict::OrderAndFactor(3.0));
    }

    #[test]
    fn ties_agree_with_ties_only() {
        let lower = Better::Lower;
        assert_eq!(verdict(lower, (100.0, 102.0), (1.0, 0.97)), RowVerdict::Agrees);
        assert_eq!(verdict(lower, (100.0, 102.0), (1.0, 1.2)), RowVerdict::OtherOrder);
        assert_eq!(verdict(lower, (100.0, 120.0), (1.0, 1.0)), RowVerdict::OtherOrder);
    }

    #[test]
    fn rows_without_figures_do_not_agree() {
        assert_eq!(row(Better::Higher, (1.0, 2.0), None).verdict(), RowVerdict::NoFigure);
        assert_eq!(verdict(Better::Higher, (1.0, 2.0), (0.0, 2.0)), RowVerdict::NoFigure);
    }

    #[test]
    fn the_table_counts() {
        let mut rows = vec![
            row(Better::Higher, (100.0, 300.0), Some((10.0, 20.0))),
            row(Better::Higher, (1.0, 2.0), None),
        ];
        let text = reproduction_table(&rows);
        assert!(text.ends_with("\n\n1 of 2 rows agree (50.0 %)\n"), "{text}");
        assert!(text.contains("no figure"));
        rows.push(PublishedRow { schedulers: ["o1".into(), "hamq".into()], ..rows[0].clone() });
        let text = reproduction_table(&rows);
        assert!(text.contains("hamq publ.") && text.contains("hamq against o1: 1 of 1 rows agree"), "{text}");
        assert!(
            text.contains("o1 against vanilla: 1 of 2 rows")
                && text.ends_with("2 of 3 rows agree (66.7 %)\n")
        );
    }
}
