//! What a loader writes to its output: a thread reads it and keeps the end, so that a flood takes no memory and nothing waits for us.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use schedlab_base::Tail;

/// Bytes that are kept. Chosen: as many as of a simulated run.
const KEPT: usize = 1 << 20;
/// How long the rest is waited for when the program has ended. Chosen: what it leaves running may hold the pipe open indefinitely.
const REST: Duration = Duration::from_secs(1);

/// The output of a program that runs.
pub(super) struct Output {
    tail: Arc<Mutex<Tail>>,
    over: Receiver<()>,
}

impl Output {
    /// An output, and where the program is to write.
    ///
    /// # Errors
    /// The system has no pipe or no thread left.
    pub(super) fn new() -> io::Result<(Output, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        let tail = Arc::new(Mutex::new(Tail::new(KEPT)));
        let (done, over) = mpsc::channel();
        let kept = Arc::clone(&tail);
        std::thread::Builder::new().name("output".to_string()).spawn(move || {
            keep(reader, &kept);
            // Whoever waits for it hears that the sender is gone.
            drop(done);
        })?;
        Ok((Output { tail, over }, writer))
    }

    /// What a program that has ended wrote: the last of it, behind a line that tells how much was left out.
    pub(super) fn text(&self) -> String {
        let _ = self.over.recv_timeout(REST);
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).text()
    }
}

/// Reads to the end.
fn keep(mut reader: PipeReader, tail: &Mutex<Tail>) {
    let mut bytes = [0; 1 << 16];
    loop {
        match reader.read(&mut bytes) {
            Ok(0) => return,
            Ok(count) => tail.lock().unwrap_or_else(PoisonError::into_inner).push(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_flood_takes_no_memory() {
        let (output, writer) = Output::new().unwrap();
        let script = "yes 0123456789abcde | head -c 50000000; echo the end";
        let mut child = Command::new("sh").args(["-c", script]).stdout(writer).spawn().unwrap();
        assert!(child.wait().unwrap().success());
        let text = output.text();
        let (first, kept) = text.split_once('\n').unwrap();
        assert_eq!(first, format!("[{} bytes of output left out]", 50_000_008 - KEPT));
        assert!(kept.len() == KEPT && kept.ends_with("\nthe end\n"), "{}", kept.len());
    }

    #[test]
    fn what_stays_behind_is_not_waited_for() {
        let (output, writer) = Output::new().unwrap();
        let mut child =
            Command::new("sh").args(["-c", "echo begins; sleep 5 &"]).stdout(writer).spawn().unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(output.text(), "begins\n");
    }
}
