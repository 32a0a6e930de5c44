//! QEMU's monitor, over its machine protocol (QMP) on the standard streams: the few commands that a snapshot needs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::signals;

/// How often a wait looks for a signal.
const LOOK: Duration = Duration::from_millis(20);

/// Why the monitor gave no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MonitorError {
    /// QEMU has ended, or does not speak the protocol.
    #[error("QEMU ended")]
    Closed,
    /// No answer in time.
    #[error("no answer from QEMU in {} s", .0.as_secs())]
    Silent(Duration),
    /// QEMU refuses the command.
    #[error("QEMU: {0}")]
    Refused(String),
    /// A signal asked for an end.
    #[error("interrupted")]
    Interrupted,
}

/// The monitor of a QEMU that was started with `-qmp stdio`.
pub(super) struct Monitor {
    input: ChildStdin,
    messages: Receiver<Value>,
    /// Names of the events that have come while something else was waited for.
    events: Vec<String>,
}

impl Monitor {
    /// Takes the standard streams of QEMU and greets it.
    pub(super) fn of(qemu: &mut Child) -> Result<Monitor, MonitorError> {
        let (Some(input), Some(output)) = (qemu.stdin.take(), qemu.stdout.take()) else {
            return Err(MonitorError::Closed);
        };
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Ok(message) = serde_json::from_str(&line) else { continue };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut monitor = Monitor { input, messages, events: Vec::new() };
        monitor.execute("qmp_capabilities", json!({}), Duration::from_secs(30))?;
        Ok(monitor)
    }

    /// Executes a command; what it returns.
    pub(super) fn execute(
        &mut self,
        command: &str,
        arguments: Value,
        limit: Duration,
    ) -> Result<Value, MonitorError> {
        let line = json!({ "execute": command, "arguments": arguments });
        writeln!(self.input, "{line}").map_err(|_| MonitorError::Closed)?;
        let end = Instant::now() + limit;
        loop {
            let mut message = self.next(end, limit)?;
            if let Some(error) = message.get("error") {
                let text = error.get("desc").and_then(Value::as_str).unwrap_or("refused");
                return Err(MonitorError::Refused(format!("{command}: {text}")));
            }
            if let Some(answer) = message.get_mut("return") {
                return Ok(answer.take());
            }
            self.note(&message);
        }
    }

    /// Whether an event has come; each is reported once.
    pub(super) fn has_come(&mut self, event: &str) -> bool {
        while let Ok(message) = self.messages.try_recv() {
            self.note(&message);
        }
        let Some(at) = self.events.iter().position(|noted| noted == event) else { return false };
        self.events.drain(..=at);
        true
    }

    fn note(&mut self, message: &Value) {
        if let Some(event) = message.get("event").and_then(Value::as_str) {
            self.events.push(event.to_string());
        }
    }

    fn next(&mut self, end: Instant, limit: Duration) -> Result<Value, MonitorError> {
        loop {
            if signals::stop_wanted() {
                return Err(MonitorError::Interrupted);
            }
            match self.messages.recv_timeout(LOOK) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Disconnected) => return Err(MonitorError::Closed),
                Err(RecvTimeoutError::Timeout) if Instant::now() > end => {
                    return Err(MonitorError::Silent(limit));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
