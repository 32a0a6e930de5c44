//! The tools: what they take, and the command that each of them is.

use crate::answer;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, Implementation, ServerCapabilities, ServerConfig};
use rmcp::schemars::JsonSchema;
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use tokio::process::Command;

/// Host time that one run may take. Chosen: a client waits for its answer.
const TIME_LIMIT: &str = "60s";

/// What a client reads first.
const INSTRUCTIONS: &str = "schedlab runs a compiled sched_ext scheduler in a deterministic simulation of the Linux scheduling \
core. A scheduler is a shipped name (o1, vanilla, ule, ...), the kernel's own class (eevdf), an object file (./mine.bpf.o), or \
exec:COMMAND for a loader. A workload is a name with parameters (chat:rooms=2,messages=50) or a file. Begin with check, then sim; \
compare and judge give verdicts with intervals; explain says which task waited for which. The same arguments give the same answer.";

/// The tools.
#[derive(Clone, Debug)]
pub(crate) struct Laboratory {
    command: PathBuf,
}

/// Arguments of `check`.
#[derive(Debug, Deserialize, JsonSchema)]
struct Check {
    /// Object file (*.bpf.o) or shipped name
    object: String,
    /// As this kernel takes it: 6.12, debian-13; that of the simulator without
    kernel: Option<String>,
    /// Tunables: VAR=VALUE
    #[serde(default)]
    set: Vec<String>,
}

/// Arguments of `sim` and `explain`.
#[derive(Debug, Deserialize, JsonSchema)]
struct Run {
    /// Scheduler: shipped name, object file, exec:COMMAND, or eevdf
    scheduler: String,
    /// Workload: NAME[:key=value,...], or a file (*.toml, *.json of rt-app)
    workload: String,
    /// Number of CPUs; the machine's without
    cpus: Option<u32>,
    /// Machine: name or file; `modern` without
    machine: Option<String>,
    /// Seed of everything random; 1 without
    seed: Option<u64>,
    /// End the run after this much simulated time: 500ms, 2s
    duration: Option<String>,
    /// Tunables: VAR=VALUE
    #[serde(default)]
    set: Vec<String>,
}

/// Arguments of `compare`.
#[derive(Debug, Deserialize, JsonSchema)]
struct Compare {
    /// Schedulers, the baseline first
    schedulers: Vec<String>,
    /// Workloads
    workloads: Vec<String>,
    /// Numbers of CPUs: 1,2-4; the machine's without
    cpus: Option<String>,
    /// Machine: name or file; `modern` without
    machine: Option<String>,
    /// Runs of each scheduler, with other seeds; 3 without
    runs: Option<u32>,
    /// End each run after this much simulated time
    duration: Option<String>,
    /// Tunables: VAR=VALUE, or SCHEDULER:VAR=VALUE
    #[serde(default)]
    set: Vec<String>,
}

/// Arguments of `judge`.
#[derive(Debug, Deserialize, JsonSchema)]
struct Judge {
    /// Source (*.bpf.c), object file, shipped name, or exec:COMMAND
    candidate: String,
    /// The scheduler that the candidate is compared with; eevdf without
    against: Option<String>,
    /// Suite: desktop, server, or a file
    suite: Option<String>,
    /// Key from which names, seeds and loads are drawn; the same key repeats the judgement
    seed_key: Option<String>,
    /// Tunables of the candidate: VAR=VALUE
    #[serde(default)]
    set: Vec<String>,
}

/// `--name=value` for what is there. Values that begin with a dash are values.
fn flag(arguments: &mut Vec<String>, name: &str, value: Option<impl ToString>) {
    arguments.extend(value.map(|value| format!("--{name}={}", value.to_string())));
}

impl Run {
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["sim".to_string(), format!("--time-limit={TIME_LIMIT}")];
        flag(&mut arguments, "scheduler", Some(&self.scheduler));
        flag(&mut arguments, "workload", Some(&self.workload));
        flag(&mut arguments, "cpus", self.cpus);
        flag(&mut arguments, "machine", self.machine.as_ref());
        flag(&mut arguments, "seed", self.seed);
        flag(&mut arguments, "duration", self.duration.as_ref());
        self.set.iter().for_each(|set| flag(&mut arguments, "set", Some(set)));
        arguments
    }
}

#[tool_router]
impl Laboratory {
    /// Tools that start `command`.
    pub(crate) fn new(command: PathBuf) -> Laboratory {
        Laboratory { command }
    }

    /// Whether the simulator, and a kernel's rules, take a scheduler's object, and what it needs.
    #[tool(annotations(read_only_hint = true))]
    async fn check(&self, Parameters(check): Parameters<Check>) -> CallToolResult {
        let mut arguments = vec!["check".to_string(), format!("--time-limit={TIME_LIMIT}")];
        flag(&mut arguments, "kernel", check.kernel);
        check.set.iter().for_each(|set| flag(&mut arguments, "set", Some(set)));
        arguments.extend(["--".to_string(), check.object]);
        self.answer(arguments, answer::check).await
    }

    /// One simulated run: metrics, how the scheduler left, warnings.
    #[tool(annotations(read_only_hint = true))]
    async fn sim(&self, Parameters(run): Parameters<Run>) -> CallToolResult {
        self.answer(run.arguments(), answer::sim).await
    }

    /// Schedulers compared with the first one: change, interval and verdict for each metric of the workloads.
    #[tool(annotations(read_only_hint = true))]
    async fn compare(&self, Parameters(compare): Parameters<Compare>) -> CallToolResult {
        let mut arguments = vec!["compare".to_string(), format!("--time-limit={TIME_LIMIT}")];
        flag(&mut arguments, "schedulers", Some(compare.schedulers.join(",")));
        compare.workloads.iter().for_each(|workload| flag(&mut arguments, "workload", Some(workload)));
        flag(&mut arguments, "cpus", compare.cpus);
        flag(&mut arguments, "machine", compare.machine);
        flag(&mut arguments, "runs", compare.runs);
        flag(&mut arguments, "duration", compare.duration);
        compare.set.iter().for_each(|set| flag(&mut arguments, "set", Some(set)));
        self.answer(arguments, answer::compare).await
    }

    /// A score of a scheduler over a suite of loads, whether it is accepted, and the reasons.
    #[tool(annotations(read_only_hint = true))]
    async fn judge(&self, Parameters(judge): Parameters<Judge>) -> CallToolResult {
        let mut arguments = vec!["judge".to_string()];
        flag(&mut arguments, "against", judge.against);
        flag(&mut arguments, "suite", judge.suite);
        flag(&mut arguments, "seed-key", judge.seed_key);
        judge.set.iter().for_each(|set| flag(&mut arguments, "set", Some(set)));
        arguments.extend(["--".to_string(), judge.candidate]);
        self.answer(arguments, |document| document.clone()).await
    }

    /// Why a run went as it did: the longest waits, which task waited for which and through what, what callbacks cost.
    #[tool(annotations(read_only_hint = true))]
    async fn explain(&self, Parameters(run): Parameters<Run>) -> CallToolResult {
        let mut arguments = run.arguments();
        arguments.push("--explain-waits".to_string());
        self.answer(arguments, answer::explain).await
    }

    /// Runs the command, and answers with the part of its results that `of` takes.
    async fn answer(&self, mut arguments: Vec<String>, of: fn(&Value) -> Value) -> CallToolResult {
        let behind = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
        arguments.splice(behind..behind, ["--json=-".to_string(), "--quiet".to_string()]);
        let mut command = Command::new(&self.command);
        command.args(&arguments).stdin(Stdio::null()).kill_on_drop(true);
        let output = match command.output().await {
            Ok(output) => output,
            Err(error) => return CallToolResult::structured_error(json!({ "error": error.to_string() })),
        };
        let error = answer::last_error(&output.stderr);
        let document: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        match (document, output.status.code()) {
            (Some(document), code) => {
                let mut answer = of(&document);
                if let (Some(fields), Some(error), Some(code)) = (answer.as_object_mut(), error, code) {
                    fields.insert("exit_code".to_string(), code.into());
                    fields.insert("error".to_string(), error.into());
                }
                CallToolResult::structured(answer::fitted(answer))
            }
            (None, code) => {
                let error =
                    error.unwrap_or_else(|| format!("the command ended without results ({})", output.status));
                CallToolResult::structured_error(answer::fitted(json!({ "exit_code": code, "error": error })))
            }
        }
    }
}

#[tool_handler]
impl ServerHandler for Laboratory {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let mut info = ServerConfig::new(capabilities).with_instructions(INSTRUCTIONS);
        info.server_info = Implementation::new("schedlab", env!("CARGO_PKG_VERSION"));
        info
    }
}
