//! Damaged and foreign files: every one gives an error or an image, none a panic, a hang or a huge allocation.

use schedlab_bpf::Memory;
use schedlab_bpf::error::LoadErrorKind;
use schedlab_bpf::link::{KernelModel, Settings, link};
use schedlab_bpf::object::Object;

/// A linear congruential generator (Knuth's MMIX constants): the same mutants in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }
}

/// Parses and, if that works, links; counts what was accepted.
fn try_all(bytes: &[u8], kernel: &KernelModel) -> bool {
    let Ok(object) = Object::parse("damaged.bpf.o", bytes) else { return false };
    let _ = (object.license(), object.warnings());
    let mut mem = Memory::new().expect("memory");
    match link(&object, kernel, &Settings::new(), &mut mem) {
        Ok(image) => {
            for name in image.variables.keys() {
                let _ = image.read_variable(name, &mem);
            }
            true
        }
        Err(error) => {
            assert!(error.to_string().starts_with("damaged.bpf.o: "), "{error}");
            assert!(!error.cure.is_empty() && !error.place.is_empty(), "{error:?}");
            false
        }
    }
}

#[test]
fn an_object_cut_off_anywhere_is_an_error() {
    let Some(bytes) = crate::built::compile("core") else { return };
    for len in 0..bytes.len() {
        let error = Object::parse("cut.bpf.o", &bytes[..len]).expect_err("cut off");
        assert!(
            matches!(error.kind, LoadErrorKind::NotAnObject | LoadErrorKind::Malformed),
            "{len}: {error}"
        );
    }
}

#[test]
fn mutated_objects_never_panic() {
    let kernel = crate::built::kernel();
    let mut random = Random(7);
    let mut accepted = 0;
    for name in ["core", "links", "maps"] {
        let Some(bytes) = crate::built::compile(name) else { return };
        for _ in 0..400 {
            let mut mutant = bytes.clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(mutant.len());
                match random.below(4) {
                    0 => mutant[at] ^= 1 << random.below(8),
                    1 => mutant[at] = random.below(256) as u8,
                    2 => mutant[at] = 0xff,
                    _ => {
                        let from = random.below(mutant.len());
                        let len = (1 + random.below(16)).min(mutant.len() - from.max(at));
                        mutant.copy_within(from..from + len, at);
                    }
                }
            }
            accepted += u32::from(try_all(&mutant, &kernel));
        }
    }
    assert!(accepted > 100, "most small changes leave a usable file: {accepted}");
}

#[test]
fn changes_in_every_byte_of_the_types_never_panic() {
    let kernel = crate::built::kernel();
    let Some(bytes) = crate::built::compile("core") else { return };
    let magic = [0x9f, 0xeb, 1, 0];
    let start = bytes.windows(4).position(|w| w == magic).expect("a .BTF section");
    for at in (start..bytes.len().min(start + 3000)).step_by(3) {
        let mut mutant = bytes.clone();
        mutant[at] ^= 0x81;
        try_all(&mutant, &kernel);
    }
}

#[test]
fn other_files_are_told_from_objects() {
    let refused = |bytes: &[u8]| {
        let error = Object::parse("x", bytes).expect_err("no object");
        assert_eq!(error.kind, LoadErrorKind::NotAnObject, "{error}");
        error.to_string()
    };
    assert!(refused(b"").contains("empty"));
    assert!(refused(b"#!/bin/sh\necho hello\n").contains("not an ELF file"));
    let mut elf = vec![0u8; 64];
    elf[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    elf[16] = 1;
    elf[18] = 62;
    elf[20] = 1;
    elf[52] = 64;
    assert!(refused(&elf).contains("machine number 62"));
    elf[18] = 247;
    elf[16] = 2;
    assert!(refused(&elf).contains("ET_REL"));
    elf[5] = 2;
    assert!(refused(&elf).contains("big-endian"));
    elf[4] = 1;
    assert!(refused(&elf).contains("64-bit"));
}
