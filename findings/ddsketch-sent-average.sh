#!/usr/bin/env bash
# DDSketch for Python 3.0.1: a sketch that was sent as protobuf keeps its percentiles and forgets its sum.
#
# Guess:   Sketches are made to be sent by every host and merged by one, so what arrives answers like what was sent.
# Happens: Count and percentiles arrive. The sum is 0, hence the average too, without an error. Merged with a local
#          sketch of one sample of 5 us, 100 samples with an average of 50.5 us give an average of 0.05 us, less than
#          any sample: the count has both, the sum has one.
# Input:   1 to 100 us, relative accuracy 1 %; to_proto(), bytes, from_proto(), merge().
# Seen:    2026-11-29, protobuf 7.36.2. count, average, p50: sent 100 50.50 49.90, arrived 100 0.00 49.90, merged 101 0.05
set -euo pipefail
. "$(dirname "$0")/common.bash"

pip_install ddsketch==3.0.1 protobuf==7.36.2
"$work/venv/bin/python" - >"$work/out.txt" 2>"$work/err.txt" <<'PY'
from ddsketch import DDSketch
from ddsketch.pb import ddsketch_pb2
from ddsketch.pb.proto import DDSketchProto

sent = DDSketch(0.01)
for value in range(1, 101):
    sent.add(value)
message = ddsketch_pb2.DDSketch()
message.ParseFromString(DDSketchProto.to_proto(sent).SerializeToString())
arrived = DDSketchProto.from_proto(message)
merged = DDSketch(0.01)
merged.add(5)
merged.merge(arrived)
for name, sketch in ("sent", sent), ("arrived", arrived), ("merged", merged):
    print(name, f"{sketch.count:g} {sketch.avg:.2f} {sketch.get_quantile_value(0.5):.2f}")
PY
seen() { sed -n "s/^$1 //p" "$work/out.txt"; }

echo "ddsketch 3.0.1, protobuf 7.36.2; count, average and median"
expect "sent" "100 50.50 49.90" "$(seen sent)"
expect "arrived" "100 0.00 49.90" "$(seen arrived)"
expect "merged with one sample of 5" "101 0.05 49.90" "$(seen merged)"
