//! Helpers of the cross-room tests.

use std::path::{Path, PathBuf};

/// The root of the source tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the tree").to_path_buf()
}

/// Every file below `dir` with one of the extensions, in a fixed order; build
/// output is left out.
///
/// # Panics
/// When a directory cannot be read.
pub fn files(dir: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(&dir).expect("the tree is readable") {
            let path = entry.expect("the tree is readable").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
            if path.is_dir() && !["target", "build", ".git", ".cache", "corpus"].contains(&name) {
                pending.push(path);
            } else if path.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
