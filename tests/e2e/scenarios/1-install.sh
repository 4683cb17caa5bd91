# Install and run: from packages to agents that the coordinator knows, by the guide's own commands.
install_packages
check "nothing runs before it is configured" sh -c '! systemctl is-active --quiet heddle-agent heddle-coordinator'
raise_fabric
configure observe
for unit in heddle-coordinator heddle-agent heddle-agent-leaf1 heddle-agent-leaf2; do
  eventually 20 "$unit is active" systemctl is-active $unit
done
eventually 20 "heddle status shows all agents" holds '.agents.connected == 3 and .agents.total == 3' status
check "an agent observes unless it is told to program" holds '[.agents[] | .mode == "observe"] | all' agents
check "every agent can use eBPF" holds '[.agents[] | .sources[] | select(.name == "ebpf") | .usable] == [true, true, true]' agents
check "the leaves could program" holds '[.agents[] | select(.role == "leaf") | .enforcers[] | .usable] == [true, true]' agents
heddle agents | sed 's/^/   /'
check "nothing is programmed" sh -c '! ip -n leaf1 rule | grep -q 1880:'
check "the units are sandboxed" sh -c 'for u in heddle-agent heddle-coordinator; do
  systemd-analyze security --no-pager --threshold=25 $u >/dev/null || exit 1; done'

say "a daemon that hangs is ended by the watchdog, and another takes over"
mkdir -p /etc/systemd/system/heddle-agent.service.d
printf '[Service]\nWatchdogSec=3s\nTimeoutAbortSec=2s\n' >/etc/systemd/system/heddle-agent.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart heddle-agent
before=$(systemctl show -P MainPID heddle-agent)
kill -STOP "$before"
eventually 30 "the watchdog ended it" sh -c "! kill -0 $before"
eventually 20 "it runs again" systemctl is-active heddle-agent
check "by another process" test "$(systemctl show -P MainPID heddle-agent)" != "$before"
eventually 20 "heddle status shows all agents again" holds '.agents.connected == 3' status
check "no error in the journal but the watchdog's" sh -c \
  '! journalctl -b -p err -o cat -u heddle-coordinator -u heddle-agent-leaf1 -u heddle-agent-leaf2 | grep .'
