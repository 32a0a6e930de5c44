//! Defects of schedlab itself: a panic becomes one clear error that says what to report.

use crate::failure::Failure;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

thread_local! {
    /// Bodies of [`guard`] that this thread is in.
    static GUARDS: Cell<u32> = const { Cell::new(0) };
    /// Message and place of the panic that unwinds.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Replaces what a panic prints. `RUST_BACKTRACE` brings back message and backtrace.
pub fn install() {
    let own = std::panic::take_hook();
    let wanted = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    std::panic::set_hook(Box::new(move |info| {
        if wanted {
            own(info);
        }
        let text = told(info);
        if GUARDS.get() == 0 {
            log::error!("{}", sentence(&text, "the command"));
        }
        LAST.set(text);
    }));
}

/// Message and place.
fn told(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "a panic without a message".to_string());
    let place = info.location().map_or_else(|| "an unknown place".to_string(), ToString::to_string);
    format!("{text}, at {place}")
}

fn sentence(told: &str, what: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "defect in schedlab: {told}, version {version}, in {what}; please report this line with the files that the command \
         names (RUST_BACKTRACE=1 adds where it came from)"
    )
}

/// Does something that `what` describes. A panic in it is its failure.
///
/// What the body changed half is not looked at again: a caller drops it, or it is of this run alone.
pub fn guard<T>(
    what: impl FnOnce() -> String,
    body: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    caught(body).unwrap_or_else(|told| Err(Failure::failed(sentence(&told, &what()))))
}

/// The same, in which a panic is told apart from a failure: message and place.
fn caught<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    GUARDS.set(GUARDS.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(body));
    GUARDS.set(GUARDS.get() - 1);
    result.map_err(|_| LAST.take())
}

/// Does one of several runs; what it failed with, if it is a defect, is the second kind of error.
pub(crate) fn guard_run<T>(
    what: impl FnOnce() -> String,
    body: impl FnOnce() -> Result<T, Failure>,
) -> Result<Result<T, Failure>, Failure> {
    caught(body).map_err(|told| Failure::failed(sentence(&told, &what())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Code;

    #[test]
    fn a_panic_is_one_line_that_says_what_to_report() {
        install();
        let index = std::hint::black_box(7);
        let failure = guard(|| "a run".to_string(), || Ok([1, 2, 3][index])).unwrap_err();
        assert_eq!(failure.code, Code::Failed);
        for part in ["defect in schedlab: index out of bounds", "defect.rs:", "in a run", "version"] {
            assert!(failure.text.contains(part), "{part}: {failure}");
        }
        assert_eq!(guard(|| "a run".to_string(), || Ok(7)), Ok(7));
        let own = Failure::usage("own");
        assert_eq!(guard(String::new, || Err::<(), _>(own.clone())), Err(own));
    }
}
