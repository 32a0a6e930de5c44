//! The kernel functions that schedulers call most. Compiled code enters each by a function of its own, in which the compiler of
//! the host knows what is called. None is looked up, and its arguments stay in registers.

use super::{cpu, cpumask, dsq, idle, task};
use crate::args::Cx;
use schedlab_bpf::Fault;

macro_rules! slots {
    ($($slot:literal: $($name:literal)|+ => $module:ident::$function:ident;)*) => {
        /// The slot of the kernel function of this name, if it has one.
        pub(crate) fn slot(name: &str) -> Option<u8> {
            match name {
                $($($name)|+ => Some($slot),)*
                _ => None,
            }
        }

        /// Calls the function of a slot.
        #[inline(always)]
        pub(crate) fn run<const SLOT: usize>(cx: Cx<'_, '_, '_>, args: &[u64; 5]) -> Result<u64, Fault> {
            match SLOT {
                $($slot => cx.invoke($module::$function, args),)*
                _ => unreachable!("slot {SLOT} has a function"),
            }
        }

        /// The names of each slot, and the registers that its function takes.
        #[cfg(test)]
        fn shapes() -> Vec<(&'static str, Vec<schedlab_bpf::args::Shape>)> {
            vec![$($(($name, super::shape_of($module::$function)),)+)*]
        }
    };
}

slots! {
    0: "scx_bpf_select_cpu_dfl" => idle::select_cpu_dfl;
    1: "scx_bpf_dsq_insert" | "scx_bpf_dsq_insert___v2" | "scx_bpf_dispatch" => dsq::insert;
    2: "scx_bpf_dsq_insert_vtime" | "scx_bpf_dispatch_vtime" => dsq::insert_vtime;
    3: "__scx_bpf_dsq_insert_vtime" => dsq::insert_vtime_args;
    4: "scx_bpf_dsq_move_to_local" | "scx_bpf_consume" => dsq::move_to_local;
    5: "scx_bpf_dsq_move_to_local___v2" => dsq::move_to_local_v2;
    6: "scx_bpf_dsq_nr_queued" => dsq::nr_queued;
    7: "scx_bpf_task_running" => task::task_running;
    8: "scx_bpf_task_cpu" => task::task_cpu;
    9: "scx_bpf_task_set_slice" => task::task_set_slice;
    10: "scx_bpf_task_set_dsq_vtime" => task::task_set_dsq_vtime;
    11: "scx_bpf_kick_cpu" => cpu::kick_cpu;
    12: "scx_bpf_now" => cpu::now;
    13: "bpf_cpumask_test_cpu" => cpumask::test_cpu;
    14: "scx_bpf_test_and_clear_cpu_idle" => idle::test_and_clear;
    15: "scx_bpf_nr_cpu_ids" => cpu::nr_cpu_ids;
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_bpf::engine::DIRECT_KFUNCS;
    use std::collections::BTreeSet;

    /// Slots stand for functions of the table. That each stands for the right one is seen where the engines are compared: the
    /// interpreter calls by the table.
    #[test]
    fn slots_are_functions_of_the_table() {
        let mut slots = BTreeSet::new();
        for (name, shape) in shapes() {
            let kfunc = super::super::all().find(|kfunc| kfunc.name() == name);
            assert_eq!((kfunc.expect("it is in the table").shape)(), shape, "{name}");
            slots.extend(slot(name));
        }
        assert!(slots.into_iter().eq(0..DIRECT_KFUNCS as u8));
        assert_eq!(slot("scx_bpf_destroy_dsq"), None);
    }
}
