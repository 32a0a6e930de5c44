//! What a user, or the dump of a running scheduler, writes into an object with variables of every kind. Each setting is
//! refused in words that name it, or is taken whole by the loading of the object.

use schedlab_base::Machine;
use schedlab_bpf::object::Object;
use schedlab_bpf::settings::changes;
use schedlab_lab::scheduler::state;
use schedlab_scx::{BpfScheduler, LoadErrorKind, LoadOptions};

/// `tests/objects/settable.bpf.c`.
const SETTABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/settable.bpf.o"));

thread_local! {
    static OBJECT: Object = Object::parse("settable", SETTABLE).expect("our own object");
}

/// Most settings of one input: loading is slow.
const MOST: usize = 20;

/// Settings as on a command line, one a line: `PATH=VALUE`.
pub(crate) fn lines(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    given(pairs.map(|(path, value)| (path.to_string(), value.to_string())));
}

/// A dump of variables as JSON.
pub(crate) fn dump(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let settings = OBJECT.with(|object| state::of_dump(text, object));
    if let Ok(settings) = settings {
        given(settings);
    }
}

/// Has the object's types decide about each, and loads it with those that they take.
fn given(settings: impl IntoIterator<Item = (String, String)>) {
    let taken = |(path, value): &(String, String)| match OBJECT.with(|object| changes(object, path, value)) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind, LoadErrorKind::Setting, "{path}={value}: {error}");
            let text = error.in_file("settable").to_string();
            assert!(text.starts_with("settable: "), "{text}");
            false
        }
    };
    let settings: Vec<_> = settings.into_iter().take(MOST).filter(taken).collect();
    if settings.is_empty() {
        return;
    }
    let options = LoadOptions { settings, ..LoadOptions::default() };
    if let Err(error) = BpfScheduler::load("settable", SETTABLE, &options, &Machine::uniform("fuzz", 2)) {
        let text = error.to_string();
        assert!(text.starts_with("settable: "), "{text}");
    }
}
