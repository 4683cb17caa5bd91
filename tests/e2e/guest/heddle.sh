# Installs and configures heddle in the guest by the commands of the README's guide.

install_packages() {
  check "the packages install" apt-get install -y --no-install-recommends /host/packages/*.deb
}

# The coordinator and three agents: host1 in the initial namespace by the packaged unit, the leaves by copies of it
# that run in the leaves' namespaces. MODE is what leaves do: observe or program.
configure() {
  local mode=$1 node
  check "a key for the coordinator" heddle keygen --dir /etc/heddle/keys coordinator
  check "a key for the operator" heddle keygen --dir /etc/heddle/keys operator
  cp /etc/heddle/keys/operator.pub /etc/heddle/authorised/
  cp /etc/heddle/keys/coordinator.pub /etc/heddle/coordinator.pub
  chown heddle: /etc/heddle/keys/coordinator
  fabric_file >/etc/heddle/fabric.yaml
  check "the fabric file is right" heddle fabric check /etc/heddle/fabric.yaml
  sed -i 's#^listen: .*#listen: tcp://10.255.0.1:7117#; s#^elephant_mbps: .*#elephant_mbps: 10#; s#^lease_s: .*#lease_s: 8#;
          s#^flow_memory_s: .*#flow_memory_s: 10#' /etc/heddle/coordinator.yaml
  check "the coordinator's configuration is right" heddle-coordinator --check-config
  cat >/etc/heddle/heddle.yaml <<'YAML'
coordinator: tcp://10.255.0.1:7117
key: /etc/heddle/keys/operator
server_key: /etc/heddle/coordinator.pub
YAML
  for node in host1 leaf1 leaf2; do
    check "a key for $node" heddle keygen --dir /etc/heddle/keys $node
    cp /etc/heddle/keys/$node.pub /etc/heddle/authorised/
  done
  cp /etc/heddle/keys/host1 /etc/heddle/agent.key
  sed -i 's#^node: .*#node: host1#; s#^role: .*#role: host#; s#^uplinks: .*#uplinks: ["e*"]#; s#^host_ports: .*##' /etc/heddle/agent.yaml
  check "host1's configuration is right" heddle-agent --check-config
  for node in leaf1 leaf2; do leaf_agent $node "$mode"; done
  systemctl daemon-reload
  check "the coordinator starts" systemctl start heddle-coordinator
  check "the agents start" systemctl start heddle-agent heddle-agent-leaf1 heddle-agent-leaf2
}

# leaf_agent NODE MODE: the packaged unit with its own configuration, folders and network namespace.
leaf_agent() {
  local node=$1 mode=$2
  cat >/etc/heddle/agent-$node.yaml <<YAML
node: $node
role: leaf
mode: $mode
coordinator: {endpoint: "tcp://10.255.0.1:7117", public_key: /etc/heddle/coordinator.pub}
key: /etc/heddle/keys/$node
state_dir: /var/lib/heddle-$node
run_dir: /run/heddle-$node
uplinks: ["up*"]
host_ports: ["p*"]
YAML
  for unit in heddle-agent.service heddle-agent-guard.service heddle-agent-guard.timer; do
    sed "s#/etc/heddle/agent.yaml#/etc/heddle/agent-$node.yaml#; s#/etc/heddle/agent.key#/etc/heddle/keys/$node#
         s#^\(State\|Runtime\)Directory=heddle#\1Directory=heddle-$node#; s#heddle-agent-guard.timer#heddle-agent-$node-guard.timer#
         s#^\[Service\]#[Service]\nNetworkNamespacePath=/run/netns/$node#" /lib/systemd/system/$unit \
      >/etc/systemd/system/"${unit/heddle-agent/heddle-agent-$node}"
  done
}

# answers COMMAND...: the coordinator's JSON for it, then a jq filter on standard input must hold.
holds() {
  local filter=$1
  shift
  heddle --json "$@" | tee /tmp/reply.json | jq -e "$filter" >/dev/null || { head -c 3000 /tmp/reply.json; return 1; }
}

# pins LEAF: how many routes of ours its tables hold.
pins() { ip -n "$1" -N route show table all | grep -c 'proto 205'; }
has_pins() { test "$(pins "$1")" -eq "$2"; }

# Two long transfers across the core, one from each NIC of leaf1, checked by completes.
start_transfers() {
  local seconds=$1
  ib_write_bw -d rxe3 -p 18601 -s 1048576 -D "$seconds" -F -m 4096 -t 2 >/tmp/a-server.log 2>&1 &
  ib_write_bw -d rxe4 -p 18602 -s 1048576 -D "$seconds" -F -m 4096 -t 2 >/tmp/b-server.log 2>&1 &
  eventually 10 "both servers listen" sh -c "ss -Hltn | grep -q ':18601 ' && ss -Hltn | grep -q ':18602 '"
  ib_write_bw -d rxe1 -p 18601 -s 1048576 -D "$seconds" -F -m 4096 -t 2 10.2.1.2 >/tmp/a-client.log 2>&1 &
  first=$!
  ib_write_bw -d rxe2 -p 18602 -s 1048576 -D "$seconds" -F -m 4096 -t 2 10.2.2.2 >/tmp/b-client.log 2>&1 &
  second=$!
}
running() { kill -0 $first 2>/dev/null && kill -0 $second 2>/dev/null; }
complete() {
  wait $first; local a=$?
  wait $second; local b=$?
  test "$a $b" = "0 0" || { tail -3 /tmp/a-client.log /tmp/b-client.log; return 1; }
}
# The version of the coordinator's plan, to see it change.
plan_version() { heddle --json status | jq -r .version; }
replanned() { test "$(plan_version)" != "$1"; }
