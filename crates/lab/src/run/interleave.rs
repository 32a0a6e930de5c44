//! Interleavings: which callbacks of a run are paused in the middle, so that other CPUs continue meanwhile.
//!
//! In the kernel the callbacks of several CPUs run at the same time, and each other's steps fall between any two of their
//! instructions. Elsewhere in the simulator a kernel path runs at once. A list of [`Pause`]s brings the steps back, for as many
//! callbacks as it names: [`draw`] makes one from a seed, of which each pause can take place.

use crate::failure::Failure;
use crate::run::simulation::Simulation;
use schedlab_base::{DurationNs, Prng, StopFlag};
use schedlab_workload::Scenario;

pub use schedlab_scx::Pause;

/// Most pauses of a run. Chosen: what so few cost by themselves, such as a kick that comes a tick later, makes few runs suspect.
/// What is lost for the rest of the run is seen.
const PAUSES: u64 = 12;

/// The longest pause. Chosen: what a hypervisor takes from a virtual CPU at a time, and long enough for events of others.
const LONGEST: DurationNs = DurationNs::from_ms(1);

/// Draws pauses for a run from a seed. A pause in which another CPU needs the lock that the callback holds cannot take place,
/// and is left out.
///
/// # Errors
/// As of [`Simulation::run_alone`].
pub fn draw(
    simulation: &Simulation,
    scenario: &Scenario,
    seed: u64,
    stop: &StopFlag,
) -> Result<Vec<Pause>, Failure> {
    let with = |pauses: &[Pause]| {
        let simulation = Simulation { pauses: Some(pauses.to_vec()), ..simulation.clone() };
        simulation.try_pauses(scenario, stop.clone())
    };
    let lengths = with(&[])?.unwrap_or_default();
    if lengths.is_empty() {
        return Ok(Vec::new());
    }
    let mut random = Prng::stream(seed, 0);
    let calls = lengths.len() as u64;
    let mut pause = |_| {
        let call = random.below(calls);
        let (insns, delay) = (random.below(u64::from(lengths[call as usize])), random.below(LONGEST.0));
        Pause { call, insns, delay: DurationNs(delay) }
    };
    let mut pauses: Vec<Pause> = (0..PAUSES.min(calls / 4 + 1)).map(&mut pause).collect();
    pauses.sort_unstable();
    pauses.dedup_by_key(|pause| pause.call);
    while let Err(refused) = with(&pauses)? {
        pauses.remove(refused);
    }
    Ok(pauses)
}
