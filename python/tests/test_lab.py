"""Commands, results and errors."""

import dataclasses
import json
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

import schedlab
from schedlab import Lab

ROOT = Path(__file__).resolve().parents[2]
WORKLOAD = "chat:rooms=1,messages=5"


def test_a_simulated_run_is_that_of_the_command(lab: Lab) -> None:
    words = ["sim", "-s", "o1", "-w", WORKLOAD, "-c", "2", "--seed", "7", "--json", "-"]
    shown = subprocess.run([lab.binary, *words], capture_output=True, text=True, check=True).stdout
    result = lab.sim("o1", WORKLOAD, cpus=2, seed=7)
    assert result.json == shown
    run = result.run
    assert (run.scheduler, run.workload, run.cpus, run.seed) == ("o1", "chat", 2, 7)
    assert run.params["messages"] == 5 and run.exit.kind == "none" and run.trace_hash
    assert run["throughput"] == run.metrics["throughput"].value > 0
    assert run.metrics["throughput"].better == "higher" and run.counters["nr_picks"] > 0
    assert "throughput" in str(result)
    with pytest.raises(KeyError, match="no metric 'speed'.*throughput"):
        run["speed"]


def test_settings_reach_the_scheduler(lab: Lab) -> None:
    plain, other = (
        lab.sim("vanilla", "cpuhog:ntasks=2,nice=0/5,ttime=1s", cpus=1, settings=settings).run
        for settings in (None, {"profile": "tsss"})
    )
    assert plain.settings == {} and other.settings == {"profile": "tsss"}
    assert plain.trace_hash != other.trace_hash


def test_a_comparison(lab: Lab) -> None:
    result = lab.compare(["vanilla", "o1"], WORKLOAD, cpus=[1, 2], runs=3)
    assert len(result.runs) == 12
    comparison = next(c for c in result.comparisons if c.metric == "throughput" and c.cpus == 2)
    assert comparison.baseline.scheduler == "vanilla" and comparison.candidate.scheduler == "o1"
    measured = [run["throughput"] for run in result.runs if (run.scheduler, run.cpus) == ("o1", 2)]
    assert comparison.candidate.values == measured
    assert comparison.difference == pytest.approx(comparison.candidate.mean - comparison.baseline.mean)
    assert "--runs 5 or more" in str(lab.compare(["vanilla", "o1"], WORKLOAD, cpus=1, runs=2))


def test_several_workloads_are_ranked(lab: Lab) -> None:
    result = lab.compare(["vanilla", "o1"], [WORKLOAD, "reflex:tasks=8,rounds=50"], cpus=2, runs=2)
    assert [run.workload for run in result.runs] == ["chat"] * 4 + ["reflex"] * 4
    assert {one.scheduler for one in result.ranking} == {"vanilla", "o1"} and "Ranking" in str(result)
    candidate = next(one for one in result.ranking if one.scheduler == "o1")
    counted = candidate.better + candidate.worse + candidate.same + candidate.undecided
    assert candidate.factor and (counted, candidate.missing) == (2, 0)
    pytest.importorskip("pandas", reason="pandas is not installed")
    assert list(result.ranking_frame().scheduler) == [one.scheduler for one in result.ranking]


def test_goals_are_judged(lab: Lab) -> None:
    frames = Path(__file__).parents[2] / "workloads" / "frames.toml"
    result = lab.compare(["o1", "eevdf"], str(frames), cpus=1, runs=2)
    tail = {goal.scheduler: goal for goal in result.goals if goal.metric == "tail"}
    assert (tail["o1"].verdict, tail["eevdf"].verdict) == ("met", "missed")
    assert tail["eevdf"].missed_seeds == [1, 2] and tail["eevdf"].margin == pytest.approx(16.6 - tail["eevdf"].mean)
    assert lab.sim("o1", WORKLOAD, cpus=1).goals == []
    pytest.importorskip("pandas", reason="pandas is not installed")
    assert list(result.goal_frame().verdict) == [goal.verdict for goal in result.goals]


def test_data_frames(lab: Lab) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    result = lab.compare(["vanilla", "o1"], WORKLOAD, cpus=2, runs=2)
    runs = result.run_frame()
    assert list(runs["scheduler"]) == ["vanilla", "vanilla", "o1", "o1"] and list(runs["seed"]) == [1, 2, 1, 2]
    comparisons = result.comparison_frame().set_index("metric")
    mean = runs[runs.scheduler == "o1"].throughput.mean()
    assert comparisons.loc["throughput", "candidate_mean"] == pytest.approx(mean)
    assert len(result.task_frame()) == sum(len(run.tasks) for run in result.runs)
    histograms = result.histogram_frame()
    for run in result.runs:
        mine = histograms[(histograms.scheduler == run.scheduler) & (histograms.seed == run.seed)]
        delays = mine[mine.histogram == "run_delay_ns"]
        assert list(delays.waits) == run.histograms["run_delay_ns"].counts and len(delays) > 10
        below = delays.waits.cumsum() / delays.waits.sum()
        assert delays.le_ns[below >= 0.99].min() == run["run_delay_ns_p99"]
        assert delays.le_ns.max() == run["run_delay_ns_max"]
    waits = result.wait_frame()
    assert set(waits.scope) >= {"all", "group", "task"} and (waits["max"] >= waits.p99).all()
    assert len(waits[waits.scope == "all"]) == 2 * len(result.runs) and "count" in waits
    assert list(runs.object_sha256.unique()) == [run.provenance.object_sha256 for run in result.runs[::2]]
    assert len(result.warning_frame()) == sum(len(run.warnings) for run in result.runs) + len(result.warnings)
    series = lab.sim("o1", "swap-multi:iterations=3,hogs=0", cpus=1).series_frame()
    assert len(series) == 3 and (series.value > 0).all()


def test_the_comparison_frame_has_all_that_the_file_has(lab: Lab) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    result = lab.compare(["vanilla", "o1"], WORKLOAD, cpus=[1, 2], runs=3)
    rows = result.comparison_frame().to_dict("records")
    assert len(rows) == len(result.raw["comparisons"])
    for row, raw in zip(rows, result.raw["comparisons"]):
        told = {name: value for name, value in raw.items() if name not in ("workload", "baseline", "candidate")}
        for side in ("baseline", "candidate"):
            told[side] = raw[side].pop("scheduler")
            told.update({f"{side}_{name}": value for name, value in raw[side].items()})
        params = ",".join(f"{name}={value}" for name, value in raw["workload"]["params"].items())
        told.update(workload=raw["workload"]["name"], params=params)
        # A cell of a frame holds one text.
        told["standing_reasons"] = ",".join(told["standing_reasons"])
        known = {name: value for name, value in told.items() if value is not None}
        assert set(row) == set(told) and {name: row[name] for name in known} == known
    assert any(row["p_paired"] < 1 for row in rows) and any(row["runs_needed"] > 0 for row in rows)


def test_params_are_texts_in_all_frames(lab: Lab) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    result = lab.compare(["vanilla", "o1"], WORKLOAD, cpus=2, runs=2)
    names = ["run", "task", "wait", "counter", "histogram", "comparison"]
    frames = [getattr(result, f"{name}_frame")() for name in names]
    params = pandas.concat([frame.params for frame in frames]).unique()
    assert len(params) == 1 and params[0].startswith("rooms=1,messages=5,")


def test_counters_and_tasks_as_frames(lab: Lab) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    result = lab.sim("o1", WORKLOAD, cpus=2)
    counters = result.counter_frame().set_index("counter")
    assert counters.value.to_dict() == result.run.counters
    assert counters.loc["nr_picks", "meaning"] and counters.loc["nr_picks", "scheduler"] == "o1"
    tasks = result.task_frame()
    for row in tasks.to_dict("records"):
        waits = result.run.waits(row["name"])
        assert waits.run_delay_ns and row["run_delay_count"] == waits.run_delay_ns.count
        assert row["run_delay_ns_p99"] == waits.run_delay_ns.p99 <= row["run_delay_ns_max"]
    assert tasks.wakeup_latency_count.sum() > 0


def test_runs_and_comparisons_are_shown_in_short(lab: Lab) -> None:
    result = lab.compare(["vanilla", "o1"], WORKLOAD, cpus=2, runs=2)
    run, comparison = result.runs[0], result.comparisons[0]
    throughput = f"{run['throughput']:,.0f} messages/s"
    assert repr(run) == f"<schedlab.Run: vanilla, chat on 2 CPUs, sim, seed 1: throughput {throughput}>"
    change = f"{comparison.difference_percent:+.1f} %, {comparison.verdict}"
    where = "throughput of o1 against vanilla, chat on 2 CPUs, sim"
    assert repr(comparison) == f"<schedlab.Comparison: {where}: {change}>"
    assert f"<td>throughput</td><td>{throughput.split()[0]}</td><td>messages/s</td>" in run._repr_html_()
    page = result._repr_html_()
    assert page.count("<tr>") == 2 and f"<td>{comparison.verdict}</td>" in page, "the main figure alone"
    assert f"{len(result.comparisons) - 1} comparisons of other metrics" in page
    hostile = dataclasses.replace(run, scheduler="<b>&", metrics={})
    assert "<b>" not in hostile._repr_html_() and repr(hostile).startswith("<schedlab.Run: <b>&, chat")
    hidden = dataclasses.replace(run, scheduler="\x1b[2J\u202eo1")
    assert not {"\x1b", "\u202e"} & set(repr(hidden) + hidden._repr_html_())


def test_a_trace_is_who_ran_when(lab: Lab) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    result = lab.sim("o1", WORKLOAD, cpus=2, trace=True)
    frame = result.trace_frame()
    assert set(frame.cpu) == {0, 1} and frame.tid.min() == 1001 and set(frame.end.dropna()) >= {"blocked", "exited"}
    for _, mine in frame.groupby("cpu"):
        assert (mine.end_ns >= mine.start_ns).all() and (mine.start_ns[1:].values >= mine.end_ns[:-1].values).all()
    # A stretch is a turn of its task: as many as the result says that it had.
    turns = frame.groupby("name").size().to_dict()
    assert turns == {task.name: task.switches for task in result.run.tasks if task.switches}
    wakeups = result.trace.wakeup_frame()  # type: ignore[union-attr]
    assert len(wakeups) == result.run.waits().wakeup_latency_ns.count  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="trace=True"):
        lab.sim("o1", WORKLOAD, cpus=2).trace_frame()


def test_files_that_are_no_traces_are_refused(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "trace"
    lab.sim("o1", WORKLOAD, cpus=2, options=["--perfetto", str(file)])
    whole = file.read_bytes()
    assert len(schedlab.Trace.read(file).stretches) > 100
    for broken in (whole[:-1], whole[1:], b"\xff" * 40, b"{}", whole.replace(b"\x22", b"\x23")):
        file.write_bytes(broken)
        with pytest.raises(ValueError, match="is no trace of schedlab"):
            schedlab.Trace.read(file)


def test_a_reproduction(lab: Lab) -> None:
    result = lab.reproduce("swap", tables="fig3", quick=True)
    [document] = result.reproduction
    assert document.name == "swap" and [table.id for table in document.tables] == ["fig3"]
    rows = document.tables[0].rows
    assert rows and {row.verdict for row in rows} <= {"agrees", "differs", "no_figure", "not_comparable"}
    assert any(row.verdict == "agrees" and row.measured for row in rows)
    assert result.code in (0, 1)


def test_samples_are_compared(lab: Lab, tmp_path: Path) -> None:
    found = lab.stat([10, 11, 12], [20, 21, 22], [10.5, 11, 12])
    [difference, none] = found.differences
    assert difference and (difference.difference, difference.confidence_percent) == (10, 95)
    assert difference.half_width == pytest.approx(2.2665945) and difference.percent == pytest.approx(90.909091)
    assert none is None and str(found).startswith("x sample1\n")
    (tmp_path / "a").write_text("0\n0\n")
    assert lab.stat(tmp_path / "a", [1.0, 1.0001]).differences[0].percent is None  # type: ignore[union-attr]
    with pytest.raises(schedlab.UsageError, match="not a number|no numbers"):
        lab.stat([], [1, 2])


def test_a_command_on_the_real_kernel(lab: Lab) -> None:
    result = lab.run("eevdf", job=["sh", "-c", "echo its own words"])
    assert result.run.backend == "host" and result.run["elapsed"] > 0  # type: ignore[operator]
    assert "its own words" in str(result)
    with pytest.raises(schedlab.Failed, match="ended with code 3") as failed:
        lab.run("eevdf", job=["sh", "-c", "exit 3"])
    assert failed.value.code == 1


def test_wrong_input_is_an_exception_with_the_text(lab: Lab) -> None:
    with pytest.raises(schedlab.UsageError, match="no scheduler named 'nosuch'; there are: bsd4") as wrong:
        lab.sim("nosuch", WORKLOAD)
    assert wrong.value.code == 2 and wrong.value.result is None
    with pytest.raises(schedlab.UsageError, match="rooms"):
        lab.compare(["vanilla", "o1"], "chat:room=1")


def test_an_ejected_scheduler_is_an_exception_with_the_run(lab: Lab, tmp_path: Path) -> None:
    clang = next(filter(None, map(shutil.which, ("clang-22", "clang-21", "clang-20", "clang-19", "clang"))), None)
    source = ROOT / "tests/objects/null_pointer.bpf.c"
    if clang is None or not source.exists():
        pytest.skip("no clang, or no source tree: there is no faulty object")
    faulty = tmp_path / "null_pointer.bpf.o"
    words = ["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-I", ROOT / "schedulers/include", "-c", source, "-o", faulty]
    subprocess.run([clang, *words], check=True)
    with pytest.raises(schedlab.Ejected) as ejected:
        lab.sim(str(faulty), WORKLOAD, cpus=2)
    assert ejected.value.code == 4 and ejected.value.result
    run = ejected.value.result.run
    assert run.exit.kind in ejected.value.text
    assert run.exit.after_ns and run.exit.after_ns <= run.duration_ns
    assert run.after_ejection is None and "null_pointer.bpf.c:" in run.exit.message
    with pytest.raises(schedlab.Ejected) as ejected:
        lab.sim(str(faulty), WORKLOAD, cpus=2, options=["--after-ejection", "continue"])
    outlived = ejected.value.result.run  # type: ignore[union-attr]
    assert outlived.duration_ns == run.duration_ns and outlived.metrics == run.metrics
    rest = outlived.after_ejection
    assert rest and rest.duration_ns > 0 and rest.metrics["throughput"].value > 0  # type: ignore[operator]


def test_waits_name_who_when_and_behind_whom(lab: Lab) -> None:
    run = lab.sim("eevdf", "cpuhog:ntasks=3,ttime=300ms", cpus=1).run
    longest = run.waits().run_delay_ns
    assert longest and longest.max == run["run_delay_ns_max"] and longest.p99 == run["run_delay_ns_p99"]
    assert longest.task.startswith("hog/") and longest.cpu == 0
    assert longest.behind[0]["task"] != longest.task and 0 < longest.behind[0]["time_ns"] <= longest.max
    tasks = [waits for waits in run.task_waits if waits.scope == "task"]
    assert [waits.name for waits in tasks] == [task.name for task in run.tasks]
    assert sum(waits.run_delay_ns.count for waits in tasks if waits.run_delay_ns) == longest.count
    assert run.waits("hog").run_delay_ns == longest
    with pytest.raises(KeyError, match="no waits of 'nobody'.*hog/0"):
        run.waits("nobody")
    assert len(run.provenance.workload_sha256 or "") == 64 and run.provenance.object_sha256 is None


def test_seeds_that_change_nothing_are_a_warning(lab: Lab) -> None:
    words = ["eevdf", "o1"], "cpuhog:ntasks=1,ttime=50ms"
    result = lab.compare(*words, cpus=1, runs=2)
    assert result.warnings == [] or {warning.kind for warning in result.warnings} == {"seeds_change_nothing"}
    work = next(comparison for comparison in result.comparisons if comparison.metric == "work")
    assert work.verdict == "no difference that matters" and work.at_least_percent == 1
    if result.warnings:
        with pytest.raises(schedlab.Failed, match="--strict"):
            lab.compare(*words, cpus=1, runs=2, options=["--strict"])


def test_a_binary_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(schedlab.CommandNotFound, match="argument `binary` names /nowhere/schedlab"):
        Lab("/nowhere/schedlab")
    monkeypatch.setenv("SCHEDLAB", str(tmp_path))
    with pytest.raises(schedlab.CommandNotFound, match="variable SCHEDLAB"):
        Lab()


def test_where_the_binary_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(folder: str) -> Path:
        path = tmp_path / folder / "schedlab"
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    quick, on_path, by_variable = program("tree/target/quick"), program("bin"), program("other")
    installed = program("scripts")
    package = tmp_path / "tree/python/src/schedlab/command.py"
    package.parent.mkdir(parents=True)
    for file in (package, tmp_path / "tree/Cargo.toml"):
        file.write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCHEDLAB", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("schedlab.command.__file__", str(package))
    monkeypatch.setattr("sysconfig.get_path", lambda name: "/nowhere")
    assert Lab().binary == quick
    built = program("tree/target/release")
    assert Lab().binary == built
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert Lab().binary == on_path
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(installed.parent))
    assert Lab().binary == installed
    monkeypatch.setenv("SCHEDLAB", str(by_variable))
    assert Lab().binary == by_variable
    assert Lab(built).binary == built


def test_files_that_are_no_results_are_refused(lab: Lab) -> None:
    for text in ("", "{}", "[1]", "nothing"):
        with pytest.raises(ValueError, match="no result file"):
            schedlab.Result.read(text)
    other = json.dumps({"schedlab": {"version": "9", "schema": 99}})
    with pytest.raises(ValueError, match="schema 99"):
        schedlab.Result.read(other)
