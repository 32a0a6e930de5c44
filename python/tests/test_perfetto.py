"""Traces, read by Perfetto's own schema and, where its binary can be had, by its trace processor."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from schedlab import Lab, Trace


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


def test_the_trace_processor_reads_it(trace: Path) -> None:
    processor = pytest.importorskip("perfetto.trace_processor", reason="no perfetto package")
    try:
        opened = processor.TraceProcessor(trace=str(trace))
    except Exception as lacking:  # It downloads its binary at the first use.
        pytest.skip(f"the trace processor cannot be had: {lacking}")
    with opened:
        rows = opened.query("select upid, pid, name from process where pid > 0")
        assert {row.pid for row in rows} >= {1001}
        count = next(iter(opened.query("select count(*) as n from sched where utid > 0"))).n
        assert count > 10
