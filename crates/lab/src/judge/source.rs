//! A candidate that is a source: compiled as templates are.

use crate::failure::Failure;
use crate::shipped::SCX_HEADERS;
use schedlab_base::KernelVersion;
use schedlab_live::kernel_image::LIBBPF_HEADERS;
use schedlab_scx::kernel_header;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// True for a name that is compiled first.
pub fn is_source(name: &str) -> bool {
    name.ends_with(".c")
}

/// Compiles a source with the headers that `check --vmlinux-h` writes. Folders beside the source come first. The inner error
/// is what the compiler says of the source.
///
/// # Errors
/// A source that cannot be read, no compiler, no room for the headers.
pub fn compile(source: &Path, kernel: KernelVersion) -> Result<Result<Vec<u8>, String>, Failure> {
    if !source.is_file() {
        return Err(Failure::usage(format!("scheduler {}: there is no such file", source.display())));
    }
    schedlab_clang::found().ok_or_else(|| Failure::environment(schedlab_clang::MISSING))?;
    let unwritten = |error: std::io::Error| {
        Failure::environment(format!(
            "headers for {}: {error}; make room for temporary files",
            source.display()
        ))
    };
    let folder = tempfile::tempdir().map_err(unwritten)?;
    write_headers(folder.path(), kernel).map_err(unwritten)?;
    let beside = source.parent().filter(|beside| !beside.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folders = [beside.to_path_buf(), beside.join("include"), folder.path().to_path_buf()];
    let arguments = folders.iter().flat_map(|folder| ["-I".into(), OsString::from(folder)]);
    let object = folder.path().join("candidate.bpf.o");
    match schedlab_clang::compile(source, &object, arguments) {
        Ok(()) => fs::read(&object).map(Ok).map_err(unwritten),
        Err(words) => Ok(Err(complaint(&words))),
    }
}

fn write_headers(folder: &Path, kernel: KernelVersion) -> std::io::Result<()> {
    fs::write(folder.join("vmlinux.h"), kernel_header(kernel))?;
    for (name, headers) in [("bpf", &LIBBPF_HEADERS[..]), ("scx", SCX_HEADERS)] {
        let folder = folder.join(name);
        fs::create_dir(&folder)?;
        for (name, text) in headers {
            fs::write(folder.join(name), text)?;
        }
    }
    Ok(())
}

/// The first error of a compiler's words, with its place.
fn complaint(words: &str) -> String {
    let error = words.lines().find(|line| line.contains("error:")).or(words.lines().next());
    format!("it does not compile: {}", error.unwrap_or_default().trim())
}
