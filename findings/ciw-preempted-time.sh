#!/usr/bin/env bash
# Ciw 3.2.7: the service before a preemption counts as waiting, and the server was idle meanwhile.
#
# Guess:   A job of 10 s that is preempted for 2 s and then resumed has waited 2 s and been served 10 s. The server was
#          busy for 12 s of 50 s: a utilisation of 0.24.
# Happens: Its record says that it waited 4 s and was served 8 s: the last start less the arrival, and the rest of the
#          service. The utilisation is 0.2: what the server did for a job before it was preempted is dropped. It is so
#          for "restart" too (0.24 in place of 0.28).
# Input:   one server; a job of 10 s arrives at 1, one of a higher class and 2 s at 3; 50 s are simulated.
# Seen:    2026-11-29. resume: waited 4, served 8, utilisation 0.2; restart: 4, 10, 0.24; without the second: 0, 10, 0.2
set -euo pipefail
. "$(dirname "$0")/common.bash"

pip_install ciw==3.2.7
"$work/venv/bin/python" - >"$work/out.txt" <<'PY'
import ciw

def run(name, rule, arrival):
    later = 1e9
    network = ciw.create_network(
        arrival_distributions={
            "low": [ciw.dists.Sequential([1, later])],
            "high": [ciw.dists.Sequential([arrival, later])],
        },
        service_distributions={"low": [ciw.dists.Deterministic(10)], "high": [ciw.dists.Deterministic(2)]},
        number_of_servers=[1],
        priority_classes=({"high": 0, "low": 1}, [rule]),
    )
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(50)
    for record in simulation.get_all_records():
        if record.customer_class == "low" and record.record_type == "service":
            utilisation = simulation.transitive_nodes[0].server_utilisation
            print(name, f"{record.waiting_time:g} {record.service_time:g} {utilisation:g}")

run("alone", "resume", 1e9)
run("resume", "resume", 3)
run("restart", "restart", 3)
PY
seen() { sed -n "s/^$1 //p" "$work/out.txt"; }

echo "Ciw 3.2.7, waiting and service time of the job, utilisation of the server"
expect "alone" "0 10 0.2" "$(seen alone)"
expect "preempted, resumed (2 10 0.24)" "4 8 0.2" "$(seen resume)"
expect "preempted, restarted (0.28)" "4 10 0.24" "$(seen restart)"
