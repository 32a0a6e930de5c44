//! Bytes as an object file, or a program that carries one: parsed and, if that works, linked against an empty kernel and loaded as a scheduler. Each
//! input gives an error that names the file, or an image.

use schedlab_base::Machine;
use schedlab_bpf::Memory;
use schedlab_bpf::link::{KernelModel, Settings, link};
use schedlab_bpf::object::{Object, is_executable, scheduler_within};
use schedlab_scx::{BpfScheduler, LoadOptions};

/// Runs an input.
///
/// # Panics
/// When an error does not name the file.
pub fn run(input: &[u8]) {
    if is_executable(input) {
        // What it carries is a part of it.
        if let Ok(part) = scheduler_within(input, None) {
            assert!(input.as_ptr_range().contains(&part.as_ptr()) && part.len() <= input.len());
        }
    }
    let Ok(object) = Object::parse("input", input) else { return };
    let _ = (object.license(), object.warnings());
    let kernel = KernelModel { btf: object.btf().clone().into(), nr_cpus: 2, ..KernelModel::default() };
    let mut mem = Memory::new().expect("8 GiB of address space");
    match link(&object, &kernel, &Settings::new(), &mut mem) {
        Ok(image) => {
            for name in image.variables.keys() {
                let _ = image.read_variable(name, &mem);
            }
        }
        Err(error) => assert!(error.to_string().starts_with("input: "), "{error}"),
    }
    drop(mem);
    if let Err(error) =
        BpfScheduler::load("input", input, &LoadOptions::default(), &Machine::uniform("fuzz", 2))
    {
        assert!(error.to_string().starts_with("input: "), "{error}");
    }
}
