//! Waits of tasks for each other: as a table, as a graph for Graphviz, as a picture and as a page.

mod graph;
mod layout;
mod page;

pub use graph::waits_dot;
pub(crate) use page::section;
pub use page::waits_html;

use crate::table::table;
use schedlab_base::{DurationNs, counted};
use schedlab_trace::waits::{ConfidenceFrom, Party, WaitPair, Waits};

/// A task in tables and graphs.
pub(crate) fn party(party: &Party) -> String {
    format!("{} [{}]", party.name, party.thread)
}

/// `pipe`, or `epoll (tcp)` where several objects were waited for and that one ended it.
pub(crate) fn through(pair: &WaitPair) -> String {
    match pair.object {
        Some(object) => format!("{} ({})", pair.mechanism.name(), object.name()),
        None => pair.mechanism.name().to_string(),
    }
}

/// To the microsecond.
pub(crate) fn ms(time: DurationNs) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}

pub(crate) const COLUMNS: [&str; 8] =
    ["who waits", "for whom", "through", "waits", "waited ms", "longest ms", "inversion ms", "confidence"];

/// The columns of numbers.
pub(crate) const NUMBERS: [usize; 5] = [3, 4, 5, 6, 7];

pub(crate) fn row(pair: &WaitPair) -> Vec<String> {
    vec![
        party(&pair.requester),
        party(&pair.provider),
        through(pair),
        pair.waits.to_string(),
        ms(pair.time),
        ms(pair.longest),
        ms(pair.inversion),
        pair.confidence.to_string(),
    ]
}

/// What the table does not show: entries that were lost, waits that are not covered.
pub(crate) fn remarks(waits: &Waits) -> Vec<String> {
    let told = ["nr_evicted", "nr_refused", "nr_lost", "nr_cut_short", "nr_io_uring"];
    let swap = waits.pairs.iter().filter(|pair| pair.confidence_from == ConfidenceFrom::Swap).count();
    let source = (swap > 0)
        .then(|| format!("(confidence of {}: SWAP's own at the end of the run)", counted(swap, "pair")));
    let counters = waits.counters.iter().filter(|c| c.value > 0 && told.contains(&c.name.as_str()));
    let lines = counters.map(|counter| format!("{}: {} ({})", counter.name, counter.value, counter.meaning));
    source.into_iter().chain(lines).collect()
}

/// The pairs that are at least so sure, at most `limit` of them, the longest total first; then
/// what it leaves out.
pub fn waits_table(waits: &Waits, min_confidence: u32, limit: usize) -> String {
    let sure: Vec<&WaitPair> = waits.pairs.iter().filter(|pair| pair.confidence >= min_confidence).collect();
    let rows: Vec<Vec<String>> = sure.iter().take(limit).map(|pair| row(pair)).collect();
    let mut text = if rows.is_empty() {
        "no task was seen to wait for another one\n".to_string()
    } else {
        table(&COLUMNS, &NUMBERS, &rows)
    };
    let (more, unsure) = (sure.len() - rows.len(), waits.pairs.len() - sure.len());
    if more > 0 {
        text.push_str(&format!("({})\n", counted(more, "more pair")));
    }
    if unsure > 0 {
        text.push_str(&format!("({} of a confidence below {min_confidence})\n", counted(unsure, "pair")));
    }
    for remark in remarks(waits) {
        text.push_str(&format!("{remark}\n"));
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use schedlab_trace::Counter;
    use schedlab_trace::waits::Mechanism;

    pub(crate) fn waits() -> Waits {
        let party = |name: &str, thread| Party { name: name.into(), thread, process: 7, prio: 100 + thread };
        let pair = |requester, provider, mechanism, waits, confidence| WaitPair {
            requester,
            provider,
            mechanism,
            object: (mechanism == Mechanism::Epoll).then_some(Mechanism::Tcp),
            waits,
            time: DurationNs(waits * 1_500_000),
            longest: DurationNs(2_000_000),
            inversion: DurationNs(waits * 1_000_000),
            confidence,
            confidence_from: ConfidenceFrom::Counts,
        };
        let (client, server) = (party("client", 8), party("<server>", 9));
        let meaning = "waits that are not covered".to_string();
        Waits {
            span: DurationNs(5_000_000_000),
            pairs: vec![
                pair(client.clone(), server.clone(), Mechanism::Pipe, 10, 36),
                pair(server, client, Mechanism::Epoll, 2, 20),
                pair(party("x", 1), party("y", 2), Mechanism::Futex, 1, 3),
            ],
            counters: vec![Counter { name: "nr_io_uring".into(), value: 4, meaning }],
        }
    }

    #[test]
    fn the_table_says_what_it_leaves_out() {
        let text = waits_table(&waits(), 20, 1);
        assert!(
            text.contains("client [8]") && text.contains("<server> [9]") && text.contains("15.000"),
            "{text}"
        );
        assert!(text.contains("(1 more pair)") && text.contains("(1 pair of a confidence below 20)"));
        assert!(text.contains("nr_io_uring: 4 (waits that are not covered)"), "{text}");
        assert!(waits_table(&waits(), 0, 9).contains("epoll (tcp)"));
        assert!(waits_table(&Waits::default(), 0, 9).starts_with("no task was seen"));
    }
}
