//! The kernel's log from a moment on.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// One message of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelMessage {
    /// 0 (emergency) to 7 (debug), as in `syslog(2)`.
    pub level: u8,
    /// The message's text.
    pub text: String,
}

impl KernelMessage {
    /// True for a warning or something worse.
    pub fn is_warning(&self) -> bool {
        self.level <= 4
    }
}

/// Reader of the messages that came after it was made.
pub struct KernelLog(File);

impl KernelLog {
    /// Starts at the end of the log.
    ///
    /// # Errors
    /// The log cannot be read by this user.
    pub fn from_now() -> io::Result<KernelLog> {
        let mut file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg")?;
        file.seek(SeekFrom::End(0))?;
        Ok(KernelLog(file))
    }

    /// The messages since then, oldest first. Later calls continue where this one ended.
    pub fn messages(&self) -> Vec<KernelMessage> {
        let mut messages = Vec::new();
        let mut record = [0u8; 8192];
        loop {
            match (&self.0).read(&mut record) {
                Ok(0) => return messages,
                Ok(length) => messages.extend(parse(&String::from_utf8_lossy(&record[..length]))),
                // Overwritten before it was read: the next read continues at the oldest one left.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(_) => return messages,
            }
        }
    }
}

/// One record of `/dev/kmsg`: `priority,sequence,time,flags;text`, and indented lines with
/// properties, which are dropped.
fn parse(record: &str) -> Option<KernelMessage> {
    let (head, text) = record.split_once(';')?;
    let priority: u64 = head.split(',').next()?.parse().ok()?;
    let text = text.lines().next().unwrap_or_default().to_string();
    Some(KernelMessage { level: (priority & 7) as u8, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_level_and_text() {
        let message = parse("12,339,5140900,-;NET: loud\n SUBSYSTEM=x\n").unwrap();
        assert_eq!((message.level, message.text.as_str()), (4, "NET: loud"));
        assert!(message.is_warning());
        assert!(!parse("6,1,1,-;sched_ext: enabled").unwrap().is_warning());
        assert_eq!(parse("nonsense"), None);
    }
}
