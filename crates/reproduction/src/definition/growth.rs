//! Growth rows: a scheduler's figure on more CPUs over its own figure on fewer. Both are cells of
//! the table's other rows, so a growth row adds no run and no published figure.

use super::{
    Cell, CellFile, ExplainFile, Reader, Row, TableFile, Variables, combinations, explained, fill,
    published_figure,
};
use crate::expression::Expression;
use crate::rule::{Qualifier, Rule};
use schedlab_base::counted;
use serde::Deserialize;

/// The variable of a table that is its number of CPUs.
const CPUS: &str = "cpus";

/// Which growth rows a table has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GrowthFile {
    /// What tells the workloads of the table apart.
    place: String,
    /// Keys of `[schedulers]`.
    schedulers: Vec<String>,
    /// Pairs of numbers of CPUs, the smaller one first.
    pairs: Vec<[usize; 2]>,
    #[serde(default)]
    explain: Vec<ExplainFile>,
}

impl Reader<'_> {
    /// A growth row for each workload, scheduler and pair, made of cells that `rows` have.
    pub(super) fn growth(
        &self,
        table: &TableFile,
        growth: &GrowthFile,
        constants: &Variables,
        rows: &[Row],
    ) -> Result<Vec<Row>, String> {
        let mut each = table.each.clone();
        each.remove(CPUS);
        let mut grown: Vec<Row> = Vec::new();
        for mut variables in combinations(&each, constants) {
            let workload = fill(&growth.place, &variables)?;
            for scheduler in &growth.schedulers {
                variables.insert("scheduler".to_string(), scheduler.clone());
                for pair in &growth.pairs {
                    let place = format!("{workload}, {scheduler}, {} to {} CPUs", pair[0], pair[1]);
                    let failed = |what: String| format!("growth, {place}: {what}");
                    let cells = self.grown(table, scheduler, *pair, &variables, rows).map_err(failed)?;
                    if grown.iter().any(|row| row.place == place) {
                        return Err(failed("it is there twice".to_string()));
                    }
                    let explanation = explained(&growth.explain, &variables);
                    grown.push(row(place.clone(), cells, explanation).map_err(failed)?);
                }
            }
        }
        Ok(grown)
    }

    /// The cells of one growth row: `fewer` and `more`.
    fn grown(
        &self,
        table: &TableFile,
        scheduler: &str,
        [fewer, more]: [usize; 2],
        variables: &Variables,
        rows: &[Row],
    ) -> Result<Vec<Cell>, String> {
        if fewer >= more {
            return Err("the smaller number of CPUs comes first".to_string());
        }
        let cell = |name: &str, cpus: usize| {
            let mut variables = variables.clone();
            variables.insert(CPUS.to_string(), cpus.to_string());
            let own = CellFile { scheduler: Some(scheduler.to_string()), ..CellFile::default() };
            let cell = self.cell(&table.cell, &own, &variables)?;
            let same = |known: &Cell| *known == Cell { name: known.name.clone(), ..cell.clone() };
            if cell.cpus != Some(cpus) || !rows.iter().flat_map(|row| &row.cells).any(same) {
                return Err(format!("no row of the table runs it on {}", counted(cpus, "CPU")));
            }
            Ok(Cell { name: name.to_string(), ..cell })
        };
        let (fewer, more) = (cell("fewer", fewer)?, cell("more", more)?);
        if more.workload != fewer.workload {
            return Err(format!("{} and {} are different workloads", fewer.workload, more.workload));
        }
        Ok(vec![fewer, more])
    }
}

/// The row of two cells. A bound has no growth, and neither has a figure that was not published.
fn row(place: String, cells: Vec<Cell>, explanation: String) -> Result<Row, String> {
    let value = |cell: &Cell| {
        cell.published.is_some_and(|known| matches!(known.qualifier, Qualifier::Is | Qualifier::About))
    };
    let figure = Expression::parse("more / fewer")?;
    let published = published_figure(&figure, &cells).filter(|_| cells.iter().all(value));
    if published.is_none() {
        return Err("both published figures have to be values".to_string());
    }
    let (unit, says, unanswerable) = (String::new(), String::new(), String::new());
    let (given, rule, counts) = (Default::default(), Rule::factor(), true);
    Ok(Row { place, cells, given, figure, unit, published, says, rule, counts, explanation, unanswerable })
}

#[cfg(test)]
mod tests {
    use crate::{Document, Form, Library, Published, Qualifier, Rule};

    const CSV: &str = "rooms,cpus,scheduler,qualifier,value\n10,2,A,=,100\n10,4,A,=,150\n10,8,A,=,75\n\
                       10,2,B,=,80\n10,4,B,~,160\n10,8,B,>,200\n";

    const GOOD: &str = r#"
        title = "T"
        machine = "m"
        wanted_percent = 80
        [schedulers]
        a = { run = "vanilla", published = "A" }
        b = { run = "o1", published = "B" }
        [[tables]]
        id = "t"
        title = "rate"
        each = { cpus = [2, 4, 8], rooms = [10] }
        full = { messages = 200 }
        quick = { messages = 20 }
        rule = { kind = "effect" }
        [tables.cell]
        workload = "chat:rooms={rooms},messages={messages}"
        cpus = "{cpus}"
        metric = "rate"
        published = { csv = "t.csv", where = { rooms = "{rooms}", cpus = "{cpus}", scheduler = "{scheduler}" } }
        [tables.growth]
        place = "rooms={rooms}"
        schedulers = ["a", "b"]
        pairs = [[2, 4]]
        explain = [{ rows = { scheduler = ["b"] }, text = "b is new" }]
        [[tables.rows]]
        place = "{cpus} CPUs"
        cells = [{ scheduler = "a" }, { scheduler = "b" }]
        figure = "a / b"
    "#;

    fn read(from: &str, to: &str) -> Result<Document, String> {
        assert!(GOOD.contains(from), "{from}");
        let text: &'static str = Box::leak(GOOD.replacen(from, to, 1).into_boxed_str());
        let files: &'static [(&str, &str)] = Box::leak(Box::new([("d.toml", text), ("t.csv", CSV)]));
        Document::read(&Library::new(files), "d", Form::Quick)
    }

    #[test]
    fn growth_is_made_of_the_cells_of_the_other_rows() {
        let document = read("", "").unwrap();
        let table = &document.tables[0];
        let places: Vec<&str> = table.growth.iter().map(|row| row.place.as_str()).collect();
        assert_eq!(places, ["rooms=10, a, 2 to 4 CPUs", "rooms=10, b, 2 to 4 CPUs"]);
        let published: Vec<_> = table.growth.iter().map(|row| row.published).collect();
        let is = |value| Some(Published { value, qualifier: Qualifier::Is });
        assert_eq!(published, [is(1.5), is(2.0)]);
        let [fewer, more] = &table.growth[1].cells[..] else { panic!("two cells") };
        assert_eq!((fewer.name.as_str(), fewer.cpus, more.cpus), ("fewer", Some(2), Some(4)));
        assert_eq!((more.scheduler.as_str(), more.workload.as_str()), ("o1", "chat:rooms=10,messages=20"));
        // The table's rows are differences in percent here; a quotient is judged as one all the same.
        assert_eq!(table.growth[0].rule, Rule::factor());
        let explained: Vec<&str> = table.growth.iter().map(|row| row.explanation.as_str()).collect();
        assert_eq!(explained, ["", "b is new"]);
        assert_eq!(table.rows.len(), 3, "growth rows are no rows of the table");
    }

    #[test]
    fn growth_is_judged_by_order_and_size() {
        let document = read("", "").unwrap();
        let row = &document.tables[0].growth[0];
        let verdict =
            |fewer: f64, more: f64| row.judge(&[vec![Some(fewer)], vec![Some(more)]]).verdict.text();
        // Published: 1.5 times as much on four CPUs as on two.
        assert_eq!(verdict(10.0, 12.0), "agrees");
        assert_eq!(verdict(10.0, 10.3), "other order");
        assert_eq!(verdict(10.0, 8.0), "other order");
        assert_eq!(verdict(10.0, 31.0), "factor off 2.1x");
        assert_eq!(row.judge(&[vec![None], vec![Some(1.0)]]).verdict.text(), "no figure");
    }

    #[test]
    fn growth_that_is_not_there_is_refused() {
        for (from, to, what) in [
            ("[[2, 4]]", "[[2, 16]]", "rooms=10, a, 2 to 16 CPUs: t.csv: 0 records with cpus=16"),
            ("cpus = [2, 4, 8]", "cpus = [2, 8]", "no row of the table runs it on 4 CPUs"),
            (
                "{ scheduler = \"a\" }",
                "{ scheduler = \"a\", divide = 2 }",
                "no row of the table runs it on 2",
            ),
            ("cpus = \"{cpus}\"", "cpus = 2", "no row of the table runs it on 4 CPUs"),
            ("messages={messages}", "messages={cpus}", "are different workloads"),
            ("[[2, 4]]", "[[4, 2]]", "the smaller number of CPUs comes first"),
            ("[[2, 4]]", "[[2, 4], [2, 4]]", "it is there twice"),
            ("[[2, 4]]", "[[2, 8]]", "rooms=10, b, 2 to 8 CPUs: both published figures have to be values"),
            ("[\"a\", \"b\"]", "[\"c\"]", "no scheduler c"),
            ("rooms={rooms}\"\n", "{halls}\"\n", "nothing is called halls"),
            ("pairs =", "pair =", "d.toml:"),
        ] {
            let error = read(from, to).unwrap_err();
            assert!(error.starts_with("d.toml") && error.contains(what), "{to}: {error}");
        }
    }
}
