//! What a command that simulates keeps of the host: the files that its command line names.

use crate::args::{GateArgs, ResultArgs, SandboxArgs};
use crate::output;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::followed;
use schedlab_lab::machine::host as host_machine;
use schedlab_lab::run::sweep;
use schedlab_lab::scheduler::own_loader;
use schedlab_lab::workload::files;
use schedlab_loader::PREFIX;
use schedlab_sandbox::Sandbox;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The files that a command line names.
#[derive(Debug, Default)]
pub(crate) struct Named {
    read: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    written: Vec<PathBuf>,
    /// What schedulers' own loaders are started with.
    run: Vec<PathBuf>,
    /// What this very program is started with.
    start: Vec<PathBuf>,
}

impl Named {
    /// None.
    pub(crate) fn new() -> Named {
        Named::default()
    }

    /// Adds inputs: what is no file is a name, or several files of a workload. The machine `host` is files of the system.
    pub(crate) fn inputs(mut self, names: impl IntoIterator<Item = impl AsRef<Path>>) -> Named {
        let names: Vec<PathBuf> = names.into_iter().map(|name| name.as_ref().to_path_buf()).collect();
        let commands = names.iter().filter_map(|name| name.to_str()?.strip_prefix(PREFIX));
        self.run.extend(commands.flat_map(own_loader::files));
        if names.iter().any(|name| name.as_os_str() == host_machine::HOST) {
            self.read.extend(host_machine::inputs().into_iter().filter(|path| path.exists()));
        }
        let names = names.into_iter();
        let paths = names.flat_map(|name| match name.to_str() {
            Some(text) => files(text).into_iter().map(PathBuf::from).collect(),
            None => vec![name],
        });
        self.read.extend(paths.filter(|path| path.exists() && !path.is_dir()));
        self
    }

    /// Adds the results that every command has.
    pub(crate) fn results(self, args: &ResultArgs) -> Named {
        self.outputs([&args.json, &args.csv, &args.html])
    }

    /// Adds what a gate writes.
    pub(crate) fn gate(self, args: &GateArgs) -> Named {
        self.outputs([&args.junit, &args.markdown])
    }

    /// Adds inputs that are files in any case.
    pub(crate) fn files(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Named {
        self.read.extend(paths.into_iter().filter(|path| path.is_file()));
        self
    }

    /// Adds results by their paths.
    pub(crate) fn outputs<'a>(mut self, paths: impl IntoIterator<Item = &'a Option<PathBuf>>) -> Named {
        for path in paths.into_iter().flatten().filter(|path| path.as_os_str() != "-") {
            self.folders.extend(folder_of_new(path));
            self.written.push(path.clone());
        }
        self
    }

    /// Adds this very program, of which processes are started that have fewer rights still.
    pub(crate) fn itself(mut self) -> Named {
        self.start.extend(own_loader::system_files().chain(std::env::current_exe()));
        self
    }

    /// Adds a folder that results go to. It is made: nothing can make it later.
    pub(crate) fn folder(mut self, folder: Option<&PathBuf>) -> Named {
        if let Some(folder) = folder {
            // The code that needs the folder reports the failure.
            let _ = std::fs::create_dir_all(folder);
            self.folders.push(folder.clone());
        }
        self
    }

    /// Adds the folders of `--resume`.
    pub(crate) fn resume(self, folders: &[PathBuf]) -> Named {
        let mut named = self.folder(folders.first());
        named.read.extend_from_slice(folders);
        named
    }

    /// Refuses a result in the place of an input, which would be lost.
    ///
    /// # Errors
    /// The path of the result.
    pub(crate) fn spare_inputs(&self) -> Result<(), Failure> {
        let file = |path: &PathBuf| {
            let found = path.metadata().ok().filter(Metadata::is_file)?;
            Some((found.dev(), found.ino()))
        };
        let inputs: Vec<(u64, u64)> = self.read.iter().chain(&self.run).filter_map(file).collect();
        let replaced =
            self.written.iter().find(|path| file(path).is_some_and(|found| inputs.contains(&found)));
        replaced.map_or(Ok(()), |path| {
            let path = path.display();
            Err(Failure::usage(format!("{path} is read by this command; name another file for the result")))
        })
    }

    /// Gives up everything else, unless the user wants to keep it. Where more is wanted, a message names what the kernel lacks.
    ///
    /// # Errors
    /// As [`Named::spare_inputs`].
    pub(crate) fn enter(self, args: &SandboxArgs, quiet: bool) -> Result<(), Failure> {
        self.spare_inputs()?;
        if args.no_sandbox {
            return Ok(());
        }
        // The limit of a control group lies in files that cannot be read from then on.
        sweep::available();
        let sandbox = Sandbox::new().may_read(self.read).may_read(for_backtraces());
        let sandbox = sandbox.may_run(self.run).may_start(self.start);
        let missing = sandbox.may_replace_in(self.folders).may_write(self.written).enter();
        if !quiet {
            missing.0.iter().for_each(|what| output::note(&format!("sandbox: {what}")));
        }
        Ok(())
    }
}

/// The folder in which a result at `path` is made: nothing for a device, a pipe, or an open file of a process.
fn folder_of_new(path: &Path) -> Option<PathBuf> {
    let place = followed(path).ok()??;
    match std::fs::symlink_metadata(&place) {
        Ok(found) if !found.is_file() => None,
        _ => place.parent().map(Path::to_path_buf),
    }
}

/// What the names of functions in a backtrace are read from, if one is wanted.
fn for_backtraces() -> Vec<PathBuf> {
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        return Vec::new();
    }
    std::env::current_exe().into_iter().chain([PathBuf::from("/proc/self/maps")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_opens_no_folder() {
        for direct in ["/dev/null", "/dev/stdout", "/proc/self/fd/0"] {
            assert_eq!(folder_of_new(Path::new(direct)), None, "{direct}");
        }
        let here = std::env::current_dir().unwrap();
        assert_eq!(folder_of_new(Path::new("no-such-file.json")), Some(here.canonicalize().unwrap()));
        assert_eq!(folder_of_new(Path::new("no-such-folder/file.json")), None);
    }

    #[test]
    fn a_link_opens_the_folder_of_what_it_leads_to() {
        let dir = std::env::temp_dir().join(format!("schedlab-confine-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("there")).unwrap();
        std::os::unix::fs::symlink("there/result.json", dir.join("link")).unwrap();
        let there = dir.join("there").canonicalize().unwrap();
        assert_eq!(folder_of_new(&dir.join("link")), Some(there));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
