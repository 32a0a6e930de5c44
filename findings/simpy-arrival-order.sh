#!/usr/bin/env bash
# SimPy 4.1.2: whether a task that ends at 10 is preempted at 10 depends on how the arrival at 10 was written.
#
# Guess:   At equal times SimPy has a rule of its own for an end of work and an arrival of higher priority, so one
#          workload has one count of preemptions.
# Happens: Events of one time run in the order in which they were made. An arrival that sleeps once until 10 was made
#          before the work began: the task is interrupted with 0 left of its work. The same arrival in two steps, 5 and 5,
#          was made later: the task is done first. Counting preemptions then compares generators, not schedulers.
# Input:   PreemptiveResource of capacity 1; a task of 10 units from 0 on, and a task of higher priority that arrives at 10.
# Seen:    2026-11-27, SimPy 4.1.2: one sleep "preempted 0", two sleeps "done"
set -euo pipefail
. "$(dirname "$0")/common.bash"

pip_install simpy==4.1.2
cat >"$work/tie.py" <<'PY'
import simpy

def run(steps):
    env = simpy.Environment()
    cpu = simpy.PreemptiveResource(env, capacity=1)
    log = []

    def low():
        with cpu.request(priority=5) as request:
            yield request
            began = env.now
            try:
                yield env.timeout(10)
                log.append(f"{env.now}:done")
            except simpy.Interrupt:
                log.append(f"{env.now}:preempted,{10 - (env.now - began)} left")

    def high():
        for step in steps:
            yield env.timeout(step)
        with cpu.request(priority=1) as request:
            yield request
            log.append(f"{env.now}:high")

    env.process(low())
    env.process(high())
    env.run()
    return log

print("one", *run([10]))
print("two", *run([5, 5]))
PY
"$work/venv/bin/python" "$work/tie.py" >"$work/out.txt"
seen() { sed -n "s/^$1 //p" "$work/out.txt"; }

echo "SimPy 4.1.2"
expect "arrival in one step of 10" "10:preempted,0 left 10:high" "$(seen one)"
expect "arrival in two steps of 5" "10:done 10:high" "$(seen two)"
