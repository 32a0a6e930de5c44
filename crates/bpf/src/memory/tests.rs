//! Tests of the guest address space.

use super::*;
use crate::fault::FaultKind;

fn memory() -> Memory {
    Memory::new().expect("8 GiB of address space")
}

#[test]
fn regions_do_not_touch_and_addresses_repeat() {
    let (mut one, mut two) = (memory(), memory());
    for len in [1, 4096, 4097, 100_000] {
        let addr = one.map(len, Perm::READ_WRITE).unwrap();
        assert_eq!(addr, two.map(len, Perm::READ_WRITE).unwrap());
        let end = len.next_multiple_of(PAGE_SIZE);
        assert!(one.write_u8(addr.offset(end - 1), 1).is_ok());
        assert!(one.write_u8(addr.offset(end), 1).is_err(), "a guard page follows");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn nobody_touches_what_lies_around_the_guest_and_its_permissions() {
    let mut mem = memory();
    let guest = mem.base() as usize;
    let perms = guest - PERM_BYTES;
    let end = guest + GUEST_LIMIT as usize;
    for open in [perms, guest - 1, guest + NULL_LIMIT as usize, end - 1] {
        assert_eq!(guard::tests::rights_at(open), "rw-", "{:#x}", open.wrapping_sub(guest));
    }
    for closed in
        [perms - 1, perms - GUARD_LEN, guest, guest + NULL_LIMIT as usize - 1, end, end + GUARD_LEN - 1]
    {
        assert_eq!(guard::tests::rights_at(closed), "---", "{:#x}", closed.wrapping_sub(guest));
    }
    // What a host may ask for there is refused, and releasing it is harmless.
    assert!(mem.write_u64(GuestAddr(8), 1).is_err() && mem.read_u8(GuestAddr::NULL).is_err());
    mem.unmap(GuestAddr::NULL, RELEASE_LEN);
    mem.unmap(GuestAddr::NULL, PAGE_SIZE);
}

#[test]
fn unmapped_regions_are_zeroed_and_reused() {
    let mut mem = memory();
    for len in [5000, RELEASE_LEN] {
        let addr = mem.map(len, Perm::READ_WRITE).unwrap();
        mem.write_u64(addr.offset(4092), 0x1122_3344_5566_7788).unwrap();
        mem.unmap(addr, len);
        let fault = mem.read_u8(addr).unwrap_err();
        let bad = FaultKind::BadAccess { addr, size: 1, access: Access::Read };
        assert_eq!(*fault.kind(), bad);
        assert_eq!(mem.map(len, Perm::READ).unwrap(), addr, "same size, same place");
        assert_eq!(mem.read_u64(addr.offset(4092)).unwrap(), 0);
    }
}

#[test]
fn every_host_access_is_checked_on_both_of_its_pages() {
    let mut mem = memory();
    let addr = mem.map(PAGE_SIZE, Perm::READ).unwrap();
    let last = addr.offset(PAGE_SIZE - 4);
    assert!(mem.write_u32(last, 7).is_ok(), "hosts may write what programs only read");
    assert!(mem.read_u64(last).is_err() && mem.write_u64(last, 1).is_err());
    assert_eq!(mem.slice(addr, PAGE_SIZE).unwrap().len(), 4096);
    assert!(mem.slice(addr, PAGE_SIZE + 1).is_err());
    for (at, len) in [(GUEST_LIMIT, 0), (GUEST_LIMIT - 1, 2), (u64::MAX, 1), (u64::MAX, u64::MAX), (0, 0)] {
        assert!(mem.slice(GuestAddr(at), len).is_err(), "{at:#x} {len}");
    }
}

#[test]
fn programs_keep_to_permissions_across_pages() {
    let mut mem = memory();
    let base = GuestAddr(ARENA_BASE);
    mem.map_at(base, PAGE_SIZE, Perm::READ_WRITE).unwrap();
    mem.map_at(base.offset(PAGE_SIZE), PAGE_SIZE, Perm::READ).unwrap();
    let edge = base.0 + PAGE_SIZE - 4;
    assert_eq!(mem.store::<8>(edge, 1), Err(()));
    mem.protect(base.offset(PAGE_SIZE), PAGE_SIZE, Perm::READ_WRITE);
    assert_eq!(mem.store::<8>(edge, 0x1122_3344_5566_7788), Ok(Store::Done));
    assert_eq!(mem.load_fresh::<8>(edge), Ok(0x1122_3344_5566_7788));
    mem.protect(base.offset(PAGE_SIZE), PAGE_SIZE, Perm::READ | Perm::KERNEL);
    assert_eq!(mem.store::<8>(edge, 5), Ok(Store::Kernel));
    assert_eq!(mem.load_fresh::<8>(edge), Ok(0x1122_3344_5566_7788), "the store was the host's to do");
}

#[test]
fn a_page_says_what_can_be_done_with_the_next_one_too() {
    let mut mem = memory();
    let base = GUEST_LIMIT - 4 * PAGE_SIZE;
    let first = (base >> PAGE_SHIFT) as usize;
    let mut says = |change: &dyn Fn(&mut Memory)| {
        change(&mut mem);
        let perms = &mem.perms()[first..first + 5];
        let next =
            |perm: Perm| perms.iter().map(|byte| u8::from(byte & perm.bits() != 0)).collect::<Vec<_>>();
        (next(Perm::READ_NEXT), next(Perm::WRITE_NEXT))
    };
    let at = |page: u64| GuestAddr(base + page * PAGE_SIZE);
    let all = says(&|mem| mem.map_at(at(0), 4 * PAGE_SIZE, Perm::READ_WRITE).unwrap());
    assert_eq!(all, (vec![1, 1, 1, 0, 0], vec![1, 1, 1, 0, 0]), "there is nothing behind the last page");
    let kernel = says(&|mem| mem.protect(at(2), 1, Perm::READ | Perm::KERNEL));
    assert_eq!(kernel, (vec![1, 1, 1, 0, 0], vec![1, 0, 0, 0, 0]));
    let gap = says(&|mem| mem.unmap(at(1), 1));
    assert_eq!(gap, (vec![0, 0, 1, 0, 0], vec![0; 5]));
    let again = says(&|mem| mem.map_at(at(1), 2 * PAGE_SIZE, Perm::READ_WRITE).unwrap());
    assert_eq!(again, all);
    let lazy = says(&|mem| mem.protect(at(0), 2 * PAGE_SIZE, Perm::LAZY | Perm::KERNEL));
    assert_eq!(lazy, (vec![0, 0, 1, 0, 0], vec![0, 0, 1, 0, 0]));
    assert_eq!(
        mem.perm_at(at(2)),
        Perm::READ_WRITE,
        "who asks for a page's permission learns of no other page"
    );
}

#[test]
fn impossible_ranges_are_refused() {
    let mut mem = memory();
    assert!(matches!(mem.map(5 << 30, Perm::READ), Err(MemoryError::Full { .. })));
    assert!(matches!(mem.map(u64::MAX, Perm::READ), Err(MemoryError::Full { .. })));
    assert!(mem.map(0, Perm::READ).is_err() && mem.map(1, Perm::NONE).is_err());
    for (addr, len) in
        [(0, PAGE_SIZE), (ARENA_BASE + 1, PAGE_SIZE), (GUEST_LIMIT, PAGE_SIZE), (ARENA_BASE, 0)]
    {
        assert!(mem.map_at(GuestAddr(addr), len, Perm::READ).is_err(), "{addr:#x} {len}");
    }
    mem.unmap(GuestAddr(u64::MAX), u64::MAX);
}

#[test]
fn an_object_takes_no_more_than_its_limit() {
    let mut mem = memory();
    mem.set_limit(10 * PAGE_SIZE);
    let values = mem.map_values(4 * PAGE_SIZE, 7).unwrap();
    assert_eq!(mem.owner(values.0 + 5), Some((7, values.0)));
    assert_eq!(mem.owner(values.0 + 4 * PAGE_SIZE), None, "the guard page is nobody's");
    assert!(mem.map_values(7 * PAGE_SIZE, 8).unwrap_err().to_string().contains("--guest-memory"));
    mem.take(6 * PAGE_SIZE).unwrap();
    assert!(matches!(mem.take(1), Err(MemoryError::Limit { len: 1, .. })));
    mem.give_back(PAGE_SIZE);
    assert!(mem.take(PAGE_SIZE).is_ok() && mem.take(u64::MAX).is_err());
    let own = mem.map(1 << 20, Perm::READ).unwrap();
    assert_eq!(mem.owner(own.0), None, "the kernel's own regions count against nobody");
}

#[test]
fn helpers_write_to_memory_of_the_program_only() {
    let mut mem = memory();
    let own = mem.map_values(2 * PAGE_SIZE, 0).unwrap();
    let constant = mem.map(PAGE_SIZE, Perm::READ).unwrap();
    let kernel = mem.map(PAGE_SIZE, Perm::READ | Perm::KERNEL).unwrap();
    let lazy = mem.map(PAGE_SIZE, Perm::LAZY | Perm::KERNEL).unwrap();
    assert!(mem.check_own(own.offset(PAGE_SIZE - 4), 8).is_ok());
    for (addr, len) in
        [(constant, 1), (kernel, 8), (lazy, 8), (own.offset(2 * PAGE_SIZE - 1), 2), (GuestAddr::NULL, 1)]
    {
        assert!(mem.check_own(addr, len).is_err(), "{addr} {len}");
    }
    for addr in [own, constant, kernel, lazy] {
        assert!(mem.check_readable(addr, PAGE_SIZE).is_ok(), "{addr}");
    }
    assert!(
        mem.check_readable(GuestAddr(u64::MAX - 3), 8).is_err() && mem.check_readable(own, u64::MAX).is_err()
    );
}
