# A life: reboot, the coordinator lost, an agent dead, upgrade, downgrade, removal, purge.
case $(stage) in
1)
  install_packages
  raise_fabric
  configure program
  eventually 20 "heddle status shows all agents" holds '.agents.connected == 3' status
  systemctl enable -q heddle-agent-leaf1 heddle-agent-leaf2 heddle-agent-leaf1-guard.timer heddle-agent-leaf2-guard.timer
  say "reboot"
  reboot_into 2
  ;;
2)
  # The namespaces are made by this script, so the leaves' agents can only start after it.
  raise_fabric
  systemctl restart heddle-agent-leaf1 heddle-agent-leaf2 heddle-agent-leaf1-guard.timer heddle-agent-leaf2-guard.timer
  eventually 30 "after the reboot the coordinator runs" systemctl is-active heddle-coordinator
  eventually 30 "and host1's agent" systemctl is-active heddle-agent
  eventually 20 "heddle status shows all agents" holds '.agents.connected == 3' status
  check "the reign is a new one" sh -c 'heddle --json status | jq -e ".epoch >= 2"'
  start_transfers 120
  eventually 40 "both elephants are pinned" has_pins leaf1 2

  say "a route and a rule of somebody else's stand beside ours"
  ip -n leaf1 route add 192.0.2.0/24 via 10.101.1.2 proto static
  ip -n leaf1 rule add pref 5000 to 192.0.2.0/24 lookup main
  foreign() { ip -n leaf1 route show 192.0.2.0/24 | grep -q static && ip -n leaf1 rule | grep -q '^5000:'; }

  say "upgrade: the routes stay"
  ip -n leaf1 monitor route >/tmp/monitor.log 2>&1 &
  monitor=$!
  check "newer packages install" apt-get install -y --no-install-recommends /host/packages/newer/*.deb
  check "they are newer" sh -c "dpkg-query -W -f '\${Version}' heddle-agent | grep -qx 0.1.1-1"
  systemctl restart heddle-agent-leaf1 heddle-agent-leaf2
  eventually 20 "the new agents are known" holds '.agents.connected == 3 and .agents.converged >= 2' status
  check "the pins are there" has_pins leaf1 2
  kill $monitor
  check "no route of ours was taken away meanwhile" sh -c '! grep -q "^Deleted 10" /tmp/monitor.log'
  check "the configuration is the operator's" grep -q '^node: host1' /etc/heddle/agent.yaml
  check "the history is kept" test -s /var/lib/heddle/coordinator/history/CURRENT
  check "both transfers go on" running

  say "downgrade by one version"
  check "older packages install" apt-get install -y --allow-downgrades --no-install-recommends /host/packages/*.deb
  systemctl restart heddle-agent-leaf1 heddle-agent-leaf2
  eventually 20 "the old agents are known" holds '.agents.connected == 3 and .agents.converged >= 2' status
  check "the pins are there" has_pins leaf1 2

  say "the coordinator is lost for longer than the lease (8 s)"
  systemctl stop heddle-coordinator
  eventually 15 "every pin is gone" has_pins leaf1 0
  systemctl start heddle-coordinator
  eventually 20 "and back when it is back" has_pins leaf1 2

  say "an agent dies and stays dead for longer than the lease: its guard flushes"
  systemctl kill -s KILL heddle-agent-leaf1
  systemctl stop heddle-agent-leaf1
  check "its pins stand at first" has_pins leaf1 2
  eventually 40 "the guard removed them" has_pins leaf1 0
  systemctl start heddle-agent-leaf1
  eventually 20 "and they are back with the agent" has_pins leaf1 2
  check "both transfers go on" running

  say "removal flushes our routes and nothing else"
  systemctl stop heddle-agent-leaf2
  ip netns exec leaf1 sh -c 'systemctl stop heddle-agent-leaf1; heddle-agent flush --config /etc/heddle/agent-leaf1.yaml'
  check "no pin is left" has_pins leaf1 0
  check "no rule of ours is left" sh -c "! ip -n leaf1 rule | grep -q '^1880:'"
  check "the foreign route and rule stand" foreign
  check "the packages are removed" apt-get remove -y heddle-agent heddle-coordinator heddle heddle-doc
  check "the configuration is kept" test -s /etc/heddle/agent.yaml
  check "the packages are purged" apt-get purge -y heddle-agent heddle-coordinator
  check "their state is gone" sh -c '! test -e /var/lib/heddle'
  check "the operator's keys are not" test -s /etc/heddle/keys/coordinator
  check "both transfers complete" complete
  ;;
esac
