#!/usr/bin/env bash
# Go, automaxprocs, Rust's std and num_cpus count the CPUs of one cgroup and do not agree: one rounds up, one rounds
# down, and a limit that a parent sets is seen by one of four.
#
# Guess:   Runtimes that honour cpu.max size their thread pools alike: a quota of 1.5 CPUs is rounded one way, half a
#          CPU is one thread, and a limit of the parent holds for the child as in the kernel.
# Happens: 1.5 CPUs are 2 for Go and num_cpus, 1 for automaxprocs and Rust's std. Half a CPU is 2 for Go and 1 for the
#          rest. If the parent has one CPU and the child "max", std has 1 and the others have 2, as they read the leaf
#          alone.
# Input:   a root folder with proc/self/cgroup, proc/self/mountinfo and the files of a cgroup v2 tree as the kernel
#          writes them; the processes may use two CPUs. Wants root, for chroot.
# Seen:    2026-11-29, Go 1.26.8, automaxprocs 1.6.0, Rust 1.95, num_cpus 1.17.0; Go, automaxprocs, std, num_cpus:
#          1.5 CPUs 2 1 1 2; half a CPU 2 1 1 1; parent with one CPU 2 2 1 2
set -euo pipefail
. "$(dirname "$0")/common.bash"

[ "$(id -u)" = 0 ] || { echo "wants root, for chroot" >&2; exit 2; }
[ "$(nproc)" -ge 2 ] || { echo "wants two CPUs" >&2; exit 2; }
tree=$work/tree
jobs=$tree/sys/fs/cgroup/jobs
mkdir -p "$work/go" "$work/rust/src" "$tree/proc/self" "$jobs/build"

cat >"$work/go/go.mod" <<'G'
module count

go 1.25.0
G
cat >"$work/go/main.go" <<'G'
package main

import (
	"fmt"
	"runtime"

	"go.uber.org/automaxprocs/maxprocs"
)

func main() {
	own := runtime.GOMAXPROCS(0)
	if _, err := maxprocs.Set(); err != nil {
		panic(err)
	}
	fmt.Print(own, " ", runtime.GOMAXPROCS(0))
}
G
export GOTOOLCHAIN=go1.26.8
(cd "$work/go" && go get go.uber.org/automaxprocs@v1.6.0 && CGO_ENABLED=0 go build -o "$tree/go") 2>"$work/go.err" || {
	tail -n 3 "$work/go.err" >&2
	exit 2
}

cat >"$work/rust/Cargo.toml" <<'T'
[package]
name = "count"
version = "0.0.0"
edition = "2021"
[dependencies]
num_cpus = "=1.17.0"
[workspace]
T
cat >"$work/rust/src/main.rs" <<'R'
fn main() {
    print!("{} {}", std::thread::available_parallelism().unwrap(), num_cpus::get());
}
R
(cd "$work/rust" && RUSTFLAGS="-C target-feature=+crt-static" cargo build --quiet --target-dir "$work/target") 2>"$work/cargo.err" || {
	tail -n 3 "$work/cargo.err" >&2
	exit 2
}
cp "$work/target/debug/count" "$tree/rust"

cat >"$tree/proc/self/mountinfo" <<'M'
22 1 0:20 / /proc rw,relatime - proc proc rw
30 1 0:26 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw
M
echo 0::/jobs/build >"$tree/proc/self/cgroup"
for folder in "$tree/sys/fs/cgroup" "$jobs" "$jobs/build"; do
	echo "cpu" >"$folder/cgroup.controllers"
done

on_two_cpus='import os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
os.execvp("chroot", ["chroot", *sys.argv[1:]])'
counts() { # cpu.max of the parent and of the process's own group
	echo "$1" >"$jobs/cpu.max"
	echo "$2" >"$jobs/build/cpu.max"
	echo "$(python3 -c "$on_two_cpus" "$tree" /go) $(python3 -c "$on_two_cpus" "$tree" /rust)"
}

echo "CPUs for Go 1.26.8, automaxprocs 1.6.0, Rust's std ($(rustc --version | cut -d ' ' -f 2)) and num_cpus 1.17.0"
expect "no limit" "2 2 2 2" "$(counts "max 100000" "max 100000")"
expect "1.5 CPUs" "2 1 1 2" "$(counts "max 100000" "150000 100000")"
expect "half a CPU" "2 1 1 1" "$(counts "max 100000" "50000 100000")"
expect "one CPU, set by the parent" "2 2 1 2" "$(counts "100000 100000" "max 100000")"
