//! What authors of schedulers begin with: a folder of their own, sources that are no objects yet.

use crate::Folder;

/// The names in a folder, in order.
fn named(folder: &Folder, path: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path().join(path)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A copy of o1 has the layers that o1 includes, and no other policy's; SWAP where it is asked for.
#[test]
fn a_copy_of_o1_has_its_layers_alone() {
    let folder = Folder::new();
    folder.run("new plain --from o1").ok();
    folder.run("new swapping --from o1+swap").ok();
    let count = |name: &str| {
        let folders = ["", "include", "include/glue", "include/swap", "include/scx"];
        let files = folders.iter().flat_map(|sub| {
            let path = format!("{name}/{sub}");
            named(&folder, &path).into_iter().map(move |file| format!("{path}/{file}"))
        });
        files.filter(|file| folder.path().join(file).is_file()).count()
    };
    assert_eq!((count("plain"), count("swapping")), (36, 53));
    assert_eq!(named(&folder, "plain/include/swap"), ["hooks.h"]);
    for other in ["freebsd.h", "goodness.h", "epoch_2_4.h", "interrupt.h"] {
        assert!(!named(&folder, "plain/include").contains(&other.to_string()), "{other}");
    }
    assert!(folder.read("swapping/Makefile").contains(" -DSWAP -I . -I include "));
}

#[test]
fn a_new_scheduler_has_its_headers_and_its_name() {
    let folder = Folder::new();
    for (name, from) in [("mine", ""), ("plain_2", " --from fifo")] {
        let text = folder.run(&format!("new {name}{from}")).ok();
        assert!(text.contains(&format!("cd {name}\n")) && text.contains("-target bpf"), "{text}");
        let source = folder.read(&format!("{name}/{name}.bpf.c"));
        assert!(source.contains(&format!("{name}_ops")) && !source.contains("NAME"), "{source}");
        assert_eq!(named(&folder, &format!("{name}/include")), ["bpf", "scx", "vmlinux.h"]);
        let scx = named(&folder, &format!("{name}/include/scx"));
        assert!(
            ["common.bpf.h", "compat.bpf.h", "user_exit_info.bpf.h"]
                .iter()
                .all(|one| scx.contains(&(*one).into()))
        );
        assert!(
            source.contains("#include <scx/common.bpf.h>") && source.contains("BPF_STRUCT_OPS("),
            "{source}"
        );
        assert!(folder.read(&format!("{name}/Makefile")).contains(&format!("{name}.bpf.o: {name}.bpf.c")));
    }
}

#[test]
fn a_new_scheduler_takes_nobodys_place() {
    let folder = Folder::new();
    folder.run("new mine").ok();
    folder.write("mine/mine.bpf.c", "edited");
    folder.run("new mine").refused(2, &["new mine: there is a mine already; choose another name"]);
    assert_eq!(folder.read("mine/mine.bpf.c"), "edited");
    folder.run("new o1").refused(2, &["a shipped scheduler is called so"]);
    for name in ["Mine", "2nd", "a/b", "..", "mine+swap", &"x".repeat(65)] {
        folder.run_words(&["new", name]).refused(2, &["small letters, digits and _"]);
    }
}

#[test]
fn a_source_is_answered_with_how_to_compile_it() {
    let folder = Folder::new();
    folder.write("mine.bpf.c", "");
    for command in ["sim -w chat -s mine.bpf.c", "compare -w chat -s eevdf,mine.bpf.c", "check mine.bpf.c"] {
        folder.run(command).refused(2, &[" -g -O2 -target bpf -mcpu=v3 -c mine.bpf.c -o mine.bpf.o"]);
    }
}

/// What the command says of a source makes an object of it, headers included, wherever the source is.
#[test]
fn the_advice_for_a_source_compiles_it() {
    let source = "#include \"vmlinux.h\"\n#include <bpf/bpf_helpers.h>\n#include <bpf/bpf_tracing.h>\n\
        #include <bpf/bpf_core_read.h>\nchar _license[] SEC(\"license\") = \"GPL\";\nconst volatile bool on = true;\n\
        SEC(\"struct_ops/enqueue\")\nvoid BPF_PROG(own_enqueue, struct task_struct *p, u64 flags)\n\
        { if (on) scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, flags); }\n\
        SEC(\".struct_ops.link\")\nstruct sched_ext_ops own_ops = { .enqueue = (void *)own_enqueue, .name = \"own\" };\n";
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("sub dir")).unwrap();
    for file in ["own.bpf.c", "sub dir/own.bpf.c"] {
        folder.write(file, source);
        let refused = folder.run_words(&["sim", "-q", "-s", file, "-w", "cpuhog"]);
        refused.refused(2, &["it is a source", "compile it: schedlab check --vmlinux-h "]);
        let advice = refused.err.trim_end().split_once("compile it: ").unwrap().1.to_string();
        let bin = std::path::Path::new(env!("CARGO_BIN_EXE_schedlab")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut shell = std::process::Command::new("sh");
        let done = shell.args(["-c", &advice]).current_dir(folder.path()).env("PATH", path).output().unwrap();
        assert!(done.status.success(), "{advice}: {}", String::from_utf8_lossy(&done.stderr));
        let object = format!("./{}", file.replace(".c", ".o"));
        let ran = folder.run_words(&["sim", "-q", "-s", &object, "-w", "cpuhog:ttime=10ms", "-c", "1"]);
        assert!(ran.code == 0 && ran.out.contains("scheduler exit: none"), "{ran:?}");
    }
}

/// Headers that are there already stay as they are.
#[test]
fn headers_of_others_are_not_replaced() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("bpf")).unwrap();
    folder.write("bpf/bpf_helpers.h", "own");
    folder.run("check --vmlinux-h vmlinux.h").ok();
    assert_eq!(folder.read("bpf/bpf_helpers.h"), "own");
    assert!(folder.read("scx/common.bpf.h").contains("#include \"vmlinux.h\""));
    assert!(
        folder.read("bpf/bpf_tracing.h").contains("PT_REGS")
            && folder.read("vmlinux.h").contains("task_struct")
    );
}
