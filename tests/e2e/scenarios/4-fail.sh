# Fail: while transfers run, cables die at their near end, beyond a spine, and a whole spine; they complete.
install_packages
raise_fabric
configure program
eventually 20 "heddle status shows all agents" holds '.agents.connected == 3' status
start_transfers 75
eventually 30 "both elephants are pinned" has_pins leaf1 2

say "leaf1's cable to spine1 dies at its near end"
version=$(plan_version)
cut 1 1
offer_spines leaf2 2
eventually 10 "a new plan" replanned "$version"
eventually 10 "leaf1's pins are on spine2" sh -c "ip -n leaf1 route show table all proto 205 | grep -q . && ! ip -n leaf1 nexthop show | grep 'dev up1'"
check "both transfers go on" running
version=$(plan_version)
mend 1 1
offer_spines leaf1 1 2
offer_spines leaf2 1 2
eventually 15 "it is back, and so is a new plan" replanned "$version"
eventually 10 "both uplinks hold a pin again" sh -c "ip -n leaf1 nexthop show proto 205 | awk '{for (i=1;i<NF;i++) if (\$i==\"dev\") print \$(i+1)}' | sort -u | wc -l | grep -qx 2"

say "spine2's cable to leaf2 dies beyond the spine; routing withdraws it from leaf1 after 100 ms"
version=$(plan_version)
cut 2 2
read -rt 0.1 <> <(:)
offer_spines leaf1 1
eventually 5 "leaf1 has no pin into it" sh -c "! ip -n leaf1 nexthop show proto 205 | grep -q 'dev up2'"
eventually 10 "a new plan" replanned "$version"
check "both transfers go on" running
version=$(plan_version)
mend 2 2
offer_spines leaf1 1 2
offer_spines leaf2 1 2
eventually 15 "it is back, and so is a new plan" replanned "$version"

say "spine1 dies"
version=$(plan_version)
cut 1 1
cut 1 2
eventually 10 "a new plan" replanned "$version"
check "both transfers go on" running
version=$(plan_version)
mend 1 1
mend 1 2
offer_spines leaf1 1 2
offer_spines leaf2 1 2
eventually 15 "it is back, and so is a new plan" replanned "$version"
check "both transfers complete" complete
