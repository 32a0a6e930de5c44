//! CPUs that a workload takes offline: they come back when the run is over, however it ends short of a kill.

use schedlab_base::CpuId;
use schedlab_workload::Scenario;
use std::fs;
use std::io;

fn switch(cpu: CpuId) -> String {
    format!("/sys/devices/system/cpu/cpu{}/online", cpu.0)
}

/// Takes a CPU offline or brings it back.
///
/// # Errors
/// No such CPU, one that stays, or no root.
pub(super) fn set_online(cpu: CpuId, online: bool) -> io::Result<()> {
    fs::write(switch(cpu), if online { "1" } else { "0" })
}

/// The CPUs that were online before a run that takes some offline; brings them back when it is dropped.
pub(crate) struct Restored(Vec<CpuId>);

impl Restored {
    /// The online CPUs before a run of the scenario.
    pub(crate) fn of(scenario: &Scenario) -> Restored {
        let online = |cpu: &CpuId| fs::read_to_string(switch(*cpu)).is_ok_and(|text| text.trim() == "1");
        Restored(scenario.hotplugged().into_iter().filter(online).collect())
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        for cpu in &self.0 {
            // A failure to bring a CPU back has no reader any more.
            let _ = set_online(*cpu, true);
        }
    }
}
