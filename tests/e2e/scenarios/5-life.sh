# A life: reboot, upgrade, downgrade, the coordinator lost, an agent dead, removal, purge.
if [ "$(stage)" = 1 ]; then
  raise_fabric
  # An installation that takes the whole of an emulated processor for minutes is no end of the flows, nor of the lease.
  sed -i 's#^flow_memory_s: .*#flow_memory_s: 900#; s#^lease_s: .*#lease_s: 900#' /etc/heddle/coordinator.yaml
  start_heddle
  let_program
  check "daemons and guard are to start with the machine" systemctl -q enable heddle-coordinator heddle-agent heddle-agent-guard.timer
  epoch=$(heddle --json status | jq .epoch)
  echo "$epoch" >/var/lib/epoch-before
  sync
  say "reboot, out of epoch $epoch"
  reboot_into 2
fi

explain() {
  heddle status
  heddle agents
  ip -n leaf1 -N route show table all | grep 'proto 205'
  ip -n leaf1 rule
  ip -n leaf1 nexthop
  tail -n 3 /tmp/monitor.log /tmp/ping.log /tmp/a-client.log
  journalctl -b -o short-unix -n 40 -u "heddle*"
}

# The address at which the coordinator listens appears only now, long after its first start.
raise_fabric
for unit in heddle-coordinator heddle-agent; do eventually 30 "after the reboot $unit runs by itself" systemctl is-active $unit; done
# The leaves' namespaces are this script's, so their agents start after it.
mkdir -p /run/heddle-leaf1 /run/heddle-leaf2
systemctl start heddle-agent-leaf1 heddle-agent-leaf2
all_agents_known
check "the reign is a new one, above the last" holds ".epoch > $(cat /var/lib/epoch-before)" status
start_transfers
eventually 40 "both elephants are pinned" has_pins leaf1 2
ours() { ip -n leaf1 -N route show table all | grep 'proto 205' | sed 's/ nhid [0-9]*//' | sort; }

say "a route, a rule and a next hop of somebody else's stand beside ours"
ip -n leaf1 nexthop add id 77 via 10.101.1.2 dev up1 proto static
ip -n leaf1 route add 192.0.2.0/24 nhid 77 proto static
ip -n leaf1 rule add pref 5000 to 192.0.2.0/24 lookup main
# All of leaf1's routing that is not ours; the kernel's own counters and order apart.
foreign() {
  ip -n leaf1 -N route show table all | grep -v 'proto 205' | sort
  ip -n leaf1 -N rule | grep -v '^1880:' | sort
  ip -n leaf1 -N nexthop | grep -v 'proto 205' | sort
}
foreign >/tmp/foreign
foreign_stands() { foreign | diff /tmp/foreign -; }

# survives WORDS BLOCK: the guide's block, while pings and transfers take the pinned paths. The agent is another process
# then, the pins are the same, none was away for a moment, and no packet was lost.
survives() {
  local words=$1 block=$2 pings last before process
  say "$words"
  before=$(trouble) process=$(systemctl show -P MainPID heddle-agent-leaf1)
  ours >/tmp/ours
  ip -n leaf1 -N monitor route rule nexthop >/tmp/monitor.log 2>&1 &
  monitor=$!
  ping -i 0.05 -I 10.1.1.2 10.2.1.2 >/tmp/ping.log 2>&1 &
  pings=$!
  guide "$block"
  eventually 30 "the agents are known, with all that was planned" holds '.agents.connected == 3 and .agents.converged >= 2' status
  last=$(awk -F 'icmp_seq=' 'NF > 1 {split($2, seq, " ")} END {print seq[1]}' /tmp/ping.log)
  check "pings were answered all the time" test "$last" -gt 200
  eventually 10 "none of $last pings was lost" all_answered "$last"
  kill $pings $monitor
  wait $pings $monitor 2>/dev/null
  check "the agents were restarted" test "$(systemctl show -P MainPID heddle-agent-leaf1)" != "$process"
  check "the pins are the same" sh -c "ip -n leaf1 -N route show table all | grep 'proto 205' | sed 's/ nhid [0-9]*//' | sort | diff /tmp/ours -"
  never "none was taken away meanwhile" grep '^Deleted.*proto 205' /tmp/monitor.log
  check "no packet of the transfers came out of order, no retry was exceeded" test "$(trouble)" = "$before"
  check "the configuration is the operator's" sh -c 'grep -q "^node: host1" /etc/heddle/agent.yaml && grep -q "^listen: tcp://10.255.0.1:7117" /etc/heddle/coordinator.yaml'
  check "the database is kept: the plans of the former reigns are there" heddle plan show "$plan"
  check "both transfers go on" running
}
# all_answered N: the first so many pings; an answer that is late on a slow machine is not lost.
all_answered() {
  awk -F 'icmp_seq=' -v n="$1" 'NF > 1 {split($2, seq, " "); seen[seq[1]] = 1}
    END {for (i = 1; i <= n; ++i) if (!(i in seen)) missing = missing " " i
         print "without an answer:" missing; exit missing != ""}' /tmp/ping.log
}
plan=$(plan_version)
PACKAGES=/host/packages/newer survives "upgrade" upgrade
check "it is the newer version" sh -c 'dpkg-query -W -f "\${Version}\n" heddle-agent heddle-coordinator heddle | sort -u | grep -qx 0.1.1-1'
survives "downgrade by one version" downgrade
check "it is the older version" sh -c 'dpkg-query -W -f "\${Version}\n" heddle-agent heddle-coordinator heddle | sort -u | grep -qx 0.1.0-1'

say "another lease: 10 s"
sed -i 's#^lease_s: .*#lease_s: 10#' /etc/heddle/coordinator.yaml
systemctl restart heddle-coordinator
all_agents_known
check "a coordinator that was only restarted costs no pin" has_pins leaf1 2

say "the coordinator is lost for longer than the lease"
systemctl stop heddle-coordinator
check "the pins stand at first" has_pins leaf1 2
eventually 20 "then every pin is gone" has_pins leaf1 0
check "both transfers go on" running
systemctl start heddle-coordinator
eventually 30 "and the pins are back when it is back" has_pins leaf1 2

say "an agent is dead for longer than the lease: its guard flushes"
systemctl kill -s KILL heddle-agent-leaf1
systemctl stop heddle-agent-leaf1
check "its pins stand at first" has_pins leaf1 2
eventually 40 "the guard removed them" has_pins leaf1 0
check "nothing else" foreign_stands
check "both transfers go on" running
systemctl start heddle-agent-leaf1
eventually 30 "and they are back with the agent" has_pins leaf1 2

say "removal, on leaf1"
never "the agent does not let itself be flushed while it runs" on leaf1 heddle-agent flush
on_leaf_guide leaf1 remove
check "the package is removed" sh -c '! test -e /usr/bin/heddle-agent'
for unit in heddle-agent heddle-agent-leaf1 heddle-agent-guard.timer; do never "$unit has stopped" systemctl is-active $unit; done
check "no pin is left" has_pins leaf1 0
never "no rule and no next hop of ours is left" sh -c 'ip -n leaf1 -N rule | grep "^1880:" || ip -n leaf1 -N nexthop | grep "proto 205"'
check "nothing else was touched" foreign_stands
check "configuration and state are kept" test -s /etc/heddle/agent.yaml -a -d /var/lib/heddle
check "both transfers go on" running

say "purge"
guide purge
never "the state is gone" test -e /var/lib/heddle
never "so is what ran" test -e /run/heddle
never "and the configuration" test -e /etc/heddle/agent.yaml -o -e /etc/heddle/coordinator.yaml
check "the keys are the operator's, and stay" test -s /etc/heddle/keys/coordinator -a -s /etc/heddle/agent.key
check "both transfers complete" complete
