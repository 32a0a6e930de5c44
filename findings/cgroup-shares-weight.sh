#!/usr/bin/env bash
# containerd's cgroups 3.0.5 and 3.1.3: the default of 1024 shares is weight 39 or 100, and twice the shares is not
# twice the weight.
#
# Guess:   CPU shares of an OCI specification (2 to 262144) become cpu.weight (1 to 10000) on one straight line, so two
#          hosts of one version line agree, and a pod with twice the shares gets twice the CPU.
# Happens: 3.0.5 draws a straight line; 3.1.3 bends it so that the two defaults meet, 1024 and 100. 1024 shares are 39
#          and 100. With the bent line 2048 shares are 174 and 4096 are 303: beside a group of 1024 they get 1.7 and 3
#          times the CPU in place of 2 and 4. At 102 shares, a tenth of a CPU in Kubernetes, the versions differ fourfold.
# Input:   linux.resources.cpu.shares of 2, 102, 1024, 2048, 4096 and 262144, given to cgroup2.ToResources.
# Seen:    2026-11-29, containerd/cgroups 3.0.5: 1 4 39 79 157 10000; 3.1.3: 1 17 100 174 303 10000
set -euo pipefail
. "$(dirname "$0")/common.bash"

mkdir "$work/go"
cat >"$work/go/main.go" <<'G'
package main

import (
	"fmt"

	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func main() {
	for _, shares := range []uint64{2, 102, 1024, 2048, 4096, 262144} {
		cpu := &specs.LinuxCPU{Shares: &shares}
		fmt.Print(*cgroup2.ToResources(&specs.LinuxResources{CPU: cpu}).CPU.Weight, " ")
	}
}
G
weights() { # VERSION
	cd "$work/go"
	rm -f go.mod go.sum
	local module=github.com/containerd/cgroups/v3@$1
	{ go mod init weights && go get "$module" && go mod tidy && go get "$module"; } >"$work/go.log" 2>&1 || {
		tail -n 3 "$work/go.log" >&2
		exit 2
	}
	grep -q "cgroups/v3 $1" go.mod || exit 2
	go run . | xargs
}

straight=$(weights v3.0.5)
bent=$(weights v3.1.3)
echo "cpu.weight of 2, 102, 1024, 2048, 4096 and 262144 shares"
expect "containerd/cgroups 3.0.5" "1 4 39 79 157 10000" "$straight"
expect "containerd/cgroups 3.1.3" "1 17 100 174 303 10000" "$bent"
