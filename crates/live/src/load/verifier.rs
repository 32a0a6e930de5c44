//! The decisive part of a verifier's log.

/// Lines kept of a log that is not understood.
const TAIL: usize = 12;

/// The refused program and the end of the verifier's log for it, from what libbpf prints about a
/// load that failed. `None` when the messages hold no such log.
pub(super) fn refusal(messages: &str) -> Option<(String, Vec<String>)> {
    let begin = messages.find("-- BEGIN PROG LOAD LOG --")?;
    let program = messages[..begin].rsplit("prog '").next()?.split('\'').next()?.to_string();
    let log = &messages[begin..];
    let log = &log[log.find('\n')? + 1..];
    let log = &log[..log.find("-- END PROG LOAD LOG --").unwrap_or(log.len())];
    Some((program, decisive(log)))
}

/// The last lines before the statistics. Kernels from 7.x on end the log with a report ("Verification
/// failed: ...", reason, place, causal path, suggestion); of that, all but the path is taken.
fn decisive(log: &str) -> Vec<String> {
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("processed ") && !line.starts_with("libbpf:"))
        .collect();
    let own = |lines: &[&str]| lines.iter().map(|line| (*line).to_string()).collect::<Vec<_>>();
    let Some(report) = lines.iter().rposition(|line| line.starts_with("Verification failed:")) else {
        return own(&lines[lines.len().saturating_sub(TAIL)..]);
    };
    let end = |word: &str| lines[report..].iter().position(|l| l.starts_with(word)).map(|i| report + i);
    let path = end("Causal path:").unwrap_or(lines.len());
    let suggestion = end("Suggestion:").unwrap_or(lines.len());
    let mut kept = own(&lines[report.saturating_sub(1)..path]);
    kept.extend(own(&lines[suggestion.max(path)..]));
    kept
}

/// What libbpf said, for failures that are not the verifier's: the first lines that are not about
/// its own attempts to help.
pub(super) fn words(messages: &str) -> Vec<String> {
    messages
        .lines()
        .map(|line| line.strip_prefix("libbpf: ").unwrap_or(line).to_string())
        .filter(|line| !line.is_empty())
        .take(TAIL)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_the_last_lines_are_found() {
        let messages = "libbpf: prog 'o1_enqueue': BPF program load failed: -EACCES\n\
            libbpf: prog 'o1_enqueue': -- BEGIN PROG LOAD LOG --\n\
            0: R1=ctx()\n\n7: (79) r7 = *(u64 *)(r6 +0)\nR6 invalid mem access 'scalar'\n\
            processed 8 insns (limit 1000000)\n-- END PROG LOAD LOG --\n\
            libbpf: prog 'o1_enqueue': failed to load: -EACCES\n";
        let (program, lines) = refusal(messages).unwrap();
        assert_eq!(program, "o1_enqueue");
        assert_eq!(lines.last().unwrap(), "R6 invalid mem access 'scalar'");
        let newer = messages.replace(
            "processed 8",
            "Verification failed: Type Safety\nReason:\n  it is a scalar\nCausal path:\n  f @ x.c:1\n\
             Suggestion:\n  check it\nprocessed 8",
        );
        let (_, lines) = refusal(&newer).unwrap();
        assert_eq!(lines[0], "R6 invalid mem access 'scalar'");
        assert_eq!(&lines[3..], ["  it is a scalar", "Suggestion:", "  check it"]);
        assert_eq!(refusal("libbpf: failed to find BTF\n"), None);
        assert_eq!(words("libbpf: failed to find BTF\n"), ["failed to find BTF"]);
    }
}
