//! The kernel's own example schedulers, from the distribution's `linux-source` package, and what
//! is needed to compile them: the kernel's types (`vmlinux.h`) and libbpf's BPF headers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::apt::{self, Client, System};
use super::names::Family;
use super::{KernelError, WorkDir, cache_dir, find_or_fetch, lock_cache};

/// A directory with the examples' sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExampleSources {
    /// `tools/sched_ext` of the kernel: `scx_simple.bpf.c` and the others.
    pub dir: PathBuf,
    /// Directories for the compiler's `-I`, in order.
    pub include_dirs: Vec<PathBuf>,
    /// Package and version that they came from.
    pub package: String,
}

/// Headers for BPF programs of the libbpf that this crate is built with: name and text. Sources find them in a folder `bpf`.
pub const LIBBPF_HEADERS: [(&str, &str); 5] = [
    ("bpf_helpers.h", include_str!(concat!(env!("SCHEDLAB_LIBBPF_INCLUDE"), "/bpf_helpers.h"))),
    ("bpf_helper_defs.h", include_str!(concat!(env!("SCHEDLAB_LIBBPF_INCLUDE"), "/bpf_helper_defs.h"))),
    ("bpf_tracing.h", include_str!(concat!(env!("SCHEDLAB_LIBBPF_INCLUDE"), "/bpf_tracing.h"))),
    ("bpf_core_read.h", include_str!(concat!(env!("SCHEDLAB_LIBBPF_INCLUDE"), "/bpf_core_read.h"))),
    ("bpf_endian.h", include_str!(concat!(env!("SCHEDLAB_LIBBPF_INCLUDE"), "/bpf_endian.h"))),
];

/// The examples' sources of the version of the cached kernel, fetched at the first call (about
/// 170 MB are downloaded, 5 MB kept) and found in the cache later.
///
/// # Errors
/// As [`find_or_fetch`]; also where the archive has no `linux-source` of that version.
pub fn fetch_example_sources(progress: &mut dyn FnMut(&str)) -> Result<ExampleSources, KernelError> {
    let image = find_or_fetch(progress)?;
    let cache = cache_dir()?;
    let place = cache.join(format!("examples-{}", image.release));
    if !place.join("package").is_file() {
        let _lock = lock_cache(&cache)?;
        if !place.join("package").is_file() {
            let work = WorkDir::new(&cache, "examples")?;
            let ready = fetch(work.path(), &image.release, progress)?;
            let _ = fs::remove_dir_all(&place);
            fs::rename(&ready, &place)
                .map_err(|source| KernelError::Cache { path: place.clone(), source })?;
        }
    }
    let package = fs::read_to_string(place.join("package")).unwrap_or_default();
    let dir = place.join("tools/sched_ext");
    Ok(ExampleSources {
        include_dirs: vec![
            place.clone(),
            dir.join("include"),
            dir.join("include/bpf-compat"),
            place.join("libbpf"),
        ],
        dir,
        package: package.trim().to_string(),
    })
}

impl ExampleSources {
    /// Compiles the example `name` (such as `scx_simple`) to `object` with `clang`.
    ///
    /// # Errors
    /// The compiler is missing or refuses the source; its last lines are in the error.
    pub fn compile(&self, name: &str, clang: &str, object: &Path) -> Result<(), KernelError> {
        self.compile_file(&self.dir.join(format!("{name}.bpf.c")), clang, object)
    }

    /// Compiles another source that includes the kernel's headers for schedulers; its own folder is searched for headers too.
    ///
    /// # Errors
    /// As [`ExampleSources::compile`].
    pub fn compile_file(&self, source: &Path, clang: &str, object: &Path) -> Result<(), KernelError> {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "x86",
            "aarch64" => "arm64",
            other => other,
        };
        let mut command = Command::new(clang);
        command
            .args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wno-missing-declarations"])
            // As the kernel's own Makefile has it: callbacks are declared with the registers' array.
            .arg("-Wno-incompatible-function-pointer-types")
            .arg(format!("-D__TARGET_ARCH_{arch}"))
            .args(self.include_dirs.iter().map(|d| format!("-I{}", d.display())))
            .arg("-c")
            .arg(source)
            .arg("-o")
            .arg(object);
        apt::output(&mut command).map(drop)
    }
}

/// Downloads and unpacks; returns the directory that is to be kept.
fn fetch(work: &Path, release: &str, progress: &mut dyn FnMut(&str)) -> Result<PathBuf, KernelError> {
    let system = System::detect()?;
    let numbers: Vec<&str> = release.split(['.', '+', '-']).take(3).collect();
    let series = numbers.iter().take(2).copied().collect::<Vec<_>>().join(".");
    let source = match system.family {
        Family::Debian => format!("linux-source-{series}"),
        Family::Ubuntu => format!("linux-source-{}", numbers.join(".")),
    };
    for suites in system.suites() {
        let Ok(client) = Client::new(&work.join(suites.join("+")), &system, &suites) else {
            continue;
        };
        let Some(version) = newest_of(&client, &source, &numbers.join("."))? else { continue };
        progress(&format!("fetching {source} {version}"));
        let mut packages = vec![format!("{source}={version}")];
        if client.versions("linux-bpf-dev")?.contains(&version) {
            packages.push(format!("linux-bpf-dev={version}"));
        }
        let tree = work.join("tree");
        for file in client.download(&packages)? {
            apt::output(Command::new("dpkg-deb").arg("-x").arg(file).arg(&tree))?;
        }
        progress("unpacking tools/sched_ext");
        return keep(work, &tree, &format!("{source} {version}"));
    }
    Err(KernelError::NoCandidate { suites: format!("{source}: {}", system.suites().concat().join(", ")) })
}

/// The newest version of `package` whose upstream part is `upstream`, else the newest of all.
fn newest_of(client: &Client, package: &str, upstream: &str) -> Result<Option<String>, KernelError> {
    let versions = client.versions(package)?;
    let same = versions.iter().find(|v| {
        v.strip_prefix(upstream).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    Ok(same.or(versions.first()).cloned())
}

/// Takes what is needed out of the unpacked packages.
fn keep(work: &Path, tree: &Path, package: &str) -> Result<PathBuf, KernelError> {
    let ready = work.join("ready");
    let io_error = |source| KernelError::Cache { path: ready.clone(), source };
    fs::create_dir_all(ready.join("libbpf/bpf")).map_err(io_error)?;
    let (mut archive, mut vmlinux) = (None, None);
    apt::visit(tree, &mut |path, name| {
        if name.starts_with("linux-source-") && name.contains(".tar.") {
            archive = Some(path.to_path_buf());
        } else if name == "vmlinux.h" {
            vmlinux = Some(path.to_path_buf());
        }
    });
    let archive = archive.ok_or_else(|| KernelError::Client {
        command: format!("unpacking {package}"),
        detail: "it holds no source archive".to_string(),
    })?;
    apt::output(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&ready).args([
        "--strip-components=1",
        "--wildcards",
        "*/tools/sched_ext/*",
    ]))?;
    match vmlinux {
        Some(header) => drop(fs::copy(header, ready.join("vmlinux.h")).map_err(io_error)?),
        None => dump_types(&ready.join("vmlinux.h"))?,
    }
    for (name, text) in LIBBPF_HEADERS {
        fs::write(ready.join("libbpf/bpf").join(name), text).map_err(io_error)?;
    }
    fs::write(ready.join("package"), format!("{package}\n")).map_err(io_error)?;
    Ok(ready)
}

/// Where the distribution ships no `vmlinux.h`: made by bpftool from the running kernel's types.
fn dump_types(header: &Path) -> Result<(), KernelError> {
    let done = Command::new("bpftool")
        .args(["btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "c"])
        .stdin(Stdio::null())
        .output()
        .map_err(|_| KernelError::NoPackageClient {
            missing: "bpftool (package bpftool or linux-tools-common), to make vmlinux.h,".to_string(),
        })?;
    fs::write(header, done.stdout).map_err(|source| KernelError::Cache { path: header.to_path_buf(), source })
}
