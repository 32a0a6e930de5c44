//! Asks kernels what the differential of values asks the simulator.
//!
//!     cargo run -p schedlab-tests --example values                       the simulator against what is kept
//!     cargo run -p schedlab-tests --example values -- --renew            asks the stock kernel, in two boots of a VM
//!     cargo run -p schedlab-tests --example values -- --renew VMLINUZ    asks that kernel
//!     cargo run -p schedlab-tests --example values -- --tree             asks the stock kernel about groups alone
//!
//! Answers go to `tests/values/RELEASE.txt`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use schedlab_live::kernel_image::{self, KernelImage};
use schedlab_live::load::SchedulerObject;
use schedlab_live::session::{self, RunPlan, Work};
use schedlab_live::vm::{self, Accelerator, VmJob};
use schedlab_tests::values::{self, Answers, Kept, Sheet};

fn main() -> ExitCode {
    schedlab_live::enter();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["inside"] => inside(),
        ["--renew"] => renew(None, false),
        ["--renew", kernel] => renew(Some(kernel), false),
        ["--tree"] => renew(None, true),
        [] => compare(),
        _ => Err("values [--renew [VMLINUZ] | --tree]".to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// In the VM: runs each object, and prints what it found as `SHEET PAGE QUESTION ASKED VALUE`.
fn inside() -> Result<(), String> {
    println!("release {}", std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim());
    for (number, sheet) in Sheet::all().iter().enumerate() {
        let scenario = values::script(sheet);
        let Ok(bytes) = std::fs::read(format!("/{number}.bpf.o")) else { continue };
        let object = SchedulerObject { name: format!("values{number}"), bytes, ..SchedulerObject::default() };
        let plan = RunPlan {
            scheduler: Some(&object),
            subs: &[],
            work: Work::Scenario(&scenario),
            observe: false,
            explain_waits: false,
            record: false,
            count_callbacks: false,
            spin_rate: None,
        };
        let result = match session::run(&plan) {
            Ok(result) => result,
            Err(why) => {
                eprintln!("{}: {why}", sheet.site.name);
                continue;
            }
        };
        let exit = &result.scheduler.exit;
        if exit.kind.is_ejection() {
            eprintln!("{}: {}: {}", sheet.site.name, exit.kind.name(), exit.message);
        }
        let Some((_, bytes)) = result.scheduler.tables.iter().find(|(name, _)| name == "answers") else {
            eprintln!("{}: no answers", sheet.site.name);
            continue;
        };
        for (row, answer) in bytes.chunks_exact(16).enumerate().filter(|(_, answer)| answer[0] != 0) {
            let value = i64::from_le_bytes(answer[8..].try_into().expect("eight bytes"));
            println!("{number} {row} {} {value}", answer[0]);
        }
    }
    Ok(())
}

/// Compiles the objects.
fn objects(sheets: &[Sheet]) -> Result<Vec<Vec<u8>>, String> {
    let folder = std::env::temp_dir().join(format!("schedlab-values-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let made = values::objects(sheets, &folder);
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    made
}

/// Asks a kernel everything, or about groups alone, which leaves the other answers as they are.
fn renew(kernel: Option<&str>, tree: bool) -> Result<(), String> {
    let kernel: KernelImage = match kernel {
        None => kernel_image::find_or_fetch(&mut |_| {}).map_err(|error| error.to_string())?,
        Some(path) => kernel_image::from_path(path.as_ref()).map_err(|error| error.to_string())?,
    };
    let sheets = Sheet::all();
    let objects = objects(&sheets)?;
    let mut runs: BTreeMap<String, Vec<Answers>> = BTreeMap::new();
    for _ in 0..2 {
        let mut job = VmJob::new(kernel.clone(), vec!["inside".to_string()]);
        job.cpus = 2;
        let asked = objects.iter().enumerate().filter(|(n, _)| !tree || sheets[*n].has_groups());
        job.files = asked.map(|(n, bytes)| (format!("/{n}.bpf.o"), bytes.clone())).collect();
        job.timeout = Duration::from_secs(1800);
        job.accelerator = Accelerator::default();
        let output = vm::run(&job, &mut |line| eprintln!("{line}")).map_err(|error| error.to_string())?;
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        let (release, answers) = read(&sheets, &String::from_utf8_lossy(&output.stdout))?;
        eprintln!("{release}: {} answers", answers.len());
        runs.entry(release).or_default().push(answers);
    }
    for (release, runs) in runs {
        let mut kept = Kept::of_runs(&runs);
        let version: String = release.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let path = values::folder().join(format!("{version}.txt"));
        if tree {
            let before = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            kept = Kept::from_text(&before).with(kept);
        }
        std::fs::write(&path, kept.to_text()).map_err(|error| error.to_string())?;
        assert_eq!(Kept::from_text(&kept.to_text()), kept, "the text is read as it was written");
        println!("{}: {} values", path.display(), kept.count());
    }
    Ok(())
}

/// The release and the answers of what [`inside`] printed.
fn read(sheets: &[Sheet], text: &str) -> Result<(String, Answers), String> {
    let mut lines = text.lines();
    let release = lines.next().and_then(|line| line.strip_prefix("release ")).ok_or("no release")?;
    let mut tables: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    for line in lines {
        let numbers: Vec<i64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [sheet, row, asked, value] = numbers[..] else { return Err(format!("not an answer: {line}")) };
        let table = tables.entry(sheet as usize).or_default();
        let at = 16 * row as usize;
        table.resize(table.len().max(at + 16), 0);
        table[at..at + 8].copy_from_slice(&asked.to_le_bytes());
        table[at + 8..at + 16].copy_from_slice(&value.to_le_bytes());
    }
    let answers = tables.iter().flat_map(|(number, table)| values::decode(&sheets[*number], table));
    Ok((release.to_string(), answers.collect()))
}

/// The simulator against what is kept.
fn compare() -> Result<(), String> {
    let sheets = Sheet::all();
    let objects = objects(&sheets)?;
    for (version, kept) in values::all_kept() {
        let machine = values::machine(&version);
        let mut answers = Answers::new();
        let asked = sheets
            .iter()
            .zip(&objects)
            .filter(|(sheet, _)| !sheet.has_groups() || kept.knows(&sheet.site.name));
        for (sheet, object) in asked {
            match values::simulated(sheet, object, &machine) {
                Ok(found) => answers.extend(found),
                Err(why) => println!("{version} {}: {why}", sheet.site.name),
            }
        }
        let differences = kept.against(&answers);
        println!("{version}: {} values compared, {} differ", kept.count(), differences.len());
        for one in &differences {
            println!("{version} {one}");
        }
    }
    Ok(())
}
