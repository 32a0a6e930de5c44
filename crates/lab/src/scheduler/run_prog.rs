//! `--run-prog`: programs that a scheduler's own loader runs before it attaches the scheduler.

use crate::failure::Failure;
use crate::scheduler::Scheduler;
use schedlab_base::{DurationNs, ParseDurationError};
use schedlab_bpf::settings::bytes_of_digits;
use schedlab_scx::{RunProgram, TimedProgram, check_programs};
use std::fmt::Write;

/// Most bytes of a context. The kernel takes no more.
const MOST: usize = u16::MAX as usize;

/// Reads `NAME` or `NAME:HEX`.
///
/// # Errors
/// A sentence: no name, no bytes, or too many of them.
pub fn parse(text: &str) -> Result<RunProgram, String> {
    let (name, hex) = text.split_once(':').map_or((text, None), |(name, hex)| (name, Some(hex)));
    if name.is_empty() || hex == Some("") {
        return Err("write NAME or NAME:HEX, two digits for each byte of its context".to_string());
    }
    let bytes = bytes_of_digits(hex.unwrap_or(""));
    let context = bytes.ok_or("its context is no list of bytes of two hexadecimal digits each")?;
    if context.len() > MOST {
        return Err(format!("a context of {} bytes, the limit is {MOST}", context.len()));
    }
    Ok(RunProgram { name: name.to_string(), context })
}

/// Reads `TIME:NAME` or `TIME:NAME:HEX`.
///
/// # Errors
/// As [`parse`], and a time that is none.
pub fn parse_timed(text: &str) -> Result<TimedProgram, String> {
    let (at, program) = text.split_once(':').ok_or("write TIME:NAME or TIME:NAME:HEX, as 2s:report")?;
    let at: DurationNs = at.parse().map_err(|error: ParseDurationError| error.to_string())?;
    Ok(TimedProgram { at, program: parse(program)? })
}

/// A timed program as text, for another command line.
pub(crate) fn timed_text(timed: &TimedProgram) -> String {
    format!("{}:{}", timed.at, text(&timed.program))
}

/// A program as text, for another command line.
pub fn text(program: &RunProgram) -> String {
    let mut text = program.name.clone();
    for (at, byte) in program.context.iter().enumerate() {
        let colon = if at == 0 { ":" } else { "" };
        write!(text, "{colon}{byte:02x}").expect("a text takes all");
    }
    text
}

/// Has the programs run for each scheduler whose object has them.
///
/// # Errors
/// A program that no object has, or that does not run on request.
pub fn give(schedulers: &mut [Scheduler], programs: &[RunProgram]) -> Result<(), Failure> {
    for program in programs {
        let (mut taken, mut refused) = (false, None);
        for scheduler in schedulers.iter_mut() {
            // Another error of the object comes when it is loaded.
            let Some(Ok(object)) = scheduler.parsed() else { continue };
            match check_programs(&object, std::slice::from_ref(program)) {
                Ok(()) => {
                    taken = true;
                    scheduler.programs.push(program.clone());
                }
                Err(error) => refused = Some(error.in_file(&scheduler.name)),
            }
        }
        match refused {
            Some(error) if !taken => return Err(Failure::usage(format!("scheduler {error}"))),
            None if !taken => {
                let text = format!("--run-prog {}: no scheduler of this command has programs", program.name);
                return Err(Failure::usage(text));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_programs_begin_with_their_time() {
        let timed = parse_timed("2s:report:01").unwrap();
        assert_eq!((timed.at.0, timed.program.name.as_str()), (2_000_000_000, "report"));
        assert_eq!(timed_text(&timed), "2s:report:01");
        for bad in ["report", "2:report", "2s:", "x:report"] {
            assert!(parse_timed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn programs_have_a_name_and_perhaps_bytes() {
        for (given, context) in [("setup", &[][..]), ("setup:00ff", &[0, 255]), ("setup:0A", &[10])] {
            let program = parse(given).unwrap();
            assert_eq!((program.name.as_str(), program.context.as_slice()), ("setup", context));
            assert_eq!(text(&program), given.to_lowercase());
        }
        for bad in ["", ":00", "setup:", "setup:0", "setup:0x00", "setup:zz", "setup:00:00", "setup:\u{e9}"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&format!("a:{}", "00".repeat(MOST + 1))).is_err());
    }
}
