//! Links object files against a kernel's BTF and prints the outcome: `link BTF OBJECT...`.
//!
//! All functions in the BTF count as modelled, so this checks the loader, not the simulator.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

use schedlab_bpf::btf::{Btf, Kind};
use schedlab_bpf::link::{KconfigValue, KernelModel, Settings, link};
use schedlab_bpf::memory::Memory;
use schedlab_bpf::object::Object;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(btf) = args.next() else {
        eprintln!("usage: link BTF OBJECT...");
        return ExitCode::from(2);
    };
    let btf = match std::fs::read(&btf)
        .map_err(|e| e.to_string())
        .and_then(|b| Btf::parse(&b).map_err(|e| e.to_string()))
    {
        Ok(btf) => btf,
        Err(error) => {
            eprintln!("{btf}: {error}");
            return ExitCode::from(2);
        }
    };
    let functions = btf.iter().filter(|(_, t)| matches!(t.kind, Kind::Func(..)));
    let kernel = KernelModel {
        kfuncs: functions.map(|(id, _)| btf.name(id).to_string()).collect(),
        kconfig: [("CONFIG_HZ".to_string(), KconfigValue::Number(250))].into(),
        nr_cpus: 8,
        version: 7 << 16 | 3 << 8,
        btf: btf.clone().into(),
        ..KernelModel::default()
    };
    let mut failed = 0;
    for path in args {
        let done = std::fs::read(&path).map_err(|e| format!("{path}: {e}")).and_then(|bytes| {
            let object = Object::parse(&path, &bytes).map_err(|e| e.to_string())?;
            let mut mem = Memory::new().map_err(|e| e.to_string())?;
            let image = link(&object, &kernel, &Settings::new(), &mut mem).map_err(|e| e.to_string())?;
            Ok((object, image))
        });
        match done {
            Ok((object, image)) => println!(
                "{path}: {} functions, {} slots, {} programs, {} maps, {} kernel functions, {} soft loads, {} traps{}",
                image.functions.len(),
                image.functions.iter().map(|f| f.insns.len()).sum::<usize>(),
                image.programs.len(),
                object.maps().len(),
                image.kfuncs.len(),
                image.functions.iter().map(|f| f.probe_mem.len()).sum::<usize>(),
                image.runtime.traps.len(),
                image.runtime.traps.iter().map(|t| format!("\n    {t}")).collect::<String>(),
            ),
            Err(error) => {
                failed += 1;
                println!("{error}");
            }
        }
    }
    ExitCode::from(u8::from(failed > 0))
}
