//! The confidences that the layer SWAP has in providers, read from outside. Its table lies in the arena of the object
//! that carries it, and the object's own types say what is where. Nothing is asked of the running programs.

use schedlab_bpf::btf::{Btf, Kind};
use schedlab_bpf::object::Object;
use schedlab_trace::waits::{CONFIDENCE_DEFAULT, ConfidenceFrom, Mechanism, WaitPair, Waits};

/// Set in the type of resources that are named by their own identity (`SWAP_NAMED` there); the others
/// are named by the process that waits and its call.
const NAMED: u64 = 0x10000;

/// How to read the arena: pointer and length.
pub(crate) type Bytes<'a> = dyn Fn(u64, u64) -> Option<Vec<u8>> + 'a;

/// Where things are in the table.
#[derive(Clone, Debug)]
pub(crate) struct SwapTable {
    base: u64,
    size: u64,
    resource_size: u64,
    kind: usize,
    default: usize,
    ty: usize,
    /// `enum swap_type`: its numbers and names.
    types: Vec<(u64, String)>,
    providers: Vec<Entry>,
    /// Of the provider's task.
    task_id: usize,
    task_pid: usize,
    task_size: u64,
}

/// Where a provider's entry has its members, from the start of its resource.
#[derive(Clone, Copy, Debug)]
struct Entry {
    task: usize,
    id: usize,
    confidence: usize,
}

/// What SWAP thinks of one provider of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Confidence {
    /// The process that waits, if the resource is named by it.
    process: Option<i32>,
    /// `enum swap_type` of the resource, by name.
    ty: String,
    /// Thread id.
    provider: i32,
    /// In the unit of results.
    value: u32,
}

impl SwapTable {
    /// The table of a loaded object, if it has one. `variable` reads a global variable.
    pub(crate) fn find(
        name: &str,
        object: Option<&[u8]>,
        variable: impl Fn(&str) -> Option<u64>,
    ) -> Option<SwapTable> {
        let base = variable("swap_table").filter(|base| *base != 0)?;
        let object = Object::parse(name, object?).ok()?;
        let types = object.btf();
        let find = |name: &str, path: &str| {
            let at = types.at_path(types.find_struct(name)?, path).ok()?;
            usize::try_from(at.offset()).ok()
        };
        let resource = |path: &str| find("swap_resource", path);
        let entry = |number: usize| {
            let member = |name: &str| resource(&format!(".provider[{number}].{name}"));
            Some(Entry { task: member("task")?, id: member("id")?, confidence: member("confidence")? })
        };
        Some(SwapTable {
            base,
            size: types.size_of(types.find_struct("swap_table")?)?,
            resource_size: types.size_of(types.find_struct("swap_resource")?)?,
            kind: resource(".kind")?,
            default: resource(".confidence")?,
            ty: resource(".type")?,
            types: swap_types(types),
            providers: (0..).map_while(entry).collect(),
            task_id: find("task", ".base.id")?,
            task_pid: find("task", ".base.pid")?,
            task_size: types.size_of(types.find_struct("task")?)?,
        })
    }

    /// Everything that the table holds.
    pub(crate) fn confidences(&self, bytes: &Bytes<'_>) -> Vec<Confidence> {
        let table = bytes(self.base, self.size).unwrap_or_default();
        let resources = table.chunks_exact(usize::try_from(self.resource_size).unwrap_or(usize::MAX));
        resources.flat_map(|resource| self.of_resource(resource, bytes)).collect()
    }

    fn of_resource(&self, resource: &[u8], bytes: &Bytes<'_>) -> Vec<Confidence> {
        let (kind, default) = (number(resource, self.kind, 8), number(resource, self.default, 4));
        if kind == 0 || default == 0 {
            return Vec::new();
        }
        let ty = number(resource, self.ty, 4);
        let ty = self.types.iter().find(|(number, _)| *number == ty).map_or("", |(_, name)| name);
        let process = (kind >> 32 & NAMED == 0).then_some((kind as u32).cast_signed());
        let provider = |entry: &Entry| {
            let task = Some(number(resource, entry.task, 8)).filter(|task| *task != 0)?;
            let task = bytes(task, self.task_size)?;
            // One that has left has 0; a descriptor that was used again is another task's.
            let id = number(&task, self.task_id, 8);
            if id != 0 && id != number(resource, entry.id, 8) {
                return None;
            }
            let scaled = number(resource, entry.confidence, 4) * u64::from(CONFIDENCE_DEFAULT) / default;
            Some(Confidence {
                process,
                ty: ty.to_string(),
                provider: (number(&task, self.task_pid, 4) as u32).cast_signed(),
                value: u32::try_from(scaled).unwrap_or(u32::MAX).min(2 * CONFIDENCE_DEFAULT),
            })
        };
        self.providers.iter().filter_map(provider).collect()
    }
}

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let bytes = bytes.get(at..at + size).unwrap_or(&[]);
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The numbers and names of `enum swap_type`.
fn swap_types(types: &Btf) -> Vec<(u64, String)> {
    let found = types.find("swap_type", |kind| matches!(kind, Kind::Enum(_)));
    let Some(Kind::Enum(shape)) = found.map(|id| types.kind(id)) else { return Vec::new() };
    shape.values.iter().map(|value| (value.value, types.enumerator_name(value).to_string())).collect()
}

/// The name that `enum swap_type` has for what is waited for through a mechanism; none: it may be anything.
fn swap_type(mechanism: Mechanism) -> Option<&'static str> {
    match mechanism {
        Mechanism::Other => Some("SWAP_OTHER"),
        Mechanism::Pipe => Some("SWAP_PIPE"),
        Mechanism::Unix | Mechanism::Tcp | Mechanism::Udp => Some("SWAP_SOCKET"),
        Mechanism::Message => Some("SWAP_SYSV_MSG"),
        Mechanism::Semaphore => Some("SWAP_SYSV_SEM"),
        Mechanism::PosixMessage => Some("SWAP_POSIX_MQ"),
        Mechanism::Signal => Some("SWAP_SIGNAL"),
        Mechanism::Flock => Some("SWAP_FLOCK"),
        Mechanism::Fcntl => Some("SWAP_FCNTL"),
        Mechanism::Futex => Some("SWAP_FUTEX"),
        Mechanism::Eventfd => Some("SWAP_EVENTFD"),
        Mechanism::Poll | Mechanism::Select | Mechanism::Epoll => None,
        Mechanism::Child => Some("SWAP_CHILD"),
    }
}

/// Gives the pairs SWAP's confidences. It is the highest that SWAP has in the provider for resources of the
/// requester's process. Where resources have identities of their own, it is that for resources of the type that was
/// waited for. Pairs that it does not know keep what they have.
pub(crate) fn apply(waits: &mut Waits, known: &[Confidence]) {
    let is_about = |pair: &WaitPair, known: &Confidence| {
        known.provider == pair.provider.thread
            && match known.process {
                Some(process) => process == pair.requester.process,
                None => swap_type(pair.mechanism).is_none_or(|ty| ty == known.ty),
            }
    };
    for pair in &mut waits.pairs {
        let values = known.iter().filter(|known| is_about(pair, known)).map(|known| known.value);
        if let Some(value) = values.max() {
            (pair.confidence, pair.confidence_from) = (value, ConfidenceFrom::Swap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped::SCHEDULERS;

    #[test]
    fn the_types_of_the_mechanisms_are_those_of_the_objects() {
        for shipped in SCHEDULERS {
            let object = Object::parse(shipped.name, shipped.swap).unwrap();
            let types = swap_types(object.btf());
            let names = Mechanism::all().filter_map(swap_type);
            for name in names {
                assert!(types.iter().any(|(_, known)| known == name), "{}: {name}", shipped.name);
            }
            assert!(
                SwapTable::find(shipped.name, Some(shipped.swap), |_| Some(1)).is_some(),
                "{}",
                shipped.name
            );
            assert!(
                SwapTable::find(shipped.name, Some(shipped.object), |_| Some(1)).is_none(),
                "{}",
                shipped.name
            );
        }
    }
}
