//! The laboratory for programs that speak the Model Context Protocol, over standard input and output.
//!
//! A tool is a command: each call starts this very program with the arguments of the call. That process gives up its rights
//! before it reads anything, as on a command line. Its JSON is cut down to [`ANSWER_MOST`] bytes, the weightiest part first.

mod answer;
mod tools;

pub use answer::ANSWER_MOST;

use rmcp::ServiceExt;
use std::io;
use std::path::PathBuf;

/// Serves until the client closes standard input. `command` is the `schedlab` that is started for each call.
///
/// # Errors
/// A client that does not speak the protocol, and a system that starts no threads.
pub fn serve(command: PathBuf) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let service = tools::Laboratory::new(command).serve(rmcp::transport::stdio()).await;
        service.map_err(io::Error::other)?.waiting().await.map_err(io::Error::other)
    });
    // Reading standard input blocks a thread that cannot be woken.
    runtime.shutdown_background();
    served.map(|_| ())
}
