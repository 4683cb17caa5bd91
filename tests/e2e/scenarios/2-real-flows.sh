# Real flows: what perftest sends over Soft-RoCE is what heddle shows, by the key that a capture saw.
raise_fabric
# As the guide says of Debian's kernels, which otherwise let nobody but CAP_SYS_ADMIN watch.
sysctl -qw kernel.perf_event_paranoid=2
start_heddle
check "in its sandbox host1's agent sees packets, queue pairs and how they are connected" holds \
  '[.agents[] | select(.name == "host1") | .sources[] | select(.usable) | .name] | contains(["ebpf", "rdma", "kprobe"])' agents
check "what Soft-RoCE does not offer is named with its reason" holds \
  '[.agents[].sources[] | select(.usable | not) | .reason | length > 0] | all' agents
holds true agents && jq -r '.agents[] | .name as $n | .sources[] | "     \($n): \(.name) \(if .usable then "is usable" else "is unobservable: " + .reason end)"' /tmp/reply.json
explain() { heddle flows; journalctl -b -o cat -n 10 -u "heddle*"; }

# transfer NAME SERVER_NIC CLIENT_NIC COMMAND...: a perftest pair between two of the machine's NICs, in the background.
transfer() {
  local name=$1 server=$2 client=$3
  shift 3
  "$@" -d rxe$server >/tmp/$name-server.log 2>&1 &
  # By TCP, or with rdma_cm by an identifier of RDMA.
  eventually 10 "$name: the server listens" sh -c "ss -Hltn | grep -q ':$PORT ' || rdma resource show cm_id | grep LISTEN | grep -q $PORT"
  # rdma_cm asks routing for the client's address. All NICs are this machine's, so it would get the server's own.
  ip rule del pref 9000 2>/dev/null
  ip route replace default via 10.$(leaf_of $client).$(port_of $client).1 dev e$client src $(address $client) table 900
  ip rule add pref 9000 iif lo to $(address $server) lookup 900
  "$@" -d rxe$client "$(address $server)" >/tmp/$name-client.log 2>&1 &
  client_pid=$!
}

# seen NAME SOURCE DESTINATION: the capture at leaf1's uplinks and heddle agree on the subflow's key.
seen() {
  local name=$1 source=$2 destination=$3 wire sport qpn
  eventually 20 "$name: it is on the wire" capture "$source" "$destination"
  wire=$(cat /tmp/wire)
  sport=$(grep -o "$source\.[0-9]* >" <<<"$wire" | head -1 | sed 's/.*\.\([0-9]*\) >/\1/')
  # IPv4 header 20, UDP 8, then the BTH, whose dest QP is octets 5 to 7: the capture's octets 33 to 35.
  qpn=$(awk '/0x0020:/ {print $2 $3; exit}' <<<"$wire")
  qpn=$((16#${qpn:2:6}))
  echo "     the wire says $source:$sport > $destination qp $qpn"
  eventually 15 "$name: heddle flows shows that key" holds \
    "[.flows[] | select(.source == \"$source\" and .destination == \"$destination\" and .source_port == $sport and .dest_qpn == $qpn)] | length == 1" flows
}
# A packet with payload, on either uplink.
capture() {
  ip netns exec leaf1 timeout 3 tcpdump -Z root -nn -c 1 -i any -Q out -x \
    "src $1 and dst $2 and udp dst port 4791 and greater 1000" >/tmp/wire 2>/dev/null
  grep -q "$1" /tmp/wire
}

PORT=18601
transfer write 3 1 ib_write_bw -p $PORT -s 2097152 -D 20 -F -m 4096 -t 2
seen "ib_write_bw" 10.1.1.2 10.2.1.2
eventually 10 "an elephant by its message's length" holds \
  '[.flows[] | select(.source == "10.1.1.2" and .elephant and .message_length == 2097152)] | length == 1' flows
check "its peer's acknowledgements are a mouse" holds \
  '[.flows[] | select(.source == "10.2.1.2" and .elephant)] | length == 0' flows
heddle flows | sed 's/^/   /'
check "ib_write_bw completes" wait "$client_pid"

PORT=18602
transfer send 4 2 ib_send_bw -p $PORT -s 65536 -D 20 -F -m 4096
seen "ib_send_bw" 10.1.2.2 10.2.2.2
eventually 15 "an elephant by its rate; no length is claimed, as a SEND shows none" holds \
  '[.flows[] | select(.source == "10.1.2.2" and .elephant and (.message_length | type != "number"))] | length == 1' flows
check "ib_send_bw completes" wait "$client_pid"

PORT=18603
transfer write-cm 3 2 ib_write_bw -R -p $PORT -s 2097152 -D 20 -F -m 4096 -t 2
seen "ib_write_bw by rdma_cm" 10.1.2.2 10.2.1.2
check "ib_write_bw by rdma_cm completes" wait "$client_pid"

PORT=18604
transfer send-cm 4 1 ib_send_bw -R -p $PORT -s 65536 -D 20 -F -m 4096
seen "ib_send_bw by rdma_cm" 10.1.1.2 10.2.2.2
check "ib_send_bw by rdma_cm completes" wait "$client_pid"
