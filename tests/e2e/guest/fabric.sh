# The fabric inside the virtual machine: two leaves and two spines as namespaces, four host NICs with Soft-RoCE in
# the initial namespace, because stock rdma_rxe works nowhere else. Policy routing sends traffic between the
# machine's own NICs out onto the wire.
#
#   e1, e2 -- leaf1 -- spine1, spine2 -- leaf2 -- e3, e4        management: 10.255.0.0/24 on the bridge mgmt

raise_fabric() {
  local start=$SECONDS l s n i
  modprobe -a crc32_generic rdma_rxe veth sch_tbf
  for n in leaf1 leaf2 spine1 spine2; do
    ip netns add $n
    ip netns exec $n sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
      net.ipv4.fib_multipath_hash_policy=3 net.ipv4.fib_multipath_hash_fields=55 net.ipv4.fib_multipath_hash_seed=42 \
      net.ipv4.conf.all.ignore_routes_with_linkdown=1 net.ipv4.conf.default.ignore_routes_with_linkdown=1
  done
  # Packets to our own addresses take the wire unless they came in by it.
  sysctl -qw net.ipv4.conf.{all,default}.rp_filter=0 net.ipv4.conf.{all,default}.accept_local=1 \
    net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
  # Every ip is a process, and processes are slow here: one for each namespace.
  {
    echo "rule add pref 32000 lookup local
          rule del pref 0
          link add mgmt type bridge
          addr add 10.255.0.1/24 dev mgmt
          link set mgmt up"
    for l in 1 2; do
      echo "link add mgmt-l$l type veth peer name mgmt0 netns leaf$l
            link set mgmt-l$l master mgmt up"
    done
    for i in 1 2 3 4; do
      l=$(leaf_of $i) n=$(port_of $i)
      echo "link add e$i mtu 4200 type veth peer name p$n mtu 4200 netns leaf$l
            addr add $(address $i)/30 dev e$i
            link set e$i up
            rule add pref 100$i oif e$i lookup 10$i
            rule add pref 110$i iif lo from $(address $i) lookup 10$i"
    done
  } | ip -batch - || exit 1
  for l in 1 2; do
    {
      echo "link set lo up
            addr add 10.255.0.1$l/24 dev mgmt0
            link set mgmt0 up"
      for n in 1 2; do
        echo "addr add 10.$l.$n.1/30 dev p$n
              link set p$n up"
      done
      for s in 1 2; do
        echo "link add up$s mtu 4200 type veth peer name d$l mtu 4200 netns spine$s
              addr add 10.10$l.$s.1/30 dev up$s
              link set up$s up"
      done
    } | ip -n leaf$l -batch - || exit 1
  done
  for s in 1 2; do
    {
      echo "link set lo up"
      for l in 1 2; do
        echo "addr add 10.10$l.$s.2/30 dev d$l
              link set d$l up
              route add 10.$l.0.0/16 via 10.10$l.$s.1 dev d$l proto bgp"
      done
    } | ip -n spine$s -batch - || exit 1
  done
  for l in 1 2; do offer_spines leaf$l 1 2; done
  for i in 1 2 3 4; do
    ip route add default via 10.$(leaf_of $i).$(port_of $i).1 dev e$i table 10$i
    rdma link add rxe$i type rxe netdev e$i
  done
  # The first connection must not wait for neighbours.
  for i in "1 3" "2 4" "3 1" "4 2"; do
    # shellcheck disable=SC2086
    eventually 10 "ping from e${i% *} to e${i#* }" ping -q -c1 -W1 -I $(address ${i% *}) $(address ${i#* })
  done
  say "the fabric is up$(took $start)"
}

# NIC eN is at port pM of a leaf.
leaf_of() { echo $((($1 + 1) / 2)); }
port_of() { echo $((($1 + 1) % 2 + 1)); }
address() { echo "10.$(leaf_of "$1").$(port_of "$1").2"; }

# offer_spines LEAF SPINE...: what a routing protocol would put into the leaf's main table. The group is replaced
# where the kernel has kept it, so no packet is without a route.
offer_spines() {
  local leaf=$1 l=${1#leaf} s group=
  shift
  for s in "$@"; do
    ip -n "$leaf" nexthop replace id "$s" via 10.10$l.$s.2 dev up$s proto bgp
    group=$group${group:+/}$s
  done
  ip -n "$leaf" nexthop replace id 10 group $group proto bgp
  ip -n "$leaf" route replace 10.$((3 - l)).0.0/16 nhid 10 proto bgp
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

# cut_cable SPINE LEAF: it dies at the spine's end; the leaf's end loses its carrier. mend_cable brings it back, as a
# routing protocol would: the routes that the kernel dropped come again.
cut_cable() { ip -n "spine$1" link set "d$2" down; }
mend_cable() {
  local s=$1 l=$2
  ip -n spine$s link set d$l up
  ip -n spine$s route replace 10.$l.0.0/16 via 10.10$l.$s.1 dev d$l proto bgp
}
