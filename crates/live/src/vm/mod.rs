//! A virtual machine that runs our own program on a stock kernel and hands its results back.
//!
//! The guest has no disk and no network: its initramfs holds the program that calls
//! [`run`] (with the shared libraries it is linked with), and nothing else.
//! `/init` is that program; it recognises its role by [`crate::guest::is_init`]. A job with its files comes in a second initramfs
//! behind the first, or, where the machine is made of a snapshot, over QEMU's configuration device. Results come back over a
//! virtio-serial port.

mod initramfs;
mod monitor;
mod qemu;
mod scratch;
mod snapshot;
mod take;
mod turns;
mod written;

pub use take::{TakeError, Taken, find_program};

use std::env::consts::ARCH;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::kernel_image::{KernelError, KernelImage};
use crate::wire::{Record, write_record};

/// Name of the file by which our program knows that it is a guest's first process.
pub(crate) const GUEST_FILE: &str = "/schedlab.guest";
/// Name of the job among the files of QEMU's configuration device.
pub(crate) const JOB_ITEM: &str = "opt/schedlab.job";
/// Name of the job's file in the initramfs.
pub(crate) const JOB_FILE: &str = "/schedlab.job";
/// Name of the port that results come back over.
pub(crate) const RESULT_PORT: &str = "schedlab.result";
/// Name of the port that carries the job's standard error as it is written.
pub(crate) const LOG_PORT: &str = "schedlab.log";

/// What executes the guest's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accelerator {
    /// KVM where a boot with it works, else emulation.
    #[default]
    Auto,
    /// KVM where a boot with it works, else [`Accelerator::EmulationSingleThread`]: for jobs that load
    /// schedulers again and again on several CPUs.
    AutoSingleThread,
    /// KVM, or fail.
    Kvm,
    /// QEMU's emulation (TCG), one host thread per CPU.
    Emulation,
    /// Emulation with one host thread for all CPUs: slower, but without the races that
    /// multi-threaded emulation has when code is patched under load (schedulers reloaded).
    EmulationSingleThread,
    /// Emulation in which guest time advances by 2^`shift` ns per instruction executed, whichever CPU executes it
    /// (two busy CPUs have half the speed each, in [turns](VmJob::turn)); an idle machine's time jumps to its next timer, or
    /// turn. What the host does meanwhile does not show: counts and times repeat, exactly so with 1 CPU.
    InstructionCount {
        /// 0 to 10; 3, a CPU of 125 million instructions per second, is about what emulation reaches.
        shift: u8,
    },
}

/// Something to run in a VM.
#[derive(Clone, Debug)]
pub struct VmJob {
    /// The program; the one that is running now without.
    pub program: Option<PathBuf>,
    /// The program's arguments, without its own name.
    pub args: Vec<String>,
    /// Files to put into the guest: absolute path and content.
    pub files: Vec<(String, Vec<u8>)>,
    /// Programs and files of the host, at their own places.
    pub taken: Taken,
    /// Where it runs; `/tmp` without.
    pub directory: Option<PathBuf>,
    /// Absolute paths of files to bring back; a missing one is left out of the output.
    pub collect: Vec<String>,
    /// Number of CPUs, 1 to 255.
    pub cpus: u32,
    /// Memory in MiB; 1024 is enough for small jobs.
    pub memory_mib: u32,
    /// Longest time for the job, boot not included.
    pub timeout: Duration,
    /// What executes it.
    pub accelerator: Accelerator,
    /// Thousands of instructions that one of several CPUs executes before it is the next one's turn, where instructions are
    /// counted; 2 without. Longer ones cost the host less, and the other CPU sees later what this one does.
    pub turn: u32,
    /// The kernel to boot.
    pub kernel: KernelImage,
    /// Whether the machine may be made of a snapshot of an earlier one after its boot. Emulated ones are then; KVM boots faster
    /// than a snapshot is read.
    pub snapshot: bool,
}

impl VmJob {
    /// A job with 1 CPU, 1 GiB and a minute.
    pub fn new(kernel: KernelImage, args: Vec<String>) -> VmJob {
        VmJob {
            program: None,
            args,
            files: Vec::new(),
            taken: Taken::default(),
            directory: None,
            collect: Vec::new(),
            cpus: 1,
            memory_mib: 1024,
            timeout: Duration::from_secs(60),
            accelerator: Accelerator::Auto,
            turn: turns::TURN_US,
            kernel,
            snapshot: true,
        }
    }
}

/// What a job left behind.
#[derive(Clone, Debug, Default)]
pub struct VmOutput {
    /// Exit code of the program; 128 plus the signal's number if a signal ended it.
    pub exit_code: i32,
    /// The standard output of the job.
    pub stdout: Vec<u8>,
    /// The standard error of the job.
    pub stderr: Vec<u8>,
    /// The collected files, in the order asked for.
    pub files: Vec<(String, Vec<u8>)>,
    /// Kernel messages of level warning or worse that appeared while the job ran.
    pub kernel_warnings: Vec<String>,
    /// All kernel messages that appeared while the job ran.
    pub kernel_log: Vec<String>,
    /// Last lines of the console.
    pub console_tail: Vec<String>,
    /// From starting QEMU to the job's start.
    pub boot_time: Duration,
    /// True when KVM executed it.
    pub kvm: bool,
}

impl VmOutput {
    /// The collected file at `path`.
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        self.files.iter().find(|(name, _)| name == path).map(|(_, data)| data.as_slice())
    }
}

/// Why a VM gave no result.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// QEMU is not installed.
    #[error("{program} is not installed; install the package {package}")]
    QemuMissing {
        /// The program looked for.
        program: &'static str,
        /// The package that has it (Debian's and Ubuntu's name).
        package: &'static str,
    },
    /// No kernel to boot.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The job cannot be packed or the VM's files cannot be written.
    #[error("preparing the VM: {what}: {source}")]
    Prepare {
        /// What was being done.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The job asks for something that no VM here can give.
    #[error("{0}")]
    BadJob(String),
    /// The kernel did not get as far as our program.
    #[error(
        "the VM did not boot {release} ({why}); the end of its console:\n{}",
        indent(.console)
    )]
    Boot {
        /// The kernel's release.
        release: String,
        /// How that was noticed.
        why: String,
        /// Last lines of the console, or of QEMU's own messages.
        console: Vec<String>,
    },
    /// The guest's kernel crashed while the job ran.
    #[error("the guest's kernel crashed:\n{}", indent(.lines))]
    KernelCrash {
        /// The lines of its console that say so.
        lines: Vec<String>,
    },
    /// The VM ended without a result, and its kernel did not say why.
    #[error("the VM ended before the job did; the end of its console:\n{}", indent(.console))]
    Vanished {
        /// Last lines of the console.
        console: Vec<String>,
    },
    /// The job's results are longer than any that are read.
    #[error("the job's results have more than {} MiB, and its VM was stopped; let it write less", .most >> 20)]
    TooMuch {
        /// Most bytes.
        most: u64,
    },
    /// A signal asked for an end.
    #[error("interrupted; the VM is gone")]
    Interrupted,
    /// The job took too long.
    #[error(
        "the job did not end within {} s and its VM was stopped; give it more time, or less to do.\n{}",
        .after.as_secs(), indent(.console)
    )]
    Timeout {
        /// The limit.
        after: Duration,
        /// Last lines of the console.
        console: Vec<String>,
    },
}

fn indent(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Boots a VM, runs the job in it, and powers it off. `progress` gets one line per step, and the
/// lines that the job writes to its standard error as they come. Call [`crate::signals::catch`] before to have
/// interrupts handled.
///
/// # Errors
/// See [`VmError`]. A job that ran and failed is no error of this function: look at the exit code.
pub fn run(job: &VmJob, progress: &mut dyn FnMut(&str)) -> Result<VmOutput, VmError> {
    check(job)?;
    let image = Image::of(job)?;
    qemu::run(job, &image, progress)
}

fn check(job: &VmJob) -> Result<(), VmError> {
    // The guest's first process is this program, and the kernels that are fetched are for x86-64.
    if cfg!(not(target_arch = "x86_64")) {
        return Err(VmError::BadJob(format!("a VM runs x86-64, and this schedlab is built for {ARCH}")));
    }
    if !(1..=255).contains(&job.cpus) {
        return Err(VmError::BadJob(format!("a VM has 1 to 255 CPUs, not {}", job.cpus)));
    }
    let counted = matches!(job.accelerator, Accelerator::InstructionCount { .. });
    if counted && job.cpus > turns::MOST_CPUS {
        let most = turns::MOST_CPUS;
        return Err(VmError::BadJob(format!(
            "a VM that counts instructions has 1 to {most} CPUs, not {}",
            job.cpus
        )));
    }
    if let Accelerator::InstructionCount { shift: 11.. } = job.accelerator {
        return Err(VmError::BadJob(
            "instructions of more than 1024 ns (2^10): give a smaller shift".to_string(),
        ));
    }
    if job.turn == 0 {
        return Err(VmError::BadJob("a turn of no instructions: give a thousand".to_string()));
    }
    if job.memory_mib < 256 {
        return Err(VmError::BadJob(format!("{} MiB are too little for a VM: give 256", job.memory_mib)));
    }
    let relative = job.files.iter().map(|f| &f.0).chain(&job.collect).find(|path| !path.starts_with('/'));
    if let Some(path) = relative {
        return Err(VmError::BadJob(format!("{path}: guest paths are absolute")));
    }
    Ok(())
}

/// What a job's machine is made of.
struct Image {
    /// The initramfs with our own program.
    base: Vec<u8>,
    /// Paths of the program's libraries in it, and the directories where they are.
    libraries: Vec<String>,
    library_dirs: Vec<String>,
}

impl Image {
    fn of(job: &VmJob) -> Result<Image, VmError> {
        let program = match &job.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(prepare("finding the own program"))?,
        };
        let bundle =
            initramfs::Bundle::of(&program).map_err(prepare(&format!("packing {}", program.display())))?;
        let mut archive = initramfs::Archive::new();
        archive.file("/init", true, &bundle.program);
        archive.file(GUEST_FILE, false, &[]);
        for (path, data) in &bundle.libraries {
            archive.file(path, true, data);
        }
        if let Some(config) = &job.kernel.config {
            let data = std::fs::read(config).map_err(prepare(&format!("reading {}", config.display())))?;
            archive.file(&format!("/boot/config-{}", job.kernel.release), false, &data);
        }
        let libraries = bundle.libraries.into_iter().map(|(path, _)| path).collect();
        Ok(Image { base: archive.finish(), libraries, library_dirs: bundle.library_dirs })
    }
}

/// An error of what comes before a boot, by what was being done.
fn prepare(what: &str) -> impl FnOnce(io::Error) -> VmError {
    let what = what.to_string();
    move |source| VmError::Prepare { what, source }
}

/// The initramfs with a job and its files.
fn job_archive(job: &VmJob) -> Result<Vec<u8>, VmError> {
    let mut archive = initramfs::Archive::new();
    for (path, executable, content) in files_of(job) {
        archive.file(path, executable, content);
    }
    archive.file(JOB_FILE, false, &encode_job(job).map_err(prepare("writing the job"))?);
    Ok(archive.finish())
}

/// Path, whether it can be executed, and content of each file of a job.
fn files_of(job: &VmJob) -> impl Iterator<Item = (&str, bool, &[u8])> {
    let own = job.files.iter().map(|(path, content)| (path.as_str(), false, content.as_slice()));
    job.taken.files().chain(own)
}

/// What the guest has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GuestJob {
    pub(crate) args: Vec<String>,
    pub(crate) collect: Vec<String>,
    pub(crate) directory: Option<String>,
    /// Where programs are looked for by name.
    pub(crate) path: Option<String>,
    /// Where the libraries of the job's programs are, separated by colons.
    pub(crate) libraries: Option<String>,
    /// Files that are not in the guest yet: path, whether it can be executed, content.
    pub(crate) files: Vec<(String, bool, Vec<u8>)>,
}

fn encode_job(job: &VmJob) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for arg in &job.args {
        write_record(&mut bytes, "arg", arg.as_bytes())?;
    }
    for path in &job.collect {
        write_record(&mut bytes, "collect", path.as_bytes())?;
    }
    if let Some(path) = std::env::var_os("PATH").filter(|_| !job.taken.is_empty()) {
        write_record(&mut bytes, "path", path.as_encoded_bytes())?;
    }
    if let Some(directory) = &job.directory {
        write_record(&mut bytes, "directory", directory.as_os_str().as_encoded_bytes())?;
    }
    let libraries: Vec<&str> = job.taken.library_dirs().map(String::as_str).collect();
    if !libraries.is_empty() {
        write_record(&mut bytes, "libraries", libraries.join(":").as_bytes())?;
    }
    Ok(bytes)
}

/// What a record of a file is called: this, and its path.
const FILE: &str = "file:";
/// What a record of an executable file is called.
const PROGRAM: &str = "program:";

/// A job with those of its files that the guest does not have.
fn encode_whole_job(job: &VmJob, image: &Image) -> io::Result<Vec<u8>> {
    let mut bytes = encode_job(job)?;
    let is_new = |(path, ..): &(&str, bool, &[u8])| !image.libraries.iter().any(|known| known == path);
    for (path, executable, content) in files_of(job).filter(is_new) {
        let kind = if executable { PROGRAM } else { FILE };
        write_record(&mut bytes, &format!("{kind}{path}"), content)?;
    }
    Ok(bytes)
}

/// Reads what [`encode_job`] or [`encode_whole_job`] wrote.
pub(crate) fn decode_job(records: Vec<Record>) -> GuestJob {
    let mut job = GuestJob::default();
    for Record { name, data } in records {
        let file = |kind: &str| name.strip_prefix(kind).map(str::to_string);
        if let Some(path) = file(FILE) {
            job.files.push((path, false, data));
            continue;
        }
        if let Some(path) = file(PROGRAM) {
            job.files.push((path, true, data));
            continue;
        }
        let text = String::from_utf8_lossy(&data).into_owned();
        match name.as_str() {
            "arg" => job.args.push(text),
            "collect" => job.collect.push(text),
            "path" => job.path = Some(text),
            "directory" => job.directory = Some(text),
            "libraries" => job.libraries = Some(text),
            _ => {}
        }
    }
    job
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::read_records;

    #[test]
    fn a_job_reaches_its_guest_with_the_files_that_are_not_there() {
        let kernel = KernelImage { vmlinuz: PathBuf::new(), config: None, release: String::new() };
        let mut job = VmJob::new(kernel, vec!["run".to_string(), "a b".to_string()]);
        job.files = vec![("/job/x".to_string(), vec![0, 1]), ("/lib/libc.so".to_string(), vec![2])];
        job.collect = vec!["/tmp/result".to_string()];
        job.directory = Some(PathBuf::from("/job"));
        job.taken.take("true").unwrap();
        let image =
            Image { base: Vec::new(), libraries: vec!["/lib/libc.so".to_string()], library_dirs: Vec::new() };
        let sent = decode_job(read_records(&encode_whole_job(&job, &image).unwrap()));
        assert_eq!((&sent.args, &sent.collect), (&job.args, &job.collect));
        assert_eq!(sent.directory.as_deref(), Some("/job"));
        assert!(sent.libraries.is_some_and(|libraries| libraries.contains("/lib")));
        let file = |path: &str| sent.files.iter().find(|(known, ..)| known == path);
        assert_eq!(file("/job/x"), Some(&("/job/x".to_string(), false, vec![0, 1])));
        assert_eq!(file("/lib/libc.so"), None, "the guest has it");
        let program = find_program("true").unwrap();
        assert!(file(program.to_str().unwrap()).is_some_and(|(_, executable, _)| *executable));
        // In the initramfs of a job the files stand beside it.
        assert!(decode_job(read_records(&encode_job(&job).unwrap())).files.is_empty());
    }
}
