//! The compiler of BPF objects: which one this machine has, and how it is called.
//!
//! A distribution's plain `clang` is often older than what our sources need and stands beside a newer one with a number in
//! its name. So it is taken last, and only where its place in the file system says that it is new enough.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, iter};

/// The first clang with the BPF features that our headers use.
pub const OLDEST: u32 = 19;
/// The newest one that is looked for by its number. Chosen: some years ahead.
const NEWEST: u32 = 40;

/// What every object is compiled with.
pub const FLAGS: [&str; 5] = ["-g", "-O2", "-target", "bpf", "-mcpu=v3"];

/// What to say where there is none.
pub const MISSING: &str = "no clang 19 or newer (Debian, Ubuntu: apt-get install clang-19)";

/// The compiler to call: the one that `$CLANG` names, else the machine's newest one that serves, looked for as a shell would.
/// Nothing is started.
pub fn found() -> Option<String> {
    let named = env::var("CLANG").ok().filter(|name| !name.is_empty());
    named.or_else(|| newest(&env::split_paths(&env::var_os("PATH")?).collect::<Vec<_>>()))
}

/// The name of the newest compiler in these folders.
fn newest(folders: &[PathBuf]) -> Option<String> {
    let numbered = (OLDEST..=NEWEST).rev().map(|number| format!("clang-{number}"));
    numbered.chain(iter::once("clang".to_string())).find(|name| {
        let here = folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
        here.is_some_and(|file| name != "clang" || is_new_enough(&file))
    })
}

/// Whether the `clang` without a number in its name is one that serves. Its file, behind links, lies in the folder of its
/// version (`/usr/lib/llvm-19/bin/clang`) or has it in its name.
fn is_new_enough(clang: &Path) -> bool {
    let file = clang.canonicalize().unwrap_or_else(|_| clang.to_path_buf());
    let version = |part: &OsStr| -> Option<u32> {
        let part = part.to_str()?;
        part.strip_prefix("llvm-").or_else(|| part.strip_prefix("clang-"))?.parse().ok()
    };
    file.iter().filter_map(version).any(|version| version >= OLDEST)
}

/// Compiles `source` to `object`, with further arguments behind [`FLAGS`].
///
/// # Errors
/// [`MISSING`], that the compiler cannot be started, or what it says.
pub fn compile<I>(source: &Path, object: &Path, arguments: I) -> Result<(), String>
where
    I: IntoIterator<Item: AsRef<OsStr>>,
{
    let clang = found().ok_or(MISSING)?;
    let mut command = Command::new(&clang);
    command.args(FLAGS).args(arguments).arg("-c").arg(source).arg("-o").arg(object);
    let done = command.output().map_err(|error| format!("{clang}: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}", source.display(), String::from_utf8_lossy(&done.stderr))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_plain_clang_says_its_version_by_its_place() {
        assert!(is_new_enough(Path::new("/nowhere/llvm-19/bin/clang")));
        assert!(is_new_enough(Path::new("/nowhere/bin/clang-21")));
        assert!(!is_new_enough(Path::new("/nowhere/llvm-14/bin/clang")));
        assert!(!is_new_enough(Path::new("/nowhere/bin/clang")));
    }

    /// Debian 12 has clang 14 by that name, and 19 with a number.
    #[test]
    fn an_old_plain_clang_is_passed_over() {
        let root = env::temp_dir().join(format!("schedlab-clang-{}", std::process::id()));
        let (bin, llvm) = (root.join("bin"), root.join("llvm-14/bin"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&llvm).unwrap();
        fs::write(llvm.join("clang"), "").unwrap();
        std::os::unix::fs::symlink(llvm.join("clang"), bin.join("clang")).unwrap();
        let folders = [root.join("absent"), bin.clone()];
        assert_eq!(newest(&folders), None);
        fs::write(bin.join("clang-19"), "").unwrap();
        assert_eq!(newest(&folders).as_deref(), Some("clang-19"));
        fs::write(bin.join("clang-21"), "").unwrap();
        assert_eq!(newest(&folders).as_deref(), Some("clang-21"));
        fs::remove_dir_all(&root).unwrap();
    }
}
