//! Reads type declarations in a small subset of C and builds them with natural C layout.
//!
//! The simulated kernel's types are written down as text (`types.rs`, `enums.rs`, and a prototype for each kernel
//! function beside its implementation), because that is how people know them. This reader turns the text into BTF.
//! It accepts `struct`, `union`, `enum`, `typedef` and function prototypes; members may be arrays, pointers, function
//! pointers, bit fields and unnamed structs or unions. The text is ours, so a mistake in it is a broken invariant:
//! the reader panics and names the place; tests read all of it.

use schedlab_bpf::btf::{BtfBuilder, MemberSpec, TypeId, VOID};
use std::collections::BTreeMap;

/// A type and how it is laid out.
#[derive(Clone, Copy, Debug)]
struct Sized {
    id: TypeId,
    /// Bytes; 0 for types without a size (void, functions, structs that are only declared).
    size: u32,
    align: u32,
}

/// A member in the making.
struct Field<'t> {
    name: &'t str,
    ty: Sized,
    bits: Option<u8>,
}

/// The reader: what it has built so far, by name.
pub(crate) struct Reader<'t> {
    builder: BtfBuilder,
    /// Tagged types by `struct`, `union` or `enum` and their tag; typedefs and base types by nothing and their name.
    known: BTreeMap<(&'t str, &'t str), Sized>,
    pointers: BTreeMap<u32, TypeId>,
}

const BASE_TYPES: [(&str, u32, bool); 10] = [
    ("char", 1, true),
    ("unsigned char", 1, false),
    ("short int", 2, true),
    ("short unsigned int", 2, false),
    ("int", 4, true),
    ("unsigned int", 4, false),
    ("long int", 8, true),
    ("long unsigned int", 8, false),
    ("long long int", 8, true),
    ("long long unsigned int", 8, false),
];

/// How text spells the base types: the words before a name, joined.
const SPELLINGS: [(&str, &str); 7] = [
    ("unsigned", "unsigned int"),
    ("unsigned short", "short unsigned int"),
    ("short", "short int"),
    ("unsigned long", "long unsigned int"),
    ("long", "long int"),
    ("long long", "long long int"),
    ("unsigned long long", "long long unsigned int"),
];

impl<'t> Reader<'t> {
    /// A reader that knows the base types.
    pub(crate) fn new() -> Reader<'t> {
        let mut reader =
            Reader { builder: BtfBuilder::new(), known: BTreeMap::new(), pointers: BTreeMap::new() };
        for (name, size, signed) in BASE_TYPES {
            let id = reader.builder.int(name, size, signed);
            reader.known.insert(("", name), Sized { id, size, align: size });
        }
        let id = reader.builder.boolean();
        reader.known.insert(("", "_Bool"), Sized { id, size: 1, align: 1 });
        reader.known.insert(("", "void"), Sized { id: VOID, size: 0, align: 1 });
        for (spelled, name) in SPELLINGS {
            reader.known.insert(("", spelled), reader.known[&("", name)]);
        }
        reader
    }

    /// Reads declarations; later texts may use the types of earlier ones.
    pub(crate) fn read(&mut self, text: &'t str) {
        let mut tokens = Tokens::new(text);
        while !tokens.at_end() {
            self.item(&mut tokens);
        }
    }

    /// Adds a variable by its declaration, which is of a known type.
    pub(crate) fn variable(&mut self, declaration: &'t str) {
        let mut tokens = Tokens::new(declaration);
        let base = self.type_name(&mut tokens);
        let (name, ty) = self.declarator(&mut tokens, base);
        self.builder.var(name, ty.id);
    }

    /// The finished types.
    pub(crate) fn into_builder(self) -> BtfBuilder {
        self.builder
    }

    fn item(&mut self, tokens: &mut Tokens<'t>) {
        if tokens.take("typedef") {
            let base = self.type_name(tokens);
            let (name, ty) = self.declarator(tokens, base);
            let id = self.builder.typedef(name, ty.id);
            self.known.insert(("", name), Sized { id, ..ty });
            return tokens.expect(";");
        }
        let ty = self.type_name(tokens);
        if tokens.take(";") {
            return;
        }
        let (name, function) = self.declarator(tokens, ty);
        self.builder.func(name, function.id);
        tokens.expect(";");
    }

    /// A type without its declarator; defines a struct, union or enum whose body follows.
    fn type_name(&mut self, tokens: &mut Tokens<'t>) -> Sized {
        let is_const = tokens.take("const");
        let kind = tokens.peek();
        let ty = match kind {
            "struct" | "union" | "enum" => {
                tokens.next();
                let tag = if tokens.peek() == "{" { "" } else { tokens.next() };
                if tokens.take("{") { self.body(tokens, kind, tag) } else { self.tagged(kind, tag) }
            }
            _ => self.plain(tokens),
        };
        if !is_const {
            return ty;
        }
        Sized { id: self.builder.constant(ty.id), ..ty }
    }

    fn plain(&mut self, tokens: &mut Tokens<'t>) -> Sized {
        let from = tokens.at;
        let mut words = tokens.next();
        while matches!(tokens.peek(), "long" | "short" | "int" | "char") {
            tokens.next();
            words = tokens.text[from..tokens.at].trim_end();
        }
        *self.known.get(&("", words)).unwrap_or_else(|| panic!("{}: unknown type `{words}`", tokens.place()))
    }

    /// A type that is only named: the definition, or a declaration to be defined later.
    fn tagged(&mut self, kind: &'t str, tag: &'t str) -> Sized {
        if let Some(ty) = self.known.get(&(kind, tag)) {
            return *ty;
        }
        assert_eq!(kind, "struct", "`{kind} {tag}` is used before its definition");
        let ty = Sized { id: self.builder.declare(tag), size: 0, align: 1 };
        self.known.insert((kind, tag), ty);
        ty
    }

    fn body(&mut self, tokens: &mut Tokens<'t>, kind: &'t str, tag: &'t str) -> Sized {
        let ty = if kind == "enum" {
            self.enumeration(tokens, tag)
        } else {
            let fields = self.fields(tokens);
            let (specs, size, align) = lay_out(&fields, kind == "union");
            let declared = self.known.get(&(kind, tag)).copied().filter(|_| !tag.is_empty());
            let id = match declared {
                Some(declared) => {
                    self.builder.define(declared.id, size, &specs);
                    declared.id
                }
                None if kind == "union" => self.builder.union(tag, size, &specs),
                None => self.builder.structure(tag, size, &specs),
            };
            Sized { id, size, align }
        };
        if !tag.is_empty() {
            self.known.insert((kind, tag), ty);
        }
        ty
    }

    fn fields(&mut self, tokens: &mut Tokens<'t>) -> Vec<Field<'t>> {
        let mut fields = Vec::new();
        while !tokens.take("}") {
            let base = self.type_name(tokens);
            if tokens.take(";") {
                fields.push(Field { name: "", ty: base, bits: None });
                continue;
            }
            let (name, ty) = self.declarator(tokens, base);
            let bits = tokens.take(":").then(|| tokens.number() as u8);
            tokens.expect(";");
            fields.push(Field { name, ty, bits });
        }
        fields
    }

    fn enumeration(&mut self, tokens: &mut Tokens<'t>, tag: &str) -> Sized {
        let mut values = Vec::new();
        while !tokens.take("}") {
            let name = tokens.next();
            tokens.expect("=");
            values.push((name, tokens.number()));
            tokens.take(",");
        }
        let signed = values.iter().any(|(_, value)| *value < 0);
        // A value above 32 bits needs the wide form; the numbers are written as bit patterns, so -1 >> 32 is -1.
        let wide = values.iter().any(|(_, value)| *value > i128::from(u32::MAX));
        let signed = signed && !wide;
        let values: Vec<(&str, i64)> = values.iter().map(|(name, value)| (*name, *value as i64)).collect();
        let (id, size) = match wide {
            true => (self.builder.enumeration64(tag, signed, &values), 8),
            false => (self.builder.enumeration(tag, signed, &values), 4),
        };
        Sized { id, size, align: size }
    }

    /// Pointers, name, arrays or parameters around a base type.
    fn declarator(&mut self, tokens: &mut Tokens<'t>, base: Sized) -> (&'t str, Sized) {
        let mut ty = base;
        while tokens.take("*") {
            ty = self.pointer_to(ty);
        }
        if tokens.take("(") {
            tokens.expect("*");
            let name = tokens.next();
            tokens.expect(")");
            let function = self.parameters(tokens, ty);
            return (name, self.pointer_to(function));
        }
        let name = match tokens.peek() {
            "," | ")" => "",
            _ => tokens.next(),
        };
        if tokens.peek() == "(" {
            return (name, self.parameters(tokens, ty));
        }
        let mut counts = Vec::new();
        while tokens.take("[") {
            counts.push(tokens.number() as u32);
            tokens.expect("]");
        }
        for count in counts.into_iter().rev() {
            ty = Sized { id: self.builder.array(ty.id, count), size: ty.size * count, ..ty };
        }
        (name, ty)
    }

    fn parameters(&mut self, tokens: &mut Tokens<'t>, ret: Sized) -> Sized {
        tokens.expect("(");
        let mut params = Vec::new();
        while !tokens.take(")") {
            if tokens.peek() == "void" && tokens.peek_second() == ")" {
                tokens.next();
                continue;
            }
            let base = self.type_name(tokens);
            let (name, ty) = self.declarator(tokens, base);
            params.push((name, ty.id));
            tokens.take(",");
        }
        Sized { id: self.builder.proto(ret.id, &params), size: 0, align: 1 }
    }

    fn pointer_to(&mut self, to: Sized) -> Sized {
        let builder = &mut self.builder;
        let id = *self.pointers.entry(to.id.0).or_insert_with(|| builder.ptr(to.id));
        Sized { id, size: 8, align: 8 }
    }
}

/// Natural C layout on a 64-bit little-endian machine: members, size and alignment.
fn lay_out<'t>(fields: &[Field<'t>], union: bool) -> (Vec<MemberSpec<'t>>, u32, u32) {
    let (mut specs, mut bits, mut size, mut align) = (Vec::new(), 0u32, 0u32, 1u32);
    for field in fields {
        let (own, own_align) = (field.ty.size * 8, field.ty.align * 8);
        align = align.max(field.ty.align);
        if union {
            bits = 0;
        }
        match field.bits {
            // A bit field that would cross a unit of its type starts the next one.
            Some(width) if bits % own + u32::from(width) > own => bits = bits.next_multiple_of(own),
            Some(_) => {}
            None => bits = bits.next_multiple_of(own_align),
        }
        let bitfield = field.bits.unwrap_or(0);
        specs.push(MemberSpec { name: field.name, ty: field.ty.id, bit_offset: bits, bitfield });
        bits += if field.bits.is_some() { u32::from(bitfield) } else { own };
        size = size.max(bits.div_ceil(8));
    }
    (specs, size.next_multiple_of(align), align)
}

/// The words and signs of a text, each looked for once.
struct Tokens<'a> {
    text: &'a str,
    /// Where the next token begins, and its length: 0 at the end.
    at: usize,
    len: usize,
}

/// Bytes of words; every other one is a sign of its own. The minus of a number is one, too.
fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Tokens<'a> {
        let mut tokens = Tokens { text, at: 0, len: 0 };
        tokens.advance();
        tokens
    }

    /// Advances to the token behind the present one.
    fn advance(&mut self) {
        let rest = &self.text.as_bytes()[self.at + self.len..];
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.at += self.len + blanks;
        let word = rest[blanks..].iter().take_while(|byte| is_word(byte)).count();
        self.len = word.max(usize::from(blanks < rest.len()));
    }

    fn at_end(&self) -> bool {
        self.len == 0
    }

    fn place(&self) -> String {
        let line = self.text[..self.at].lines().count();
        format!(
            "type text, line {line}, before `{}`",
            self.text[self.at..].lines().next().unwrap_or_default()
        )
    }

    fn peek(&self) -> &'a str {
        &self.text[self.at..self.at + self.len]
    }

    fn peek_second(&self) -> &'a str {
        let mut ahead = Tokens { ..*self };
        ahead.advance();
        ahead.peek()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        assert!(!token.is_empty(), "{}: the text ends too early", self.place());
        self.advance();
        token
    }

    fn take(&mut self, token: &str) -> bool {
        let there = self.peek() == token;
        if there {
            self.next();
        }
        there
    }

    fn expect(&mut self, token: &str) {
        assert!(self.take(token), "{}: `{token}` expected", self.place());
    }

    fn number(&mut self) -> i128 {
        let negative = self.take("-");
        let word = self.next();
        let value = match word.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16),
            None => word.parse::<i128>(),
        };
        let value = value.unwrap_or_else(|_| panic!("{}: `{word}` is no number", self.place()));
        if negative { -value } else { value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_that_of_c() {
        let mut reader = Reader::new();
        reader.read(
            "typedef unsigned char u8; typedef unsigned long u64;
             struct inner { u8 a; u64 b; };
             struct outer { u8 x; struct inner in[2]; unsigned f : 3; unsigned g : 30;
                            struct outer *next; union { int i; u64 w; }; int (*fn)(struct outer *o, u64); };
             int call(struct outer *o, const u8 *p);",
        );
        let btf = reader.into_builder().finish();
        let outer = btf.find_struct("outer").unwrap();
        let at = |path: &str| btf.at_path(outer, path).unwrap().bit_offset;
        assert_eq!(at(".in[1].b"), (8 + 16 + 8) * 8);
        assert_eq!(at(".f"), 40 * 8);
        assert_eq!(at(".g"), 44 * 8);
        assert_eq!(at(".next"), 48 * 8);
        assert_eq!(at(".w"), 56 * 8);
        assert_eq!(btf.size_of(outer), Some(72));
        assert!(btf.find_func("call").is_some());
    }

    #[test]
    fn enumerations_choose_their_width() {
        let mut reader = Reader::new();
        reader.read("enum small { A = 1, B = -2 }; enum wide { C = 0x8000000000000001 };");
        let btf = reader.into_builder().finish();
        assert_eq!(btf.enum_value("C"), Some(0x8000_0000_0000_0001));
        assert_eq!(btf.enum_value("B").map(|b| b as i64), Some(-2));
    }
}
