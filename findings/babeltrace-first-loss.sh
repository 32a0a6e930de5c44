#!/usr/bin/env bash
# Babeltrace 1.5.11 and 2.0.4: one CTF trace, two answers to how many events the first packet lost.
#
# Guess:   events_discarded counts from the start of the stream, so a first packet that says 5 lost 5 events, and a
#          second one that says 7 lost 2 more. A newer reader reports at least what the older one reported.
# Happens: Babeltrace 1 reports 5, then 2. Babeltrace 2 says that events "may" be missing in the first packet and
#          drops the 5: a sum over its messages has 2 of 7 lost events. Both exit with 0 and print all events.
# Input:   a CTF 1.8 trace of one stream with three packets, whose counters are 5, 7 and 7.
# Seen:    2026-11-27, Debian 12, x86-64. Version 1: "discarded 5 events", "discarded 2 events";
#          version 2: "may have discarded events", "discarded 2 events"
set -euo pipefail
. "$(dirname "$0")/common.bash"

old=1.5.11-1+b2
new=2.0.4-1+b6
deb babeltrace=$old libbabeltrace1=$old libpopt0=1.19+dfsg-1 babeltrace2=$new libbabeltrace2-0=$new

python3 - "$work/trace" <<'PY'
import os, struct, sys

folder = sys.argv[1]
os.makedirs(folder)
with open(folder + "/metadata", "w") as f:
    f.write("""/* CTF 1.8 */
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 64; align = 8; signed = false; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; }; };
clock { name = mono; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.mono.value; } := stamp;
stream {
    id = 0;
    packet.context := struct { stamp timestamp_begin; stamp timestamp_end; u64 content_size; u64 packet_size;
                               u32 events_discarded; u32 cpu_id; };
    event.header := struct { u32 id; stamp timestamp; };
};
event { id = 0; name = "sched_switch"; stream_id = 0; fields := struct { u32 next; }; };
""")

def packet(begin, end, discarded, events):
    body = b"".join(struct.pack("<IQI", 0, time, task) for time, task in events)
    bits = 8 * (8 + 4 * 8 + 8 + len(body))
    return struct.pack("<IIQQQQII", 0xC1FC1FC1, 0, begin, end, bits, bits, discarded, 0) + body

with open(folder + "/stream_0", "wb") as f:
    f.write(packet(1000, 2000, 5, [(1100, 1), (1900, 2)]))
    f.write(packet(2000, 3000, 7, [(2100, 3)]))
    f.write(packet(3000, 4000, 7, [(3100, 4)]))
PY

"$root/usr/bin/babeltrace" "$work/trace" >"$work/old.txt" 2>"$work/old.err"
BABELTRACE_PLUGIN_PATH=$lib/babeltrace2/plugins LIBBABELTRACE2_PLUGIN_PROVIDER_DIR=$lib/babeltrace2/plugin-providers \
	"$root/usr/bin/babeltrace2" "$work/trace" >"$work/new.txt" 2>"$work/new.err"

losses() { grep -oE 'may have discarded events|discarded [0-9]+ events' "$1" | paste -sd ';'; }
echo "babeltrace $old, babeltrace2 $new; counters of the packets: 5 7 7"
expect "events printed by each" "4 4" "$(grep -c sched_switch "$work/old.txt") $(grep -c sched_switch "$work/new.txt")"
expect "Babeltrace 1" "discarded 5 events;discarded 2 events" "$(losses "$work/old.err")"
expect "Babeltrace 2" "may have discarded events;discarded 2 events" "$(losses "$work/new.err")"
