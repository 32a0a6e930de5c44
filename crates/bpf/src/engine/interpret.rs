//! The interpreter's loop.
//!
//! One `match` over dense operation kinds, registers in a local array, memory checks inline; everything that is rare
//! (faults, page crossings, kernel pages) leaves the loop's straight path.

use super::{Frame, Host, SharedPlace, Vm};
use crate::code::{Code, FuncId, Op, OpCode, Reg};
use crate::fault::{Access, Fault, FaultKind};
use crate::insn::op;
use crate::memory::{ARENA_BASE, GuestAddr, Memory, Store};

/// Registers; sixteen, one for each `Reg`, so that indexing needs no check.
pub(super) type Registers = [u64; 16];

/// Runs `func` as the bottom frame of a new span of frames, until its exit.
#[inline(never)]
pub(super) fn call<H: Host>(
    vm: &mut Vm<'_>,
    func: FuncId,
    args: [u64; 5],
    host: &mut H,
) -> Result<u64, Fault> {
    let mut place = Place::entry(vm, func, args)?;
    match run(vm, &mut place.regs, place.next, place.bottom, vm.budget, host) {
        Ok(()) => Ok(place.regs[0]),
        Err(fault) => Err(locate(vm, fault, place.bottom)),
    }
}

/// Where a run stands: its registers, the operation that is next, and its bottom frame.
#[derive(Clone, Debug)]
pub(super) struct Place {
    regs: Registers,
    next: usize,
    bottom: u32,
}

impl Place {
    /// At the entry of `func`.
    pub(super) fn entry(vm: &mut Vm<'_>, func: FuncId, args: [u64; 5]) -> Result<Place, Fault> {
        let bottom = vm.mem.frames_used;
        let next = vm.code.entry(func).ok_or(FaultKind::BadCall { target: u64::from(func.0) })?;
        let mut regs: Registers = [0; 16];
        regs[1..6].copy_from_slice(&args);
        regs[10] = vm.push_frame(0)?;
        vm.at = next as u32;
        Ok(Place { regs, next, bottom })
    }

    /// Executes until the exit, whose r0 it returns, or until `pause` instructions of the run are executed: nothing then. A
    /// callback that the host runs is not paused; the run is behind the call that made it.
    pub(super) fn advance<H: Host>(
        &mut self,
        vm: &mut Vm<'_>,
        pause: u64,
        host: &mut H,
    ) -> Result<Option<u64>, Fault> {
        let limit = pause.min(vm.budget);
        match run(vm, &mut self.regs, self.next, self.bottom, limit, host) {
            Ok(()) => Ok(Some(self.regs[0])),
            Err(fault) if matches!(fault.kind(), FaultKind::Budget { .. }) && vm.insns() < vm.budget => {
                self.next = vm.at as usize;
                Ok(None)
            }
            Err(fault) => Err(locate(vm, fault, self.bottom)),
        }
    }
}

impl Place {
    /// The index of the operation that is next.
    pub(super) fn next(&self) -> u32 {
        self.next as u32
    }

    /// What the next operation accesses apart from registers: where, and whether it may write.
    pub(super) fn next_access(&self, code: &Code) -> Option<(SharedPlace, bool)> {
        use OpCode::*;
        let o = &code.ops[self.next];
        let memory = |base: Reg| SharedPlace::Memory(self.regs[base as usize].wrapping_add(o.off as u64));
        match o.code {
            Load8 | Load16 | Load32 | Load64 | Loads8 | Loads16 | Loads32 => Some((memory(o.src), false)),
            Store8K | Store16K | Store32K | Store64K | Store8X | Store16X | Store32X | Store64X
            | Atomic32 | Atomic64 => Some((memory(o.dst), true)),
            CallKfunc => Some((SharedPlace::Kernel, true)),
            // Of the helpers those count that find, change, delete, push, pop and peek at elements: r1 is the map.
            CallHelper if matches!(o.imm, 1..=3 | 87..=89) => {
                Some((SharedPlace::Map(self.regs[1]), !matches!(o.imm, 1 | 89)))
            }
            _ => None,
        }
    }
}

/// Adds this span's frames to a fault's backtrace: the faulting or calling instruction, then the call sites.
#[cold]
pub(super) fn locate(vm: &Vm<'_>, mut fault: Fault, bottom: u32) -> Fault {
    debug_assert!(bottom < vm.mem.frames_used, "the fault lies in a frame of this run");
    fault.push_location(vm.location_of(vm.at as usize));
    for depth in (bottom + 1..vm.mem.frames_used).rev() {
        let call_site = vm.frames[depth as usize].return_to.saturating_sub(1);
        fault.push_location(vm.location_of(call_site));
    }
    fault
}

/// Names the fault of a failed access, or lets it pass where the kernel does: at marked instructions and in the arena.
#[cold]
#[inline(never)]
fn failed(vm: &mut Vm<'_>, decoded: &Op, addr: u64, size: u64, access: Access) -> Result<(), Fault> {
    if decoded.probe || GuestAddr(addr).is_arena() {
        vm.probe_faults += 1;
        return Ok(());
    }
    Err(Memory::classify(addr, size, access).into())
}

/// A load of `N` bytes that does not go straight to memory: from an object that the host keeps lazily, over the end of
/// a page, or a failing one, which has no value where it is let pass.
#[inline(never)]
fn load_otherwise<const N: usize, H: Host>(
    vm: &mut Vm<'_>,
    decoded: &Op,
    addr: u64,
    host: &mut H,
    access: Access,
) -> Result<Option<u64>, Fault> {
    if vm.mem.is_lazy(addr, N as u64) {
        host.kernel_load(GuestAddr(addr), vm.mem)?;
    }
    match vm.mem.load_fresh::<N>(addr) {
        Ok(value) => Ok(Some(value)),
        Err(()) => failed(vm, decoded, addr, N as u64, access).map(|()| None),
    }
}

/// A store of `N` bytes by the program.
#[inline(always)]
fn store<const N: usize, H: Host>(
    vm: &mut Vm<'_>,
    decoded: &Op,
    addr: u64,
    value: u64,
    host: &mut H,
) -> Result<(), Fault> {
    match vm.mem.store::<N>(addr, value) {
        Ok(Store::Done) => {
            vm.mem.touch(addr, true, vm.at);
            Ok(())
        }
        Ok(Store::Kernel) => host.kernel_store(GuestAddr(addr), N as u8, value, vm),
        Err(()) => failed(vm, decoded, addr, N as u64, Access::Write),
    }
}

/// An atomic read-modify-write of `N` bytes (4 or 8). Nothing runs beside the program, so a load and a store do.
#[inline(never)]
fn atomic<const N: usize, H: Host>(
    vm: &mut Vm<'_>,
    regs: &mut Registers,
    decoded: &Op,
    host: &mut H,
) -> Result<(), Fault> {
    let narrow = |value: u64| {
        if N == 4 { u64::from(value as u32) } else { value }
    };
    let addr = regs[decoded.dst as usize].wrapping_add(decoded.off as u64);
    let operand = narrow(regs[decoded.src as usize]);
    let old = match vm.mem.load::<N>(addr) {
        Some(old) => old,
        None => match load_otherwise::<N, H>(vm, decoded, addr, host, Access::Write)? {
            Some(old) => old,
            None => return Ok(()),
        },
    };
    let operation = decoded.imm as i32;
    if operation == op::CMPXCHG {
        let stored = if old == narrow(regs[0]) { operand } else { old };
        store::<N, H>(vm, decoded, addr, stored, host)?;
        regs[0] = old;
        return Ok(());
    }
    let new = match operation & !op::FETCH {
        0x00 => old.wrapping_add(operand),
        0x40 => old | operand,
        0x50 => old & operand,
        0xa0 => old ^ operand,
        _ => operand,
    };
    store::<N, H>(vm, decoded, addr, narrow(new), host)?;
    if operation & op::FETCH != 0 {
        regs[decoded.src as usize] = old;
    }
    Ok(())
}

fn div64(a: u64, b: u64) -> u64 {
    a.checked_div(b).unwrap_or(0)
}

fn mod64(a: u64, b: u64) -> u64 {
    a.checked_rem(b).unwrap_or(a)
}

fn div32(a: u32, b: u32) -> u32 {
    a.checked_div(b).unwrap_or(0)
}

fn mod32(a: u32, b: u32) -> u32 {
    a.checked_rem(b).unwrap_or(a)
}

fn sdiv64(a: u64, b: u64) -> u64 {
    if b == 0 { 0 } else { (a as i64).wrapping_div(b as i64) as u64 }
}

fn smod64(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { (a as i64).wrapping_rem(b as i64) as u64 }
}

fn sdiv32(a: u32, b: u32) -> u32 {
    if b == 0 { 0 } else { (a as i32).wrapping_div(b as i32) as u32 }
}

fn smod32(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { (a as i32).wrapping_rem(b as i32) as u32 }
}

/// Does one access or signed division; control flow and counting are the caller's.
///
/// A table like [`run`]'s, of the operations that compiled code leaves to it.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "nothing is compiled there"))]
#[rustfmt::skip]
pub(super) fn one<H: Host>(vm: &mut Vm<'_>, o: &Op, regs: &mut Registers, host: &mut H) -> Result<(), Fault> {
    let (dst, src) = (regs[o.dst as usize], regs[o.src as usize]);
    macro_rules! load { ($n:literal, $extend:expr) => {{
        let addr = src.wrapping_add(o.off as u64);
        match load_otherwise::<$n, H>(vm, o, addr, host, Access::Read)? {
            Some(value) => {
                vm.mem.touch(addr, false, vm.at);
                regs[o.dst as usize] = $extend(value);
            }
            None => if !o.keep { regs[o.dst as usize] = 0; }
        }
        Ok(())
    }}; }
    macro_rules! store { ($n:literal, $value:expr) => {
        store::<$n, H>(vm, o, dst.wrapping_add(o.off as u64), $value, host)
    }; }
    macro_rules! set { ($value:expr) => {{ regs[o.dst as usize] = $value; Ok(()) }}; }
    use OpCode::*;
    match o.code {
        Load8 => load!(1, |v| v), Load16 => load!(2, |v| v), Load32 => load!(4, |v| v), Load64 => load!(8, |v| v),
        Loads8 => load!(1, |v| v as i8 as u64), Loads16 => load!(2, |v| v as i16 as u64),
        Loads32 => load!(4, |v| v as i32 as u64),
        Store8K => store!(1, o.imm as u64), Store8X => store!(1, src),
        Store16K => store!(2, o.imm as u64), Store16X => store!(2, src),
        Store32K => store!(4, o.imm as u64), Store32X => store!(4, src),
        Store64K => store!(8, o.imm as u64), Store64X => store!(8, src),
        Atomic32 => atomic::<4, H>(vm, regs, o, host), Atomic64 => atomic::<8, H>(vm, regs, o, host),
        Sdiv64K => set!(sdiv64(dst, o.imm as u64)), Sdiv64X => set!(sdiv64(dst, src)),
        Smod64K => set!(smod64(dst, o.imm as u64)), Smod64X => set!(smod64(dst, src)),
        Sdiv32K => set!(u64::from(sdiv32(dst as u32, o.imm as u32))),
        Sdiv32X => set!(u64::from(sdiv32(dst as u32, src as u32))),
        Smod32K => set!(u64::from(smod32(dst as u32, o.imm as u32))),
        Smod32X => set!(u64::from(smod32(dst as u32, src as u32))),
        _ => unreachable!("compiled code does {:?} itself", o.code),
    }
}

/// Casts of arena pointers between address spaces: the high half names the window, NULL stays NULL.
fn cast(value: u64) -> u64 {
    let low = u64::from(value as u32);
    if low == 0 { 0 } else { ARENA_BASE | low }
}

/// Executes from operation `entry` until the exit of the frame above `bottom`, or until `limit` instructions of the run are
/// executed: the fault says that the budget is used up then, and the run stands at the operation that would be next.
///
/// A table, one line for each kind of operation; its length is the instruction set's.
#[rustfmt::skip]
pub(super) fn run<H: Host>(
    vm: &mut Vm<'_>, regs: &mut Registers, entry: usize, bottom: u32, limit: u64, host: &mut H,
) -> Result<(), Fault> {
    let code = vm.code;
    let ops: &[Op] = &code.ops;
    debug_assert!(limit <= vm.budget, "a run ends with its budget");
    let mut pc = entry;
    let mut executed = vm.insns();
    loop {
        if executed >= limit {
            vm.set_insns(executed);
            vm.at = pc as u32;
            return Err(FaultKind::Budget { limit: vm.budget }.into());
        }
        // SAFETY: every value that `pc` takes is an index into `ops`. It starts at a function's entry and moves to the
        // next operation, to a jump's target, to a callee's entry or behind a call; decoding has put all targets on
        // operations of the same function and lets no function end in anything but an exit or a jump, and linking
        // has put callees on entries. `Code` does not change after that.
        let o = unsafe { ops.get_unchecked(pc) };
        pc += 1;
        executed += 1;
        // The state that a host and a fault's reader see.
        macro_rules! sync { () => {{ vm.set_insns(executed); vm.at = (pc - 1) as u32; }}; }
        macro_rules! dst { () => { regs[o.dst as usize] }; }
        macro_rules! src { () => { regs[o.src as usize] }; }
        macro_rules! fault { ($e:expr) => {{ sync!(); return Err($e.into()); }}; }
        macro_rules! ok { ($e:expr) => { match $e { Ok(value) => value, Err(fault) => fault!(fault) } }; }
        // 64-bit and 32-bit arithmetic: `f` takes and gives the operand's type.
        macro_rules! alu64 { ($f:expr, $b:expr) => {{ let b: u64 = $b; dst!() = $f(dst!(), b); }}; }
        macro_rules! alu32 { ($f:expr, $b:expr) => {{ let b: u32 = $b; dst!() = u64::from($f(dst!() as u32, b)); }}; }
        macro_rules! k64 { ($f:expr) => { alu64!($f, o.imm as u64) }; }
        macro_rules! x64 { ($f:expr) => { alu64!($f, src!()) }; }
        macro_rules! k32 { ($f:expr) => { alu32!($f, o.imm as u32) }; }
        macro_rules! x32 { ($f:expr) => { alu32!($f, src!() as u32) }; }
        macro_rules! jump_if { ($c:expr) => { if $c { pc = o.off as usize; } }; }
        macro_rules! jk64 { ($t:ty, $c:expr) => { jump_if!($c(&(dst!() as $t), &(o.imm as $t))) }; }
        macro_rules! jx64 { ($t:ty, $c:expr) => { jump_if!($c(&(dst!() as $t), &(src!() as $t))) }; }
        macro_rules! load { ($n:literal, $extend:expr) => {{
            let addr = src!().wrapping_add(o.off as u64);
            match vm.mem.load::<$n>(addr) {
                Some(value) => {
                    vm.mem.touch(addr, false, (pc - 1) as u32);
                    dst!() = $extend(value);
                }
                None => {
                    sync!();
                    match load_otherwise::<$n, H>(vm, o, addr, host, Access::Read)? {
                        Some(value) => {
                            vm.mem.touch(addr, false, vm.at);
                            dst!() = $extend(value);
                        }
                        None => if !o.keep { dst!() = 0; }
                    }
                }
            }
        }}; }
        macro_rules! store { ($n:literal, $value:expr) => {{
            let addr = dst!().wrapping_add(o.off as u64);
            let value: u64 = $value;
            match vm.mem.store::<$n>(addr, value) {
                Ok(Store::Done) => vm.mem.touch(addr, true, (pc - 1) as u32),
                Ok(Store::Kernel) => { sync!(); host.kernel_store(GuestAddr(addr), $n, value, vm)?; executed = vm.insns(); }
                Err(()) => { sync!(); failed(vm, o, addr, $n, Access::Write)?; }
            }
        }}; }
        macro_rules! enter { ($target:expr) => {{
            let target = $target;
            regs[10] = ok!(vm.push_frame(pc));
            vm.frames[vm.mem.frames_used as usize - 1].saved = [regs[6], regs[7], regs[8], regs[9]];
            pc = target;
        }}; }
        use OpCode::*;
        match o.code {
            Add64K => k64!(u64::wrapping_add), Add64X => x64!(u64::wrapping_add),
            Add32K => k32!(u32::wrapping_add), Add32X => x32!(u32::wrapping_add),
            Sub64K => k64!(u64::wrapping_sub), Sub64X => x64!(u64::wrapping_sub),
            Sub32K => k32!(u32::wrapping_sub), Sub32X => x32!(u32::wrapping_sub),
            Mul64K => k64!(u64::wrapping_mul), Mul64X => x64!(u64::wrapping_mul),
            Mul32K => k32!(u32::wrapping_mul), Mul32X => x32!(u32::wrapping_mul),
            Div64K => k64!(div64), Div64X => x64!(div64), Div32K => k32!(div32), Div32X => x32!(div32),
            Mod64K => k64!(mod64), Mod64X => x64!(mod64), Mod32K => k32!(mod32), Mod32X => x32!(mod32),
            Sdiv64K => k64!(sdiv64), Sdiv64X => x64!(sdiv64), Sdiv32K => k32!(sdiv32), Sdiv32X => x32!(sdiv32),
            Smod64K => k64!(smod64), Smod64X => x64!(smod64), Smod32K => k32!(smod32), Smod32X => x32!(smod32),
            Or64K => k64!(|a, b| a | b), Or64X => x64!(|a, b| a | b),
            Or32K => k32!(|a, b| a | b), Or32X => x32!(|a, b| a | b),
            And64K => k64!(|a, b| a & b), And64X => x64!(|a, b| a & b),
            And32K => k32!(|a, b| a & b), And32X => x32!(|a, b| a & b),
            Xor64K => k64!(|a, b| a ^ b), Xor64X => x64!(|a, b| a ^ b),
            Xor32K => k32!(|a, b| a ^ b), Xor32X => x32!(|a, b| a ^ b),
            Lsh64K => k64!(|a: u64, b| a.wrapping_shl(b as u32)), Lsh64X => x64!(|a: u64, b| a.wrapping_shl(b as u32)),
            Lsh32K => k32!(u32::wrapping_shl), Lsh32X => x32!(u32::wrapping_shl),
            Rsh64K => k64!(|a: u64, b| a.wrapping_shr(b as u32)), Rsh64X => x64!(|a: u64, b| a.wrapping_shr(b as u32)),
            Rsh32K => k32!(u32::wrapping_shr), Rsh32X => x32!(u32::wrapping_shr),
            Arsh64K => k64!(|a, b| (a as i64).wrapping_shr(b as u32) as u64),
            Arsh64X => x64!(|a, b| (a as i64).wrapping_shr(b as u32) as u64),
            Arsh32K => k32!(|a, b| (a as i32).wrapping_shr(b) as u32),
            Arsh32X => x32!(|a, b| (a as i32).wrapping_shr(b) as u32),
            Mov64K => dst!() = o.imm as u64, Mov64X => dst!() = src!(),
            Mov32K => dst!() = u64::from(o.imm as u32), Mov32X => dst!() = u64::from(src!() as u32),
            Neg64 => dst!() = dst!().wrapping_neg(), Neg32 => dst!() = u64::from((dst!() as u32).wrapping_neg()),
            Movsx8To32 => dst!() = u64::from(src!() as i8 as u32), Movsx16To32 => dst!() = u64::from(src!() as i16 as u32),
            Movsx8To64 => dst!() = src!() as i8 as u64, Movsx16To64 => dst!() = src!() as i16 as u64,
            Movsx32To64 => dst!() = src!() as i32 as u64,
            Zext16 => dst!() = u64::from(dst!() as u16), Swap16 => dst!() = u64::from((dst!() as u16).swap_bytes()),
            Swap32 => dst!() = u64::from((dst!() as u32).swap_bytes()), Swap64 => dst!() = dst!().swap_bytes(),
            Cast => dst!() = cast(src!()),

            Ja => pc = o.off as usize,
            MayGoto => {
                let left = &mut vm.frames[vm.mem.frames_used as usize - 1].may_goto_left;
                if *left == 0 { pc = o.off as usize; } else { *left -= 1; }
            }
            Jeq64K => jk64!(u64, u64::eq), Jeq64X => jx64!(u64, u64::eq),
            Jeq32K => jk64!(u32, u32::eq), Jeq32X => jx64!(u32, u32::eq),
            Jne64K => jk64!(u64, u64::ne), Jne64X => jx64!(u64, u64::ne),
            Jne32K => jk64!(u32, u32::ne), Jne32X => jx64!(u32, u32::ne),
            Jgt64K => jk64!(u64, u64::gt), Jgt64X => jx64!(u64, u64::gt),
            Jgt32K => jk64!(u32, u32::gt), Jgt32X => jx64!(u32, u32::gt),
            Jge64K => jk64!(u64, u64::ge), Jge64X => jx64!(u64, u64::ge),
            Jge32K => jk64!(u32, u32::ge), Jge32X => jx64!(u32, u32::ge),
            Jlt64K => jk64!(u64, u64::lt), Jlt64X => jx64!(u64, u64::lt),
            Jlt32K => jk64!(u32, u32::lt), Jlt32X => jx64!(u32, u32::lt),
            Jle64K => jk64!(u64, u64::le), Jle64X => jx64!(u64, u64::le),
            Jle32K => jk64!(u32, u32::le), Jle32X => jx64!(u32, u32::le),
            Jsgt64K => jk64!(i64, i64::gt), Jsgt64X => jx64!(i64, i64::gt),
            Jsgt32K => jk64!(i32, i32::gt), Jsgt32X => jx64!(i32, i32::gt),
            Jsge64K => jk64!(i64, i64::ge), Jsge64X => jx64!(i64, i64::ge),
            Jsge32K => jk64!(i32, i32::ge), Jsge32X => jx64!(i32, i32::ge),
            Jslt64K => jk64!(i64, i64::lt), Jslt64X => jx64!(i64, i64::lt),
            Jslt32K => jk64!(i32, i32::lt), Jslt32X => jx64!(i32, i32::lt),
            Jsle64K => jk64!(i64, i64::le), Jsle64X => jx64!(i64, i64::le),
            Jsle32K => jk64!(i32, i32::le), Jsle32X => jx64!(i32, i32::le),
            Jset64K => jump_if!(dst!() & o.imm as u64 != 0), Jset64X => jump_if!(dst!() & src!() != 0),
            Jset32K => jump_if!(dst!() as u32 & o.imm as u32 != 0), Jset32X => jump_if!((dst!() & src!()) as u32 != 0),

            Load8 => load!(1, |v| v), Load16 => load!(2, |v| v), Load32 => load!(4, |v| v), Load64 => load!(8, |v| v),
            Loads8 => load!(1, |v| v as i8 as u64), Loads16 => load!(2, |v| v as i16 as u64),
            Loads32 => load!(4, |v| v as i32 as u64),
            Store8K => store!(1, o.imm as u64), Store8X => store!(1, src!()),
            Store16K => store!(2, o.imm as u64), Store16X => store!(2, src!()),
            Store32K => store!(4, o.imm as u64), Store32X => store!(4, src!()),
            Store64K => store!(8, o.imm as u64), Store64X => store!(8, src!()),
            Atomic32 => { sync!(); atomic::<4, H>(vm, regs, o, host)?; executed = vm.insns(); }
            Atomic64 => { sync!(); atomic::<8, H>(vm, regs, o, host)?; executed = vm.insns(); }

            CallHelper => {
                sync!();
                regs[0] = host.helper(o.imm as u32, &[regs[1], regs[2], regs[3], regs[4], regs[5]], vm)?;
                executed = vm.insns();
            }
            CallKfunc => {
                sync!();
                regs[0] = host.kfunc(o.imm as u32, &[regs[1], regs[2], regs[3], regs[4], regs[5]], vm)?;
                executed = vm.insns();
            }
            CallLocal => enter!(o.imm as usize),
            CallReg => {
                let target = dst!();
                let entry = FuncId::from_pointer(target).and_then(|func| code.entry(func));
                enter!(ok!(entry.ok_or(FaultKind::BadCall { target })))
            }
            Exit => {
                let depth = vm.mem.frames_used - 1;
                vm.mem.frames_used = depth;
                if depth == bottom {
                    sync!();
                    return Ok(());
                }
                let Frame { return_to, saved, .. } = vm.frames[depth as usize];
                [regs[6], regs[7], regs[8], regs[9]] = saved;
                regs[10] = Memory::frame_pointer(depth - 1);
                pc = return_to;
            }
            FuncPointer => unreachable!("linked by CodeBuilder::build"),
        }
    }
}
