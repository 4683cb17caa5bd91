# From installed packages to the first rack enabled, by the guide's own commands, with what each prints: the README has
# it. Before, 1-install shows what the steps before that print.
raise_fabric
# The gates of rates are opened wide, as an emulated processor's rates are mostly its own; transfers that never pause have
# no iteration time, and gates that cannot see are let pass, as the guide says.
sed -i 's/^  mode: off/  mode: required/; s/^  baseline_s: .*/  baseline_s: 6/; s/^  converge_s: .*/  converge_s: 30/
  s/efficiency_loss: [0-9.]*/efficiency_loss: 1/; s/iteration_growth: [0-9.]*/iteration_growth: 100/
  s/^  unobservable: .*/  unobservable: pass/' /etc/heddle/coordinator.yaml
start_heddle
explain() {
  heddle rollout status
  heddle agents
  heddle flows
  journalctl -b -o cat -n 20 -u heddle-coordinator
}

say "agents everywhere, observing"
start_transfers
eventually 30 "the job is seen" holds '.jobs | length == 1' jobs
guide look
shown
check "nothing is steered" has_pins leaf1 0

say "the first rack's leaf may program"
on_leaf_guide leaf1 roll-out
shown
eventually 20 "its agent says so" holds '.agents[] | select(.name == "leaf1") | .mode == "program"' agents
check "still nothing is steered" has_pins leaf1 0

say "its wave"
guide wave 's/soak_s: 600/soak_s: 15/'
shown
eventually 60 "the wave soaks" holds '.waves[0].state == "soaking"' rollout status
check "its leaf holds its pins" has_pins leaf1 2
eventually 60 "it is good" holds '.waves[0].state == "good" and .phase == "done"' rollout status
guide result
shown
check "the pins stand" has_pins leaf1 2
check "both transfers complete" complete
