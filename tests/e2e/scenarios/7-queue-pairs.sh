# Queue pairs: each flow of perftest, with rdma_cm and without, is shown with its own queue pair, process, peer and UDP
# source port, as the kernel's tools and a capture have them.
raise_fabric
sysctl -qw kernel.perf_event_paranoid=2
start_heddle
explain() { heddle flows; rdma resource show qp; journalctl -b -o cat -n 10 -u heddle-agent; }

# transfer NAME SERVER_NIC CLIENT_NIC COMMAND...: a perftest pair between two of the machine's NICs, in the background.
transfer() {
  local name=$1 server=$2 client=$3
  shift 3
  "$@" -p $PORT -s 65536 -D 40 -F -m 4096 -d rxe$server >/tmp/$name-server.log 2>&1 &
  server_pid=$!
  eventually 20 "$name: the server listens" sh -c "ss -Hltn | grep -q ':$PORT ' || rdma resource show cm_id | grep LISTEN | grep -q $PORT"
  # rdma_cm asks routing for the client's address. All NICs are this machine's, so it would get the server's own.
  ip rule del pref 9000 2>/dev/null
  ip route replace default via 10.$(leaf_of $client).$(port_of $client).1 dev e$client src $(address $client) table 900
  ip rule add pref 9000 iif lo to $(address $server) lookup 900
  "$@" -p $PORT -s 65536 -D 40 -F -m 4096 -d rxe$client "$(address $server)" >/tmp/$name-client.log 2>&1 &
  client_pid=$!
}

# owned NAME SOURCE DESTINATION DEVICE: the capture, the kernel's list and heddle agree.
owned() {
  local name=$1 source=$2 destination=$3 device=$4 sport qpn own
  eventually 30 "$name: it is on the wire" capture "$source" "$destination"
  sport=$(grep -o "$source\.[0-9]* >" /tmp/wire | head -1 | sed 's/.*\.\([0-9]*\) >/\1/')
  # IPv4 header 20, UDP 8, then the BTH, whose dest QP is octets 5 to 7: the capture's octets 33 to 35.
  qpn=$(awk '/0x0020:/ {print $2 $3; exit}' /tmp/wire)
  qpn=$((16#${qpn:2:6}))
  own=$(rdma -j resource show qp | jq -c ".[] | select(.ifname == \"$device\" and .rqpn == $qpn) | {lqpn, pid}" | tail -1)
  echo "     the wire says $source:$sport > $destination qp $qpn, the kernel says $device $own"
  eventually 30 "$name: heddle flows shows that key with that queue pair and process" holds \
    "$own as \$own | [.flows[] | select(.source == \"$source\" and .destination == \"$destination\" and .source_port == $sport and .dest_qpn == $qpn and .local_qpn == \$own.lqpn and .pid == \$own.pid and .sender == \"host1\")] | length == 1" flows
  check "$name completes" wait "$client_pid"
}
capture() {
  ip netns exec leaf1 timeout 3 tcpdump -Z root -nn -c 1 -i any -Q out -x \
    "src $1 and dst $2 and udp dst port 4791 and greater 1000" >/tmp/wire 2>/dev/null
  grep -q "$1" /tmp/wire
}

PORT=18701
transfer write 3 1 ib_write_bw
owned ib_write_bw 10.1.1.2 10.2.1.2 rxe1
PORT=18702
transfer send 4 2 ib_send_bw
owned ib_send_bw 10.1.2.2 10.2.2.2 rxe2
# What is read comes from the server.
PORT=18703
transfer read 1 3 ib_read_bw
owned ib_read_bw 10.1.1.2 10.2.1.2 rxe1
PORT=18704
transfer write-cm 4 1 ib_write_bw -R
owned "ib_write_bw by rdma_cm" 10.1.1.2 10.2.2.2 rxe1
PORT=18705
transfer send-cm 3 2 ib_send_bw -R
owned "ib_send_bw by rdma_cm" 10.1.2.2 10.2.1.2 rxe2
PORT=18706
transfer read-cm 2 4 ib_read_bw -R
owned "ib_read_bw by rdma_cm" 10.1.2.2 10.2.2.2 rxe2
heddle flows | sed 's/^/   /'
check "what the ports send stands beside the flows" holds '[.ports[] | select(.node == "host1")] | length == 4' flows

# RDMA's core goes and comes back beside a running agent, as when its drivers are upgraded: queue pairs that are connected
# then are seen by the watch again. Nobody counts packets here, or those would tell the peer.
check "nobody counts packets" sh -c "systemctl stop heddle-agent-leaf1 heddle-agent-leaf2 &&
  sed -i 's#^uplinks: .*#uplinks: [\"none*\"]#' /etc/heddle/agent.yaml && systemctl restart heddle-agent"
watched='[.agents[] | select(.name == "host1") | .sources[] | select(.usable) | .name]'
eventually 20 "the agent watches connections" holds "$watched | contains([\"rdma\", \"kprobe\"])" agents
# Udev's rules have loaded what speaks over RDMA besides.
unloaded() {
  modprobe -rq rpcrdma ib_iser
  modprobe -r rdma_rxe rdma_ucm rdma_cm ib_umad ib_uverbs iw_cm ib_cm ib_core
  [ ! -d /sys/module/ib_core ] || { lsmod | grep -E '^(ib|rdma|iw)_'; return 1; }
}
for i in 1 2 3 4; do rdma link delete rxe$i; done
eventually 20 "RDMA's core is unloaded beside the agent" unloaded
eventually 20 "which says so" holds "$watched | contains([\"rdma\"]) or contains([\"kprobe\"]) | not" agents
modprobe -a rdma_rxe rdma_ucm
for i in 1 2 3 4; do rdma link add rxe$i type rxe netdev e$i; done
eventually 20 "loaded again, it is watched again" holds "$watched | contains([\"rdma\", \"kprobe\"])" agents
PORT=18707
transfer again 3 1 ib_write_bw
eventually 30 "a new queue pair's peer is known, by the kernel's word" holds \
  '[.flows[] | select(.source == "10.1.1.2" and .destination == "10.2.1.2" and .peer == "kernel" and .bytes == "unobservable")] | length == 1' flows
check "again completes" wait "$client_pid"
