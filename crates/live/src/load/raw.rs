//! libbpf behind types that cannot leak: an open object, its maps, programs and links.
//!
//! All calls into libbpf are in this file. Messages that libbpf would print are collected.

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, Once, PoisonError};

use libbpf_sys as sys;

use super::btf::Btf;
use super::text::text;

/// Warnings and verifier logs of libbpf since they were last taken.
static MESSAGES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Most bytes of messages kept: verifier logs are read from their end.
const MESSAGES_MAX: usize = 64 << 20;

unsafe extern "C" {
    fn vsnprintf(to: *mut c_char, size: usize, format: *const c_char, args: *mut sys::__va_list_tag)
    -> c_int;
}

/// Receives what libbpf prints.
unsafe extern "C" fn collect(
    level: sys::libbpf_print_level,
    format: *const c_char,
    args: *mut sys::__va_list_tag,
) -> c_int {
    if level != sys::LIBBPF_WARN {
        return 0;
    }
    let mut text = vec![0u8; 1024];
    for _ in 0..2 {
        // SAFETY: libbpf passes a valid format with its arguments; reading them spends the list,
        // so each attempt gets a copy, which for this type is a second valid list.
        let length = unsafe {
            let mut copy = *args;
            vsnprintf(text.as_mut_ptr().cast(), text.len(), format, &raw mut copy)
        };
        let Ok(length) = usize::try_from(length) else { return 0 };
        if length < text.len() {
            text.truncate(length);
            break;
        }
        text.resize(length + 1, 0);
    }
    let mut messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    if messages.len() + text.len() > MESSAGES_MAX {
        messages.clear();
    }
    messages.extend_from_slice(&text);
    0
}

/// Takes the collected messages.
pub(super) fn take_messages() -> String {
    let mut messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    String::from_utf8_lossy(&std::mem::take(&mut *messages)).into_owned()
}

/// An object file that libbpf has opened; closed when dropped.
pub(super) struct Object(NonNull<sys::bpf_object>);

/// A map of an object.
#[derive(Clone, Copy)]
pub(super) struct Map<'a>(*mut sys::bpf_map, PhantomData<&'a Object>);

/// A program of an object.
#[derive(Clone, Copy)]
pub(super) struct Program<'a>(*mut sys::bpf_program, PhantomData<&'a Object>);

/// An attachment; dropping it detaches.
pub(super) struct Link(NonNull<sys::bpf_link>);

impl Object {
    /// Opens an object from its bytes.
    pub(super) fn open(bytes: &[u8], name: &str) -> io::Result<Object> {
        static ONCE: Once = Once::new();
        // SAFETY: the callback is a valid function for the whole life of the process.
        ONCE.call_once(|| unsafe {
            sys::libbpf_set_print(Some(collect));
        });
        let name = CString::new(name).map_err(io::Error::other)?;
        let options = sys::bpf_object_open_opts {
            sz: size_of::<sys::bpf_object_open_opts>() as sys::size_t,
            object_name: name.as_ptr(),
            ..Default::default()
        };
        // SAFETY: bytes, name and options live across the call; libbpf copies what it keeps.
        let object = unsafe {
            sys::bpf_object__open_mem(bytes.as_ptr().cast(), bytes.len() as sys::size_t, &raw const options)
        };
        NonNull::new(object).map(Object).ok_or_else(io::Error::last_os_error)
    }

    /// Loads all programs and maps into the kernel.
    pub(super) fn load(&self) -> io::Result<()> {
        // SAFETY: the object is open.
        check(unsafe { sys::bpf_object__load(self.0.as_ptr()) })
    }

    /// The object's own types.
    pub(super) fn btf(&self) -> Option<Btf<'_>> {
        // SAFETY: the object is open; its BTF lives as long as it does.
        unsafe { Btf::borrowed(sys::bpf_object__btf(self.0.as_ptr())) }
    }

    pub(super) fn maps(&self) -> impl Iterator<Item = Map<'_>> {
        let mut at = ptr::null_mut();
        std::iter::from_fn(move || {
            // SAFETY: the object is open and `at` is null or one of its maps.
            at = unsafe { sys::bpf_object__next_map(self.0.as_ptr(), at) };
            (!at.is_null()).then_some(Map(at, PhantomData))
        })
    }

    pub(super) fn programs(&self) -> impl Iterator<Item = Program<'_>> {
        let mut at = ptr::null_mut();
        std::iter::from_fn(move || {
            // SAFETY: the object is open and `at` is null or one of its programs.
            at = unsafe { sys::bpf_object__next_program(self.0.as_ptr(), at) };
            (!at.is_null()).then_some(Program(at, PhantomData))
        })
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the object is open and not used afterwards.
        unsafe { sys::bpf_object__close(self.0.as_ptr()) }
    }
}

impl Map<'_> {
    pub(super) fn name(&self) -> String {
        // SAFETY: the map lives as long as its object; the name is NUL-terminated.
        unsafe { text(sys::bpf_map__name(self.0)) }
    }

    pub(super) fn is_struct_ops(&self) -> bool {
        // SAFETY: the map lives as long as its object.
        unsafe { sys::bpf_map__type(self.0) == sys::BPF_MAP_TYPE_STRUCT_OPS }
    }

    /// Has it left out, with the programs that it alone names; only before loading.
    pub(super) fn leave_out(&self) {
        // SAFETY: the map lives as long as its object. It fails once the object is loaded only.
        let failed = unsafe { sys::bpf_map__set_autocreate(self.0, false) };
        debug_assert_eq!(failed, 0, "the object is not loaded yet");
    }

    /// Whether it is created with its object.
    pub(super) fn is_created(&self) -> bool {
        // SAFETY: the map lives as long as its object.
        unsafe { sys::bpf_map__autocreate(self.0) }
    }

    pub(super) fn is_arena(&self) -> bool {
        // SAFETY: the map lives as long as its object.
        unsafe { sys::bpf_map__type(self.0) == sys::BPF_MAP_TYPE_ARENA }
    }

    /// Sets the size of a map's value; only before loading.
    pub(super) fn set_value_size(&self, size: u32) -> io::Result<()> {
        // SAFETY: the map lives as long as its object.
        check(unsafe { sys::bpf_map__set_value_size(self.0, size) })
    }

    /// Sets a map's number of entries; only before loading.
    pub(super) fn set_max_entries(&self, count: u32) -> io::Result<()> {
        // SAFETY: the map lives as long as its object.
        check(unsafe { sys::bpf_map__set_max_entries(self.0, count) })
    }

    /// Bytes of the map's value, for maps that stand for a section.
    pub(super) fn initial_size(&self) -> Option<usize> {
        self.value().map(|(_, size)| size)
    }

    /// Copies `data` to `offset` of the map's initial value; only before loading.
    pub(super) fn write_initial(&self, offset: usize, data: &[u8]) -> bool {
        let Some((start, size)) = self.value() else { return false };
        if offset.checked_add(data.len()).is_none_or(|end| end > size) {
            return false;
        }
        // SAFETY: the value is `size` bytes long, checked above, and `data` is not part of it.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), start.add(offset), data.len()) };
        true
    }

    /// A copy of `size` bytes of the map's value: before loading the initial one, afterwards (for
    /// sections that the kernel lets us see) the present one.
    pub(super) fn read(&self, offset: usize, size: usize) -> Option<Vec<u8>> {
        let (start, length) = self.value()?;
        if offset.checked_add(size)? > length {
            return None;
        }
        // BPF programs may write at the same time, so bytes are read one by one, volatile.
        // SAFETY: the value is `length` bytes long, checked above.
        Some((0..size).map(|i| unsafe { start.add(offset + i).read_volatile() }).collect())
    }

    fn value(&self) -> Option<(*mut u8, usize)> {
        let mut size: sys::size_t = 0;
        // SAFETY: the map lives as long as its object; the size is written before it returns.
        let start = unsafe { sys::bpf_map__initial_value(self.0, &raw mut size) };
        (!start.is_null()).then_some((start.cast(), size as usize))
    }

    /// A copy of `size` bytes of a loaded arena where `pointer`, as a program keeps it, points to; nothing outside of
    /// it, or where this is no arena at a fixed place.
    pub(super) fn arena_bytes(&self, pointer: u64, size: usize) -> Option<Vec<u8>> {
        // SAFETY: plain queries; the map lives as long as its object.
        let (kind, base, pages) = unsafe {
            (sys::bpf_map__type(self.0), sys::bpf_map__map_extra(self.0), sys::bpf_map__max_entries(self.0))
        };
        // SAFETY: plain query.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        // Only the low half of a pointer counts within an arena.
        let offset = (pointer as u32).wrapping_sub(base as u32) as usize;
        let end = offset.checked_add(size)?;
        if kind != sys::BPF_MAP_TYPE_ARENA || base == 0 || end > page.checked_mul(pages as usize)? {
            return None;
        }
        let start = ptr::with_exposed_provenance::<u8>(usize::try_from(base).ok()?).wrapping_add(offset);
        // SAFETY: libbpf has mapped all pages of a loaded arena at the address that its definition asks for; programs
        // may write at the same time, so bytes are read one by one, volatile.
        Some((0..size).map(|i| unsafe { start.add(i).read_volatile() }).collect())
    }

    /// Makes a struct_ops map effective.
    pub(super) fn attach_struct_ops(&self) -> io::Result<Link> {
        // SAFETY: the map belongs to a loaded object.
        let link = unsafe { sys::bpf_map__attach_struct_ops(self.0) };
        NonNull::new(link).map(Link).ok_or_else(io::Error::last_os_error)
    }

    /// Keys and values of a loaded hash map, both of a fixed size. Programs may change the map
    /// meanwhile; no entry comes twice.
    pub(super) fn entries<const K: usize, const V: usize>(&self) -> Vec<([u8; K], [u8; V])> {
        // SAFETY: plain queries; the map lives as long as its object.
        let (fd, room, sizes_hold) = unsafe {
            let (key, value) = (sys::bpf_map__key_size(self.0), sys::bpf_map__value_size(self.0));
            let room = sys::bpf_map__max_entries(self.0);
            (sys::bpf_map__fd(self.0), room, key as usize == K && value as usize == V)
        };
        assert!(sizes_hold, "the map's keys or values have another size");
        let (mut keys, mut values) = (vec![[0u8; K]; room as usize], vec![[0u8; V]; room as usize]);
        let (mut next, mut count) = (0u64, room);
        // SAFETY: there is room for the map's entries in both; `next` is as large as the kernel's
        // place in a hash map (4 bytes) at least. A map that fits ends with ENOENT.
        unsafe {
            sys::bpf_map_lookup_batch(
                fd,
                ptr::null_mut(),
                (&raw mut next).cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &raw mut count,
                ptr::null(),
            );
        }
        keys.into_iter().zip(values).take(count.min(room) as usize).collect()
    }

    /// Writes a part of a loaded map's value at a key, on all CPUs where each has its own; other bytes of a new entry are 0.
    pub(super) fn write_entry(&self, key: &[u8], offset: usize, data: &[u8]) -> io::Result<()> {
        // SAFETY: plain queries; the map lives as long as its object.
        let (kind, size) = unsafe { (sys::bpf_map__type(self.0), sys::bpf_map__value_size(self.0) as usize) };
        let per_cpu = [
            sys::BPF_MAP_TYPE_PERCPU_HASH,
            sys::BPF_MAP_TYPE_PERCPU_ARRAY,
            sys::BPF_MAP_TYPE_LRU_PERCPU_HASH,
        ];
        let (stride, copies) = if per_cpu.contains(&kind) {
            // SAFETY: plain query.
            let cpus = unsafe { sys::libbpf_num_possible_cpus() };
            (size.next_multiple_of(8), usize::try_from(cpus).map_err(io::Error::other)?)
        } else {
            (size, 1)
        };
        let end =
            offset.checked_add(data.len()).filter(|end| *end <= size).ok_or(io::ErrorKind::InvalidInput)?;
        let mut value = vec![0u8; stride * copies];
        let (key_size, value_size) = (key.len() as sys::size_t, value.len() as sys::size_t);
        // SAFETY: key and value have the lengths given; libbpf compares these with the map's own sizes. That there is no such
        // entry leaves the value as it is.
        unsafe {
            let (key, value) = (key.as_ptr().cast(), value.as_mut_ptr().cast());
            sys::bpf_map__lookup_elem(self.0, key, key_size, value, value_size, 0);
        }
        for copy in value.chunks_mut(stride) {
            copy[offset..end].copy_from_slice(data);
        }
        // SAFETY: as above.
        check(unsafe {
            let (key, value) = (key.as_ptr().cast(), value.as_ptr().cast());
            sys::bpf_map__update_elem(self.0, key, key_size, value, value_size, 0)
        })
    }

    /// A reader of a loaded ring buffer.
    pub(super) fn ring(&self) -> io::Result<Ring> {
        let taken: *mut Vec<u8> = Box::into_raw(Box::default());
        // SAFETY: the map belongs to a loaded object; `taken` lives until the reader is freed, and only `hand_over` and the
        // reader's owner, one after the other, use it.
        let reader = unsafe {
            sys::ring_buffer__new(sys::bpf_map__fd(self.0), Some(hand_over), taken.cast(), ptr::null())
        };
        let error = io::Error::last_os_error();
        let ring = NonNull::new(reader).map(|reader| Ring { reader, taken });
        ring.ok_or_else(|| {
            // SAFETY: it is a box of ours, which no reader has.
            drop(unsafe { Box::from_raw(taken) });
            error
        })
    }

    /// Adds an entry to a hash map.
    pub(super) fn insert<const K: usize, const V: usize>(&self, key: &[u8; K], value: &[u8; V]) -> bool {
        // SAFETY: the map lives as long as its object; the call checks both sizes and reads that much.
        unsafe {
            let (key, value) = (key.as_ptr().cast(), value.as_ptr().cast());
            sys::bpf_map__update_elem(self.0, key, K as sys::size_t, value, V as sys::size_t, 0) == 0
        }
    }

    /// Writes into a section of a loaded object; programs see it at once.
    pub(super) fn write_present(&self, offset: usize, data: &[u8]) -> bool {
        let Some((start, size)) = self.value() else { return false };
        if offset.checked_add(data.len()).is_none_or(|end| end > size) {
            return false;
        }
        for (at, byte) in data.iter().enumerate() {
            // SAFETY: the value is `size` bytes long, checked above; after loading it is mapped
            // shared with the kernel.
            unsafe { start.add(offset + at).write_volatile(*byte) };
        }
        true
    }
}

impl Program<'_> {
    pub(super) fn name(&self) -> String {
        // SAFETY: the program lives as long as its object; the name is NUL-terminated.
        unsafe { text(sys::bpf_program__name(self.0)) }
    }

    /// Has it loaded although its section says that it is optional; only before loading.
    pub(super) fn load_too(&self) {
        // SAFETY: the program lives as long as its object. It fails once the object is loaded only.
        let failed = unsafe { sys::bpf_program__set_autoload(self.0, true) };
        debug_assert_eq!(failed, 0, "the object is not loaded yet");
    }

    /// Whether it is loaded with its object.
    pub(super) fn is_loaded(&self) -> bool {
        // SAFETY: the program lives as long as its object.
        unsafe { sys::bpf_program__autoload(self.0) }
    }

    /// Whether it is loaded and hooks into something by itself, apart from struct_ops.
    pub(super) fn is_hook(&self) -> bool {
        // SAFETY: the program lives as long as its object.
        let kind = unsafe { sys::bpf_program__type(self.0) };
        [
            sys::BPF_PROG_TYPE_TRACING,
            sys::BPF_PROG_TYPE_RAW_TRACEPOINT,
            sys::BPF_PROG_TYPE_TRACEPOINT,
            sys::BPF_PROG_TYPE_KPROBE,
            sys::BPF_PROG_TYPE_LSM,
        ]
        .contains(&kind)
            && self.is_loaded()
    }

    pub(super) fn attach(&self) -> io::Result<Link> {
        // SAFETY: the program belongs to a loaded object.
        let link = unsafe { sys::bpf_program__attach(self.0) };
        NonNull::new(link).map(Link).ok_or_else(io::Error::last_os_error)
    }

    /// Runs a loaded program of `SEC("syscall")`; what it returned.
    pub(super) fn run(&self, context: &[u8]) -> io::Result<i32> {
        let mut context = context.to_vec();
        let mut options = sys::bpf_test_run_opts {
            sz: size_of::<sys::bpf_test_run_opts>() as sys::size_t,
            ..Default::default()
        };
        if !context.is_empty() {
            options.ctx_in = context.as_mut_ptr().cast();
            options.ctx_size_in = u32::try_from(context.len()).map_err(io::Error::other)?;
        }
        // SAFETY: the program lives as long as its object; the kernel reads the context and writes it back in place.
        check(unsafe { sys::bpf_prog_test_run_opts(sys::bpf_program__fd(self.0), &raw mut options) })?;
        Ok(options.retval.cast_signed())
    }

    /// Instructions that the verifier processed, and instructions in the kernel.
    pub(super) fn sizes(&self) -> Option<(u32, u32)> {
        let mut info = sys::bpf_prog_info::default();
        let mut size = size_of::<sys::bpf_prog_info>() as u32;
        // SAFETY: the program lives as long as its object; info and size are written only.
        let failed = unsafe {
            sys::bpf_prog_get_info_by_fd(sys::bpf_program__fd(self.0), &raw mut info, &raw mut size)
        };
        (failed == 0).then_some((info.verified_insns, info.xlated_prog_len / 8))
    }

    /// How often it ran and for how many ns, while the kernel counts that.
    pub(super) fn run_time(&self) -> Option<(u64, u64)> {
        self.counts().read().map(|[runs, time]| (runs, time))
    }

    /// Where the same can be read without the object.
    pub(super) fn counts(&self) -> ProgramCounts {
        // SAFETY: the program lives as long as its object.
        ProgramCounts(unsafe { sys::bpf_program__fd(self.0) })
    }
}

/// What the kernel counts of a program, by the program's descriptor: nothing can be read once its object is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramCounts(c_int);

impl ProgramCounts {
    /// The counts of the program of a descriptor.
    pub(super) fn of(fd: c_int) -> ProgramCounts {
        ProgramCounts(fd)
    }

    /// Calls, and ns in them, from the program's load on while the kernel counted.
    pub(crate) fn read(self) -> Option<[u64; 2]> {
        program_info(self.0).map(|info| [info.run_cnt, info.run_time_ns])
    }
}

/// What the kernel tells of a program.
pub(super) fn program_info(fd: c_int) -> Option<sys::bpf_prog_info> {
    let mut info = sys::bpf_prog_info::default();
    let mut size = size_of::<sys::bpf_prog_info>() as u32;
    // SAFETY: info and size are written only; a descriptor that is no program's is refused.
    let failed = unsafe { sys::bpf_prog_get_info_by_fd(fd, &raw mut info, &raw mut size) };
    (failed == 0).then_some(info)
}

/// The reader of a ring buffer. Mapping the buffer takes milliseconds, so one reader serves the whole run.
pub(crate) struct Ring {
    reader: NonNull<sys::ring_buffer>,
    taken: *mut Vec<u8>,
}

impl Ring {
    /// Takes all records out, oldest first, one behind the other.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn drain(&mut self) -> io::Result<Vec<u8>> {
        // SAFETY: the reader is open, and the place of the records is not in use.
        unsafe {
            let taken = sys::ring_buffer__consume(self.reader.as_ptr());
            check(taken.min(0)).map(|()| std::mem::take(&mut *self.taken))
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the reader is open and not used afterwards, nor is the place of its records.
        unsafe {
            sys::ring_buffer__free(self.reader.as_ptr());
            drop(Box::from_raw(self.taken));
        }
    }
}

/// Receives one record of a ring buffer.
unsafe extern "C" fn hand_over(
    taken: *mut std::ffi::c_void,
    data: *mut std::ffi::c_void,
    size: sys::size_t,
) -> c_int {
    // SAFETY: `taken` is what `Map::ring` passed; libbpf gives a record of `size` bytes.
    unsafe {
        let record = std::slice::from_raw_parts(data.cast(), size as usize);
        (*taken.cast::<Vec<u8>>()).extend_from_slice(record);
    }
    0
}

/// Has the kernel count the run time of BPF programs until the result is closed.
pub(super) fn enable_run_time() -> io::Result<OwnedFd> {
    // SAFETY: plain system call; a descriptor that it returns is ours alone.
    unsafe {
        let fd = sys::bpf_enable_stats(sys::BPF_STATS_RUN_TIME);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

impl Link {
    pub(super) fn fd(&self) -> c_int {
        // SAFETY: the link is attached until it is dropped.
        unsafe { sys::bpf_link__fd(self.0.as_ptr()) }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // SAFETY: the link is valid and not used afterwards.
        unsafe { sys::bpf_link__destroy(self.0.as_ptr()) };
    }
}

fn check(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
}
