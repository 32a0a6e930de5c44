//! Interleavings: which callbacks of a run are paused in the middle, so that other CPUs continue meanwhile.
//!
//! In the kernel the callbacks of several CPUs run at the same time: the steps of one fall between any two instructions of another.
//! Elsewhere in the simulator a kernel path runs at once. A list of [`Pause`]s brings the steps back, for as many
//! callbacks as it names: [`with_pauses`] makes one from a seed, of which each pause can take place.

use crate::failure::Failure;
use crate::run::simulation::Simulation;
use schedlab_base::{DurationNs, Prng, StopFlag};
use schedlab_bpf::SharedPlace;
use schedlab_scx::{Access, Interleave};
use schedlab_workload::Scenario;
use std::collections::{BTreeMap, HashMap};

pub use schedlab_scx::Pause;

/// Most pauses of a run. Chosen: what so few cost by themselves, such as a kick that comes a tick later, makes few runs suspect.
/// What is lost for the rest of the run is seen.
const PAUSES: u64 = 12;

/// The longest pause. Chosen: what a hypervisor takes from a virtual CPU at a time, and long enough for events of others.
const LONGEST: DurationNs = DurationNs::from_ms(1);

/// How much later than the call that it is to meet a paused call continues at most. Chosen: longer than a callback takes.
const BEHIND: DurationNs = DurationNs::from_us(20);

/// Calls in a row whose accesses are looked at. Chosen: all code that a scheduler uses often, in milliseconds.
const WINDOW: u64 = 1024;

/// Draws pauses for a run from a seed. A pause lies before an access to what CPUs share: elsewhere it makes no difference. Half of
/// them let an access of another CPU to the same memory come first. A pause in which another CPU needs the lock that the
/// callback holds cannot take place, and is left out.
///
/// # Errors
/// As of [`Simulation::run_alone`].
fn draw(
    simulation: &Simulation,
    scenario: &Scenario,
    seed: u64,
    stop: &StopFlag,
) -> Result<Vec<Pause>, Failure> {
    let with = |wanted| simulation.try_interleave(scenario, wanted, stop.clone());
    let mut random = Prng::stream(seed, 0);
    let (calls, _) = with(Interleave::Watch(0..0))?.unwrap_or_default();
    let from = random.below(calls.saturating_sub(WINDOW) + 1);
    let (_, accesses) = with(Interleave::Watch(from..from + WINDOW))?.unwrap_or_default();
    let mut pauses = chosen(&accesses, &mut random);
    while let Err(refused) = with(Interleave::Pause(pauses.clone()))? {
        pauses.remove(refused);
    }
    Ok(pauses)
}

/// The run with the pauses of a seed.
///
/// # Errors
/// As of [`Simulation::run_alone`].
pub fn with_pauses(
    simulation: Simulation,
    scenario: &Scenario,
    seed: u64,
    stop: &StopFlag,
) -> Result<Simulation, Failure> {
    let pauses = draw(&simulation, scenario, seed, stop)?;
    Ok(Simulation { pauses: Some(pauses), ..simulation })
}

/// An access before which a callback may be paused.
#[derive(Clone, Copy, Debug)]
struct Point {
    call: u64,
    /// When another CPU accesses the same, one of the two writing; nothing where none does soon.
    met: Option<DurationNs>,
}

/// The points of each instruction.
type Points = BTreeMap<u32, Vec<Point>>;

/// Pauses at a few instructions, so that what goes wrong there does so several times.
fn chosen(accesses: &[Access], random: &mut Prng) -> Vec<Pause> {
    let [memory, kernel, any] = points(accesses);
    let kinds: Vec<&Points> =
        [&memory, &memory, &kernel, &any].into_iter().filter(|points| !points.is_empty()).collect();
    if kinds.is_empty() {
        return Vec::new();
    }
    let mut instruction = |_| {
        let points = kinds[random.below(kinds.len() as u64) as usize];
        points.iter().nth(random.below(points.len() as u64) as usize).expect("within its length")
    };
    let instructions: Vec<(&u32, &Vec<Point>)> = (0..3).map(&mut instruction).collect();
    let used = 1 + random.below(instructions.len() as u64);
    let mut pause = |_| {
        let (insn, points) = instructions[random.below(used) as usize];
        let Point { call, met } = points[random.below(points.len() as u64) as usize];
        // A long pause may meet what no callback sees, such as a change of an affinity.
        let delay = match met.filter(|_| random.chance(2, 3)) {
            Some(met) => met + spread(BEHIND, random),
            None => spread(LONGEST, random),
        };
        Pause { call, insn: *insn, delay }
    };
    let mut pauses: Vec<Pause> = (0..PAUSES).map(&mut pause).collect();
    pauses.sort_unstable();
    pauses.dedup_by_key(|pause| pause.call);
    pauses
}

/// A time up to `most`; shorter ones are as frequent as longer ones.
fn spread(most: DurationNs, random: &mut Prng) -> DurationNs {
    let halved = random.below(6);
    DurationNs(random.below((most.0 >> halved).max(1)))
}

/// The points whose memory another CPU accesses soon, those where another CPU calls the kernel soon, and all.
fn points(accesses: &[Access]) -> [Points; 3] {
    let mut places: HashMap<SharedPlace, Vec<&Access>> = HashMap::new();
    let [mut memory, mut kernel, mut any] = [(); 3].map(|()| Points::new());
    // From the last one on, so that what follows an access in its place is known.
    for access in accesses.iter().rev() {
        let later = places.entry(access.shared.place).or_default();
        let soon = later.iter().rev().take_while(|other| other.time.since(access.time) <= LONGEST);
        let meets =
            |other: &&&Access| other.cpu != access.cpu && (access.shared.writes || other.shared.writes);
        let met = soon.take(64).find(meets).map(|other| other.time.since(access.time));
        if let Some(call) = access.call {
            let add = |points: &mut Points| points.entry(access.insn).or_default().push(Point { call, met });
            match access.shared.place {
                SharedPlace::Kernel if met.is_some() => add(&mut kernel),
                _ if met.is_some() => add(&mut memory),
                _ => {}
            }
            add(&mut any);
        }
        later.push(access);
    }
    [memory, kernel, any]
}
