//! A stock Linux kernel with sched_ext for the VM: found, fetched once, checked at every use.
//!
//! The image comes from the distribution's own package archive through its package client (see
//! `apt`), or from a path that the user gives. It is kept in the cache directory with a SHA-256
//! beside it; a damaged copy is fetched again, a good one never. Without a name it is the newest one, in the folder `kernel`;
//! one that was asked for by name has a folder of that name in `kernels`. The directory and the files in it belong to the user who runs
//! this, and nobody else may write them: others are refused.

mod apt;
mod archive;
mod examples;
mod names;

pub use examples::{ExampleSources, LIBBPF_HEADERS, fetch_example_sources};
pub use names::{KernelName, RELEASES, Release};

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::private::{own_file, own_folder, own_new_file, still_own};
use sha2::{Digest, Sha256};

/// A kernel that QEMU can boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelImage {
    /// The compressed kernel (`bzImage` format).
    pub vmlinuz: PathBuf,
    /// The kernel's build configuration, where known; needed by objects with kconfig externs.
    pub config: Option<PathBuf>,
    /// Release as `uname -r` prints it in the VM, read from the image's header.
    pub release: String,
}

/// Why no kernel image is to be had.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The given file is not readable.
    #[error("kernel image {path}: {source}; give a readable bzImage with --kernel PATH")]
    Unreadable {
        /// The path as given.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The given file is something else.
    #[error(
        "{path} is not a bootable Linux image (bzImage, x86-64); uncompressed vmlinux files do \
         not boot in QEMU, give arch/x86/boot/bzImage or /boot/vmlinuz-*"
    )]
    NotBootable {
        /// The path as given.
        path: PathBuf,
    },
    /// The configuration next to the image says that sched_ext is compiled out.
    #[error(
        "the kernel {release} has no sched_ext (CONFIG_SCHED_CLASS_EXT is not set in {config}); \
         give another one with --kernel PATH (6.12 or newer, with that option)"
    )]
    NoSchedExt {
        /// The kernel's release.
        release: String,
        /// The file that says so.
        config: PathBuf,
    },
    /// No cache directory can be made.
    #[error("cache directory {path}: {source}; set SCHEDLAB_CACHE to a directory of your own")]
    Cache {
        /// The directory tried.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Neither an environment variable nor a home directory says where to keep the image.
    #[error("no home directory: set SCHEDLAB_CACHE to a writable directory")]
    NoCacheDir,
    /// This system has no package client that we can use.
    #[error(
        "{missing} is not here, so no kernel can be fetched from this distribution's archive; \
         give a sched_ext kernel with --kernel PATH"
    )]
    NoPackageClient {
        /// The program or setting that is missing.
        missing: String,
    },
    /// The package client failed.
    #[error("{command} failed: {detail}; is the package archive reachable? or give --kernel PATH")]
    Client {
        /// The command that failed.
        command: String,
        /// The last lines of the output.
        detail: String,
    },
    /// The archive has no kernel of the name, or none of that name with sched_ext.
    #[error(
        "--kernel {name}: {why}; in the cache: {kept}; name one of these, a release of `schedlab list kernels`, or the path of an image"
    )]
    NotOffered {
        /// The name.
        name: String,
        /// What there is in its place.
        why: String,
        /// What the cache has.
        kept: String,
    },
    /// The archive has no kernel with sched_ext in any of the suites tried.
    #[error("no kernel package with sched_ext in the suites {suites}; give --kernel PATH")]
    NoCandidate {
        /// The suites tried, separated by commas.
        suites: String,
    },
}

/// What a cached kernel consists of, and the list of its checksums, as sha256sum(1) writes and checks it.
const FILES: [&str; 2] = ["vmlinuz", "config"];
const SUMS: &str = "vmlinuz.sha256";

/// Where fetched files are kept: `$SCHEDLAB_CACHE`, else `$XDG_CACHE_HOME/schedlab`, else
/// `~/.cache/schedlab`. The directory is made if needed, for its owner alone.
///
/// # Errors
/// No home directory, or the directory cannot be made, is somebody else's, or can be written by others.
pub fn cache_dir() -> Result<PathBuf, KernelError> {
    let dir = cache_place()?;
    own_folder(&dir).map_err(|source| KernelError::Cache { path: dir.clone(), source })?;
    Ok(dir)
}

/// A file of the cache, opened for reading; nothing where there is no cache or no such file. Nothing is made, so that a
/// process in a sandbox can ask.
///
/// # Errors
/// The directory or the file is somebody else's, can be written by others, or is no file.
pub fn cached_file(name: &str) -> Result<Option<(PathBuf, File)>, KernelError> {
    let Ok(dir) = cache_place() else { return Ok(None) };
    let path = dir.join(name);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let file = still_own(&dir).and_then(|()| own_file(&path));
    let file = file.map_err(|source| KernelError::Cache { path: dir, source })?;
    Ok(Some((path, file)))
}

/// The place of a file of the cache, for a sandbox to leave open: [`cached_file`] says whether it can be trusted. Nothing where
/// nothing is, or a link.
pub fn cached_path(name: &str) -> Option<PathBuf> {
    let path = cache_place().ok()?.join(name);
    path.symlink_metadata().is_ok_and(|found| !found.is_symlink()).then_some(path)
}

/// Where [`cache_dir`] is or would be.
fn cache_place() -> Result<PathBuf, KernelError> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("SCHEDLAB_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|d| d.join("schedlab")))
        .or_else(|| set("HOME").map(|d| d.join(".cache/schedlab")))
        .ok_or(KernelError::NoCacheDir)
}

/// The image at `path`, checked to be bootable; a configuration beside it (`config`,
/// `config-RELEASE`) is taken along.
///
/// # Errors
/// Unreadable, not a bzImage, or its configuration says that sched_ext is compiled out.
pub fn from_path(path: &Path) -> Result<KernelImage, KernelError> {
    let release = image_release(path)?;
    let dir = path.parent().unwrap_or(Path::new("."));
    let config =
        [dir.join(format!("config-{release}")), dir.join("config")].into_iter().find(|c| c.is_file());
    if let Some(config) = &config
        && !config_has_sched_ext(config)
    {
        return Err(KernelError::NoSchedExt { release, config: config.clone() });
    }
    Ok(KernelImage { vmlinuz: path.to_path_buf(), config, release })
}

/// The cached image; `None` when there is none or a checksum does not hold (the copy is then
/// removed).
///
/// # Errors
/// The cache directory cannot be made, or it or a file in it is somebody else's or can be written by others.
pub fn cached() -> Result<Option<KernelImage>, KernelError> {
    cached_in(&cache_dir()?.join("kernel"))
}

fn cached_in(dir: &Path) -> Result<Option<KernelImage>, KernelError> {
    let not_ours = |source| KernelError::Cache { path: dir.to_path_buf(), source };
    let image = dir.join("vmlinuz");
    if fs::symlink_metadata(&image).is_err() {
        return Ok(None);
    }
    own_folder(dir).map_err(not_ours)?;
    let mut noted = String::new();
    let sums = dir.join(SUMS);
    if fs::symlink_metadata(&sums).is_ok() {
        own_file(&sums).and_then(|mut file| file.read_to_string(&mut noted)).map_err(not_ours)?;
    }
    let mut holds = false;
    for (sum, name) in noted.lines().filter_map(|line| line.split_once("  ")) {
        if !FILES.contains(&name) {
            continue;
        }
        let file = match own_file(&dir.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            file => Some(file.map_err(not_ours)?),
        };
        if !file.is_some_and(|file| sha256_of(file).is_ok_and(|found| found == sum)) {
            holds = false;
            break;
        }
        // Older caches have the sum of the image alone.
        holds |= name == FILES[0];
    }
    if !holds {
        // A copy that was cut short or changed is worth nothing; failing to remove it shows up
        // again as a failing fetch.
        let _ = fs::remove_dir_all(dir);
        return Ok(None);
    }
    from_path(&image).map(Some)
}

/// The cached image, or else a freshly fetched one. `progress` gets one line per step that takes
/// time; it is not called when the cache holds the image.
///
/// # Errors
/// See [`KernelError`]; each message says what to do.
pub fn find_or_fetch(progress: &mut dyn FnMut(&str)) -> Result<KernelImage, KernelError> {
    if let Some(image) = cached()? {
        return Ok(image);
    }
    let cache = cache_dir()?;
    let _lock = lock_cache(&cache)?;
    // Another process may have fetched it while this one waited.
    if let Some(image) = cached()? {
        return Ok(image);
    }
    let work = WorkDir::new(&cache, "kernel")?;
    let found = apt::fetch_kernel(work.path(), progress)?;
    keep(&found, &work, &cache.join("kernel"))
}

/// The cached image of that name, or else a freshly fetched one: the newest of a version or of a release that the archive has
/// when it is first asked for. Removing its folder makes the next use fetch it again.
///
/// # Errors
/// As [`find_or_fetch`]; also where the archive has no such kernel, with what it has.
pub fn find_or_fetch_named(
    name: &KernelName,
    progress: &mut dyn FnMut(&str),
) -> Result<KernelImage, KernelError> {
    let cache = cache_dir()?;
    if let Some(image) = cached_as(&cache, name)? {
        return Ok(image);
    }
    let _lock = lock_cache(&cache)?;
    // Another process may have fetched it while this one waited.
    if let Some(image) = cached_as(&cache, name)? {
        return Ok(image);
    }
    let work = WorkDir::new(&cache, "kernel")?;
    let found = archive::fetch(work.path(), name, &kept_words(&cache), progress)?;
    let folder = cache.join("kernels");
    own_folder(&folder).map_err(|source| KernelError::Cache { path: folder.clone(), source })?;
    keep(&found, &work, &folder.join(name.to_string()))
}

/// Puts a fetched kernel into its place, with its checksums.
fn keep(found: &apt::FetchedKernel, work: &WorkDir, place: &Path) -> Result<KernelImage, KernelError> {
    let ready = work.path().join("ready");
    let io_error = |source| KernelError::Cache { path: ready.clone(), source };
    own_folder(&ready).map_err(io_error)?;
    let mut sums = String::new();
    for (name, from) in FILES.into_iter().zip([&found.vmlinuz, &found.config]) {
        let sum = kept(from, &ready.join(name)).map_err(io_error)?;
        sums.push_str(&format!("{sum}  {name}\n"));
    }
    fs::write(ready.join("package"), format!("{}\n", found.package)).map_err(io_error)?;
    own_new_file(&ready.join(SUMS)).and_then(|mut file| file.write_all(sums.as_bytes())).map_err(io_error)?;
    let _ = fs::remove_dir_all(place);
    fs::rename(&ready, place).map_err(io_error)?;
    from_path(&place.join("vmlinuz"))
}

/// The cached image of a name. The newest kernel of all, which is kept without a name, is also the newest of its version; and a
/// version of three numbers is one kernel, whatever name it was fetched by.
fn cached_as(cache: &Path, name: &KernelName) -> Result<Option<KernelImage>, KernelError> {
    if let Some(image) = cached_in(&cache.join("kernels").join(name.to_string()))? {
        return Ok(Some(image));
    }
    let whole = matches!(name, KernelName::Version(numbers) if numbers.len() == 3);
    let others = if whole { named_folders(cache) } else { Vec::new() };
    for dir in [cache.join("kernel")].into_iter().chain(others) {
        if release_in(&dir).is_some_and(|release| name.is_version_of(&release))
            && let Some(image) = cached_in(&dir)?
        {
            return Ok(Some(image));
        }
    }
    Ok(None)
}

/// The folders of named kernels, in the order of their names.
fn named_folders(cache: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache.join("kernels")).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

/// What the image in a folder says that it is.
fn release_in(dir: &Path) -> Option<String> {
    image_release(&dir.join("vmlinuz")).ok()
}

/// The kernels in the cache, as errors list them.
fn kept_words(cache: &Path) -> String {
    let newest = release_in(&cache.join("kernel")).map(|release| format!("{release} (the default)"));
    let named = named_folders(cache).into_iter().filter_map(|dir| {
        let name = dir.file_name()?.to_string_lossy().into_owned();
        Some(format!("{} ({name})", release_in(&dir)?))
    });
    let all: Vec<String> = newest.into_iter().chain(named).collect();
    if all.is_empty() { "none".to_string() } else { all.join(", ") }
}

/// Release string inside a bzImage: the setup header has the magic "HdrS" at 0x202 and, at 0x20e,
/// the offset of the version text less 0x200 (Linux's boot protocol, x86).
fn image_release(path: &Path) -> Result<String, KernelError> {
    let unreadable = |source| KernelError::Unreadable { path: path.to_path_buf(), source };
    if path.is_dir() {
        return Err(unreadable(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")));
    }
    let not_bootable = || KernelError::NotBootable { path: path.to_path_buf() };
    let mut head = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(64 << 10).read_to_end(&mut head).map_err(unreadable)?;
    if head.get(0x202..0x206) != Some(b"HdrS".as_slice()) {
        return Err(not_bootable());
    }
    let offset = match head.get(0x20e..0x210) {
        Some(bytes) => usize::from(u16::from_le_bytes([bytes[0], bytes[1]])) + 0x200,
        None => return Err(not_bootable()),
    };
    let text = head.get(offset..).ok_or_else(not_bootable)?;
    let release: Vec<u8> = text.iter().copied().take_while(|b| b.is_ascii_graphic()).take(128).collect();
    String::from_utf8(release).map_err(|_| not_bootable())
}

/// Whether a kernel configuration file turns sched_ext on.
fn config_has_sched_ext(config: &Path) -> bool {
    fs::read_to_string(config).is_ok_and(|text| text.lines().any(|line| line == "CONFIG_SCHED_CLASS_EXT=y"))
}

/// Copies a file for its owner alone, and gives the copy's SHA-256.
fn kept(from: &Path, to: &Path) -> io::Result<String> {
    let mut copy = own_new_file(to)?;
    io::copy(&mut File::open(from)?, &mut copy)?;
    copy.sync_all()?;
    sha256_of(own_file(to)?)
}

/// SHA-256 of a file, in lower-case hex.
fn sha256_of(mut file: File) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut file, &mut hash)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Lock file of the cache: held while something is fetched, released when dropped.
fn lock_cache(cache: &Path) -> Result<File, KernelError> {
    let path = cache.join("lock");
    let open = || -> io::Result<File> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path)?;
        // SAFETY: flock takes a descriptor that is open for the length of the call.
        match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } {
            0 => Ok(file),
            _ => Err(io::Error::last_os_error()),
        }
    };
    open().map_err(|source| KernelError::Cache { path: path.clone(), source })
}

/// A scratch directory inside the cache, removed when dropped.
struct WorkDir(PathBuf);

impl WorkDir {
    fn new(cache: &Path, what: &str) -> Result<WorkDir, KernelError> {
        let path = cache.join(format!("{what}.tmp"));
        let make = || -> io::Result<()> {
            if path.exists() {
                fs::remove_dir_all(&path)?;
            }
            fs::create_dir_all(&path)
        };
        make().map_err(|source| KernelError::Cache { path: path.clone(), source })?;
        Ok(WorkDir(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("schedlab-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn fake_image() -> Vec<u8> {
        let mut image = vec![0u8; 0x1000];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x600u16.to_le_bytes());
        image[0x800..0x80e].copy_from_slice(b"7.3.4-lab (us)");
        image
    }

    #[test]
    fn release_is_read_from_the_setup_header() {
        let dir = scratch("release");
        fs::write(dir.join("vmlinuz"), fake_image()).unwrap();
        let image = from_path(&dir.join("vmlinuz")).unwrap();
        assert_eq!(image.release, "7.3.4-lab");
        assert_eq!(image.config, None);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn cached_images_are_ours_and_whole() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let cache = tempfile::tempdir().unwrap();
        let dir = cache.path().join("kernel");
        let fill = |sums: &dyn Fn(&str, &str) -> String| {
            let _ = fs::remove_dir_all(&dir);
            own_folder(&dir).unwrap();
            fs::write(cache.path().join("image"), fake_image()).unwrap();
            fs::write(cache.path().join("options"), "CONFIG_SCHED_CLASS_EXT=y\n").unwrap();
            let image = kept(&cache.path().join("image"), &dir.join("vmlinuz")).unwrap();
            let config = kept(&cache.path().join("options"), &dir.join("config")).unwrap();
            fs::write(dir.join(SUMS), sums(&image, &config)).unwrap();
            fs::set_permissions(dir.join(SUMS), fs::Permissions::from_mode(0o600)).unwrap();
        };
        let both = |image: &str, config: &str| format!("{image}  vmlinuz\n{config}  config\n");
        assert!(cached_in(&dir).unwrap().is_none());
        fill(&|image, _| format!("{image}  vmlinuz\n"));
        assert!(cached_in(&dir).unwrap().is_some(), "older caches");
        fill(&both);
        assert_eq!(cached_in(&dir).unwrap().unwrap().release, "7.3.4-lab");
        let refused = |what: &str| {
            let error = cached_in(&dir).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("SCHEDLAB_CACHE"), "{error}");
        };
        fs::set_permissions(dir.join("vmlinuz"), fs::Permissions::from_mode(0o666)).unwrap();
        refused("others may write");
        fill(&both);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        refused("others may write");
        fill(&both);
        fs::remove_file(dir.join("vmlinuz")).unwrap();
        symlink(cache.path().join("image"), dir.join("vmlinuz")).unwrap();
        refused("symbolic link");
        for changed in ["vmlinuz", "config", SUMS] {
            fill(&both);
            fs::write(dir.join(changed), "CONFIG_SCHED_CLASS_EXT=y\nother").unwrap();
            assert!(cached_in(&dir).unwrap().is_none() && !dir.exists(), "{changed} was changed");
        }
    }

    #[test]
    fn a_config_without_sched_ext_refuses_the_image() {
        let dir = scratch("config");
        fs::write(dir.join("vmlinuz"), fake_image()).unwrap();
        fs::write(dir.join("config"), "# CONFIG_SCHED_CLASS_EXT is not set\n").unwrap();
        let error = from_path(&dir.join("vmlinuz")).unwrap_err();
        assert!(matches!(error, KernelError::NoSchedExt { .. }), "{error}");
        fs::write(dir.join("config"), "CONFIG_SCHED_CLASS_EXT=y\n").unwrap();
        assert!(from_path(&dir.join("vmlinuz")).unwrap().config.is_some());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn other_files_are_refused_by_name() {
        let dir = scratch("other");
        let path = dir.join("vmlinux");
        fs::write(&path, b"\x7fELF").unwrap();
        let error = from_path(&path).unwrap_err();
        assert!(error.to_string().contains("vmlinux is not a bootable"), "{error}");
        assert!(matches!(from_path(&dir.join("none")), Err(KernelError::Unreadable { .. })));
        fs::remove_dir_all(dir).unwrap();
    }

    /// Puts a kernel of that release into a folder of the cache, as a fetch does.
    fn put(cache: &Path, folder: &str, release: &str) {
        let dir = cache.join(folder);
        own_folder(dir.parent().unwrap()).unwrap();
        let (from, options) = (cache.join("image"), cache.join("options"));
        let mut image = fake_image();
        image[0x800..0x810].fill(0);
        image[0x800..0x800 + release.len()].copy_from_slice(release.as_bytes());
        fs::write(&from, image).unwrap();
        fs::write(&options, "CONFIG_SCHED_CLASS_EXT=y\n").unwrap();
        let work = WorkDir::new(cache, "work").unwrap();
        let found = apt::FetchedKernel { vmlinuz: from, config: options, package: "p".into() };
        assert_eq!(keep(&found, &work, &dir).unwrap().release, release);
    }

    #[test]
    fn named_kernels_are_found_in_the_cache() {
        let cache = tempfile::tempdir().unwrap();
        let cache = cache.path();
        assert_eq!(kept_words(cache), "none");
        put(cache, "kernel", "7.3.4+deb13-c");
        put(cache, "kernels/6.18.5", "6.18.5+deb13-c");
        put(cache, "kernels/debian-sid", "7.2.13+deb14-c");
        let found = |text: &str| {
            let name = KernelName::parse(text).unwrap().unwrap();
            cached_as(cache, &name).unwrap().map(|image| image.release)
        };
        // The newest of all is the newest of its version.
        assert_eq!(found("7.3").as_deref(), Some("7.3.4+deb13-c"));
        assert_eq!(found("7.3.4").as_deref(), Some("7.3.4+deb13-c"));
        assert_eq!(found("6.18.5").as_deref(), Some("6.18.5+deb13-c"));
        // Another name asked for that one: it need not be the newest 6.18.
        assert_eq!(found("6.18"), None);
        assert_eq!(found("debian-sid").as_deref(), Some("7.2.13+deb14-c"));
        assert_eq!((found("7.2"), found("7.2.13").as_deref()), (None, Some("7.2.13+deb14-c")));
        assert_eq!(found("debian-13-backports"), None);
        assert_eq!(
            kept_words(cache),
            "7.3.4+deb13-c (the default), 6.18.5+deb13-c (6.18.5), 7.2.13+deb14-c (debian-sid)"
        );
        // A damaged copy is no copy.
        fs::write(cache.join("kernels/debian-sid/config"), "x").unwrap();
        assert_eq!(found("debian-sid"), None);
    }
}
