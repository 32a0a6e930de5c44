//! Memory does not grow with simulated time.

use schedlab_base::Machine;
use schedlab_sim::{Class, Config, OpsInfo, SchedExt, run};
use schedlab_workload::catalog;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts the bytes that live, and the most that ever did.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: both calls go to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Debug)]
struct Nobody;

impl SchedExt for Nobody {
    fn info(&self) -> &OpsInfo {
        unreachable!("the fair class runs")
    }
}

/// The most bytes that a run of `spec` holds beyond what lived before.
fn peak(spec: &str) -> usize {
    let scenario = catalog::build(spec, 1).unwrap();
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let config = Config::new(Machine::uniform("test", 4), 1);
    run(&config, &scenario, Class::<Nobody>::Fair).unwrap();
    PEAK.load(Relaxed) - before
}

#[test]
fn ten_times_as_long_takes_no_more_memory() {
    for (short, long) in [
        ("cpuhog:ntasks=9,ttime=1s", "cpuhog:ntasks=9,ttime=10s"),
        ("lat-sched:ntasks=9,ttime=10ms", "lat-sched:ntasks=9,ttime=100ms"),
        ("reflex:tasks=16,rounds=300", "reflex:tasks=16,rounds=3000"),
        ("chat:rooms=1,messages=20", "chat:rooms=1,messages=200"),
    ] {
        let (short_peak, long_peak) = (peak(short), peak(long));
        // Queues keep the room of their longest moment.
        assert!(long_peak < short_peak + short_peak / 4 + 8192, "{long}: {short_peak} then {long_peak}");
    }
}
