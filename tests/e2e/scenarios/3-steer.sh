# Steer: two elephants that ECMP put on one spine are moved apart while they run, and nobody notices but the counters.
raise_fabric
start_heddle

explain() {
  heddle flows
  heddle agents
  ip -n leaf1 rule
  ip -n leaf1 route show table all proto 205
  ip -n leaf1 nexthop show
  ip -n leaf1 neigh
  tail -n 4 /tmp/a-client.log /tmp/b-client.log
  journalctl -o cat -n 12 -u heddle-agent-leaf1
  journalctl -o cat -n 12 -u heddle-coordinator
}

# counter PORT: packets that left leaf1 by it.
counter() { ip netns exec leaf1 cat /sys/class/net/"$1"/statistics/tx_packets; }
# per_spine: what left by each uplink within four seconds, into one and two.
per_spine() {
  one=$(counter up1) two=$(counter up2)
  pause 4
  one=$(($(counter up1) - one)) two=$(($(counter up2) - two))
  echo "up1 +$one packets, up2 +$two packets in 4 s"
}
together() { per_spine && [ $((one + two)) -gt 200 ] && { [ $one -lt $((two / 50)) ] || [ $two -lt $((one / 50)) ]; }; }
apart() { per_spine && [ $one -gt 50 ] && [ $two -gt 50 ] && [ $one -lt $((10 * two)) ] && [ $two -lt $((10 * one)) ]; }

ours='.elephant and (.source == "10.1.1.2" or .source == "10.1.2.2") and .observed_path != "unobservable"'
both_seen() { holds "[.flows[] | select($ours)] | length == 2" flows; }
collide() { holds "[.flows[] | select($ours) | .observed_path] | unique | length == 1" flows; }

# Queue pair numbers make the UDP source port, and so the hash: pairs are started until two share a spine. A pair that
# does not is given up; what heddle remembers of it must fade, or it would be counted with the next.
found=no
for attempt in 1 2 3 4 5 6; do
  start_transfers
  eventually 15 "attempt $attempt: heddle sees both elephants" both_seen
  if collide; then found=yes; break; fi
  abandon_transfers
  eventually 30 "they are gone again" holds "[.flows[] | select($ours)] | length == 0" flows
done
check "two elephants share a spine under ECMP" test $found = yes
check "as the counters of leaf1's uplinks say" together
before=$(trouble)
sed 's/^/     /' /tmp/said

let_program
eventually 25 "the optimiser moves them apart: both uplinks carry one" apart
sed 's/^/     /' /tmp/said
heddle plan show | sed 's/^/   /'
check "the plan says why" holds '[.pins[] | .reason | length > 0] | all and length > 0' plan show
check "no packet came out of order and no retry was exceeded" test "$(trouble)" = "$before"
guide off-switch
check "no pin is left" has_pins leaf1 0
guide on-switch
eventually 20 "they are back" has_pins leaf1 2
check "both transfers complete" complete
check "nor by that" test "$(trouble)" = "$before"
