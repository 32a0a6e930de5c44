//! Random bytes as an object file: parsed and, if that works, linked against an empty kernel. Each input gives an error
//! that names the file or an image; it never panics, hangs or allocates without bound.
//!
//! Start it with real objects: `cargo +nightly fuzz run object -- CORPUS schedulers/build`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_bpf::Memory;
use schedlab_bpf::link::{KernelModel, Settings, link};
use schedlab_bpf::object::Object;

fuzz_target!(|input: &[u8]| {
    let Ok(object) = Object::parse("input", input) else { return };
    let kernel = KernelModel { btf: object.btf().clone(), nr_cpus: 2, ..KernelModel::default() };
    let mut mem = Memory::new().expect("8 GiB of address space");
    if let Err(error) = link(&object, &kernel, &Settings::new(), &mut mem) {
        assert!(error.to_string().starts_with("input: "), "{error}");
    }
});
