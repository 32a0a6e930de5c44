//! Made-up runs, for tests of this room.

use schedlab_base::{Better, CpuId, DurationNs, Metric, TimeNs};
use schedlab_trace::{
    AfterEjection, Backend, Bucket, CallbackCost, Counter, CpuPressure, Distribution, ExitKind, ExitRecord,
    GroupRecord, Printed, PrintedLine, Provenance, RunRecord, SchedulerTable, Series, SubRecord, TaskRecord,
    WaitFigures, WaitRecord, WaitScope, Warning, WarningKind, WorkloadRecord, WorstWait,
};

fn sub() -> SubRecord {
    SubRecord {
        group: "a/b".into(),
        scheduler: "child".into(),
        refused: Some(16),
        exit: ExitRecord { kind: ExitKind::Parent, reason: "parent exiting".into(), ..ExitRecord::default() },
    }
}

fn group() -> GroupRecord {
    GroupRecord {
        name: "ui/<b>".into(),
        weight: 300,
        quota: Some((DurationNs::from_ms(1), DurationNs::from_ms(2))),
        burst: DurationNs(500),
        cpu_time: DurationNs::from_ms(2),
        own_cpu_time: DurationNs::from_ms(2),
        share: 1.0,
        entitled: Some(0.75),
        periods: 3,
        throttled: 2,
        throttled_time: DurationNs(700),
        bursts: 1,
        burst_time: DurationNs(400),
        run_delay: DurationNs(900),
        pressure: Some(CpuPressure { some: DurationNs(4_750_000), full: DurationNs(3_250_000) }),
        ..GroupRecord::default()
    }
}

/// A made-up run for tests of this room.
pub(crate) fn run(scheduler: &str, seed: u64, throughput: f64) -> RunRecord {
    RunRecord {
        scheduler: scheduler.to_string(),
        settings: Vec::new(),
        workload: WorkloadRecord {
            name: "chat".into(),
            params: vec![("rooms".into(), "3".into()), ("fanout".into(), "a<b".into())],
        },
        machine: "modern".into(),
        cpus: 2,
        seed,
        backend: Backend::Sim,
        duration: DurationNs::from_ms(5),
        validation: None,
        exit: ExitRecord::default(),
        metrics: vec![
            Metric::new("throughput", throughput, "messages/s", Better::Higher),
            Metric::new("context_switches", 7.0, "1", Better::Neither),
        ],
        histograms: vec![("run_delay_ns".into(), distribution(&[(0, 3), (992, 4), (1000, 1)]))],
        series: vec![Series { name: "iteration_time".into(), unit: "ms", values: vec![9.5, 2.0] }],
        counters: vec![Counter { name: "picks".into(), value: 12, meaning: "tasks picked".into() }],
        tasks: vec![TaskRecord {
            name: "client/0".into(),
            nice: 0,
            cpu_time: DurationNs::from_ms(2),
            share: 0.4,
            switches: 3,
            migrations: 1,
        }],
        groups: vec![group()],
        subs: vec![sub()],
        task_waits: vec![waits("client/0")],
        warnings: vec![Warning {
            kind: WarningKind::SeedsChangeNothing,
            text: "task client/0 waited".into(),
            count: 2,
            worst: Some(waits("client/0").run_delay.unwrap().worst),
        }],
        after_ejection: Some(AfterEjection {
            duration: DurationNs(77),
            metrics: vec![Metric::new("context_switches", 9.0, "1", Better::Neither)],
            tasks: Vec::new(),
        }),
        provenance: Provenance {
            object: Some("ab12".into()),
            build: Some("0.1".into()),
            pauses: Some(3),
            ..Provenance::default()
        },
        trace_hash: Some("00ff".into()),
        priorities: Vec::new(),
        timeline: None,
        waits: None,
        loader_output: "loaded\nattached\n".into(),
        printed: printed(),
        callbacks: vec![CallbackCost {
            name: "enqueue".into(),
            calls: 4,
            insns: Some(100),
            time: DurationNs(2_000),
        }],
        tables: vec![SchedulerTable {
            name: "trusted".into(),
            meaning: "who is trusted".into(),
            columns: vec!["pid".into()],
            rows: vec![vec!["7".into()]],
        }],
    }
}

/// Made-up lines of a scheduler.
fn printed() -> Printed {
    Printed {
        lines: vec![PrintedLine {
            time: TimeNs(1_500),
            cpu: CpuId(1),
            task: "client/0".into(),
            text: "enqueue 7".into(),
        }],
        left_out: 2,
    }
}

/// Made-up waits of a task.
fn waits(name: &str) -> WaitRecord {
    let worst = WorstWait {
        task: name.into(),
        since: DurationNs(5),
        length: DurationNs(900),
        cpu: 1,
        behind: vec![("hog".into(), DurationNs(800))],
    };
    let (p50, p95, p99) = (DurationNs(10), DurationNs(20), DurationNs(30));
    let figures = WaitFigures { count: 3, mean: p50, p50, p95, p99, worst };
    let (scope, name) = (WaitScope::Task, name.to_string());
    WaitRecord { scope, name, run_delay: Some(figures), wakeup_latency: None }
}

/// A distribution from bounds and counts.
pub(crate) fn distribution(buckets: &[(u64, u64)]) -> Distribution {
    let bucket = |&(le, count): &(u64, u64)| Bucket { le: DurationNs(le), count };
    Distribution::new(buckets.iter().map(bucket).collect()).unwrap()
}

/// Made-up runs of `vanilla` and `o1` with these throughputs; their seeds count from 0.
pub(crate) fn runs(a: &[f64], b: &[f64]) -> Vec<RunRecord> {
    let side = |name: &str, values: &[f64]| -> Vec<RunRecord> {
        values.iter().enumerate().map(|(seed, &value)| run(name, seed as u64, value)).collect()
    };
    [side("vanilla", a), side("o1", b)].concat()
}
