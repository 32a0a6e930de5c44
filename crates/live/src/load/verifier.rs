//! The decisive part of a verifier's log.

/// Lines kept of a log that is not understood.
const TAIL: usize = 12;

/// Lines kept of the end of a log of types: the type and what is wrong with it.
const LAST: usize = 2;

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

/// The verifier's reason and the source line that it is about, of the kept lines: `R1 invalid mem access 'scalar' (x.bpf.c:16: e->b
/// += 1;)`.
pub(super) fn headline(lines: &[String]) -> String {
    let report = lines.iter().position(|line| line.starts_with("Verification failed:"));
    let (reason, place) = match report {
        Some(at) => (at.checked_sub(1).map(|before| lines[before].as_str()), reported_place(&lines[at..])),
        None => {
            // Behind `infinite loop detected` the log has the states that it met again.
            let is_state = |line: &&String| line.starts_with("cur state:") || line.starts_with("old state:");
            let reason = lines.iter().rfind(|line| !is_state(line));
            (reason.map(String::as_str), lines.iter().rev().find_map(|line| noted_place(line)))
        }
    };
    let place = place.map_or(String::new(), |place| format!(" ({place})"));
    reason.unwrap_or("it does not say why").trim().to_string() + &place
}

/// The place in a report: `  bump @ nf.bpf.c:16:7` after `At:`, and `    >>> 16 |   text` of the source.
fn reported_place(report: &[String]) -> Option<String> {
    let at = report.iter().position(|line| line.starts_with("At:"))?;
    let place = report.get(at + 1)?.split_once(" @ ")?.1.trim();
    let marked = report[at..].iter().find_map(|line| line.trim_start().strip_prefix(">>>"));
    let text = marked.and_then(|line| line.split_once('|')).map_or("", |(_, text)| text.trim());
    Some(if text.is_empty() { place.to_string() } else { format!("{place}: {text}") })
}

/// The place that a line of an older log names: `; e->b += 1; @ nf.bpf.c:16`.
fn noted_place(line: &str) -> Option<String> {
    let (text, place) = line.trim().strip_prefix("; ")?.rsplit_once(" @ ")?;
    Some(format!("{place}: {}", text.trim()))
}

/// What libbpf said, for failures that are not the verifier's: the first lines that are not about
/// its own attempts to help. Of a log that the kernel wrote of the object's types, which lists them all, the last lines are kept.
pub(super) fn words(messages: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut log: Option<Vec<&str>> = None;
    let lines = messages.lines().map(|line| line.strip_prefix("libbpf: ").unwrap_or(line));
    for line in lines.filter(|line| !line.trim().is_empty()) {
        match &mut log {
            None if line.starts_with("-- BEGIN BTF LOAD LOG") => log = Some(Vec::new()),
            None => words.push(line.to_string()),
            Some(lines) if line.starts_with("-- END BTF LOAD LOG") => {
                words.extend(
                    lines[lines.len().saturating_sub(LAST)..].iter().map(|line| line.trim().to_string()),
                );
                log = None;
            }
            Some(lines) => lines.push(line),
        }
    }
    words.truncate(TAIL);
    words
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
        assert_eq!(headline(&lines), "R6 invalid mem access 'scalar'");
        assert_eq!(refusal("libbpf: failed to find BTF\n"), None);
        assert_eq!(words("libbpf: failed to find BTF\n"), ["failed to find BTF"]);
        let types = "libbpf: BTF loading error: -EINVAL\nlibbpf: -- BEGIN BTF LOAD LOG ---\nmagic: 0xeb9f\n[1] PTR (anon)\n\
            [2] STRUCT entry\n\tlock type_id=9 Invalid member\n\n-- END BTF LOAD LOG --\nlibbpf: it is needed\n";
        let told = [
            "BTF loading error: -EINVAL",
            "[2] STRUCT entry",
            "lock type_id=9 Invalid member",
            "it is needed",
        ];
        assert_eq!(words(types), told);
    }

    /// As Linux 7.3.4 and 6.18.15 tell one fault.
    #[test]
    fn the_reason_stands_with_its_line() {
        let of = |text: &str| headline(&text.lines().map(str::to_string).collect::<Vec<_>>());
        let told = "R1 invalid mem access 'map_value_or_null'";
        let newer = format!(
            "{told}\nVerification failed: Register Type Safety: Invalid dereference\nReason:\n  R1 may be NULL here.\n\
             At:\n  bump @ nf.bpf.c:16:7\n  Source context:\n      14 | ...\n  >>> 16 |         e->b += 1;\n         |   ^-- x\n\
             Suggestion:\n  check it"
        );
        let older = format!(
            "; bump(e); @ nf.bpf.c:25\n11: (85) call pc+28\n; e->b += 1; @ nf.bpf.c:16\n40: (79) r2 = *(u64 *)(r1 +8)\n{told}"
        );
        assert_eq!(of(&newer), format!("{told} (nf.bpf.c:16:7: e->b += 1;)"));
        assert_eq!(of(&older), format!("{told} (nf.bpf.c:16: e->b += 1;)"));
        assert_eq!(of(told), told);
        assert_eq!(
            of("infinite loop detected at insn 9\ncur state: R1=0\nold state: R1=0"),
            "infinite loop detected at insn 9"
        );
        assert_eq!(of(""), "it does not say why");
    }
}
