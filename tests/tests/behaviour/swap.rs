//! The layer SWAP: blocked tasks whose provider can run keep their place, and the provider runs there.

use crate::behaviour::lab::{Lab, Load, Seen, hog, ms, near, program, us};
use schedlab_base::{CpuId, CpuMask, DurationNs, Policy};
use schedlab_workload::{Amount, Op, ProgramBuilder};

/// How much a server computes for each request.
const SERVICE: DurationNs = DurationNs(20_000_000);
const REQUESTS: u64 = 20;

/// A client that asks a chain of `servers`, of which only the last computes, among `hogs`. Task 0 is the client.
fn client_and_servers(nice: i32, servers: usize, hogs: usize) -> Load {
    let mut load = Load::new(ms(4500));
    let requests: Vec<_> = (0..servers).map(|_| load.pipe()).collect();
    let replies: Vec<_> = (0..servers).map(|_| load.pipe()).collect();
    let ask = |channel: usize| {
        [Op::Send { channel: requests[channel], bytes: 1 }, Op::Recv { channel: replies[channel], bytes: 1 }]
    };
    let client = program(&[Op::Run(us(1))])
        .repeat(Amount::Times(REQUESTS), |b| ask(0).iter().fold(b, |b, op| b.op(*op)));
    load.add(nice, client);
    for server in 0..servers {
        let work = if server + 1 < servers { ask(server + 1).to_vec() } else { vec![Op::Run(SERVICE)] };
        let body = |b: ProgramBuilder| {
            let b = b.op(Op::Recv { channel: requests[server], bytes: 1 });
            let b = work.iter().fold(b, |b, op| b.op(*op));
            b.op(Op::Send { channel: replies[server], bytes: 1 })
        };
        load.add(0, ProgramBuilder::new().repeat(Amount::Forever, body));
    }
    for _ in 0..hogs {
        load.add(0, hog());
    }
    load
}

/// When the client had its last reply, in ms.
fn finished(seen: &Seen) -> f64 {
    let exit = seen.stints().into_iter().rfind(|stint| stint.task.0 == 0).expect("the client ran");
    (exit.begin.0 + exit.length.0) as f64 / 1e6
}

/// Every policy that carries the layer. The first request teaches which task serves, and may take as long as
/// without it.
const POLICIES: [(&str, &str); 2] = [("o1", "o1+swap"), ("vanilla", "vanilla+swap")];

/// `with` is hardly longer than the service itself, but for the first request; `without` at least twice that.
#[track_caller]
fn served_promptly(policy: &str, without: f64, with: f64) {
    let alone = (REQUESTS * SERVICE.0) as f64 / 1e6;
    assert!(without > 2.0 * alone, "{policy}: {without} ms without SWAP, so the hogs do no harm");
    assert!(
        with < 1.1 * alone + without / REQUESTS as f64 * 4.0,
        "{policy}: {with} ms, {alone} of it service"
    );
}

/// A client of nice -20 waits for a server of nice 0 among ten hogs.
#[test]
fn a_server_runs_in_place_of_its_client() {
    for (plain, swap) in POLICIES {
        let times = [plain, swap].map(|name| finished(&Lab::new(name).run(client_and_servers(-20, 1, 10))));
        served_promptly(plain, times[0], times[1]);
    }
}

/// A server is brought forward with two CPUs and hogs for both.
#[test]
fn a_server_is_brought_forward_on_two_cpus() {
    for (plain, swap) in POLICIES {
        let times =
            [plain, swap].map(|name| finished(&Lab::new(name).cpus(2).run(client_and_servers(-20, 1, 20))));
        served_promptly(plain, times[0], times[1]);
    }
}

/// A server that asks another one, which asks a third: only the last computes.
#[test]
fn a_chain_is_followed_to_who_can_run() {
    for (plain, swap) in POLICIES {
        let times = [plain, swap].map(|name| finished(&Lab::new(name).run(client_and_servers(-20, 3, 10))));
        served_promptly(plain, times[0], times[1]);
    }
}

/// Under every policy, wherever of two CPUs client, broker and server run. A task that is on its way to the server on the
/// one CPU is not in the way of one that waits for it on the other.
#[test]
fn every_policy_serves_across_two_cpus() {
    let mut findings = Vec::new();
    for policy in
        ["vanilla+swap", "hamq+swap", "libenzi+swap", "o1+swap", "staircase+swap", "bsd4+swap", "ule+swap"]
    {
        for mechanism in ["pipe", "condvar", "epoll", "broker"] {
            let spec = format!("swap-{mechanism}:hogs=8,iterations=12,service=20ms");
            let times = Lab::new(policy).cpus(2).run_catalog(&spec).iterations();
            // The first waits teach which task serves; of the ten later ones one may end late.
            if times[2..].iter().filter(|&&time| time > 1.1 * 20.0).count() > 1 {
                findings.push(format!("{policy}, {mechanism}: {times:?}"));
            }
        }
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// A server that needs more than a quantum loses its client's trust, and the client is parked by the other CPU while the server runs
/// in its place. Served at last, the client is compared with the server's own rank, not with the one that it lent.
#[test]
fn a_parked_client_runs_as_soon_as_it_is_served() {
    for service in [103, 120] {
        let spec = format!("swap-pipe:hogs=8,iterations=24,service={service}ms");
        let seen = Lab::new("bsd4+swap").cpus(2).run_catalog(&spec);
        assert!(seen.counter("nr_swap_parked") > 10, "{service} ms: the client is never parked");
        let late: Vec<_> = seen.latencies(0).into_iter().filter(|(_, waited)| *waited > ms(1)).collect();
        assert!(late.is_empty(), "{service} ms: {late:?}");
    }
}

/// A client of class FIFO never comes to the policy, its server does.
#[test]
fn a_real_time_client_brings_its_server_forward() {
    for (plain, swap) in POLICIES {
        let times = [plain, swap].map(|name| {
            let mut load = client_and_servers(0, 1, 10);
            load.0.tasks[0].policy = Policy::Fifo(10);
            finished(&Lab::new(name).run(load))
        });
        served_promptly(plain, times[0], times[1]);
    }
}

/// Client and hogs on CPU 0, server and hogs on CPU 1: the client counts where its server can run.
#[test]
fn a_server_bound_to_another_cpu_is_brought_forward_there() {
    for (plain, swap) in POLICIES {
        let times = [plain, swap].map(|name| {
            let mut load = client_and_servers(-20, 1, 10);
            for (task, spec) in load.0.tasks.iter_mut().enumerate() {
                spec.affinity =
                    Some(CpuMask::single(CpuId(if task == 1 { 1 } else { task as u32 % 2 })).into());
            }
            finished(&Lab::new(name).cpus(2).run(load))
        });
        served_promptly(plain, times[0], times[1]);
    }
}

/// Switched off, the layer changes nothing that can be seen.
#[test]
fn switched_off_it_is_as_without() {
    for (plain, swap) in POLICIES {
        let without = finished(&Lab::new(plain).run(client_and_servers(-20, 1, 10)));
        let seen = Lab::new(swap).set("swap_enabled", "false").run(client_and_servers(-20, 1, 10));
        near(finished(&seen), without, without / 10.0);
        assert_eq!(seen.counter("nr_swap_stand_ins"), 0);
    }
}

/// A task that once sent something, and computes since, is given up: the others get their time.
#[test]
fn who_does_not_provide_is_given_up() {
    for (_, swap) in POLICIES {
        let mut load = Load::new(ms(3000));
        let pipe = load.pipe();
        let receive = Op::Recv { channel: pipe, bytes: 1 };
        load.add(-20, program(&[Op::Run(us(1)), receive, receive]));
        let send = program(&[Op::Run(ms(1)), Op::Send { channel: pipe, bytes: 1 }]);
        load.add(0, send.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1)))));
        load.add(0, hog());
        let seen = Lab::new(swap).run(load);
        assert!(seen.counter("nr_swap_blamed") >= 3, "{swap}");
        near(seen.share(2), 0.5, 0.06);
    }
}

/// A task that yields has no use for the place that was lent to it: it is not chosen for that again at once, and soon
/// given up.
#[test]
fn who_yields_is_given_up() {
    for (_, swap) in POLICIES {
        let mut load = Load::new(ms(1000));
        let pipe = load.pipe();
        let receive = Op::Recv { channel: pipe, bytes: 1 };
        load.add(-20, program(&[Op::Run(us(1)), receive, receive]));
        let send = program(&[Op::Run(ms(1)), Op::Send { channel: pipe, bytes: 1 }]);
        load.add(0, send.repeat(Amount::Forever, |b| b.op(Op::Run(us(100))).op(Op::Yield)));
        load.add(0, hog());
        let seen = Lab::new(swap).run(load);
        let lent = seen.counter("nr_swap_stand_ins");
        assert!((1..20).contains(&lent), "{swap}: {lent} times");
    }
}

/// Hundreds of threads that wait for each other all round, and yield: the search for providers has bounds.
#[test]
fn many_that_wait_for_many_cost_little() {
    for (plain, swap) in POLICIES {
        let [without, with] = [plain, swap].map(|name| {
            let seen = Lab::new(name).cpus(2).without_events().run_catalog("volano:rooms=10,messages=2");
            seen.result.duration.0 as f64
        });
        assert!(with < 1.5 * without, "{swap}: {with} ns, {without} without");
    }
}

/// A task that yields may continue at once in the place of one that waits for it. It has yielded for that pick alone, and has its
/// turns later: no task waits long enough for the kernel to complain.
#[test]
fn a_yield_in_anothers_place_is_over_with_it() {
    let load = "volano:rooms=4,messages=8,hogs=20,client_work=500us,server_work=500us";
    for (_, swap) in POLICIES {
        let seen = Lab::new(swap).cpus(2).without_events().run_catalog(load);
        let longest = seen.result.summary.run_delay.quantile(1000).expect("somebody waited");
        assert!(longest < ms(10_000), "{swap}: {longest}");
    }
}
