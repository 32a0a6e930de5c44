//! Budgets of instructions: `--budget enqueue=400`.

use crate::failure::Failure;
use schedlab_base::did_you_mean;
use schedlab_report::{GateCheck, Outcome, cell_of, number, scheduler_label};
use schedlab_scx::counted_callbacks;
use schedlab_trace::RunRecord;
use std::fmt;
use std::str::FromStr;

/// The name of the budget of a switch of tasks.
const SWITCH: &str = "switch";

/// The name of the budget of a kernel's verifier.
const VERIFIER: &str = "verifier";

/// The metric of [`SWITCH`].
const PER_SWITCH: &str = "bpf_insns_per_switch";

/// Words behind the number of instructions that a verifier walked.
const WALKED: [&str; 2] = [" instruction walked", " instructions walked"];

/// How many instructions something may take.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// A callback, [`SWITCH`] or [`VERIFIER`].
    of: String,
    /// At most so many.
    most: f64,
}

impl Budget {
    /// Refuses a budget of a verifier where only simulated runs answer, and one of simulated instructions where a kernel does.
    ///
    /// # Errors
    /// The name of the budget, and the cure.
    pub fn for_runs(&self, simulated: bool) -> Result<(), Failure> {
        let cure = match (self.of == VERIFIER, simulated) {
            (false, true) => return Ok(()),
            (true, _) => {
                "a kernel's verifier takes these steps: `schedlab check OBJECT --vm --budget verifier=N` counts them"
            }
            (false, false) => {
                "a real kernel does not count instructions of callbacks; leave out --vm and --live"
            }
        };
        Err(Failure::usage(format!("--budget {self}: {cure}")))
    }

    /// Refuses what a verifier does not count.
    ///
    /// # Errors
    /// The name of the budget, and the cure.
    pub fn for_verifier(&self, asked: bool) -> Result<(), Failure> {
        let cure = match (self.of == VERIFIER, asked) {
            (true, true) => return Ok(()),
            (true, false) => "a kernel's verifier takes these steps; add --vm or --live",
            (false, _) => "runs count these instructions: `schedlab compare --budget` knows them",
        };
        Err(Failure::usage(format!("--budget {self}: {cure}")))
    }

    /// Judges what the answers of verifiers say that they have walked.
    ///
    /// # Errors
    /// More than the budget, and answers without a number.
    pub fn judge_verifier<'a>(&self, answers: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
        match answers.filter_map(walked).reduce(f64::max) {
            Some(walked) if walked > self.most => Err(Failure::failed(format!(
                "the verifier walks {walked} instructions, over --budget {self}"
            ))),
            Some(_) => Ok(()),
            None => {
                let text = format!("--budget {self}: no kernel has answered what its verifier walks");
                Err(Failure::environment(text))
            }
        }
    }

    /// The check of a scheduler's runs at `place`; nothing where the scheduler has no instructions.
    pub(crate) fn judge(&self, runs: &[&RunRecord], place: &str) -> Option<GateCheck> {
        let first = runs.first()?;
        first.provenance.object.as_ref()?;
        let mean = if self.of == SWITCH { per_switch(runs) } else { per_call(runs, &self.of) };
        let unit = if self.of == SWITCH { "a switch" } else { "a call" };
        let scheduler = scheduler_label(first);
        let found = mean.map_or("never called".to_string(), |mean| {
            format!("{} instructions {unit}, budget {}", number(mean), number(self.most))
        });
        let outcome = match mean.filter(|mean| *mean > self.most) {
            Some(mean) => Outcome::Failed(format!(
                "{scheduler} is over budget: {place}, {} takes {} instructions {unit} (--budget {self})",
                self.of,
                number(mean)
            )),
            None => Outcome::Passed,
        };
        Some(GateCheck {
            cell: cell_of(first),
            scheduler,
            what: format!("budget {}", self.of),
            found,
            outcome,
        })
    }
}

/// How many instructions an answer says that a verifier walked.
fn walked(answer: &str) -> Option<f64> {
    let at = WALKED.iter().find_map(|words| answer.find(words))?;
    answer[..at].rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Mean instructions of a call, over all calls of all runs.
fn per_call(runs: &[&RunRecord], callback: &str) -> Option<f64> {
    let costs = runs.iter().flat_map(|run| &run.callbacks).filter(|cost| cost.name == callback);
    let (mut insns, mut calls) = (0, 0);
    for cost in costs {
        insns += cost.insns?;
        calls += cost.calls;
    }
    (calls > 0).then(|| insns as f64 / calls as f64)
}

fn per_switch(runs: &[&RunRecord]) -> Option<f64> {
    let values: Vec<f64> = runs.iter().filter_map(|run| run.metric(PER_SWITCH)).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Budget, String> {
        let Some((of, most)) = text.split_once('=') else {
            return Err(format!("'{text}' is no budget; write CALLBACK=INSNS, as in enqueue=400"));
        };
        let known = || [SWITCH, VERIFIER].into_iter().chain(counted_callbacks());
        if !known().any(|name| name == of) {
            let near = did_you_mean(of, known());
            return Err(format!("no callback '{of}'{near}; switch and verifier are budgets too"));
        }
        let number = most.parse::<f64>().ok().filter(|most| most.is_finite() && *most >= 0.0);
        let most = number.ok_or_else(|| format!("'{most}' is no number of instructions, as in 400"))?;
        Ok(Budget { of: of.to_string(), most })
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.of, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(text: &str) -> Budget {
        text.parse().unwrap()
    }

    #[test]
    fn budgets_are_read_and_written() {
        for text in ["enqueue=400", "switch=0", "verifier=12000", "timer=2.5", "tracing=1"] {
            assert_eq!(budget(text).to_string(), text);
        }
        let refused = |text: &str| text.parse::<Budget>().unwrap_err();
        assert!(refused("enqueu=4").contains("did you mean 'enqueue'?"));
        assert!(refused("enqueue").contains("CALLBACK=INSNS") && refused("enqueue=-1").contains("'-1'"));
    }

    #[test]
    fn each_budget_has_a_command_that_counts_it() {
        assert!(budget("verifier=1").for_runs(true).unwrap_err().text.contains("schedlab check"));
        assert!(budget("enqueue=1").for_runs(false).unwrap_err().text.contains("leave out --vm"));
        assert!(budget("verifier=1").for_verifier(false).unwrap_err().text.contains("add --vm"));
        assert!(budget("enqueue=1").for_verifier(true).unwrap_err().text.contains("schedlab compare"));
        assert!(
            budget("enqueue=1").for_runs(true).is_ok() && budget("verifier=1").for_verifier(true).is_ok()
        );
    }

    #[test]
    fn what_a_verifier_walked_is_read_from_its_answer() {
        let answer = "7.3.4: 21 programs, 20,5 and 9123 instructions walked";
        assert!(budget("verifier=9123").judge_verifier(["", answer].into_iter()).is_ok());
        let over = budget("verifier=9122").judge_verifier(["", answer].into_iter()).unwrap_err().text;
        assert_eq!(over, "the verifier walks 9123 instructions, over --budget verifier=9122");
        let silent = budget("verifier=1").judge_verifier(["takes it"].into_iter()).unwrap_err();
        assert!(silent.text.contains("no kernel has answered"));
    }
}
