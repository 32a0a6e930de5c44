//! Settings of maps: their size, and the entries that a loader writes before the scheduler is attached.

use super::value::{encode, spelled};
use super::{Change, Refusal, piece};
use crate::btf::{MemberAt, TypeId};
use crate::object::{MapDef, MapType, Object};
use schedlab_base::did_you_mean;

/// The end of the name of a map's size.
const MAX_ENTRIES: &str = ".max_entries";

/// Kinds of maps that user space writes entries of, which are values.
const WRITTEN: [MapType; 6] = [
    MapType::HASH,
    MapType::ARRAY,
    MapType::PERCPU_HASH,
    MapType::PERCPU_ARRAY,
    MapType::LRU_HASH,
    MapType::LRU_PERCPU_HASH,
];

/// What `map.REST=value` changes.
pub(super) fn changes(object: &Object, rest: &str, value: &str) -> Result<Vec<Change>, Refusal> {
    match (rest.strip_suffix(MAX_ENTRIES), rest.split_once('[')) {
        (_, Some((name, inside))) => entry(object, map(object, name)?, inside, value),
        (Some(name), None) => {
            let max_entries = value
                .parse::<u32>()
                .map_err(|_| refusal(object, format!("`{value}` is no number of entries")))?;
            Ok(vec![Change::MapSize { map: map(object, name)?.name.clone(), max_entries }])
        }
        (None, None) => Err(refusal(object, "of a map only max_entries and entries can be set".into())),
    }
}

fn refusal(object: &Object, problem: String) -> Refusal {
    let known: Vec<&str> = object.maps().iter().map(|map| map.name.as_str()).collect();
    (problem, format!("write map.NAME.max_entries=N or map.NAME[KEY]=VALUE; maps: {}", known.join(", ")))
}

fn map<'a>(object: &'a Object, name: &str) -> Result<&'a MapDef, Refusal> {
    object.maps().iter().find(|map| map.name == name).ok_or_else(|| {
        let near = did_you_mean(name, object.maps().iter().map(|map| &map.name));
        refusal(object, format!("there is no map `{name}`{near}"))
    })
}

/// Bytes of the value at a key: `KEY]` and the path in the value.
fn entry(object: &Object, map: &MapDef, inside: &str, value: &str) -> Result<Vec<Change>, Refusal> {
    let btf = object.btf();
    let fail = |problem: String| refusal(object, problem);
    if !WRITTEN.contains(&map.map_type) {
        let kind = map.map_type.name();
        return Err(fail(format!("`{}` is of type {kind}, whose entries cannot be set", map.name)));
    }
    let (key, path) = inside.split_once(']').ok_or_else(|| fail("`[` without `]`".into()))?;
    let typed = |ty: Option<TypeId>, what: &str| {
        ty.ok_or_else(|| fail(format!("`{}` is declared without the type of its {what}", map.name)))
    };
    let (key_type, value_type) = (typed(map.key_type, "keys")?, typed(map.value_type, "values")?);
    let whole = MemberAt { ty: key_type, bit_offset: 0, bitfield: 0 };
    let encoded = encode(btf, &whole, key).map_err(|problem| fail(format!("key: {problem}")))?;
    let [(0, key)] = encoded.as_slice() else {
        return Err(fail(format!("keys of type {} cannot be given", spelled(btf, key_type))));
    };
    let at = btf.at_path(value_type, path).map_err(fail)?;
    let pieces = encode(btf, &at, value).map_err(fail)?;
    let change = |found| {
        let (offset, bytes) = piece(found, u64::from(map.value_size))?;
        Ok(Change::MapEntry { map: map.name.clone(), key: key.clone(), offset, bytes })
    };
    pieces.into_iter().map(change).collect()
}
