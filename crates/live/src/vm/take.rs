//! What of the host's files goes into the guest beside our own program: programs with their libraries, scripts with
//! their interpreters, files and directories, each at its own place.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::initramfs::Bundle;

/// Most bytes that are taken. Chosen: a quarter of the memory that a guest has, which holds them packed and unpacked.
const MOST: u64 = 512 << 20;

/// Most bytes of a program that a word of a script may mean. Chosen: more than any common tool has, less than what a word means by
/// chance and that takes long to pack.
const MOST_OF_A_WORD: u64 = 32 << 20;

/// Why something does not go into the guest.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// The name is neither a path nor that of a program.
    #[error("{0}: no such file, and no program of that name in PATH")]
    Missing(String),
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Too much in all.
    #[error("what goes into the VM has more than {} MiB ({next} was next); name less", MOST >> 20)]
    TooLarge {
        /// What does not fit any more.
        next: PathBuf,
    },
}

/// Files of the host for the guest.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Path, whether it can be executed, content.
    files: Vec<(String, bool, Vec<u8>)>,
    known: BTreeSet<String>,
    size: u64,
    /// Where the programs' libraries are.
    library_dirs: BTreeSet<String>,
}

/// The absolute path of a program, as a shell finds it: by path, or by name in `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return std::path::absolute(name).ok().filter(|path| is_program(path));
    }
    let dirs = std::env::var_os("PATH")?;
    std::env::split_paths(&dirs).map(|dir| dir.join(name)).find(|path| path.is_absolute() && is_program(path))
}

impl Taken {
    /// Takes a program by name or path, a file, or a directory with all that is in it.
    ///
    /// # Errors
    /// See [`TakeError`].
    pub fn take(&mut self, name: &str) -> Result<(), TakeError> {
        match find_program(name) {
            Some(program) => self.file(&program),
            None => self.path(&absolute(name)?),
        }
    }

    /// The same where the name may as well mean nothing in the file system, such as an argument's. Of a text of several words, as
    /// after `sh -c`, the programs that it names are taken.
    ///
    /// # Errors
    /// It does, and cannot be taken.
    pub fn take_if_there(&mut self, name: &str) -> Result<(), TakeError> {
        let is_there = Path::new(name).is_file() || find_program(name).is_some();
        match (is_there, name.contains(char::is_whitespace)) {
            (true, _) => self.take(name),
            (false, true) => self.programs_of(name),
            (false, false) => Ok(()),
        }
    }

    /// Takes what a shell's script may call: each word of it that is the name or path of a program.
    fn programs_of(&mut self, script: &str) -> Result<(), TakeError> {
        let is_of_word = |letter: char| letter.is_alphanumeric() || "_./+-[".contains(letter);
        let words: BTreeSet<&str> = script.split(|letter| !is_of_word(letter)).collect();
        let small = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.len() <= MOST_OF_A_WORD);
        let programs: Vec<PathBuf> = words
            .into_iter()
            .filter(|word| !word.is_empty())
            .filter_map(find_program)
            .filter(small)
            .collect();
        programs.iter().try_for_each(|program| self.file(program))
    }

    /// True if nothing was taken.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Bytes of all files.
    pub(super) fn size(&self) -> usize {
        self.files.iter().map(|(_, _, content)| content.len()).sum()
    }

    pub(super) fn library_dirs(&self) -> impl Iterator<Item = &String> {
        self.library_dirs.iter()
    }

    /// Path, whether it can be executed, content.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, bool, &[u8])> {
        self.files.iter().map(|(path, executable, content)| (path.as_str(), *executable, content.as_slice()))
    }

    fn path(&mut self, path: &Path) -> Result<(), TakeError> {
        let unreadable = |source| TakeError::Unreadable { path: path.to_path_buf(), source };
        if !fs::metadata(path).map_err(unreadable)?.is_dir() {
            return self.file(path);
        }
        let mut entries: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            entries.push(entry.map_err(unreadable)?.path());
        }
        entries.sort();
        for entry in entries {
            // A link out of the directory is a file of its own there; one to a directory could lead round in a circle.
            let linked = fs::symlink_metadata(&entry).is_ok_and(|meta| meta.is_symlink());
            let kind = fs::metadata(&entry).ok().map(|meta| meta.file_type());
            match kind {
                Some(kind) if kind.is_file() || (kind.is_dir() && !linked) => self.path(&entry)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), TakeError> {
        let place = path.display().to_string();
        if self.known.contains(&place) {
            return Ok(());
        }
        let unreadable = |source| TakeError::Unreadable { path: path.to_path_buf(), source };
        let meta = fs::metadata(path).map_err(unreadable)?;
        self.size += meta.len();
        if !meta.is_file() {
            return Err(unreadable(io::Error::other("no regular file")));
        }
        if self.size > MOST {
            return Err(TakeError::TooLarge { next: path.to_path_buf() });
        }
        let content = fs::read(path).map_err(unreadable)?;
        let executable = meta.permissions().mode() & 0o111 != 0;
        let interpreters = if executable { interpreters(&content) } else { Vec::new() };
        let is_program = executable && content.starts_with(b"\x7fELF");
        let script = shell_script(&place, &content).map(str::to_string);
        self.known.insert(place.clone());
        self.files.push((place, executable, content));
        for interpreter in interpreters {
            self.take(&interpreter)?;
        }
        if let Some(script) = script {
            self.programs_of(&script)?;
        }
        if is_program {
            let bundle = Bundle::of(path).map_err(unreadable)?;
            self.library_dirs.extend(bundle.library_dirs);
            for (place, content) in bundle.libraries {
                if self.known.insert(place.clone()) {
                    self.files.push((place, true, content));
                }
            }
        }
        Ok(())
    }
}

fn absolute(name: &str) -> Result<PathBuf, TakeError> {
    let path = std::path::absolute(name).ok().filter(|path| path.exists());
    path.ok_or_else(|| TakeError::Missing(name.to_string()))
}

/// The text of a file that a shell runs: one whose first line names a shell, or whose name ends as theirs do.
fn shell_script<'a>(place: &str, content: &'a [u8]) -> Option<&'a str> {
    let by_line = interpreters(content).iter().any(|name| name.ends_with("sh"));
    (by_line || place.ends_with(".sh")).then_some(())?;
    std::str::from_utf8(content).ok()
}

/// The programs in a script's first line: the interpreter, and what `/usr/bin/env NAME` names.
fn interpreters(content: &[u8]) -> Vec<String> {
    let line = content.strip_prefix(b"#!").and_then(|rest| rest.split(|byte| *byte == b'\n').next());
    let mut words =
        line.and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default().split_whitespace();
    let program = words.next();
    let named = program.filter(|program| program.ends_with("/env"));
    let named = named.and_then(|_| words.find(|word| !word.starts_with('-') && !word.contains('=')));
    program.into_iter().chain(named).map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(taken: &Taken) -> Vec<&str> {
        taken.files.iter().map(|(place, ..)| place.as_str()).collect()
    }

    #[test]
    fn programs_come_with_libraries_and_scripts_with_interpreters() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        fs::write(&script, "#!/bin/sh -e\ntrue\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let mut taken = Taken::default();
        taken.take(script.to_str().unwrap()).unwrap();
        let found = places(&taken);
        assert_eq!(found[..2], [script.to_str().unwrap(), "/bin/sh"]);
        let tool = find_program("true").unwrap();
        assert!(found.contains(&tool.to_str().unwrap()), "what a script calls: {found:?}");
        assert!(found.iter().any(|place| place.contains("/libc.so")), "{found:?}");
        let before = found.len();
        taken.take("/bin/sh").unwrap();
        assert_eq!(places(&taken).len(), before, "once is enough");
    }

    #[test]
    fn the_tools_of_a_shells_text_are_taken() {
        let mut taken = Taken::default();
        taken.take_if_there("seq 9 | head -n1 >out && no-such-tool; echo $(wc -l<x)").unwrap();
        for tool in ["seq", "head", "wc"] {
            let path = find_program(tool).unwrap();
            assert!(places(&taken).contains(&path.to_str().unwrap()), "{tool}: {:?}", places(&taken));
        }
        let before = places(&taken).len();
        taken.take_if_there("head-of-state").unwrap();
        assert_eq!(places(&taken).len(), before, "one word is no script");
    }

    #[test]
    fn directories_are_taken_whole_and_links_do_not_go_round() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/data"), "x").unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("sub/up")).unwrap();
        std::os::unix::fs::symlink("/nowhere", dir.path().join("dangling")).unwrap();
        let mut taken = Taken::default();
        taken.take(dir.path().to_str().unwrap()).unwrap();
        assert_eq!(places(&taken), [dir.path().join("sub/data").to_str().unwrap()]);
    }

    #[test]
    fn names_that_mean_nothing_are_told() {
        let mut taken = Taken::default();
        let error = taken.take("no-such-program").unwrap_err().to_string();
        assert!(error.contains("no-such-program") && error.contains("PATH"), "{error}");
        taken.take_if_there("--jobs=8").unwrap();
        assert!(places(&taken).is_empty());
        assert!(matches!(taken.take("/dev/null"), Err(TakeError::Unreadable { .. })));
    }

    #[test]
    fn the_first_line_of_a_script_names_its_interpreter() {
        let of = |text: &str| interpreters(text.as_bytes());
        assert_eq!(of("#!/bin/sh\n"), ["/bin/sh"]);
        assert_eq!(of("#! /usr/bin/env -S A=1 python3 -u\n"), ["/usr/bin/env", "python3"]);
        assert!(of("#!\n").is_empty() && of("true\n").is_empty());
    }
}
