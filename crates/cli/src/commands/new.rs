//! `new`: a folder with a scheduler that compiles, is simulated and loads, for its author to go on from.

use crate::args::{NewArgs, Template};
use crate::compiler;
use crate::failure::Failure;
use crate::output;
use crate::scheduler::is_shipped;
use crate::shipped::HEADERS;
use crate::target::{Target, unwritten};
use std::fs::create_dir;
use std::path::Path;

/// Longest name: with `_ops` it fits the kernel's `ops.name` of 127 characters.
const LONGEST: usize = 64;

/// What stands in templates for the scheduler's name.
const NAME: &str = "NAME";

/// What makes the object, and asks what it needs. `CLANG=` takes another compiler.
const MAKEFILE: &str = "\
CLANG ?= {clang}

NAME.bpf.o: NAME.bpf.c $(wildcard include/*.h)
\t$(CLANG) {flags} -Wall -I include -c $< -o $@

check: NAME.bpf.o
\tschedlab check $<

clean:
\trm -f NAME.bpf.o

.PHONY: check clean
";

impl Template {
    /// Its source, with [`NAME`] in place of the scheduler's.
    fn source(self) -> &'static str {
        match self {
            Template::Vtime => include_str!("../../../../schedulers/templates/vtime.c"),
            Template::Fifo => include_str!("../../../../schedulers/templates/fifo.c"),
        }
    }
}

/// Makes the folder and says what comes next.
pub(crate) fn new(args: &NewArgs, quiet: bool) -> Result<(), Failure> {
    let name = named(&args.name)?;
    let folder = Path::new(name);
    let headers = folder.join("include");
    for made in [folder, &headers] {
        create_dir(made).map_err(|error| unwritten(&format!("new {name}"), "folder", &error))?;
    }
    let clang = compiler::found().unwrap_or_else(|| "clang".to_string());
    let makefile =
        MAKEFILE.replace(NAME, name).replace("{clang}", &clang).replace("{flags}", compiler::FLAGS);
    let source = format!("{name}.bpf.c");
    let own = [(source.as_str(), args.from.source().replace(NAME, name)), ("Makefile", makefile)];
    for (file, text) in own {
        Target::new("new", &folder.join(file))?.write(&text)?;
    }
    for (file, text) in HEADERS {
        Target::new("new", &headers.join(file))?.write(text)?;
    }
    let advice = compiler::advice(&source, Some(Path::new("include")));
    let next = if quiet { String::new() } else { next(name, &advice) };
    output::print_exact(&next)
}

/// What an author does next.
fn next(name: &str, advice: &str) -> String {
    format!(
        "{name}/{name}.bpf.c is a scheduler; {name}/include has what it may use of the kernel. Next:\n\n  \
         cd {name}\n  {advice}\n  \
         schedlab check {name}.bpf.o\n  \
         schedlab sim -s {name}.bpf.o -w cpuhog:ntasks=3,nice=0/5 -c 2 -v\n  \
         schedlab compare -s eevdf,{name}.bpf.o -w chat -c 4\n  \
         schedlab check --vm {name}.bpf.o\n"
    )
}

/// The name, if it can be one of a C function, a file and a scheduler.
fn named(name: &str) -> Result<&str, Failure> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let refuse = |why: &str| Failure::usage(format!("new {name}: {why}"));
    if name.is_empty()
        || name.len() > LONGEST
        || !name.chars().all(fits)
        || name.starts_with(|c: char| c.is_ascii_digit())
    {
        let why =
            format!("a name has at most {LONGEST} small letters, digits and _, and begins with no digit");
        return Err(refuse(&why));
    }
    if is_shipped(name) {
        return Err(refuse("a shipped scheduler is called so; choose another name"));
    }
    Ok(name)
}
