//! BTF to bytes: what [`Btf::parse`] reads back, and what a kernel or libbpf accepts.

use super::*;

impl Btf {
    /// The types in the binary format, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut types = Vec::new();
        for (_, ty) in self.iter().skip(1) {
            write_type(ty, &mut types);
        }
        debug_assert!(types.len().is_multiple_of(4), "types are written in words");
        let mut out = Vec::with_capacity(24 + types.len() + self.strings.len());
        out.extend_from_slice(&[0x9f, 0xeb, 1, 0]);
        let lengths = [24, 0, types.len() as u32, types.len() as u32, self.strings.len() as u32];
        put(&mut out, &lengths);
        out.extend_from_slice(&types);
        out.extend_from_slice(&self.strings);
        out
    }
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

fn linkage(l: Linkage) -> u32 {
    match l {
        Linkage::Static => 0,
        Linkage::Global => 1,
        Linkage::Extern => 2,
    }
}

/// Kind number, count and flag, third word, and what follows the three words.
fn write_type(ty: &Type, out: &mut Vec<u8>) {
    let mut tail = Vec::new();
    let (kind, count, flag, third) = match &ty.kind {
        Kind::Void => return,
        Kind::Int(i) => {
            let encoding = u32::from(i.signed) | u32::from(i.is_char) << 1 | u32::from(i.is_bool) << 2;
            put(&mut tail, &[encoding << 24 | u32::from(i.offset) << 16 | u32::from(i.bits)]);
            (1, 0, false, i.size)
        }
        Kind::Ptr(t) => (2, 0, false, t.0),
        Kind::Array(a) => {
            put(&mut tail, &[a.elem.0, a.index.0, a.count]);
            (3, 0, false, 0)
        }
        Kind::Struct(c) => (4, c.members.len(), write_members(c, &mut tail), c.size),
        Kind::Union(c) => (5, c.members.len(), write_members(c, &mut tail), c.size),
        Kind::Enum(e) => (6, e.values.len(), write_enum(e, false, &mut tail), e.size),
        Kind::Fwd(union) => (7, 0, *union, 0),
        Kind::Typedef(t) => (8, 0, false, t.0),
        Kind::Volatile(t) => (9, 0, false, t.0),
        Kind::Const(t) => (10, 0, false, t.0),
        Kind::Restrict(t) => (11, 0, false, t.0),
        Kind::Func(t, l) => (12, linkage(*l) as usize, false, t.0),
        Kind::FuncProto(p) => {
            for param in &p.params {
                put(&mut tail, &[param.name, param.ty.0]);
            }
            (13, p.params.len(), false, p.ret.0)
        }
        Kind::Var(t, l) => {
            put(&mut tail, &[linkage(*l)]);
            (14, 0, false, t.0)
        }
        Kind::Datasec(d) => {
            for var in &d.vars {
                put(&mut tail, &[var.ty.0, var.offset, var.size]);
            }
            (15, d.vars.len(), false, d.size)
        }
        Kind::Float(size) => (16, 0, false, *size),
        Kind::DeclTag(t, component) => {
            put(&mut tail, &[*component as u32]);
            (17, 0, false, t.0)
        }
        Kind::TypeTag(t) => (18, 0, false, t.0),
        Kind::Enum64(e) => (19, e.values.len(), write_enum(e, true, &mut tail), e.size),
    };
    debug_assert!(count <= usize::from(u16::MAX) && kind < 32, "kind and count have their bits");
    put(out, &[ty.name, u32::from(flag) << 31 | kind << 24 | count as u32, third]);
    out.extend_from_slice(&tail);
}

/// Returns the flag: offsets carry bit-field widths.
fn write_members(c: &Composite, out: &mut Vec<u8>) -> bool {
    let flag = c.members.iter().any(|m| m.bitfield != 0);
    for m in &c.members {
        let word = if flag { u32::from(m.bitfield) << 24 | m.bit_offset } else { m.bit_offset };
        put(out, &[m.name, m.ty.0, word]);
    }
    flag
}

/// Returns the flag: values are signed.
fn write_enum(e: &Enum, wide: bool, out: &mut Vec<u8>) -> bool {
    for v in &e.values {
        put(out, &[v.name, v.value as u32]);
        if wide {
            put(out, &[(v.value >> 32) as u32]);
        }
    }
    e.signed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_a_round_trip() {
        let mut b = BtfBuilder::new();
        let int = b.int("int", 4, true);
        let flag = b.boolean();
        let task = b.declare("task_struct");
        let ptr = b.ptr(task);
        let tagged = b.type_tag("rcu", task);
        let fixed = b.constant(tagged);
        let bits = MemberSpec { name: "bits", ty: int, bit_offset: 64, bitfield: 3 };
        b.define(task, 16, &[MemberSpec::at("next", ptr, 0), bits]);
        b.union("u", 8, &[MemberSpec::at("a", fixed, 0)]);
        b.enumeration("e", true, &[("MINUS", -1), ("ONE", 1)]);
        b.enumeration64("e64", false, &[("BIG", 1 << 40)]);
        let proto = b.proto(flag, &[("p", ptr), ("n", int)]);
        let func = b.func("kfunc", proto);
        b.decl_tag("bpf_kfunc", func);
        b.var("jiffies", int);
        let btf = b.finish();
        let again = Btf::parse(&btf.to_bytes()).expect("our own bytes");
        assert_eq!(again.types, btf.types);
        assert_eq!(again.enum_value("BIG"), Some(1 << 40));
        assert_eq!(again.enum_value("MINUS"), Some(u64::MAX));
        assert_eq!(again.find_struct("task_struct"), Some(task));
        assert_eq!(again.spell(ptr), "struct task_struct *");
    }

    #[test]
    fn a_truncated_btf_is_an_error_at_every_length() {
        let mut b = BtfBuilder::new();
        let int = b.int("int", 4, true);
        b.structure("s", 4, &[MemberSpec::at("m", int, 0)]);
        let bytes = b.finish().to_bytes();
        for len in 0..bytes.len() {
            assert!(Btf::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
}
