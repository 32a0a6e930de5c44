//! The server of the Model Context Protocol, as a client talks to it: a line of JSON each way.

use super::Folder;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A client in its folder.
struct Client {
    server: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    number: u64,
}

impl Client {
    fn start(folder: &Folder) -> Client {
        let mut command = folder.command(&["mcp"]);
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (server.stdin.take().unwrap(), BufReader::new(server.stdout.take().unwrap()));
        let mut client = Client { server, to, from, number: 0 };
        let about = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about });
        let greeting = client.ask("initialize", &hello);
        assert_eq!(greeting["serverInfo"]["name"], "schedlab", "{greeting}");
        client.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn tell(&mut self, message: &Value) {
        writeln!(self.to, "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        let id = self.number;
        self.tell(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the server answers {method}");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                assert!(answer.get("error").is_none(), "{answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The answer of a tool, and whether it says that it failed.
    fn call(&mut self, name: &str, arguments: &Value) -> (Value, bool) {
        let result = self.ask("tools/call", &json!({ "name": name, "arguments": arguments }));
        let answer = result["structuredContent"].clone();
        assert!(answer.to_string().len() <= 2048, "{name}: {answer}");
        (answer, result["isError"] == true)
    }

    /// The server ends with its input.
    fn end(mut self) {
        drop(self.to);
        assert!(self.server.wait().unwrap().success());
    }
}

#[test]
fn tools_answer_in_few_bytes() {
    let folder = Folder::new();
    let mut client = Client::start(&folder);
    let tools = client.ask("tools/list", &json!({}));
    let mut names: Vec<&str> =
        tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["check", "compare", "explain", "judge", "sim"]);
    let (check, failed) = client.call("check", &json!({ "object": "o1" }));
    assert!(!failed && check["answers"][0]["takes"] == true, "{check}");
    let run = json!({ "scheduler": "o1", "workload": "chat:rooms=1,messages=3", "cpus": 2 });
    let (sim, failed) = client.call("sim", &run);
    assert!(!failed && sim["metrics"]["throughput"].as_f64().unwrap() > 0.0, "{sim}");
    let command = "sim -q -s o1 -w chat:rooms=1,messages=3 -c 2 --json -";
    let told: Value = serde_json::from_str(&folder.run(command).ok()).unwrap();
    assert_eq!(sim["trace_hash"], told["runs"][0]["trace_hash"], "the tool is the command");
    let two = json!({ "schedulers": ["eevdf", "o1"], "workloads": ["chat:rooms=1,messages=3"], "cpus": "2" });
    let (compared, failed) = client.call("compare", &two);
    let row = &compared["comparisons"][0];
    assert!(!failed && row["scheduler"] == "o1" && row["between_percent"][1].is_number(), "{compared}");
    let (why, failed) = client.call("explain", &run);
    assert!(!failed && why["waits_for_each_other"][0]["mechanism"].is_string(), "{why}");
    assert!(why["longest_waits_for_a_cpu_ns"][0]["max"].is_number(), "{why}");
    client.end();
}

#[test]
fn mistakes_are_answers() {
    let folder = Folder::new();
    let mut client = Client::start(&folder);
    let (answer, failed) = client.call("sim", &json!({ "scheduler": "vanila", "workload": "chat" }));
    let text = answer["error"].as_str().unwrap();
    assert!(failed && answer["exit_code"] == 2 && text.contains("did you mean 'vanilla'"), "{answer}");
    // What looks like a flag is a value.
    let (answer, failed) = client.call("check", &json!({ "object": "--help" }));
    assert!(failed && answer["exit_code"] == 2, "{answer}");
    let (answer, failed) = client.call("sim", &json!({ "scheduler": "--version", "workload": "chat" }));
    assert!(failed && answer["exit_code"] == 2, "{answer}");
    client.end();
}
