//! One line a metric of a run: the form that spreadsheets and data frames read.

use crate::comparison::scheduler_label;
use schedlab_base::Better;
use schedlab_trace::RunRecord;

/// Writes runs as CSV (RFC 4180 quoting, `\n` line ends) with a header line:
/// scheduler, workload, params, machine, cpus, seed, backend, exit, metric, value,
/// unit, better.
pub fn to_csv(runs: &[RunRecord]) -> String {
    let mut text =
        String::from("scheduler,workload,params,machine,cpus,seed,backend,exit,metric,value,unit,better\n");
    for run in runs {
        let params: Vec<String> =
            run.workload.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let head = [
            scheduler_label(run),
            run.workload.name.clone(),
            params.join(","),
            run.machine.clone(),
            run.cpus.to_string(),
            run.seed.to_string(),
            run.backend.name().to_string(),
            run.exit.kind.name().to_string(),
        ]
        .map(|field| quoted(&field))
        .join(",");
        for metric in &run.metrics {
            let better = match metric.better {
                Better::Higher => "higher",
                Better::Lower => "lower",
                Better::Neither => "neither",
            };
            let value = if metric.value.is_finite() { metric.value.to_string() } else { String::new() };
            let tail = [quoted(&metric.name), value, quoted(metric.unit), better.to_string()].join(",");
            text.push_str(&format!("{head},{tail}\n"));
        }
    }
    text
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::run;

    #[test]
    fn fields_with_commas_are_quoted() {
        let text = to_csv(&[run("o1", 1, 2.5)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "o1,chat,\"rooms=3,fanout=a<b\",modern,2,1,sim,none,throughput,2.5,messages/s,higher"
        );
        assert_eq!(lines.len(), 3);
    }
}
