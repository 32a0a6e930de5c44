//! Sizes and places: how large a type is, where a member lies, what a path such as `a[3].x` names.

use super::*;
use schedlab_base::did_you_mean;

/// Most members looked at in one search (chosen: far above any real struct; unnamed structs that nest many times over
/// would make a hostile file's search endless).
const MAX_VISITS: u32 = 100_000;

/// Bytes after which a path goes no further (chosen: longer than a line of a report).
const MAX_PATH: usize = 120;

/// A place inside a type: what is there and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberAt {
    /// The type of the member.
    pub ty: TypeId,
    /// Distance in bits from the start of the outermost type.
    pub bit_offset: u64,
    /// Width in bits of a bit field, 0 for an ordinary member.
    pub bitfield: u8,
}

impl MemberAt {
    /// Distance in whole bytes.
    pub fn offset(&self) -> u64 {
        self.bit_offset / 8
    }
}

impl Btf {
    /// The type behind typedefs and `const`, `volatile`, `restrict` and type tags.
    pub fn resolve(&self, mut id: TypeId) -> TypeId {
        // A parsed or built Btf has no loops here (checked there), so this ends.
        while let Kind::Typedef(t)
        | Kind::Volatile(t)
        | Kind::Const(t)
        | Kind::Restrict(t)
        | Kind::TypeTag(t) = self.kind(id)
        {
            id = *t;
        }
        id
    }

    /// Whether a type is `volatile`, by itself, behind a typedef or as an array's element: a variable that changes behind
    /// the program's back.
    pub fn is_volatile(&self, mut id: TypeId) -> bool {
        loop {
            id = match self.kind(id) {
                Kind::Typedef(t) | Kind::Const(t) | Kind::Restrict(t) | Kind::TypeTag(t) => *t,
                Kind::Array(array) => array.elem,
                kind => return matches!(kind, Kind::Volatile(_)),
            };
        }
    }

    /// The shape behind typedefs and modifiers.
    pub fn resolved(&self, id: TypeId) -> &Kind {
        self.kind(self.resolve(id))
    }

    /// Bytes that a value of this type takes; `None` for `void`, functions and forward declarations.
    pub fn size_of(&self, id: TypeId) -> Option<u64> {
        match self.resolved(id) {
            Kind::Int(i) => Some(u64::from(i.size)),
            Kind::Ptr(_) => Some(8),
            Kind::Array(a) => self.size_of(a.elem)?.checked_mul(u64::from(a.count)),
            Kind::Struct(c) | Kind::Union(c) => Some(u64::from(c.size)),
            Kind::Enum(e) | Kind::Enum64(e) => Some(u64::from(e.size)),
            Kind::Float(size) => Some(u64::from(*size)),
            Kind::Datasec(d) => Some(u64::from(d.size)),
            Kind::Var(t, _) => self.size_of(*t),
            _ => None,
        }
    }

    /// The members of the struct or union behind `id`, in order; empty for other types.
    pub fn members(&self, id: TypeId) -> &[Member] {
        match self.resolved(id) {
            Kind::Struct(c) | Kind::Union(c) => &c.members,
            _ => &[],
        }
    }

    /// The member of this name, also inside unnamed structs and unions.
    pub fn member(&self, id: TypeId, name: &str) -> Option<MemberAt> {
        self.member_within(id, name, &mut { MAX_VISITS })
    }

    fn member_within(&self, id: TypeId, name: &str, visits: &mut u32) -> Option<MemberAt> {
        self.members(id).iter().find_map(|m| {
            *visits = visits.checked_sub(1)?;
            let own = self.member_name(m);
            if own == name {
                return Some(MemberAt {
                    ty: m.ty,
                    bit_offset: u64::from(m.bit_offset),
                    bitfield: m.bitfield,
                });
            }
            if !own.is_empty() {
                return None;
            }
            let mut inner = self.member_within(m.ty, name, visits)?;
            inner.bit_offset += u64::from(m.bit_offset);
            Some(inner)
        })
    }

    /// What `path` names inside a value of type `root`: a sequence of `.member` and `[index]`, or nothing.
    ///
    /// # Errors
    /// A sentence that says which step fails.
    pub fn at_path(&self, root: TypeId, path: &str) -> Result<MemberAt, String> {
        self.walk(root, path, false)
    }

    /// The member at a path where `root` is an array whose length is not known yet: its first index may be any.
    ///
    /// # Errors
    /// As of [`Btf::at_path`].
    pub fn at_path_of_any_length(&self, root: TypeId, path: &str) -> Result<MemberAt, String> {
        self.walk(root, path, true)
    }

    /// The path (`.lock`, `[2].count`) of the innermost member or element in which the byte at `offset` of a value of type
    /// `root` lies; it ends where that is padding. The way back of [`Btf::at_path`]; of a union the first member.
    pub fn path_to(&self, root: TypeId, offset: u64) -> String {
        let (mut path, mut ty, mut rest) = (String::new(), root, offset);
        while path.len() < MAX_PATH {
            let inner = match self.resolved(ty) {
                Kind::Array(array) => {
                    let size = self.size_of(array.elem).filter(|size| *size > 0);
                    size.map(|size| (format!("[{}]", rest / size), array.elem, rest / size * size))
                }
                _ => self.members(ty).iter().find_map(|member| {
                    let from = u64::from(member.bit_offset / 8);
                    let size = self.size_of(member.ty)?.max(1);
                    let name = self.member_name(member);
                    let step = if name.is_empty() { String::new() } else { format!(".{name}") };
                    (from..from + size).contains(&rest).then_some((step, member.ty, from))
                }),
            };
            let Some((step, inner, from)) = inner else { break };
            debug_assert!(from <= rest, "the member holds the place");
            path.push_str(&step);
            (ty, rest) = (inner, rest - from);
            if !matches!(self.resolved(ty), Kind::Struct(_) | Kind::Union(_) | Kind::Array(_)) {
                break;
            }
        }
        path
    }

    fn walk(&self, root: TypeId, path: &str, mut any_index: bool) -> Result<MemberAt, String> {
        let mut at = MemberAt { ty: root, bit_offset: 0, bitfield: 0 };
        let mut rest = path;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let (index, tail) = after.split_once(']').ok_or("`[` without `]`")?;
                let index: u64 = index.trim().parse().map_err(|_| format!("`{index}` is no index"))?;
                let Kind::Array(array) = self.resolved(at.ty) else {
                    return Err(format!("`[{index}]` on something that is no array"));
                };
                if index >= u64::from(array.count) && !any_index {
                    return Err(format!("index {index} of an array of {}", array.count));
                }
                let size = self.size_of(array.elem).ok_or("elements of unknown size")?;
                any_index = false;
                let step = index.checked_mul(size).and_then(|b| b.checked_mul(8)).ok_or("too far")?;
                let bit_offset = at.bit_offset.checked_add(step).ok_or("too far")?;
                at = MemberAt { ty: array.elem, bit_offset, bitfield: 0 };
                rest = tail;
            } else if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let inner =
                    self.member(at.ty, &after[..end]).ok_or_else(|| self.no_member(at.ty, &after[..end]))?;
                at = MemberAt { bit_offset: at.bit_offset.saturating_add(inner.bit_offset), ..inner };
                rest = &after[end..];
            } else {
                return Err(format!("`{rest}` is neither `.member` nor `[index]`"));
            }
        }
        Ok(at)
    }

    /// The sentence for a member that a type does not have.
    fn no_member(&self, ty: TypeId, name: &str) -> String {
        let near = did_you_mean(name, self.members(ty).iter().map(|member| self.member_name(member)));
        format!("there is no member `{name}` in {}{near}", self.spell(self.resolve(ty)))
    }

    /// The type as C writes it, without its body: `struct task_struct *`, `u64`, `int [4]`.
    pub fn spell(&self, id: TypeId) -> String {
        self.spell_within(id, 8)
    }

    fn spell_within(&self, id: TypeId, depth: u32) -> String {
        if depth == 0 {
            return "...".into();
        }
        let inner = |t: TypeId| self.spell_within(t, depth - 1);
        let named = |what: &str| {
            let name = self.name(id);
            format!("{what} {}", if name.is_empty() { "<unnamed>" } else { name })
        };
        match self.kind(id) {
            Kind::Void => "void".into(),
            Kind::Ptr(t) => format!("{} *", inner(*t)),
            Kind::Array(a) => format!("{} [{}]", inner(a.elem), a.count),
            Kind::Struct(_) | Kind::Fwd(false) => named("struct"),
            Kind::Union(_) | Kind::Fwd(true) => named("union"),
            Kind::Enum(_) | Kind::Enum64(_) => named("enum"),
            Kind::Volatile(t) => format!("volatile {}", inner(*t)),
            Kind::Const(t) => format!("const {}", inner(*t)),
            Kind::Restrict(t) | Kind::TypeTag(t) => inner(*t),
            Kind::FuncProto(_) => "function".into(),
            _ => self.name(id).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Btf, TypeId) {
        let mut b = BtfBuilder::new();
        let int = b.int("int", 4, true);
        let four = b.array(int, 4);
        let inner = b.structure("", 8, &[MemberSpec::at("x", int, 0), MemberSpec::at("y", int, 32)]);
        let outer = b.structure(
            "outer",
            32,
            &[MemberSpec::at("a", four, 0), MemberSpec::at("", inner, 128), MemberSpec::at("n", inner, 192)],
        );
        (b.finish(), outer)
    }

    #[test]
    fn members_are_found_in_unnamed_structs_too() {
        let (btf, outer) = sample();
        assert_eq!(btf.member(outer, "y").map(|m| m.bit_offset), Some(160));
        assert!(btf.member(outer, "z").is_none());
        assert_eq!(btf.size_of(outer), Some(32));
    }

    #[test]
    fn places_have_paths() {
        let (btf, outer) = sample();
        for path in [".a[3]", ".y", ".n.y"] {
            let at = btf.at_path(outer, path).unwrap();
            assert_eq!(btf.path_to(outer, at.offset() + 3), path);
        }
        assert_eq!(btf.path_to(outer, 99), "");
    }

    #[test]
    fn paths_name_elements_and_members() {
        let (btf, outer) = sample();
        assert_eq!(btf.at_path(outer, ".a[3]").map(|m| m.offset()), Ok(12));
        assert_eq!(btf.at_path(outer, ".n.y").map(|m| m.offset()), Ok(28));
        assert!(btf.at_path(outer, ".a[4]").unwrap_err().contains("array of 4"));
        assert!(btf.at_path(outer, ".q").unwrap_err().contains("no member `q` in struct outer"));
        assert!(btf.at_path(outer, ".n[0]").is_err());
        assert!(btf.at_path(outer, "q").is_err());
    }
}
