//! What authors of schedulers begin with: a folder of their own, sources that are no objects yet.

use crate::Folder;

#[test]
fn a_new_scheduler_has_its_headers_and_its_name() {
    let folder = Folder::new();
    for (name, from) in [("mine", ""), ("plain_2", " --from fifo")] {
        let text = folder.run(&format!("new {name}{from}")).ok();
        assert!(text.contains(&format!("cd {name}\n")) && text.contains("-target bpf"), "{text}");
        let source = folder.read(&format!("{name}/{name}.bpf.c"));
        assert!(source.contains(&format!("{name}_ops")) && !source.contains("NAME"), "{source}");
        let mut headers: Vec<String> = std::fs::read_dir(folder.path().join(name).join("include"))
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        headers.sort();
        assert_eq!(headers, ["compat.h", "dsq.h", "kernel.h"]);
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
