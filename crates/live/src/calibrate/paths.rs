//! The prices of wakeups, switches and sleeps, from loops that show several of them at once.

use super::observed::Inside;
use super::{Calibration, Figure, SCHEDULE_PART, overshoot, part, pin, sleeping};
use std::io;

/// Part of a switch that is the fair class's own, and of a wakeup. Assumed where no scheduler is loaded; as measured in the VM
/// of `machines/vm-icount.toml`.
const FAIR_SWITCH_PART: f64 = 1.0 / 3.0;
const FAIR_WAKEUP_PART: f64 = 1.0 / 8.0;

/// What the loops gave.
pub(super) struct Paths {
    /// A system call that does nothing.
    pub(super) syscall: Figure,
    /// A byte through a pipe, both calls.
    pub(super) one: Figure,
    /// A lone `sched_yield` besides the call.
    pub(super) alone: Figure,
    /// What a switch to another thread adds.
    pub(super) switch: Figure,
    /// What another address space adds to that.
    pub(super) space: Figure,
    /// A turn of two processes and two pipes.
    pub(super) round: Figure,
    /// Arming a timer.
    pub(super) arming: Figure,
    /// What only privilege shows.
    pub(super) inside: Option<Inside>,
}

/// The parts of a wakeup and of the switch behind it.
struct Parts {
    schedule: f64,
    block: f64,
    switch_end: f64,
    fair_switch: Figure,
    wakeup: Figure,
    fair_wakeup: Figure,
}

impl Paths {
    fn parts(&self) -> Parts {
        let schedule = self.alone.value * SCHEDULE_PART;
        let inside = self.inside;
        let switch_end = inside.map_or(0.0, |inside| inside.switch_end.value);
        let before = self.one.value / 2.0 + schedule + self.switch.value - switch_end;
        let block = inside.map_or(0.0, |inside| inside.entering.less(before).value);
        let whole = self.one.value + block + schedule + self.switch.value + self.space.value;
        let woken = self.round.less(whole);
        let fair_wakeup = inside.map_or(part(woken, FAIR_WAKEUP_PART), |inside| inside.fair_wakeup);
        let fair_switch = inside.map_or(part(self.switch, FAIR_SWITCH_PART), |inside| inside.fair_switch);
        let wakeup = woken.less(fair_wakeup.value);
        Parts { schedule, block, switch_end, fair_switch, wakeup, fair_wakeup }
    }

    /// Adds the prices; what a wakeup and a call take together, and what an idle CPU does behind a wakeup.
    pub(super) fn price(&self, calibration: &mut Calibration, shared: bool) -> io::Result<(f64, f64)> {
        let parts = self.parts();
        self.price_switches(calibration, &parts);
        let Parts { schedule, switch_end, .. } = parts;
        let wakeup = parts.wakeup.value + parts.fair_wakeup.value;
        let woken = wakeup + self.syscall.value;
        let switch = schedule + self.switch.value;
        let interrupt = match self.inside {
            Some(inside) => inside.busy.less(wakeup + switch + self.arming.value),
            None => sleeping::overshoot_of_busy_cpu()?.less(woken + switch),
        };
        if let Some(inside) = self.inside {
            let rest = interrupt.value + switch - parts.fair_switch.value - switch_end;
            let source = "a sleeper that a kick gives its CPU, from wakeup to switch, less the calls, interrupt, schedule and switch";
            calibration.prices.push(inside.kicked.less(rest).price("irq_work", source));
        }
        let prices = &mut calibration.prices;
        prices.push(
            interrupt.price("interrupt", "a sleeper that takes its CPU from a task, less wakeup and switch"),
        );
        let half_fair = parts.fair_switch.value / 2.0;
        let fixed = schedule + half_fair + switch_end;
        let [idle, idle_switch] = match self.inside {
            Some(Inside { idle, .. }) => {
                [idle.whole.less(wakeup + interrupt.value + fixed), idle.entering.less(schedule + half_fair)]
            }
            None => {
                let idle = overshoot(1)?.less(woken + interrupt.value + fixed);
                // It is part of the switch up to the price of a usual one.
                let most = self.switch.value - parts.fair_switch.value;
                [idle, Figure { value: idle.value.min(most), ..idle }]
            }
        };
        let source = match self.inside {
            Some(_) => {
                "a sleeper on an idle CPU, from wakeup to switch, less schedule and half of fair_switch"
            }
            None => {
                "a sleeper on an idle CPU, less interrupt, wakeup, schedule and half of fair_switch; at most context_switch"
            }
        };
        prices.push(idle_switch.price("idle_switch", source));
        prices.push(
            idle.less(idle_switch.value).price("idle_exit", "what a sleeper on an idle CPU takes more"),
        );
        if shared && pin(1).is_ok() {
            pin(0)?;
            let late = idle.value + woken + interrupt.value + fixed;
            let down = late + self.arming.value + parts.block + schedule + half_fair + idle_switch.value;
            prices.push(sleeping::whole_sleep()?.less(down).price(
                "idle_enter",
                "what a sleep takes from a task of another CPU, less waking up, arming, schedule and switch",
            ));
        } else {
            calibration.missing.push(("idle_enter", "shows where CPUs share a processor"));
        }
        Ok((woken, idle.value + schedule + switch_end - half_fair))
    }

    fn price_switches(&self, calibration: &mut Calibration, parts: &Parts) {
        let prices = &mut calibration.prices;
        let own = parts.fair_switch;
        prices.push(
            part(self.alone, SCHEDULE_PART)
                .price("schedule", "a lone sched_yield less a system call, five sixths (assumed)"),
        );
        prices.push(
            self.switch.less(own.value + parts.switch_end).price(
                "context_switch",
                "two threads that yield, less one alone, fair_switch and switch_end",
            ),
        );
        prices.push(self.space.price("address_space_switch", "two processes that yield, less two threads"));
        prices.push(self.arming.price("timer", "arming a timer again, less a call that does nothing"));
        let Some(inside) = self.inside else {
            prices.push(own.price("fair_switch", "a third of that (assumed)"));
            prices.push(parts.wakeup.price(
                "wakeup",
                "two processes and two pipes, less calls and switches, seven eighths (assumed)",
            ));
            prices.push(parts.fair_wakeup.price("fair_wakeup", "the other eighth"));
            return;
        };
        let block = Figure { value: parts.block, ..inside.entering };
        prices
            .push(block.price("block", "from wakeup to switch in a pipe, less a call, schedule and switch"));
        prices.push(inside.switch_end.price("switch_end", "a sleeper on an idle CPU, from its switch on"));
        prices.push(own.price(
            "fair_switch",
            "from wakeup to switch in a pipe, less under a queue without its callbacks",
        ));
        prices.push(
            parts.wakeup.price("wakeup", "two processes and two pipes, less calls, switches and fair_wakeup"),
        );
        prices.push(parts.fair_wakeup.price(
            "fair_wakeup",
            "a pipe less one under a queue without its callbacks, fair_switch and dsq_enqueue",
        ));
        prices.push(inside.dsq_enqueue.price("dsq_enqueue", "from wakeup to switch in a pipe: tasks inserted by ops.dispatch(), less on a queue, less the calls"));
        prices.push(
            inside
                .kfunc_find
                .price("kfunc_find", "a pipe with each task looked up twice, less once and less kfunc"),
        );
    }
}
