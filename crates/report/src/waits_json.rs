//! Waits of tasks for each other, as JSON and back: the part of `docs/results.md` named `waits`.

use crate::json_words::{JsonError, counters_in};
use crate::pairs::Pairs;
use crate::schema::names::{confidences, mechanisms};
use schedlab_base::DurationNs;
use schedlab_trace::waits::{CONFIDENCE_DEFAULT, ConfidenceFrom, Mechanism, Party, WaitPair, Waits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Waits of tasks for each other: [what the figures mean](waits.md).
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WaitsBetween")]
pub(crate) struct WaitsFile {
    /// How long was watched, in ns.
    span_ns: u64,
    /// Confidence in a provider that was seen once: 20.
    confidence_default: u32,
    /// The longest total first.
    pairs: Vec<Pair>,
    /// Waits that made no pair (`nr_interrupts`, `nr_kernel`, `nr_io_uring`), and what was lost (`nr_evicted`, `nr_lost`,
    /// `nr_cut_short`; in simulation `nr_refused`).
    #[serde(default)]
    counters: Pairs<u64>,
    /// What is counted.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    counter_meanings: Pairs<String>,
}

/// A task that waits, and the one it waits for.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WaitPair")]
struct Pair {
    /// The task that waits.
    requester: Side,
    /// The task that ends the waits.
    provider: Side,
    /// Through what it waits.
    #[schemars(extend("enum" = mechanisms()))]
    mechanism: String,
    /// After a wait for several things: what ended it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = mechanisms()))]
    object: Option<String>,
    /// Number of waits.
    waits: u64,
    /// Their total time, in ns.
    time_ns: u64,
    /// The longest one, in ns.
    longest_ns: u64,
    /// The part of the total in which the provider had a worse priority, in ns.
    inversion_ns: u64,
    /// How sure the provider is, from 0 to 40.
    confidence: u32,
    /// `counts` of what was seen, or `swap`: SWAP's own.
    #[serde(default)]
    #[schemars(extend("enum" = confidences()))]
    confidence_from: String,
}

/// A task in a pair.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Party")]
struct Side {
    /// Its name.
    name: String,
    /// Its thread id.
    tid: i32,
    /// Its process id.
    pid: i32,
    /// Its priority as in `task->prio`; a smaller number is more important.
    prio: i32,
}

impl WaitsFile {
    /// The form in a file.
    pub(crate) fn new(waits: &Waits) -> WaitsFile {
        let meant = waits.counters.iter().filter(|counter| !counter.meaning.is_empty());
        WaitsFile {
            span_ns: waits.span.0,
            confidence_default: CONFIDENCE_DEFAULT,
            pairs: waits.pairs.iter().map(pair_out).collect(),
            counters: Pairs(waits.counters.iter().map(|c| (c.name.clone(), c.value)).collect()),
            counter_meanings: Pairs(meant.map(|c| (c.name.clone(), c.meaning.clone())).collect()),
        }
    }

    /// What a file says.
    ///
    /// # Errors
    /// A mechanism that this version does not know.
    pub(crate) fn read(self) -> Result<Waits, JsonError> {
        Ok(Waits {
            span: DurationNs(self.span_ns),
            pairs: self.pairs.into_iter().map(pair_in).collect::<Result<_, _>>()?,
            counters: counters_in(self.counters, self.counter_meanings),
        })
    }
}

fn pair_out(pair: &WaitPair) -> Pair {
    let side = |party: &Party| Side {
        name: party.name.clone(),
        tid: party.thread,
        pid: party.process,
        prio: party.prio,
    };
    Pair {
        requester: side(&pair.requester),
        provider: side(&pair.provider),
        mechanism: pair.mechanism.name().to_string(),
        object: pair.object.map(|object| object.name().to_string()),
        waits: pair.waits,
        time_ns: pair.time.0,
        longest_ns: pair.longest.0,
        inversion_ns: pair.inversion.0,
        confidence: pair.confidence,
        confidence_from: pair.confidence_from.name().to_string(),
    }
}

fn pair_in(pair: Pair) -> Result<WaitPair, JsonError> {
    let party = |side: Side| Party { name: side.name, thread: side.tid, process: side.pid, prio: side.prio };
    let swap = pair.confidence_from == ConfidenceFrom::Swap.name();
    let mechanism = |name: &str| {
        Mechanism::from_name(name).ok_or_else(|| JsonError(format!("unknown mechanism '{name}'")))
    };
    Ok(WaitPair {
        requester: party(pair.requester),
        provider: party(pair.provider),
        mechanism: mechanism(&pair.mechanism)?,
        object: pair.object.as_deref().map(mechanism).transpose()?,
        waits: pair.waits,
        time: DurationNs(pair.time_ns),
        longest: DurationNs(pair.longest_ns),
        inversion: DurationNs(pair.inversion_ns),
        confidence: pair.confidence,
        confidence_from: if swap { ConfidenceFrom::Swap } else { ConfidenceFrom::Counts },
    })
}

#[cfg(test)]
mod tests {
    use crate::json::{Document, from_json, to_json};
    use crate::waits::tests::waits;

    #[test]
    fn waits_go_to_json_and_back() {
        let document = Document { waits: Some(waits()), ..Document::default() };
        let text = to_json(&document);
        assert!(
            text.contains("\"inversion_ns\": 10000000") && text.contains("\"object\": \"tcp\""),
            "{text}"
        );
        assert_eq!(from_json(&text).unwrap(), document);
        let broken = text.replace("\"pipe\"", "\"telepathy\"");
        assert!(from_json(&broken).unwrap_err().0.contains("'telepathy'"));
        assert!(!to_json(&Document::default()).contains("waits"));
    }
}
