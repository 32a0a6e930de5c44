//! Calls of methods between the rooms of the simulator. A room below calls none of a room above it, but for those listed here.
//!
//! `Sim` and `Kernel` have methods in all rooms, so the paths after `crate::` do not show these calls. Here each call is
//! looked up by type and name. The type of a receiver is known by its name: `self`, `sim`, `k` and `kernel`, and the last part of
//! `self.k`.

use super::{SIM_ROOMS, is_test_file, report, rust_files, shown};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use syn::visit::{self, Visit};

/// The types whose methods are in several rooms.
const SPREAD: &[&str] = &["Sim", "Kernel"];

/// Calls upward that there are all the same: the file that calls, and the method. The list may only shrink.
const UPWARD: &[(&str, &str)] = &[
    // A run queue settles its servers; a callback may be paused in the middle.
    ("state/rq.rs", "server_update"),
    ("state/sim.rs", "let_others_run"),
    // Classes' timers interrupt their CPU, and what a class moves to another CPU arrives there as any task does.
    ("class/deadline.rs", "arrive"),
    ("class/deadline.rs", "deactivate"),
    ("class/deadline.rs", "interrupt"),
    ("class/deadline.rs", "run_sleepers"),
    ("class/ext/life.rs", "change"),
    ("class/ext/life.rs", "exit_groups"),
    ("class/ext/life.rs", "init_groups"),
    ("class/ext/life.rs", "schedule"),
    ("class/fair/balance.rs", "pull"),
    ("class/fair/balance.rs", "wakeup_preempt"),
    ("class/fair/bandwidth.rs", "interrupt"),
    ("class/fair/bandwidth.rs", "run_sleepers"),
    ("class/fair/hrtick.rs", "interrupt"),
    ("class/fair/hrtick.rs", "run_sleepers"),
    ("class/fair/hrtick.rs", "tick_of_class"),
    ("class/rt.rs", "arrive"),
    ("class/rt.rs", "deactivate"),
    ("class/rt.rs", "interrupt"),
    ("class/rt.rs", "run_sleepers"),
    ("class/server.rs", "interrupt"),
    ("class/server.rs", "run_sleepers"),
    // The same kernel function acts on the tasks that the lane has.
    ("class/ext/cursor.rs", "lane_cursor_move"),
    ("class/ext/idle.rs", "lane_task_cpu"),
    // Timers of programs interrupt their CPU.
    ("exec/sleepers.rs", "interrupt"),
    // The lane leaves events, and what follows an event, to the general core.
    ("lane/events.rs", "take"),
    ("lane/mod.rs", "take_in_general"),
    ("lane/program.rs", "run_current"),
    ("lane/schedule.rs", "run_current"),
];

/// A file's methods of those types and its calls of such, as type and name.
#[derive(Default)]
struct Calls {
    /// The type whose `impl` the visitor is in.
    own: String,
    defined: BTreeSet<(String, String)>,
    called: BTreeSet<(String, String)>,
}

impl Calls {
    /// The type of a receiver, if it is one of those.
    fn type_of(&self, receiver: &syn::Expr) -> Option<String> {
        let name = match receiver {
            syn::Expr::Path(path) => path.path.get_ident()?.to_string(),
            syn::Expr::Field(syn::ExprField { member: syn::Member::Named(name), .. }) => name.to_string(),
            _ => return None,
        };
        match name.as_str() {
            "self" => Some(self.own.clone()),
            "sim" => Some("Sim".into()),
            "k" | "kernel" => Some("Kernel".into()),
            _ => None,
        }
    }
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        let before = std::mem::replace(&mut self.own, name.unwrap_or_default());
        visit::visit_item_impl(self, item);
        self.own = before;
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.defined.insert((self.own.clone(), function.sig.ident.to_string()));
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if let Some(of) = self.type_of(&call.receiver) {
            self.called.insert((of, call.method.to_string()));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().rev().map(|part| part.ident.to_string()).collect();
        if let [name, of, ..] = &parts[..] {
            let of = if of == "Self" { &self.own } else { of };
            self.called.insert((of.clone(), name.clone()));
        }
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {
        // Tests may use what they like.
    }
}

/// Calls upward in some files: the file that calls, the method, and the file that has it.
fn upward(files: &[(String, String)]) -> Vec<(String, String, String)> {
    let read = |(file, text): &(String, String)| {
        let mut calls = Calls::default();
        calls.visit_file(&syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}")));
        (file.clone(), calls)
    };
    let read: Vec<(String, Calls)> = files.iter().map(read).collect();
    let rank = |file: &str| {
        let room = file.split('/').next().unwrap_or_default();
        SIM_ROOMS.iter().position(|other| *other == room)
    };
    let mut places = BTreeMap::new();
    for (file, calls) in &read {
        for method in calls.defined.iter().filter(|(of, _)| SPREAD.contains(&of.as_str())) {
            let other = places.insert(method, file.clone());
            assert!(other.is_none(), "{method:?} is in {file} and {other:?}");
        }
    }
    let mut found = Vec::new();
    for (file, calls) in &read {
        for method in &calls.called {
            if let Some(place) = places.get(method).filter(|place| rank(place) > rank(file)) {
                found.push((file.clone(), method.1.clone(), place.clone()));
            }
        }
    }
    found
}

#[test]
fn methods_of_the_simulator_are_called_from_above() {
    let files = rust_files("crates/sim/src").into_iter().filter(|path| !is_test_file(path));
    let files = files.map(|path| {
        let name = shown(&path).trim_start_matches("crates/sim/src/").to_string();
        (name, fs::read_to_string(path).unwrap())
    });
    // A file of no room is not judged: the crate's own and the flags.
    let files: Vec<(String, String)> = files.filter(|(name, _)| name.contains('/')).collect();
    let found = upward(&files);
    let mut findings = Vec::new();
    for (file, method, place) in &found {
        if !UPWARD.contains(&(file, method)) {
            findings.push(format!("crates/sim/src/{file}: calls {method}() of {place}, which is above"));
        }
    }
    for listed in UPWARD {
        if !found.iter().any(|(file, method, _)| (&**file, &**method) == *listed) {
            findings.push(format!("{listed:?} is no call upward any more: take it off the list"));
        }
    }
    report(findings);
}

#[test]
fn calls_upward_are_found_in_all_their_forms() {
    let file = |name: &str, text: &str| (name.to_string(), text.to_string());
    let high = "impl<S: T> Sim<S> { fn a(&mut self) {} fn b(&mut self) {} } impl crate::Kernel { fn c(&self) {} fn d(&self) {} }";
    let low = "impl<S: T> Sim<S> { fn e(&mut self) { self.a(); self.k.c(); self.e(); f(|sim| sim.a()); f(Sim::b); } } \
               fn g(k: &mut Kernel, other: &Other) { k.d(); other.a(); }";
    let found = upward(&[file("run/x.rs", high), file("state/y.rs", low)]);
    let names: Vec<&str> = found.iter().map(|(_, method, _)| method.as_str()).collect();
    assert_eq!(names, ["c", "d", "a", "b"]);
    let (file, _, place) = &found[0];
    assert_eq!((file.as_str(), place.as_str()), ("state/y.rs", "run/x.rs"));
    assert!(upward(&[("event/x.rs".into(), high.into()), ("state/y.rs".into(), low.into())]).is_empty());
}
