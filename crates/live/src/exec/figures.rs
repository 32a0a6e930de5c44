//! What the kernel says in `/proc` that a task has used.

/// What the kernel keeps of a task in its `/proc` directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelFigures {
    pub(super) cpu_ns: Option<u64>,
    pub(super) delay_ns: Option<u64>,
    pub(super) migrations: Option<u64>,
    pub(super) voluntary: Option<u64>,
    pub(super) involuntary: Option<u64>,
}

impl KernelFigures {
    /// Reads `schedstat` (CPU time and run delay in ns), `sched` and `status` of a directory.
    pub(super) fn read(dir: &str) -> KernelFigures {
        let text = |name: &str| std::fs::read_to_string(format!("{dir}/{name}")).unwrap_or_default();
        let schedstat = text("schedstat");
        let mut numbers = schedstat.split_whitespace().map(|word| word.parse().ok());
        let (cpu_ns, delay_ns) = (numbers.next().flatten(), numbers.next().flatten());
        let status = text("status");
        KernelFigures {
            cpu_ns,
            delay_ns,
            migrations: field(&text("sched"), "se.nr_migrations"),
            voluntary: field(&status, "voluntary_ctxt_switches"),
            involuntary: field(&status, "nonvoluntary_ctxt_switches"),
        }
    }
}

/// The number of a line `name : number`.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_fields_are_found() {
        let text = "hog (12, #threads: 1)\n---\nse.nr_migrations   :   17\nx : y\n";
        assert_eq!(field(text, "se.nr_migrations"), Some(17));
        assert_eq!(field(text, "x"), None);
    }
}
