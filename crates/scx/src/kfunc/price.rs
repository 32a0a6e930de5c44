//! What a kernel function costs its caller, by what it does.

use schedlab_base::{Costs, DurationNs};

/// The price of the kernel function of this name, with or without a flavour (`___v2`).
pub(crate) fn price(name: &str, costs: &Costs) -> DurationNs {
    let plain = name.split_once("___").map_or(name, |(plain, _)| plain);
    match plain.strip_prefix("scx_bpf_") {
        Some("dsq_move_to_local" | "dsq_move" | "dsq_move_vtime" | "dsq_reenq") => costs.kfunc_move,
        Some("consume" | "dispatch_from_dsq" | "dispatch_vtime_from_dsq" | "reenqueue_local") => {
            costs.kfunc_move
        }
        Some("kick_cpu" | "kick_cid") => costs.kfunc_kick,
        Some("dispatch" | "dispatch_vtime" | "dsq_peek" | "dsq_nr_queued") => costs.kfunc_insert,
        Some(other) if other.starts_with("dsq_insert") => costs.kfunc_insert,
        _ if plain.starts_with("bpf_task_from_") => costs.kfunc_find,
        _ => costs.kfunc,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_go_by_what_is_done() {
        let costs = Costs { kfunc_find: DurationNs(77), ..Costs::default() };
        let of = |name| price(name, &costs);
        assert_eq!((of("scx_bpf_task_cpu"), of("bpf_cpumask_test_cpu")), (costs.kfunc, costs.kfunc));
        assert_eq!(
            (of("scx_bpf_dsq_insert"), of("scx_bpf_dsq_insert_vtime___compat")),
            (costs.kfunc_insert, costs.kfunc_insert)
        );
        assert_eq!((of("bpf_task_from_pid"), of("bpf_task_release")), (costs.kfunc_find, costs.kfunc));
        assert_eq!(
            (of("scx_bpf_dsq_move_to_local___v2"), of("scx_bpf_kick_cpu")),
            (costs.kfunc_move, costs.kfunc_kick)
        );
    }
}
