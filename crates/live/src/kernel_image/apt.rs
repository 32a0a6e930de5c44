//! The distribution's package client, used with lists and caches of its own.
//!
//! `apt-get` and `apt-cache` run with a private sources list and private state directories, so the
//! system's own lists stay as they are and no privilege is needed. The archive's address is the
//! one that the system is configured with; the client checks signatures and hashes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::KernelError;
use super::names::{Family, OLDEST, version_of};

/// A kernel unpacked from packages.
pub(super) struct FetchedKernel {
    /// The image.
    pub vmlinuz: PathBuf,
    /// The kernel's configuration.
    pub config: PathBuf,
    /// First package that it came from, with version.
    pub package: String,
}

/// What the running system says about itself and its archive; or the archive of another family.
#[derive(Clone)]
pub(super) struct System {
    pub family: Family,
    /// Release name, such as `trixie`.
    pub(super) codename: String,
    /// Address of the archive that the release comes from.
    pub(super) archive: String,
    /// Components of the archive, separated by spaces.
    pub(super) components: String,
    /// Architecture as the package client calls it.
    pub(super) arch: String,
    /// The keys that sign the archive; where there are none, those that the client trusts.
    pub(super) keyring: Option<PathBuf>,
}

/// A package client whose lists and caches live in one directory.
pub(super) struct Client {
    dir: PathBuf,
}

/// One kernel of the archive: the packages that hold image and configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) version: Vec<u64>,
    pub(super) packages: Vec<String>,
}

/// Kernels tried in one suite before the next suite is looked at.
const TRIES: usize = 2;

/// Fetches the newest kernel with sched_ext that the archive offers and unpacks it under `work`.
pub(super) fn fetch_kernel(
    work: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<FetchedKernel, KernelError> {
    let system = System::detect()?;
    let groups = system.suites();
    for suites in &groups {
        progress(&format!("looking for a sched_ext kernel in {}", suites.join(", ")));
        let Ok(client) = Client::new(&work.join(suites.join("+")), &system, suites) else {
            continue;
        };
        let names = client.names("linux-")?;
        let recent = |candidate: &&Candidate| candidate.version.as_slice() >= OLDEST.as_slice();
        for candidate in system.candidates(&names).iter().filter(recent).take(TRIES) {
            progress(&format!("fetching {}", candidate.packages.join(", ")));
            if let Some(found) = client.kernel_of(candidate)? {
                return Ok(found);
            }
        }
    }
    Err(KernelError::NoCandidate { suites: groups.concat().join(", ") })
}

impl System {
    /// Reads the system's release and its configured archive.
    pub(super) fn detect() -> Result<System, KernelError> {
        let missing = |missing: &str| KernelError::NoPackageClient { missing: missing.to_string() };
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let family = family_of(&release).ok_or_else(|| missing("a Debian or Ubuntu release"))?;
        let codename = os_field(&release, "VERSION_CODENAME")
            .ok_or_else(|| missing("VERSION_CODENAME in /etc/os-release"))?;
        let arch = output(Command::new("dpkg").arg("--print-architecture"))?.trim().to_string();
        let targets = output(Command::new("apt-get").args([
            "indextargets",
            "--format",
            "$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)",
            "Created-By: Packages",
        ]))?;
        let archive = archive_of(&targets, &codename)
            .ok_or_else(|| missing("an archive for this release in the package sources"))?;
        let components = "main".to_string();
        Ok(System { family, codename, archive, components, arch, keyring: family.keyring() })
    }

    /// The archive of another family, with the keyring that this system has of it.
    ///
    /// # Errors
    /// The archive's address is not known for this architecture.
    pub(super) fn of_family(&self, family: Family) -> Result<System, KernelError> {
        let archive = match (family, self.arch.as_str()) {
            (Family::Debian, _) => "http://deb.debian.org/debian",
            // Ubuntu keeps other architectures elsewhere.
            (Family::Ubuntu, "amd64") => "http://archive.ubuntu.com/ubuntu",
            (Family::Ubuntu, arch) => {
                return Err(KernelError::NoPackageClient { missing: format!("Ubuntu's archive for {arch}") });
            }
        };
        let (archive, components) = (archive.to_string(), "main".to_string());
        let (codename, arch) = (String::new(), self.arch.clone());
        Ok(System { family, codename, archive, components, arch, keyring: family.keyring() })
    }

    /// Kernels among package names, newest first.
    pub(super) fn candidates(&self, names: &[String]) -> Vec<Candidate> {
        candidates(names, self.family, &self.arch)
    }

    /// Suites to look in, one group after the other. Debian's own stable kernels have sched_ext
    /// compiled out, so its backports come first; Ubuntu's hardware enablement kernels are in
    /// the updates.
    pub(super) fn suites(&self) -> Vec<Vec<String>> {
        match self.family {
            Family::Debian => {
                let mut groups = vec![vec!["trixie-backports".to_string()]];
                if !["bullseye", "bookworm", "trixie"].contains(&self.codename.as_str()) {
                    groups.push(vec![self.codename.clone()]);
                }
                groups.push(vec!["forky".to_string()]);
                groups.push(vec!["sid".to_string()]);
                groups
            }
            Family::Ubuntu => {
                vec![vec![self.codename.clone(), format!("{}-updates", self.codename)]]
            }
        }
    }
}

impl Family {
    /// The file with the archive's keys, where this system has it.
    fn keyring(self) -> Option<PathBuf> {
        let path = Path::new("/usr/share/keyrings").join(self.keyring_file());
        path.exists().then_some(path)
    }

    fn keyring_file(self) -> &'static str {
        match self {
            Family::Debian => "debian-archive-keyring.gpg",
            Family::Ubuntu => "ubuntu-archive-keyring.gpg",
        }
    }

    /// The package with that file, in the archives of both families.
    pub(super) fn keyring_package(self) -> &'static str {
        match self {
            Family::Debian => "debian-archive-keyring",
            Family::Ubuntu => "ubuntu-keyring",
        }
    }
}

impl Client {
    /// A client for some suites of the system's archive, with fresh lists.
    pub(super) fn new(dir: &Path, system: &System, suites: &[String]) -> Result<Client, KernelError> {
        let io_error = |source| KernelError::Cache { path: dir.to_path_buf(), source };
        for sub in ["lists/partial", "archives/partial", "tree"] {
            fs::create_dir_all(dir.join(sub)).map_err(io_error)?;
        }
        let signed = system.keyring.as_ref();
        let signed = signed.map(|keys| format!("[signed-by={}] ", keys.display())).unwrap_or_default();
        let System { archive, components, .. } = system;
        let sources: String =
            suites.iter().map(|suite| format!("deb {signed}{archive} {suite} {components}\n")).collect();
        fs::write(dir.join("sources.list"), sources).map_err(io_error)?;
        let d = dir.display();
        let settings = format!(
            "#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n\
             #clear Acquire::IndexTargets::deb::DEP-11;\n\
             #clear Acquire::IndexTargets::deb::DEP-11-icons;\n\
             #clear Acquire::IndexTargets::deb::CNF;\n\
             Dir::State \"{d}\";\nDir::State::Lists \"{d}/lists\";\nDir::Cache \"{d}\";\n\
             Dir::Cache::Archives \"{d}/archives\";\nDir::Etc::SourceList \"{d}/sources.list\";\n\
             Dir::Etc::SourceParts \"/dev/null\";\nAPT::Sandbox::User \"\";\n\
             Acquire::Languages \"none\";\nAcquire::Retries \"3\";\n"
        );
        fs::write(dir.join("apt.conf"), settings).map_err(io_error)?;
        let client = Client { dir: dir.to_path_buf() };
        output(client.command("apt-get").args(["-qq", "update"]))?;
        Ok(client)
    }

    /// The client of a directory that [`Client::new`] has filled before.
    pub(super) fn again(dir: &Path) -> Client {
        Client { dir: dir.to_path_buf() }
    }

    /// The keys of a family's archive, out of their package; nothing where these suites have none.
    pub(super) fn keyring(&self, family: Family) -> Result<Option<PathBuf>, KernelError> {
        let package = family.keyring_package().to_string();
        if self.versions(&package)?.is_empty() {
            return Ok(None);
        }
        let tree = self.dir.join("tree").join(&package);
        for file in self.download(&[package])? {
            output(Command::new("dpkg-deb").arg("-x").arg(file).arg(&tree))?;
        }
        let path = tree.join("usr/share/keyrings").join(family.keyring_file());
        Ok(path.is_file().then_some(path))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(self.dir.join("apt.conf")).current_dir(self.dir.join("archives"));
        command
    }

    /// Names of the packages that start with `prefix`.
    pub(super) fn names(&self, prefix: &str) -> Result<Vec<String>, KernelError> {
        let text = output(self.command("apt-cache").args(["pkgnames", prefix]))?;
        Ok(text.lines().map(str::to_string).collect())
    }

    /// Downloads packages (`NAME` or `NAME=VERSION`); returns their files.
    pub(super) fn download(&self, packages: &[String]) -> Result<Vec<PathBuf>, KernelError> {
        output(self.command("apt-get").args(["-q", "download"]).args(packages))?;
        let dir = self.dir.join("archives");
        let wanted = |name: &str| {
            packages.iter().any(|p| name.starts_with(&format!("{}_", p.split('=').next().unwrap_or(p))))
        };
        let mut files: Vec<PathBuf> = fs::read_dir(&dir)
            .map_err(|source| KernelError::Cache { path: dir.clone(), source })?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.extension().is_some_and(|e| e == "deb")
                    && path.file_name().and_then(|n| n.to_str()).is_some_and(wanted)
            })
            .collect();
        files.sort();
        Ok(files)
    }

    /// Versions of `package` that the lists offer.
    pub(super) fn versions(&self, package: &str) -> Result<Vec<String>, KernelError> {
        let text = output(self.command("apt-cache").args(["madison", package]))?;
        Ok(text.lines().filter_map(|l| Some(l.split('|').nth(1)?.trim().to_string())).collect())
    }

    /// Downloads and unpacks a candidate; `None` when its packages hold no image with sched_ext.
    pub(super) fn kernel_of(&self, candidate: &Candidate) -> Result<Option<FetchedKernel>, KernelError> {
        let files = self.download(&candidate.packages)?;
        let tree = self.dir.join("tree").join(&candidate.packages[0]);
        for file in &files {
            output(Command::new("dpkg-deb").arg("-x").arg(file).arg(&tree))?;
        }
        let (mut vmlinuz, mut config) = (None, None);
        visit(&tree, &mut |path, name| {
            if name.starts_with("vmlinuz") {
                vmlinuz = Some(path.to_path_buf());
            } else if name == "config" || name.starts_with("config-") {
                config = Some(path.to_path_buf());
            }
        });
        match (vmlinuz, config) {
            (Some(vmlinuz), Some(config)) if super::config_has_sched_ext(&config) => {
                let package = candidate.packages[0].clone();
                Ok(Some(FetchedKernel { vmlinuz, config, package }))
            }
            _ => Ok(None),
        }
    }
}

/// Calls `see` with every regular file below `dir`.
pub(super) fn visit(dir: &Path, see: &mut dyn FnMut(&Path, &str)) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            visit(&path, see);
        } else if kind.is_file()
            && let Some(name) = entry.file_name().to_str()
        {
            see(&path, name);
        }
    }
}

/// Runs a command to its end; its standard output, or an error with its last words.
pub(super) fn output(command: &mut Command) -> Result<String, KernelError> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
    let done = command
        .output()
        .map_err(|_| KernelError::NoPackageClient { missing: format!("the program {name}") })?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&done.stderr);
    let mut last: Vec<&str> = words.lines().rev().filter(|l| !l.is_empty()).take(3).collect();
    last.reverse();
    let args: Vec<_> = command
        .get_args()
        .map(|a| a.to_string_lossy().into_owned())
        .filter(|a| !a.starts_with('/') && a != "-c")
        .collect();
    Err(KernelError::Client {
        command: format!("{name} {}", args.join(" ")),
        detail: if last.is_empty() { done.status.to_string() } else { last.join("; ") },
    })
}

/// The family that `/etc/os-release` names, by `ID` or `ID_LIKE`.
fn family_of(os_release: &str) -> Option<Family> {
    let id = os_field(os_release, "ID").unwrap_or_default();
    let like = os_field(os_release, "ID_LIKE").unwrap_or_default();
    let all: Vec<&str> = std::iter::once(id.as_str()).chain(like.split(' ')).collect();
    if all.contains(&"ubuntu") {
        Some(Family::Ubuntu)
    } else if all.contains(&"debian") {
        Some(Family::Debian)
    } else {
        None
    }
}

fn os_field(os_release: &str, name: &str) -> Option<String> {
    let value =
        os_release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?.trim_matches('"');
    (!value.is_empty()).then(|| value.to_string())
}

/// The archive of release `codename` in the client's list of index targets (address, suite and
/// component, separated by tabs).
fn archive_of(targets: &str, codename: &str) -> Option<String> {
    targets.lines().find_map(|line| {
        let mut fields = line.split('\t');
        let (uri, suite, component) = (fields.next()?, fields.next()?, fields.next()?);
        (suite == codename && component == "main").then(|| uri.to_string())
    })
}

/// Kernels among package names, newest first.
fn candidates(names: &[String], family: Family, arch: &str) -> Vec<Candidate> {
    let has = |name: &String| names.contains(name);
    let flavour = match family {
        Family::Debian => format!("-cloud-{arch}"),
        Family::Ubuntu => "-generic".to_string(),
    };
    let mut found: Vec<Candidate> = Vec::new();
    for name in names {
        let Some(release) = name.strip_prefix("linux-image-").and_then(|n| n.strip_suffix(&flavour)) else {
            continue;
        };
        if !release.starts_with(|c: char| c.is_ascii_digit()) || release.contains("rc") {
            continue;
        }
        let version = version_of(release);
        let package = |kind: &str| format!("linux-{kind}-{release}{flavour}");
        let binary = package("binary");
        let mut packages = vec![if has(&binary) { binary } else { name.clone() }];
        packages.extend([package("base"), package("buildinfo")].into_iter().filter(|p| has(p)));
        found.push(Candidate { version, packages });
    }
    found.sort_by(|a, b| b.version.cmp(&a.version));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_string()).collect()
    }

    #[test]
    fn debian_takes_the_newest_cloud_kernel_in_its_split_packages() {
        let list = names(&[
            "linux-image-cloud-amd64",
            "linux-image-7.2.12+deb13-cloud-amd64",
            "linux-image-7.10.1+deb13-cloud-amd64",
            "linux-image-7.10.1+deb13-cloud-amd64-dbg",
            "linux-image-7.10.1+deb13-amd64",
            "linux-binary-7.10.1+deb13-cloud-amd64",
            "linux-base-7.10.1+deb13-cloud-amd64",
            "linux-image-6.1.0-9-cloud-amd64",
        ]);
        let found = candidates(&list, Family::Debian, "amd64");
        assert_eq!(found.len(), 3, "kernels without an image of their own are left out");
        assert_eq!(
            found[0].packages,
            ["linux-binary-7.10.1+deb13-cloud-amd64", "linux-base-7.10.1+deb13-cloud-amd64"]
        );
        assert_eq!(found[1].packages, ["linux-image-7.2.12+deb13-cloud-amd64"]);
    }

    #[test]
    fn ubuntu_takes_the_generic_kernel_with_its_build_information() {
        let list = names(&[
            "linux-image-6.8.0-31-generic",
            "linux-image-6.14.0-24-generic",
            "linux-buildinfo-6.14.0-24-generic",
            "linux-image-6.14.0-9-generic",
            "linux-image-unsigned-6.14.0-24-generic",
        ]);
        let found = candidates(&list, Family::Ubuntu, "amd64");
        assert_eq!(found[0].packages, ["linux-image-6.14.0-24-generic", "linux-buildinfo-6.14.0-24-generic"]);
        assert_eq!(found.len(), 3, "unsigned ones are left out");
    }

    #[test]
    fn the_release_file_names_the_family() {
        assert_eq!(family_of("NAME=x\nID=debian\n"), Some(Family::Debian));
        assert_eq!(family_of("ID=mint\nID_LIKE=\"ubuntu debian\"\n"), Some(Family::Ubuntu));
        assert_eq!(family_of("ID=fedora\n"), None);
    }

    #[test]
    fn the_archive_is_the_one_of_the_release() {
        let list = "http://a/sec/\tnoble-security\tmain\nhttp://a/u/\tnoble\tuniverse\n\
                    http://a/m/\tnoble\tmain\n";
        assert_eq!(archive_of(list, "noble").as_deref(), Some("http://a/m/"));
        assert_eq!(archive_of(list, "plucky"), None);
    }
}
