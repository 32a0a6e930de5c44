#!/usr/bin/env bash
# SimSo 0.8.5: its EDF counts preemptions at equal deadlines, although the running job keeps the CPU.
#
# Guess:   A job that arrives with the deadline of the running job does not preempt it, so the count of preemptions is
#          0 for a task that was never off the CPU.
# Happens: At the arrival the log says "Preempted!" and, at the same instant, that the same job executes. The task's
#          preemption_count goes up by one each time, though no other job ran in between. Comparisons of schedulers by
#          this count charge EDF for switches that it did not make.
# Input:   two periodic tasks (period 4, work 2; period 8, work 4; deadline = period) on one CPU for 16 ms; utilisation 1.
# Seen:    2026-11-27, SimSo 0.8.5, SimPy 2.3.1: preemption_count 0 and 2; runs of T2_1: 2-6 in one piece
set -euo pipefail
. "$(dirname "$0")/common.bash"

pip_install simso==0.8.5 simpy==2.3.1 numpy==2.4.6
cat >"$work/edf.py" <<'PY'
from simso.configuration import Configuration
from simso.core import Model

configuration = Configuration()
configuration.cycles_per_ms = 1000000
configuration.duration = 16 * configuration.cycles_per_ms
for number, (period, work) in enumerate([(4, 2), (8, 4)], 1):
    configuration.add_task(name=f"T{number}", identifier=number, period=period, activation_date=0, wcet=work, deadline=period)
configuration.add_processor(name="CPU", identifier=1)
configuration.scheduler_info.clas = "simso.schedulers.EDF"
configuration.check_all()
model = Model(configuration)
model.run_model()

print("counts", *(result.preemption_count for result in model.results.tasks.values()))
print("T2_1", *(f"{time // 1000000}:{text[0].split()[1].strip('.!')}" for time, text in model.logs if text[0].startswith("T2_1 ")))
PY
"$work/venv/bin/python" "$work/edf.py" 2>/dev/null >"$work/out.txt"
seen() { sed -n "s/^$1 //p" "$work/out.txt"; }

echo "SimSo 0.8.5, EDF on one CPU"
expect "preemption_count of T1 and T2" "0 2" "$(seen counts)"
expect "T2's first job (ms:event)" "0:Activated 2:Executing 4:Preempted 4:Executing 6:Terminated" "$(seen T2_1)"
