//! What an object can call, from the tables of the simulator. It is given as the C that the driver is made of
//! (`driver/calls.h`), and as the kinds of argument that each call wants.

use schedlab_bpf::helpers::{self, GenericKfunc};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Something that an object can call.
#[derive(Debug, Clone)]
pub struct Call {
    /// The kernel's name.
    pub name: String,
    /// Its parameters as C, without those of helpers and generic functions, whose types the driver does
    /// not need.
    pub params: Vec<String>,
    /// Its result as C; nothing where the driver does not need it.
    pub result: String,
    /// The C of the call with arguments `a` to `e`.
    code: String,
    /// The C of its declaration.
    declaration: String,
}

/// Calls that a script can name, at most: codes from this one on are accesses (the driver's `WHAT_ACCESS`).
pub const MOST: u8 = 239;

/// All calls, in the order of their numbers in a script.
#[must_use]
pub fn all() -> Vec<Call> {
    let own = schedlab_scx::prototypes().map(typed);
    let generic = GenericKfunc::NAMES.iter().map(|name| Call {
        name: (*name).to_string(),
        params: Vec::new(),
        result: String::new(),
        code: format!("return {name}(a, b, c, d, e)"),
        declaration: format!("u64 {name}(u64 a, u64 b, u64 c, u64 d, u64 e) __ksym __weak;"),
    });
    let helper = |id: u32| Call {
        name: helpers::name(id),
        params: Vec::new(),
        result: String::new(),
        code: format!("return ((u64 (*)(u64, u64, u64, u64, u64)){id})(a, b, c, d, e)"),
        declaration: String::new(),
    };
    own.chain(generic).chain((0..256).filter(|id| helpers::is_implemented(*id)).map(helper)).collect()
}

/// A kernel function by its prototype.
fn typed(prototype: &str) -> Call {
    let (head, rest) = prototype.split_once('(').unwrap_or((prototype, ""));
    let params = rest.trim_end_matches([')', ';']);
    let params: Vec<String> =
        params.split(',').map(|param| param.trim().to_string()).filter(|param| param != "void").collect();
    let name = head.rsplit([' ', '*']).next().unwrap_or("").to_string();
    // The part of a C name behind the last `___` is not the kernel's.
    let symbol = if name.contains("___") { format!("{name}___x") } else { name.clone() };
    let args: Vec<String> = params
        .iter()
        .zip(["a", "b", "c", "d", "e"])
        .map(|(param, arg)| {
            format!("({}){arg}", param.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_'))
        })
        .collect();
    let call = format!("{symbol}({})", args.join(", "));
    let code = if head.starts_with("void ") && !head.contains('*') {
        format!("{call}; return 0")
    } else {
        format!("return (u64){call}")
    };
    let declaration =
        format!("{}{symbol}({rest}", head.strip_suffix(&name).unwrap_or("")).replace(';', " __ksym __weak;");
    let result = head.strip_suffix(&name).unwrap_or("").trim().to_string();
    Call { name, params, result, code, declaration }
}

/// The text of `driver/calls.h`.
#[must_use]
pub fn header() -> String {
    let calls = all();
    let mut types = BTreeSet::new();
    for call in &calls {
        let words: Vec<&str> = call.declaration.split([' ', '(', ',']).collect();
        types.extend(words.windows(2).filter(|pair| pair[0] == "struct").map(|pair| pair[1].to_string()));
    }
    let mut text = "/* SPDX-License-Identifier: GPL-2.0-only */\n\
        /* calls.h - every call that the simulator knows, by number; made by `SCHEDLAB_BLESS=1 cargo test -p schedlab-fuzz`. */\n"
        .to_string();
    for name in types {
        let _ = writeln!(text, "struct {name} {{}};");
    }
    for call in calls.iter().filter(|call| !call.declaration.is_empty()) {
        let _ = writeln!(text, "{}", call.declaration);
    }
    text.push_str(
        "\n/* A BPF function has five parameters at most, so this is part of its caller. */\n\
        static inline __attribute__((always_inline)) u64 call(u8 what, u64 a, u64 b, u64 c, u64 d, u64 e)\n{\n\tswitch (what) {\n",
    );
    for (number, call) in calls.iter().enumerate() {
        // A call that is reached needs the function, and the newest version lacks some.
        let symbol = call.declaration.split('(').next().and_then(|head| head.rsplit([' ', '*']).next());
        let guard = symbol.filter(|symbol| !symbol.is_empty());
        let guard = guard.map_or(String::new(), |symbol| format!("if (!{symbol}) return 0; "));
        let _ = writeln!(text, "\tcase {number}: {guard}{};", call.code);
    }
    text.push_str("\tdefault: return 0;\n\t}\n}\n");
    text
}
