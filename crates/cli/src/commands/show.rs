//! `show`: a view of a record.

use crate::args::{ShowArgs, ViewKind};
use crate::confine::Named;
use crate::output;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::Target;
use schedlab_lab::run::shown;
use schedlab_lab::run::view::{self, Showing, View};
use std::path::Path;

/// Writes the view.
pub(crate) fn show(args: &ShowArgs, quiet: bool, verbose: bool) -> Result<(), Failure> {
    Named::new().inputs([&args.record]).outputs([&args.to]).enter(&args.sandbox, quiet)?;
    let view = View::from(args.view);
    let showing = Showing { view, verbose, window: args.window, run: args.run };
    let mut record = shown::open(&args.record)?;
    if view.is_for_people() && args.to.is_none() {
        return output::print(&view::text(&mut record, &showing)?);
    }
    let path = args.to.as_deref().unwrap_or(Path::new("-"));
    let target = if view.is_binary() { Target::binary("--to", path) } else { Target::new("--to", path) };
    shown::show(&mut record, &showing, &target?)
}

impl From<ViewKind> for View {
    fn from(kind: ViewKind) -> View {
        match kind {
            ViewKind::Table => View::Table,
            ViewKind::Json => View::Json,
            ViewKind::Csv => View::Csv,
            ViewKind::Html => View::Html,
            ViewKind::Timeline => View::Timeline,
            ViewKind::Timehist => View::Timehist,
            ViewKind::Latency => View::Latency,
            ViewKind::Perfetto => View::Perfetto,
            ViewKind::Priorities => View::Priorities,
            ViewKind::Lines => View::Lines,
            ViewKind::Waits => View::Waits,
            ViewKind::Samples => View::Samples,
        }
    }
}
