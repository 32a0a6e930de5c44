//! Definitions of documents: TOML in, rows that can be run and judged out. The format is
//! described in `docs/reproduction.md`; an unknown key, a name without meaning and a
//! published figure that does not exist are errors that name document, table and row.

use crate::expression::Expression;
use crate::library::Library;
use crate::outcome::RowOutcome;
use crate::recompute::Recompute;
use crate::rule::{Published, Qualifier, Rule};
use schedlab_base::Mistake;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;

mod growth;

use growth::GrowthFile;

/// How large the workloads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As published, where that is feasible.
    Full,
    /// Smaller, for a look in minutes.
    Quick,
}

/// A document: what it published, and how that is run here.
#[derive(Clone, Debug)]
pub struct Document {
    /// The document's short name.
    pub name: String,
    /// Author, title, date.
    pub title: String,
    /// The part of the rows that has to agree, in percent.
    pub wanted_percent: f64,
    /// The document's tables in order.
    pub tables: Vec<Table>,
}

/// One table or figure of a document.
#[derive(Clone, Debug)]
pub struct Table {
    /// The table's short name.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What a reader must know for it; may be empty.
    pub about: String,
    /// The table's rows.
    pub rows: Vec<Row>,
    /// Rows that are computed from published figures alone, already judged.
    pub recomputed: Vec<RowOutcome>,
    /// Each scheduler's figure on more CPUs over its own on fewer. All their cells are cells of `rows`.
    pub growth: Vec<Row>,
}

/// One row: what is run, the figure that is made of it, and the published one.
#[derive(Clone, Debug)]
pub struct Row {
    /// What tells it from the others of the table.
    pub place: String,
    /// The runs; none where the figure is computed from published ones.
    pub cells: Vec<Cell>,
    /// Published figures by name, where there are no runs.
    pub given: BTreeMap<String, f64>,
    /// The figure, by the cells' names.
    pub figure: Expression,
    /// Unit of the figure; empty for a plain number.
    pub unit: String,
    /// What was published.
    pub published: Option<Published>,
    /// What was published in words.
    pub says: String,
    /// When they agree.
    pub rule: Rule,
    /// Whether the row counts for the document.
    pub counts: bool,
    /// Why it does not agree, if it does not.
    pub explanation: String,
    /// Why no scheduler's decision makes the published figure; empty for a row that a scheduler can answer.
    pub unanswerable: String,
}

/// One scheduler under one workload: the runs behind a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The cell's name in the figure.
    pub name: String,
    /// The scheduler that is run.
    pub scheduler: String,
    /// The scheduler's settings: variable and value.
    pub settings: Vec<(String, String)>,
    /// The workload as `-w` takes it.
    pub workload: String,
    /// The machine.
    pub machine: String,
    /// Number of CPUs; the machine's own without.
    pub cpus: Option<usize>,
    /// End of the run, as `--duration` takes it.
    pub duration: Option<String>,
    /// What is measured: `NAME`, `counters.NAME`, `series.NAME[FROM..TO]`, `samples.NAME`.
    pub metric: String,
    /// What the measured value is divided by.
    pub divide: f64,
    /// How `samples.*` are taken.
    pub sampling: Sampling,
    /// The cell takes at least as many seeds: one is no figure where chance has much to say.
    pub seeds: usize,
    /// As printed in the document.
    pub published: Option<Published>,
}

/// How samples of `schedule()` are taken.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// The scheduler's counter that marks a sample.
    pub mark: Option<String>,
    /// PIDs of tasks that disturb others.
    #[serde(default)]
    pub disturbers: Vec<u64>,
    /// Only what begins between these times, in ms.
    pub window_ms: Option<[u64; 2]>,
}

/// A number or text of a definition, as text.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a number or a text in quotes is wanted")]
enum Scalar {
    Integer(i64),
    Float(f64),
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Integer(value) => write!(f, "{value}"),
            Scalar::Float(value) => write!(f, "{value}"),
            Scalar::Text(text) => f.write_str(text),
        }
    }
}

type Variables = BTreeMap<String, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentFile {
    title: String,
    machine: String,
    wanted_percent: f64,
    #[serde(default)]
    schedulers: BTreeMap<String, SchedulerFile>,
    tables: Vec<TableFile>,
}

/// A scheduler of a document and what stands for it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchedulerFile {
    run: String,
    #[serde(default)]
    set: BTreeMap<String, Scalar>,
    /// The scheduler's name in the published files.
    #[serde(default)]
    published: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    id: String,
    title: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    full: BTreeMap<String, Scalar>,
    #[serde(default)]
    quick: BTreeMap<String, Scalar>,
    #[serde(default)]
    each: BTreeMap<String, Vec<Scalar>>,
    #[serde(default)]
    cell: CellFile,
    #[serde(default)]
    unit: String,
    rule: Option<Rule>,
    #[serde(default)]
    rows: Vec<RowFile>,
    recompute: Option<Recompute>,
    growth: Option<GrowthFile>,
    #[serde(default)]
    explain: Vec<ExplainFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainFile {
    #[serde(default)]
    rows: BTreeMap<String, Vec<Scalar>>,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowFile {
    place: String,
    #[serde(default)]
    each: BTreeMap<String, Vec<Scalar>>,
    #[serde(default)]
    cells: Vec<CellFile>,
    /// Published figures, where a row is computed from such alone.
    #[serde(default)]
    given: BTreeMap<String, PublishedFile>,
    figure: Option<String>,
    unit: Option<String>,
    published: Option<PublishedFile>,
    #[serde(default)]
    says: String,
    rule: Option<Rule>,
    #[serde(default = "yes")]
    counts: bool,
    #[serde(default)]
    explain: String,
    #[serde(default)]
    unanswerable: String,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellFile {
    name: Option<String>,
    scheduler: Option<String>,
    workload: Option<String>,
    machine: Option<String>,
    cpus: Option<Scalar>,
    duration: Option<String>,
    metric: Option<String>,
    divide: Option<Scalar>,
    sampling: Option<Sampling>,
    seeds: Option<NonZeroUsize>,
    published: Option<PublishedFile>,
}

/// A published figure: a number, a number with a sign (`"~100"`, `">2.5"`), or its place.
#[derive(Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "a published figure is a number, a text as \"~100\", or a place: { csv = FILE, where = { COLUMN = VALUE } }"
)]
enum PublishedFile {
    Number(f64),
    Signed(String),
    Place(PlaceFile),
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceFile {
    csv: String,
    #[serde(default = "value_column")]
    column: String,
    /// Multiplies what stands there: for another unit, or the sign of a difference.
    #[serde(default = "times_one")]
    times: f64,
    #[serde(rename = "where")]
    place: BTreeMap<String, Scalar>,
}

fn value_column() -> String {
    "value".to_string()
}

fn times_one() -> f64 {
    1.0
}

impl Document {
    /// Reads the definition `NAME.toml` of the library.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(library: &Library, name: &str, form: Form) -> Result<Document, String> {
        let file_name = format!("{name}.toml");
        let text = library.text(&file_name)?;
        let file: DocumentFile = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!("{file_name}:{}", Mistake::of_toml(text, at, error.message()))
        })?;
        let reader = Reader { library, file: &file, form };
        let table = |table: &TableFile| {
            reader.table(table).map_err(|what| format!("{file_name}, table {}: {what}", table.id))
        };
        let tables = file.tables.iter().map(table).collect::<Result<_, String>>()?;
        let (title, wanted_percent) = (file.title.clone(), file.wanted_percent);
        Ok(Document { name: name.to_string(), title, wanted_percent, tables })
    }
}

/// What the parts of a definition refer to.
struct Reader<'a> {
    library: &'a Library,
    file: &'a DocumentFile,
    form: Form,
}

impl Reader<'_> {
    fn table(&self, table: &TableFile) -> Result<Table, String> {
        let constants = match self.form {
            Form::Full => &table.full,
            Form::Quick => &table.quick,
        };
        let constants: Variables = constants.iter().map(|(k, v)| (k.clone(), v.to_string())).collect();
        let mut rows = Vec::new();
        // All places of one kind of row, then those of the next.
        for row in &table.rows {
            let mut each = table.each.clone();
            each.extend(row.each.clone());
            for variables in combinations(&each, &constants) {
                let place = fill(&row.place, &variables)?;
                let built = self.row(table, row, place.clone(), &variables);
                rows.push(built.map_err(|what| format!("row {place}: {what}"))?);
            }
        }
        let recomputed = match &table.recompute {
            Some(recompute) => recompute.rows(self.library)?,
            None => Vec::new(),
        };
        let growth = match &table.growth {
            Some(growth) => self.growth(table, growth, &constants, &rows)?,
            None => Vec::new(),
        };
        let (id, title, about) = (table.id.clone(), table.title.clone(), table.about.clone());
        Ok(Table { id, title, about, rows, recomputed, growth })
    }

    fn row(
        &self,
        table: &TableFile,
        row: &RowFile,
        place: String,
        variables: &Variables,
    ) -> Result<Row, String> {
        let cells: Vec<Cell> =
            row.cells.iter().map(|cell| self.cell(&table.cell, cell, variables)).collect::<Result<_, _>>()?;
        let value = |(name, given): (&String, &PublishedFile)| {
            Ok((name.clone(), self.published(given, variables)?.value))
        };
        let given: BTreeMap<String, f64> = row.given.iter().map(value).collect::<Result<_, String>>()?;
        let names: Vec<&str> =
            cells.iter().map(|cell| cell.name.as_str()).chain(given.keys().map(String::as_str)).collect();
        if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            return Err(format!("two cells are called {}: give them names", twice.1));
        }
        let figure =
            row.figure.as_deref().or(names.first().copied()).ok_or("it has neither cells nor a figure")?;
        let figure = Expression::parse(figure)?;
        if let Some(unknown) = figure.names().into_iter().find(|name| !names.contains(name)) {
            return Err(format!("figure '{figure}': no cell is called {unknown}"));
        }
        let published = match &row.published {
            Some(published) => Some(self.published(published, variables)?),
            None if cells.is_empty() => None,
            None => published_figure(&figure, &cells),
        };
        let rule = row.rule.clone().or_else(|| table.rule.clone()).ok_or("it has no rule")?;
        if rule.needs_published() && published.is_none() {
            return Err("its rule needs a published figure, and it has none".to_string());
        }
        let explanation = match row.explain.as_str() {
            "" => explained(&table.explain, variables),
            own => own.to_string(),
        };
        let unit = row.unit.clone().unwrap_or_else(|| table.unit.clone());
        let (says, counts, unanswerable) = (row.says.clone(), row.counts, row.unanswerable.clone());
        Ok(Row {
            place,
            cells,
            given,
            figure,
            unit,
            published,
            says,
            rule,
            counts,
            explanation,
            unanswerable,
        })
    }

    fn cell(&self, base: &CellFile, own: &CellFile, variables: &Variables) -> Result<Cell, String> {
        let key = own.scheduler.as_ref().or(base.scheduler.as_ref()).ok_or("a cell has no scheduler")?;
        let scheduler =
            self.file.schedulers.get(key).ok_or_else(|| format!("no scheduler {key} in [schedulers]"))?;
        let mut variables = variables.clone();
        variables.insert("scheduler".to_string(), scheduler.published.clone());
        let text = |own: &Option<String>, base: &Option<String>| {
            own.as_ref().or(base.as_ref()).map(|text| fill(text, &variables)).transpose()
        };
        let number = |own: &Option<Scalar>, base: &Option<Scalar>| -> Result<Option<f64>, String> {
            let scalar = own.as_ref().or(base.as_ref()).map(ToString::to_string);
            let Some(text) = text(&scalar, &None)? else { return Ok(None) };
            text.parse().map(Some).map_err(|_| format!("'{text}' is not a number"))
        };
        let published = own.published.as_ref().or(base.published.as_ref());
        let machine = text(&own.machine, &base.machine)?.unwrap_or_else(|| self.file.machine.clone());
        Ok(Cell {
            name: own.name.clone().unwrap_or_else(|| key.clone()),
            scheduler: scheduler.run.clone(),
            settings: scheduler.set.iter().map(|(k, v)| (k.clone(), v.to_string())).collect(),
            workload: text(&own.workload, &base.workload)?.ok_or("a cell has no workload")?,
            machine,
            cpus: number(&own.cpus, &base.cpus)?.map(|cpus| cpus as usize),
            duration: text(&own.duration, &base.duration)?,
            metric: text(&own.metric, &base.metric)?.ok_or("a cell has no metric")?,
            divide: number(&own.divide, &base.divide)?.unwrap_or(1.0),
            sampling: own.sampling.clone().or_else(|| base.sampling.clone()).unwrap_or_default(),
            seeds: own.seeds.or(base.seeds).map_or(1, NonZeroUsize::get),
            published: published.map(|published| self.published(published, &variables)).transpose()?,
        })
    }

    fn published(&self, file: &PublishedFile, variables: &Variables) -> Result<Published, String> {
        match file {
            PublishedFile::Number(value) => Ok(Published { value: *value, qualifier: Qualifier::Is }),
            PublishedFile::Signed(text) => signed(text),
            PublishedFile::Place(place) => {
                let filled = |(key, value): (&String, &Scalar)| {
                    Ok((key.clone(), fill(&value.to_string(), variables)?))
                };
                let wanted: Vec<(String, String)> =
                    place.place.iter().map(filled).collect::<Result<_, String>>()?;
                let (value, qualifier) = self.library.figure(&place.csv, &place.column, &wanted)?;
                Ok(Published { value: value * place.times, qualifier })
            }
        }
    }
}

/// `~100`, `>2.5`, `<0.5`.
fn signed(text: &str) -> Result<Published, String> {
    let known = [Qualifier::About, Qualifier::Below, Qualifier::Above];
    let found =
        known.into_iter().find_map(|qualifier| Some((qualifier, text.strip_prefix(qualifier.sign())?)));
    let (qualifier, number) =
        found.ok_or_else(|| format!("published '{text}': write a number, or ~, < or > and a number"))?;
    let value =
        number.trim().parse().map_err(|_| format!("published '{text}': '{number}' is not a number"))?;
    Ok(Published { value, qualifier })
}

/// The first text that fits the variables of a row; none if no text does.
fn explained(explain: &[ExplainFile], variables: &Variables) -> String {
    let matches = |explain: &&ExplainFile| {
        let fits = |(name, values): (&String, &Vec<Scalar>)| {
            variables.get(name).is_some_and(|have| values.iter().any(|value| value.to_string() == *have))
        };
        explain.rows.iter().all(fits)
    };
    explain.iter().find(matches).map(|explain| explain.text.clone()).unwrap_or_default()
}

/// The figure of the cells' own published values, where all have one.
fn published_figure(figure: &Expression, cells: &[Cell]) -> Option<Published> {
    let of = |name: &str| cells.iter().find(|cell| cell.name == name)?.published;
    let value = figure.value(&|name| of(name).map(|published| published.value))?;
    // How a figure of several inexact ones is meant is not known; of one it is its own.
    let qualifier = match figure.names().as_slice() {
        [name] if figure.to_string() == *name => of(name)?.qualifier,
        _ => Qualifier::Is,
    };
    Some(Published { value, qualifier })
}

/// All combinations of the values, the last variable by name changing fastest.
fn combinations(each: &BTreeMap<String, Vec<Scalar>>, constants: &Variables) -> Vec<Variables> {
    let mut all = vec![constants.clone()];
    for (name, values) in each {
        let with = |variables: &Variables| {
            let one = |value: &Scalar| {
                let mut variables = variables.clone();
                variables.insert(name.clone(), value.to_string());
                variables
            };
            values.iter().map(one).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// Puts the values of variables in place of `{name}`.
fn fill(text: &str, variables: &Variables) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, tail) = after.split_once('}').ok_or_else(|| format!("'{text}': a }} is missing"))?;
        let value = variables.get(name).ok_or_else(|| format!("'{text}': nothing is called {name}"))?;
        filled.push_str(before);
        filled.push_str(value);
        rest = tail;
    }
    Ok(filled + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str =
        "cpus,mode,scheduler,qualifier,value\n2,PIPE,A,=,10\n2,PIPE,B,~,5\n4,PIPE,A,=,30\n4,PIPE,B,>,6\n";

    fn read(toml: &'static str, form: Form) -> Result<Document, String> {
        let files: &'static [(&str, &str)] = Box::leak(Box::new([("d.toml", toml), ("t.csv", CSV)]));
        Document::read(&Library::new(files), "d", form)
    }

    const GOOD: &str = r#"
        title = "T"
        machine = "m"
        wanted_percent = 80
        [schedulers]
        a = { run = "vanilla", published = "A", set = { profile = "tsss", hz = 100 } }
        b = { run = "o1", published = "B" }
        [[tables]]
        id = "t"
        title = "time"
        each = { cpus = [2, 4], mode = ["pipe"] }
        full = { scale = 1 }
        quick = { scale = 0.5 }
        rule = { kind = "factor" }
        explain = [{ rows = { cpus = [4] }, text = "four are many" }]
        [tables.cell]
        workload = "w-{mode}:scale={scale}"
        cpus = "{cpus}"
        metric = "time"
        divide = "{scale}"
        published = { csv = "t.csv", where = { cpus = "{cpus}", mode = "{mode}", scheduler = "{scheduler}" } }
        [[tables.rows]]
        place = "{cpus} CPUs"
        cells = [{ scheduler = "a" }, { scheduler = "b" }]
        figure = "a / b"
        [[tables.rows]]
        place = "b at {cpus}"
        unanswerable = "alone"
        cells = [{ scheduler = "b", cpus = 8 }]
        rule = { kind = "stated" }
    "#;

    #[test]
    fn rows_are_built_for_each_place() {
        let document = read(GOOD, Form::Quick).unwrap();
        let rows = &document.tables[0].rows;
        let places: Vec<&str> = rows.iter().map(|row| row.place.as_str()).collect();
        assert_eq!(places, ["2 CPUs", "4 CPUs", "b at 2", "b at 4"]);
        let cell = &rows[1].cells[0];
        assert_eq!((cell.workload.as_str(), cell.cpus, cell.divide), ("w-pipe:scale=0.5", Some(4), 0.5));
        assert_eq!(cell.settings, [("hz".into(), "100".into()), ("profile".into(), "tsss".into())]);
        assert_eq!(rows[1].published, Some(Published { value: 5.0, qualifier: Qualifier::Is }));
        assert_eq!(rows[3].published, Some(Published { value: 6.0, qualifier: Qualifier::Above }));
        assert_eq!((rows[0].explanation.as_str(), rows[1].explanation.as_str()), ("", "four are many"));
        assert_eq!(rows[3].cells[0].cpus, Some(8));
        assert_eq!((rows[1].unanswerable.as_str(), rows[3].unanswerable.as_str()), ("", "alone"));
        assert_eq!(read(GOOD, Form::Full).unwrap().tables[0].rows[0].cells[0].workload, "w-pipe:scale=1");
    }

    #[test]
    fn mistakes_name_their_place() {
        for (from, to, what) in [
            ("metric = ", "metrics = ", "d.toml:"),
            ("\"a / b\"", "\"a / c\"", "no cell is called c"),
            ("{ scheduler = \"a\" }", "{ scheduler = \"x\" }", "no scheduler x"),
            ("w-{mode}", "w-{modus}", "nothing is called modus"),
            ("cpus = [2, 4]", "cpus = [2, 3]", "0 records with cpus=3"),
            ("{ scheduler = \"a\" }", "{ scheduler = \"b\" }", "two cells are called b"),
            ("rule = { kind = \"factor\" }", "", "it has no rule"),
            ("csv = \"t.csv\"", "csv = \"u.csv\"", "no published file u.csv"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let text = Box::leak(GOOD.replacen(from, to, 1).into_boxed_str());
            let error = read(text, Form::Full).unwrap_err();
            assert!(error.starts_with("d.toml") && error.contains(what), "{to}: {error}");
        }
    }

    #[test]
    fn figures_with_signs() {
        assert_eq!(signed("~100"), Ok(Published { value: 100.0, qualifier: Qualifier::About }));
        assert_eq!(signed("> 2.5"), Ok(Published { value: 2.5, qualifier: Qualifier::Above }));
        assert!(signed("many").is_err() && signed("~x").is_err());
    }
}
