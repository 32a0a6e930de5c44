//! `new`: a folder with a scheduler that compiles, is simulated and loads, for its author to go on from.

use crate::args::{NewArgs, Template};
use crate::output;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::{Target, unwritten};
use schedlab_lab::scheduler::compiler;
use schedlab_lab::scheduler::is_shipped;
use schedlab_lab::shipped::{self, LAYERED, LAYERED_SWAP, SCX_HEADERS};
use schedlab_live::kernel_image::LIBBPF_HEADERS;
use schedlab_scx::kernel_header;
use std::fs::{create_dir, create_dir_all};
use std::path::Path;

/// Longest name: with `_ops` it fits the kernel's `ops.name` of 127 characters.
const LONGEST: usize = 64;

/// What stands in templates for the scheduler's name.
const NAME: &str = "NAME";

/// What makes the object, and asks what it needs. `CLANG=` takes another compiler.
const MAKEFILE: &str = "\
CLANG ?= {clang}

NAME.bpf.o: NAME.bpf.c $(wildcard *.h include/*.h include/*/*.h)
\t$(CLANG) {flags} -Wall {arguments} -c $< -o $@

check: NAME.bpf.o
\tschedlab check $<

clean:
\trm -f NAME.bpf.o

.PHONY: check clean
";

/// The source among the files of [`LAYERED`], and how it closes.
const LAYERED_SOURCE: &str = "o1.bpf.c";
const LAYERED_CLOSE: &str = "SCHED_OPS(o1);";

impl Template {
    /// The files of a folder for the scheduler `name` but the Makefile: path and text.
    fn files(self, name: &str) -> Result<Vec<(String, String)>, Failure> {
        let copy =
            |files: &[(&str, &str)]| files.iter().map(|(place, text)| layered(name, place, text)).collect();
        match self {
            Template::Vtime => one_source(name, include_str!("../../../../schedulers/templates/vtime.c")),
            Template::Fifo => one_source(name, include_str!("../../../../schedulers/templates/fifo.c")),
            Template::Host => one_source(name, include_str!("../../../../schedulers/templates/host.c")),
            Template::Guest => one_source(name, include_str!("../../../../schedulers/templates/guest.c")),
            Template::O1 => Ok(copy(LAYERED)),
            Template::O1Swap => Ok(copy(LAYERED_SWAP)),
        }
    }

    /// What the compiler is called with besides the flags of every object: where headers are, from the scheduler's own folder.
    fn arguments(self) -> &'static str {
        match self {
            Template::Vtime | Template::Fifo | Template::Host | Template::Guest => "-I include",
            // The layers include the policy's policy.h.
            Template::O1 => "-I . -I include",
            Template::O1Swap => "-DSWAP -I . -I include",
        }
    }
}

/// A source in the dialect of the kernel's own examples, with the headers that it includes: the kernel's types, libbpf's, scx/.
fn one_source(name: &str, source: &str) -> Result<Vec<(String, String)>, Failure> {
    let version = shipped::machine(shipped::DEFAULT_MACHINE)?.machine.kernel.version;
    let own = (format!("{name}.bpf.c"), source.replace(NAME, name));
    let types = ("include/vmlinux.h".to_string(), kernel_header(version));
    let libbpf =
        LIBBPF_HEADERS.iter().map(|(file, text)| (format!("include/bpf/{file}"), (*text).to_string()));
    let scx = SCX_HEADERS.iter().map(|(file, text)| (format!("include/scx/{file}"), (*text).to_string()));
    Ok([own, types].into_iter().chain(libbpf).chain(scx).collect())
}

/// One file of a copy of o1, with its new name and close.
fn layered(name: &str, place: &str, text: &str) -> (String, String) {
    if place == LAYERED_SOURCE {
        (format!("{name}.bpf.c"), text.replace(LAYERED_CLOSE, &format!("SCHED_OPS({name});")))
    } else {
        (place.to_string(), text.to_string())
    }
}

/// Makes the folder and says what comes next.
pub(crate) fn new(args: &NewArgs, quiet: bool) -> Result<(), Failure> {
    let name = named(&args.name)?;
    let folder = Path::new(name);
    if folder.symlink_metadata().is_ok() {
        return Err(Failure::usage(format!("new {name}: there is a {name} already; choose another name")));
    }
    let unmade = |error| unwritten(&format!("new {name}"), "folder", &error);
    create_dir(folder).map_err(unmade)?;
    let arguments = args.from.arguments();
    let clang = schedlab_clang::found().unwrap_or_else(|| "clang".to_string());
    let makefile = MAKEFILE
        .replace(NAME, name)
        .replace("{clang}", &clang)
        .replace("{flags}", &schedlab_clang::FLAGS.join(" "))
        .replace("{arguments}", arguments);
    let makefile = ("Makefile".to_string(), makefile);
    for (file, text) in args.from.files(name)?.into_iter().chain([makefile]) {
        let path = folder.join(file);
        create_dir_all(path.parent().unwrap_or(folder)).map_err(unmade)?;
        Target::new("new", &path)?.write(&text)?;
    }
    let advice = compiler::advice_with(&format!("{name}.bpf.c"), &format!(" {arguments}"));
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
