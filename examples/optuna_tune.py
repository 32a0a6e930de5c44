"""Tunes a scheduler by Optuna: `python examples/optuna_tune.py mine.bpf.c slice_ns=1ms..20ms --trials 200`.

The command says the space (`schedlab judge --over`) and judges each point (`--set`). Every trial has the same key, so that
points are compared under the same loads; the winner is judged again under another key.
"""

import argparse
import json
import subprocess

import schedlab


def space(candidate: str, over: list[str]) -> list[dict[str, object]]:
    """The parameters with their ranges, as the command reads them from the object."""
    words = [word for one in over for word in ("--over", one)]
    command = [str(schedlab.Lab().binary), "judge", candidate, *words]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["parameters"]


def main() -> None:
    """Tunes, and prints the best point."""
    parser = argparse.ArgumentParser(description="Tunes a scheduler by Optuna")
    parser.add_argument("candidate")
    parser.add_argument("over", nargs="+", metavar="VAR=LOW..HIGH")
    parser.add_argument("--against", default="eevdf")
    parser.add_argument("--trials", type=int, default=200)
    args = parser.parse_args()
    try:
        import optuna
    except ImportError:
        raise SystemExit("optuna is missing: pip install optuna") from None
    parameters = space(args.candidate, args.over)

    def objective(trial: "optuna.Trial") -> float:
        point = {one["name"]: trial.suggest_int(one["name"], one["low"], one["high"], log=one["log"]) for one in parameters}
        answer = schedlab.judge(args.candidate, against=args.against, settings=point, seed_key="tune")
        return answer.score

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1))
    study.optimize(objective, n_trials=args.trials)
    winner = schedlab.judge(args.candidate, against=args.against, settings=study.best_params, seed_key="another")
    print(study.best_params, study.best_value, "under another key:", winner.score, winner.interval, *winner.reasons, sep="\n")


if __name__ == "__main__":
    main()
