# Install and run: from packages to agents that the coordinator knows, by the guide's own commands.
# disk: bare
check "systemd has come up" systemctl is-active multi-user.target
never "no unit has failed" sh -c 'systemctl list-units --failed --no-legend | grep .'
check "the kernel describes its types (BTF)" test -r /sys/kernel/btf/vmlinux
raise_fabric
check "Soft-RoCE is there" sh -c 'ibv_devices | grep -q rxe4'

guide management-install
guide node-install
for unit in heddle-coordinator heddle-agent; do never "$unit waits for its operator" systemctl is-active $unit; done
set_up_management
set_up_host
for leaf in leaf1 leaf2; do set_up_leaf $leaf; done
# shellcheck disable=SC2154
for unit in $all_units $all_guards; do eventually 20 "$unit is active" systemctl is-active $unit; done
all_agents_known
check "an agent observes unless it is told to program" holds '[.agents[] | .mode == "observe"] | all' agents
check "every agent can use eBPF" holds '[.agents[] | .sources[] | select(.name == "ebpf") | .usable] == [true, true, true]' agents
check "the leaves could program" holds '[.agents[] | select(.role == "leaf") | .enforcers[] | .usable] == [true, true]' agents
heddle agents | sed 's/^/   /'
never "nothing is programmed" sh -c 'ip -n leaf1 rule | grep 1880:'
for unit in heddle-coordinator heddle-agent heddle-agent-guard; do
  check "$unit is sandboxed: $(systemd-analyze security --no-pager $unit | tail -1 | sed 's/[^0-9]*\([0-9.]*\) .*/\1/') of 10" \
    systemd-analyze security --no-pager --threshold=25 $unit
done
check "the units are as systemd wants them" sh -c '! systemd-analyze verify heddle-coordinator.service heddle-agent.service heddle-agent-guard.service heddle-agent-guard.timer 2>&1 | grep .'
check "daemons tell systemd when they are ready" test "$(systemctl show -P Type heddle-agent) $(systemctl show -P StatusText heddle-agent)" != "notify "

say "a daemon that hangs is ended by the watchdog, and another takes over"
mkdir -p /run/systemd/system/heddle-agent.service.d
printf '[Service]\nWatchdogSec=3s\nTimeoutAbortSec=2s\n' >/run/systemd/system/heddle-agent.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart heddle-agent
before=$(systemctl show -P MainPID heddle-agent)
kill -STOP "$before"
never "no error in the journal" sh -c 'journalctl -b -p err -o cat -u "heddle*" | grep .'
eventually 30 "the watchdog ended it" sh -c "! kill -0 $before"
eventually 20 "it runs again" systemctl is-active heddle-agent
check "by another process" test "$(systemctl show -P MainPID heddle-agent)" != "$before"
all_agents_known
never "no error in the journal but the watchdog's" sh -c \
  'journalctl -b -p err -o cat -u heddle-coordinator -u heddle-agent-leaf1 -u heddle-agent-leaf2 | grep .'

# For the other scenarios: as it is after the guide, with nothing in its memory. There the fabric comes after the boot.
# shellcheck disable=SC2086
systemctl stop $all_guards $all_units
systemctl -q disable heddle-coordinator heddle-agent heddle-agent-guard.timer
rm -rf /var/lib/heddle/* /var/lib/heddle-leaf?/*
keep_disk
