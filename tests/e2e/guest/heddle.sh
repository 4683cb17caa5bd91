# heddle in the guest, installed and configured by the operator's guide. One machine plays all parts: the coordinator
# and host1's agent run by their packaged units; each leaf's agent by a copy of the unit in the leaf's network
# namespace, with folders of its own. `ip netns exec` lays /etc/netns/LEAF over /etc, so commands that run `on` a leaf
# find configuration, state and network where the guide has them.

# on LEAF COMMAND...
on() {
  local leaf=$1
  shift
  ip netns exec "$leaf" sh -c "mount --bind /var/lib/heddle-$leaf /var/lib/heddle &&
    mount --bind /run/heddle-$leaf /run/heddle && exec \"\$@\"" sh "$@"
}
# on_leaf_guide LEAF BLOCK: that block of the guide, there, for that leaf.
on_leaf_guide() { LEAF=$1 on "$1" bash -c 'source /host/lib.sh; guide "$0" "s/leaf1/$LEAF/g"' "$2" || exit 1; }

# What the guide's commands find on real machines: others to copy to, somebody who edits files and says yes, a unit of
# this name.
scp() {
  local node=${2%%:*} path=${2#*:}
  [ "$node" = host1 ] || path=${path/#\/etc\/heddle//etc/netns/$node/heddle}
  cp "$1" "$path"
}
editor() { fabric_file >"$1"; }
apt() { command apt -y "$@"; }
systemctl() { command systemctl "${@/%heddle-agent/heddle-agent${LEAF:+-$LEAF}}"; }

# Thresholds and times are for the emulation, which is slow.
set_up_management() {
  guide management-keys
  shown
  guide management-fabric
  shown
  sed -i 's#^elephant_mbps: .*#elephant_mbps: 10#; s#^flow_memory_s: .*#flow_memory_s: 10#; s#^  mode: required#  mode: off#' \
    /etc/heddle/coordinator.yaml
  guide management-start
  shown
}

set_up_host() {
  guide node-key s/leaf1/host1/g
  guide node-configure 's/leaf1/host1/; s/role: leaf/role: host/'
  sed -i 's#^uplinks: .*#uplinks: ["e*"]#; s#^host_ports: .*##' /etc/heddle/agent.yaml
  guide node-start
}

# set_up_leaf LEAF: as the guide has it for its example.
set_up_leaf() {
  local leaf=$1 unit
  mkdir -p /etc/netns/$leaf/heddle /var/lib/heddle-$leaf /run/heddle-$leaf
  zcat -f /usr/share/doc/heddle-doc/examples/agent.yaml.example* >/etc/netns/$leaf/heddle/agent.yaml
  for unit in heddle-agent.service heddle-agent-guard.service heddle-agent-guard.timer; do
    leaf_unit $leaf $unit
  done
  command systemctl daemon-reload
  guide node-key s/leaf1/$leaf/g
  shown
  on_leaf_guide $leaf node-configure
  shown
  on_leaf_guide $leaf node-start
}

# leaf_unit LEAF UNIT: the packaged unit again, on that leaf. What is done to the one is done to the other.
leaf_unit() {
  local leaf=$1 unit=$2 copy=${2/agent/agent-$1}
  cp /lib/systemd/system/$unit /etc/systemd/system/$copy
  mkdir -p /etc/systemd/system/$copy.d
  {
    printf '[Unit]\nPartOf=%s\n' $unit
    [ $unit != heddle-agent.service ] || echo Wants=heddle-agent-$leaf-guard.timer
    [[ $unit == *.timer ]] || cat <<UNIT
[Service]
NetworkNamespacePath=/run/netns/$leaf
StateDirectory=
RuntimeDirectory=
BindPaths=/etc/netns/$leaf/heddle:/etc/heddle /var/lib/heddle-$leaf:/var/lib/heddle /run/heddle-$leaf:/run/heddle
UNIT
  } >/etc/systemd/system/$copy.d/leaf.conf
}

all_units="heddle-coordinator heddle-agent heddle-agent-leaf1 heddle-agent-leaf2"
all_guards="heddle-agent-guard.timer heddle-agent-leaf1-guard.timer heddle-agent-leaf2-guard.timer"
all_agents_known() { eventually 20 "heddle status shows all agents" holds '.agents.connected == 3 and .agents.total == 3' status; }

# start_heddle: after a boot, once the fabric is there.
start_heddle() {
  mkdir -p /run/heddle-leaf1 /run/heddle-leaf2
  # shellcheck disable=SC2086
  check "heddle starts" systemctl restart $all_units
  all_agents_known
}

# let_program: the leaves are told to, by the guide.
let_program() {
  local leaf
  for leaf in leaf1 leaf2; do on_leaf_guide $leaf roll-out; done
}

# holds FILTER COMMAND...: what jq says of the coordinator's JSON for that command.
holds() {
  local filter=$1
  shift
  heddle --json "$@" >/tmp/reply.json && jq -e "$filter" /tmp/reply.json >/dev/null || { head -c 3000 /tmp/reply.json; return 1; }
}

# pins LEAF: how many routes of ours its tables hold.
pins() { ip -n "$1" -N route show table all | grep -c 'proto 205'; }
has_pins() { test "$(pins "$1")" -eq "$2"; }
# pinned_to LEAF: the uplinks that its pins lead to.
pinned_to() {
  ip -n "$1" -N route show table all | sed -n 's/.* dev \([^ ]*\).*proto 205.*/\1/p' | sort -u | paste -sd' '
}
pins_lead_to() { test "$(pinned_to "$1")" = "$2"; }

# Two transfers across the core, one from each NIC of leaf1, until `complete` ends them, for ten minutes at most. Their
# NICs are slow and their priority is the lowest, or what is tested beside them would starve. Timeouts are those of
# training (NCCL's default is 20), where a retry after 67 ms would be given up too soon. (The function becomes the
# program, so call it with &.)
perftest() { exec nice -n 19 ib_write_bw -s 1048576 -D 600 -F -m 4096 -t 2 -u 19 "$@"; }
start_transfers() {
  tc qdisc replace dev e1 root tbf rate 6mbit burst 32kb limit 1mb
  tc qdisc replace dev e2 root tbf rate 6mbit burst 32kb limit 1mb
  perftest -d rxe3 -p 18601 >/tmp/a-server.log 2>&1 &
  perftest -d rxe4 -p 18602 >/tmp/b-server.log 2>&1 &
  servers="$(jobs -p | tail -2)"
  eventually 10 "both servers listen" sh -c "ss -Hltn | grep -q ':18601 ' && ss -Hltn | grep -q ':18602 '"
  perftest -d rxe1 -p 18601 "$(address 3)" >/tmp/a-client.log 2>&1 &
  first=$!
  perftest -d rxe2 -p 18602 "$(address 4)" >/tmp/b-client.log 2>&1 &
  second=$!
}
running() { kill -0 $first && kill -0 $second; }
# complete: perftest counts its time by alarms (sample from here, to here, end), so three of them are its end; it fails if
# a message that it posted was not acknowledged. It hangs if none ended while it sampled, so that lasts some seconds.
complete() {
  local seconds a b
  for seconds in 5 1 0; do
    kill -ALRM $first $second
    pause $seconds
  done
  wait $first; a=$?
  wait $second; b=$?
  tail -3 /tmp/a-client.log /tmp/b-client.log
  test "$a $b" = "0 0"
}
abandon_transfers() {
  # shellcheck disable=SC2086
  kill $servers $first $second
  wait
}
# The version of the coordinator's plan, to see it change.
plan_version() { heddle --json status | jq -r '"\(.epoch).\(.generation)"'; }
replanned() { test "$(plan_version)" != "$1"; }
# trouble: what go-back-N would show: packets out of order, and retries given up.
trouble() { cat /sys/class/infiniband/rxe*/ports/1/hw_counters/{rcvd_seq_err,retry_exceeded_err} | awk '{s += $1} END {print s}'; }
