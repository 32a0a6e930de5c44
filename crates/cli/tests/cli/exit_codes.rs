//! One meaning of exit codes: wrong input is 2 in every command that reads it, before anything else is looked at.

use crate::Folder;

/// Kinds of wrong files, by how their names begin.
const WRONG: [&str; 4] = ["absent", "folder", "noise", "empty"];

/// Commands that read an object, a workload, a machine or results: `{}` is the file's name without its ending.
const READERS: [&str; 21] = [
    "sim -s ./{}.bpf.o -w cpuhog:ttime=1ms",
    "compare -s eevdf,./{}.bpf.o -w cpuhog:ttime=1ms",
    "check ./{}.bpf.o",
    "check --vm ./{}.bpf.o",
    "run -s ./{}.bpf.o -w cpuhog:ttime=1ms",
    "run --vm -s ./{}.bpf.o -w cpuhog:ttime=1ms",
    "compare --live -s eevdf,./{}.bpf.o -w cpuhog:ttime=1ms",
    "bench -s eevdf,./{}.bpf.o -- true",
    "fidelity --vm -s ./{}.bpf.o -w cpuhog:ttime=1ms",
    "sim -s eevdf -w ./{}.toml",
    "sim -s eevdf -w ./{}.json",
    "compare -s eevdf,o1 -w ./{}.toml",
    "run --vm -s eevdf -w ./{}.json",
    "sim -s eevdf -w cpuhog -m ./{}.toml",
    "reproduce kravetz --machine-file ./{}.toml",
    "stat ./{}.csv:x",
    "stat ./{}.json:throughput",
    "sched-samples ./{}.csv",
    "fidelity --show ./{}.json",
    "fidelity --real ./{}.json -s eevdf",
    "sim -s o1 -w cpuhog --state ./{}.json",
];

/// Commands that read names, numbers and options.
const OTHERS: [&str; 14] = [
    "",
    "nothing",
    "sim -s o2 -w cpuhog",
    "sim -s o1 -w cpuhgo",
    "sim -s o1 -w cpuhog -m moderm",
    "sim -s o1 -w cpuhog -c 0",
    "sim -s o1 -w cpuhog --set nothing=1",
    "sim -s o1 -w cpuhog --duration 1000000h",
    "compare -s o1 -w cpuhog",
    "reproduce kravets",
    "list workloads chatt",
    "new Not-A-Name",
    "man ./absent",
    "completions ksh",
];

#[test]
fn wrong_files_are_wrong_input_everywhere() {
    let folder = Folder::new();
    let noise: Vec<u8> = (0..5000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for ending in ["bpf.o", "toml", "json", "csv"] {
        std::fs::create_dir(folder.path().join(format!("folder.{ending}"))).unwrap();
        folder.write(&format!("noise.{ending}"), &noise);
        folder.write(&format!("empty.{ending}"), b"");
    }
    for reader in READERS {
        for wrong in WRONG {
            let line = reader.replace("{}", wrong);
            let begin = line.find(wrong).unwrap();
            let name = line[begin..].split([' ', ':']).next().unwrap();
            folder.run(&line).refused(2, &[name]);
        }
    }
}

#[test]
fn wrong_words_are_wrong_input_everywhere() {
    let folder = Folder::new();
    for line in OTHERS {
        assert_eq!(folder.run(line).code, 2, "{line}");
    }
}
