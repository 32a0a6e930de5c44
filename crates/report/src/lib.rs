//! Results as tables, JSON, CSV, HTML and Perfetto traces: the only room that
//! knows output formats. Nothing here measures; comparisons are made by `stats`.

mod absent;
mod advice;
mod bars;
mod cells;
mod check;
mod comparison;
mod comparison_table;
mod comparison_text;
mod csv;
mod document_plot;
mod extent;
mod fidelity;
mod format;
mod gate;
mod goals;
mod goals_json;
mod group_tables;
mod groups_json;
mod html;
mod in_words;
mod json;
mod json_words;
mod judgement;
mod junit;
mod kernel_verdicts;
#[cfg(test)]
mod made_up;
mod markdown;
mod ministat;
mod names;
mod narrow;
#[cfg(test)]
mod nasty_names;
mod overview;
mod pairs;
mod parts_json;
mod perfetto;
mod printed_json;
mod priority_plot;
mod ranking;
mod record_file;
mod reproduction;
mod result_file;
mod run_tables;
mod run_text;
mod samples;
mod scaling;
mod scheduler_names;
mod schema;
mod stat_json;
mod table;
mod timehist;
mod trust;
mod trust_json;
mod units;
mod voids;
mod wait_tables;
mod waits;
mod waits_json;
mod warning_lines;
mod workload_names;

pub use advice::{add_falls_behind, advice, seed_warnings};
pub use bars::{Bar, Bars, COVERAGE, heed_bars, validation_text, validations_text};
pub use cells::{Cell, cell_of, first_runs, scheduler_label};
pub use check::{
    CheckAnswer, CheckedBy, CheckedCallback, CheckedExtern, CheckedKind, CheckedLoader, CheckedMap,
    CheckedObject, CheckedProgram, CheckedTable, CheckedTunable, check_json, check_text,
};
pub use comparison::{Comparison, LEAST_EFFECT, Sample, Verdict, compare};
pub use comparison_table::{change, comparison_table};
pub use comparison_text::{comparison_text, explained_waits, finished_runs};
pub use csv::{from_cell, to_csv};
pub use document_plot::{DocumentPlot, document_plots};
pub use fidelity::{Fidelity, FidelityCell, fidelity_cells};
pub use format::{number, signed};
pub use gate::{Gate, GateCheck, Outcome};
pub use goals::{GoalVerdict, JudgedGoal, goals_text, judge_goals};
pub use html::{HtmlPage, fidelity_html, timeline_html, to_html};
pub use json::{Document, from_json, to_json};
pub use json_words::{JsonError, SCHEMA};
pub use judgement::{
    JudgedLoad, Judgement, LoadVerdict, Parameter, Space, Verified, VerifiedLoad, judgement_json,
    judgement_text, space_json,
};
pub use junit::to_junit;
pub use markdown::{MarkdownNotes, to_markdown};
pub use ministat::{Plot, ministat};
pub use names::visible;
pub use narrow::fit;
pub use overview::overview_table;
pub use perfetto::PerfettoSink;
pub use priority_plot::priorities_svg;
pub use ranking::{Ranked, ranking, ranking_table};
pub use record_file::{
    About, ExtraTables, Record, RecordError, RecordOf, RecordSink, RecordWriter, RunHead, course_out,
};
pub use reproduction::{reproduction_text, sensitivity_text, summary};
pub use run_tables::{
    after_ejection_text, callbacks_table, counters_table, loader_text, metrics_table, printed_text,
    run_summary, scheduler_tables, tasks_table, warnings_text,
};
pub use run_text::{RunTables, run_text};
pub use samples::{SampleFile, SampleSink, read_samples, samples_text};
pub use schema::{DOCUMENTS, JsonDocument};
pub use stat_json::stat_json;
pub use table::table;
pub use timehist::TimehistSink;
pub use trust::Trust;
pub use voids::void_text;
pub use wait_tables::{latency_table, longest_waits, waits_by_group_table};
pub use waits::{waits_dot, waits_html, waits_table};
pub use workload_names::WorkloadNames;
