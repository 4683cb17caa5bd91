# The fabric inside the virtual machine: two leaves and two spines as namespaces, four host NICs with Soft-RoCE in
# the initial namespace, because stock rdma_rxe works nowhere else. Policy routing sends traffic between the
# machine's own NICs out onto the wire.
#
#   e1, e2 -- leaf1 -- spine1, spine2 -- leaf2 -- e3, e4        management: 10.255.0.0/24 on the bridge mgmt

raise_fabric() {
  local l s n i
  modprobe -a crc32_generic rdma_rxe veth sch_tbf
  ip link add mgmt type bridge
  ip addr add 10.255.0.1/24 dev mgmt
  ip link set mgmt up
  for n in leaf1 leaf2 spine1 spine2; do
    ip netns add $n
    ip -n $n link set lo up
    ip netns exec $n sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
      net.ipv4.fib_multipath_hash_policy=3 net.ipv4.fib_multipath_hash_fields=55 net.ipv4.fib_multipath_hash_seed=42 \
      net.ipv4.conf.all.ignore_routes_with_linkdown=1 net.ipv4.conf.default.ignore_routes_with_linkdown=1
  done
  for l in 1 2; do
    ip link add mgmt-l$l type veth peer name mgmt0 netns leaf$l
    ip link set mgmt-l$l master mgmt up
    ip -n leaf$l addr add 10.255.0.1$l/24 dev mgmt0
    ip -n leaf$l link set mgmt0 up
    for s in 1 2; do
      ip -n leaf$l link add up$s mtu 4200 type veth peer name d$l mtu 4200 netns spine$s
      ip -n leaf$l addr add 10.10$l.$s.1/30 dev up$s
      ip -n spine$s addr add 10.10$l.$s.2/30 dev d$l
      ip -n leaf$l link set up$s up
      ip -n spine$s link set d$l up
      ip -n spine$s route add 10.$l.0.0/16 via 10.10$l.$s.1 dev d$l proto bgp
    done
    offer_spines leaf$l 1 2
  done
  # Packets to our own addresses take the wire unless they came in by it.
  sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.conf.all.accept_local=1 \
    net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
  ip rule add pref 32000 lookup local
  ip rule del pref 0
  for i in 1 2 3 4; do
    l=$(((i + 1) / 2))
    n=$((i - 2 * l + 2))
    ip link add e$i mtu 4200 type veth peer name p$n mtu 4200 netns leaf$l
    ip addr add 10.$l.$n.2/30 dev e$i
    ip -n leaf$l addr add 10.$l.$n.1/30 dev p$n
    ip link set e$i up
    ip -n leaf$l link set p$n up
    sysctl -qw net.ipv4.conf.e$i.rp_filter=0 net.ipv4.conf.e$i.accept_local=1
    ip route add default via 10.$l.$n.1 dev e$i table 10$i
    ip rule add pref 100$i oif e$i lookup 10$i
    ip rule add pref 110$i iif lo from 10.$l.$n.2 lookup 10$i
    rdma link add rxe$i type rxe netdev e$i
  done
  # The first connection must not wait for neighbours.
  for i in "10.1.1.2 10.2.1.2" "10.1.2.2 10.2.2.2" "10.2.1.2 10.1.1.2" "10.2.2.2 10.1.2.2"; do
    # shellcheck disable=SC2086
    eventually 10 "ping ${i% *} to ${i#* }" ping -q -c1 -W1 -I $i
  done
}

# offer_spines LEAF SPINE...: what a routing protocol would put into the leaf's main table.
offer_spines() {
  local leaf=$1 l=${1#leaf} s group=
  shift
  ip -n "$leaf" route del 10.$((3 - l)).0.0/16 2>/dev/null
  ip -n "$leaf" nexthop del id 10 2>/dev/null
  for s in "$@"; do
    ip -n "$leaf" nexthop replace id "$s" via 10.10$l.$s.2 dev up$s proto bgp
    group=$group${group:+/}$s
  done
  ip -n "$leaf" nexthop add id 10 group $group proto bgp
  ip -n "$leaf" route add 10.$((3 - l)).0.0/16 nhid 10 proto bgp
}

fabric_file() {
  cat <<'YAML'
fabric: guest
leaves: [{name: leaf1, rack: rack1}, {name: leaf2, rack: rack2}]
spines: [{name: spine1}, {name: spine2}]
hosts:
  - name: host1
    rack: rack1
    nics:
      - {name: e1, address: 10.1.1.2, attachments: [{leaf: leaf1, port: p1, capacity: 1G}]}
      - {name: e2, address: 10.1.2.2, attachments: [{leaf: leaf1, port: p2, capacity: 1G}]}
      - {name: e3, address: 10.2.1.2, attachments: [{leaf: leaf2, port: p1, capacity: 1G}]}
      - {name: e4, address: 10.2.2.2, attachments: [{leaf: leaf2, port: p2, capacity: 1G}]}
cables:
  - {leaf: leaf1, spine: spine1, leaf_port: up1, spine_port: d1, capacity: 1G}
  - {leaf: leaf1, spine: spine2, leaf_port: up2, spine_port: d1, capacity: 1G}
  - {leaf: leaf2, spine: spine1, leaf_port: up1, spine_port: d2, capacity: 1G}
  - {leaf: leaf2, spine: spine2, leaf_port: up2, spine_port: d2, capacity: 1G}
YAML
}

# cut SPINE LEAF: their cable dies at the spine's end; the leaf's end loses its carrier. mend brings it back, as a
# routing protocol would: the routes that the kernel dropped come again.
cut() { ip -n "spine$1" link set "d$2" down; }
mend() {
  local s=$1 l=$2
  ip -n spine$s link set d$l up
  ip -n spine$s route replace 10.$l.0.0/16 via 10.10$l.$s.1 dev d$l proto bgp
}
