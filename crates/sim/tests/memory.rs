//! Memory does not grow with simulated time.

use schedlab_base::Machine;
use schedlab_sim::{Class, Config, OpsInfo, SchedExt, run};
use schedlab_workload::{Scenario, catalog, file};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts the bytes that live, and the most that ever did.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The counts are of the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

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

/// The most bytes that a run holds beyond what lived before.
fn peak_of(scenario: &Scenario) -> usize {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let config = Config::new(Machine::uniform("test", 4), 1);
    run(&config, scenario, Class::<Nobody>::Fair).unwrap();
    PEAK.load(Relaxed) - before
}

/// The same of a run of `spec`, without what every run has.
fn peak(spec: &str) -> usize {
    let peak = |spec: &str| peak_of(&catalog::build(spec, 1).unwrap());
    peak(spec).saturating_sub(peak("cpuhog:ntasks=1,ttime=1ms"))
}

/// A task forks a child that ends, waits for it, and begins again.
fn forks(seconds: u64) -> Scenario {
    let children = format!(
        r#"name = "forks"
        end = "{seconds}s"
        [programs]
        parent = ["repeat forever", "fork child", "wait-child", "done"]
        child = ["run 10us", "exit"]
        [[tasks]]
        name = "parent"
        program = "parent"
        "#
    );
    file::parse(&children, "forks.toml").unwrap()
}

#[test]
fn tasks_that_are_gone_take_no_memory() {
    let _alone = ALONE.lock();
    let (short, long) = (peak_of(&forks(1)), peak_of(&forks(20)));
    // Each second sees more than 6,000 children: a word kept for each would be 900 KiB.
    assert!(long < short + 8192, "{short} then {long}");
}

#[test]
fn ten_times_as_long_takes_no_more_memory() {
    let _alone = ALONE.lock();
    for (short, long) in [
        ("cpuhog:ntasks=9,ttime=1s", "cpuhog:ntasks=9,ttime=10s"),
        ("lat-sched:ntasks=9,ttime=10ms", "lat-sched:ntasks=9,ttime=100ms"),
        ("reflex:tasks=16,rounds=300", "reflex:tasks=16,rounds=3000"),
        ("chat:rooms=1,messages=20", "chat:rooms=1,messages=200"),
    ] {
        let (short_peak, long_peak) = (peak(short), peak(long));
        // Each task counts its waits by length, in 512 bytes for a power of two; waits that are ten times as long are four.
        let counts = catalog::build(long, 1).unwrap().tasks.len() * 4 * 512;
        // Queues keep the room of their longest moment.
        let most = short_peak + short_peak / 4 + 8192 + counts;
        assert!(long_peak < most, "{long}: {short_peak} then {long_peak}");
    }
}
