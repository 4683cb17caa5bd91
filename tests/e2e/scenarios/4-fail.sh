# Fail: while transfers run, cables die at their near end, beyond a spine, and a whole spine; they complete.
raise_fabric
start_heddle
let_program
explain() {
  heddle flows
  heddle agents
  heddle plan show
  ip -n leaf1 route show table all proto 205
  ip -n leaf1 nexthop show
  ip -n leaf1 route
  tail -n 4 /tmp/a-client.log /tmp/b-client.log
  journalctl -o cat -n 15 -u heddle-agent-leaf1
  journalctl -o cat -n 15 -u heddle-coordinator
}
start_transfers
eventually 30 "both elephants are pinned, one to each uplink" pins_lead_to leaf1 "up1 up2"

# all_returns CABLES...: they come back, and routing with them. The plan uses them again.
all_returns() {
  local version=$(plan_version) cable
  # shellcheck disable=SC2086
  for cable in "$@"; do mend_cable $cable; done
  offer_spines leaf1 1 2
  offer_spines leaf2 1 2
  eventually 20 "it is back, and so is a new plan" replanned "$version"
  eventually 15 "each uplink has a pin again" pins_lead_to leaf1 "up1 up2"
  check "both transfers go on" running
}

say "leaf1's cable to spine1 dies at its near end; routing withdraws it from leaf2"
version=$(plan_version)
cut_cable 1 1
offer_spines leaf2 2
eventually 10 "a new plan" replanned "$version"
eventually 10 "both pins are on spine2" pins_lead_to leaf1 up2
all_returns "1 1"

say "spine2's cable to leaf2 dies beyond the spine; routing withdraws it from leaf1 after 100 ms"
version=$(plan_version)
cut_cable 2 2
pause 0.1
offer_spines leaf1 1
eventually 5 "no pin of leaf1 leads into it" sh -c '! ip -n leaf1 -N route show table all | grep "proto 205" | grep "dev up2"'
eventually 10 "a new plan" replanned "$version"
eventually 10 "both pins are on spine1" pins_lead_to leaf1 up1
all_returns "2 2"

say "spine1 dies"
version=$(plan_version)
cut_cable 1 1
cut_cable 1 2
eventually 10 "a new plan" replanned "$version"
eventually 10 "both pins are on spine2" pins_lead_to leaf1 up2
all_returns "1 1" "1 2"
check "both transfers complete" complete
