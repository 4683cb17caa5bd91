# Steer: two elephants that ECMP put on one spine are moved apart while they run, and nobody notices but the counters.
install_packages
raise_fabric
configure observe
eventually 20 "heddle status shows all agents" holds '.agents.connected == 3' status

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

# counter LEAF PORT: packets that left by it.
counter() { ip netns exec "$1" cat /sys/class/net/"$2"/statistics/tx_packets; }
# retries DEVICE: what go-back-N would show.
trouble() { cat /sys/class/infiniband/rxe*/ports/1/hw_counters/{rcvd_seq_err,retry_exceeded_err} | awk '{s += $1} END {print s}'; }

# Queue pair numbers make the UDP source port, and so the hash: pairs are started until two share a spine.
start_pair() {
  local n=$1
  ib_write_bw -d rxe3 -p $((18600 + n)) -s 1048576 -D 60 -F -m 4096 -t 2 >/tmp/a-server.log 2>&1 &
  ib_write_bw -d rxe4 -p $((18700 + n)) -s 1048576 -D 60 -F -m 4096 -t 2 >/tmp/b-server.log 2>&1 &
  servers="$(jobs -p | tail -2)"
  eventually 10 "both servers listen" sh -c "ss -Hltn | grep -q ':$((18600 + n)) ' && ss -Hltn | grep -q ':$((18700 + n)) '"
  ib_write_bw -d rxe1 -p $((18600 + n)) -s 1048576 -D 60 -F -m 4096 -t 2 10.2.1.2 >/tmp/a-client.log 2>&1 &
  a=$!
  ib_write_bw -d rxe2 -p $((18700 + n)) -s 1048576 -D 60 -F -m 4096 -t 2 10.2.2.2 >/tmp/b-client.log 2>&1 &
  b=$!
}
collide() {
  holds '[.flows[] | select(.elephant and (.source == "10.1.1.2" or .source == "10.1.2.2")) | .observed_path] | length == 2 and .[0] != null' flows &&
    jq -e '[.flows[] | select(.elephant and (.source == "10.1.1.2" or .source == "10.1.2.2")) | .observed_path] | unique | length == 1' /tmp/reply.json >/dev/null
}
both_seen() {
  holds '[.flows[] | select(.elephant and (.source == "10.1.1.2" or .source == "10.1.2.2") and (.observed_path | type) == "string" and .observed_path != "unobservable")] | length == 2' flows
}
found=no
for attempt in 1 2 3 4 5 6; do
  start_pair $attempt
  eventually 15 "attempt $attempt: heddle sees both elephants" both_seen
  if collide; then found=yes; break; fi
  # shellcheck disable=SC2086
  kill $a $b $servers 2>/dev/null
  wait $a $b 2>/dev/null
done
check "two elephants share a spine under ECMP" test $found = yes
heddle flows | sed 's/^/   /'
before=$(trouble)
up1=$(counter leaf1 up1) up2=$(counter leaf1 up2)
read -rt 2 <> <(:)
say "before: up1 +$(($(counter leaf1 up1) - up1)) packets, up2 +$(($(counter leaf1 up2) - up2)) packets in 2 s"

for leaf in leaf1 leaf2; do sed -i 's/^mode: observe/mode: program/' /etc/heddle/agent-$leaf.yaml; done
check "the leaves are told to program" systemctl restart heddle-agent-leaf1 heddle-agent-leaf2
apart() {
  local one=$(counter leaf1 up1) two=$(counter leaf1 up2)
  read -rt 2 <> <(:)
  one=$(($(counter leaf1 up1) - one)) two=$(($(counter leaf1 up2) - two))
  echo "up1 +$one packets, up2 +$two packets in 2 s"
  [ $one -gt 100 ] && [ $two -gt 100 ] && [ $one -lt $((10 * two)) ] && [ $two -lt $((10 * one)) ]
}
eventually 25 "the optimiser moves them apart: both uplinks carry one" apart
apart | sed 's/^/     after: /'
heddle plan show | sed 's/^/   /'
check "the plan says why" holds '[.pins[] | .reason | length > 0] | all and length > 0' plan show
check "the first transfer completes" wait $a
check "and so does the second" wait $b
check "no packet came out of order and no retry was exceeded" test "$(trouble)" = "$before"
