//! Published tables as data: what each row was measured with, what was printed, and
//! by which rule a measured figure agrees with it. Knows no scheduler and runs
//! nothing; the rules are those of `docs/reproduction.md`.

mod curves;
mod definition;
mod expression;
mod library;
mod outcome;
mod plan;
mod recompute;
mod rule;

pub use curves::{Curve, CurvePoint, Curves};
pub use definition::{Cell, Document, Form, Row, Sampling, Table};
pub use expression::Expression;
pub use library::Library;
pub use outcome::{CellOutcome, ChangedRow, DocumentOutcome, RowOutcome, Sensitivity, Share, TableOutcome};
pub use plan::{Plan, value_of};
pub use rule::{Judgement, Published, Qualifier, Rule};
