# A wave of a roll-out, watched by gates that see what Soft-RoCE counts.
raise_fabric
sed -i 's/^  mode: off/  mode: required/; s/^  baseline_s: .*/  baseline_s: 6/; s/^  converge_s: .*/  converge_s: 30/
  s/efficiency_loss: [0-9.]*/efficiency_loss: 1/; s/iteration_growth: [0-9.]*/iteration_growth: 100/
  s/errors_per_s: [0-9.]*/errors_per_s: 0.05/' /etc/heddle/coordinator.yaml
check "the coordinator's configuration is right" heddle-coordinator --check-config
start_heddle
explain() {
  heddle rollout status
  heddle jobs
  heddle agents
  cat /sys/class/infiniband/rxe1/ports/1/hw_counters/*
  journalctl -b -o cat -n 20 -u heddle-coordinator
}
let_program
start_transfers
eventually 30 "the job is seen" holds '.jobs | length == 1' jobs
guide wave
shown
check "no pin is sent before its wave" has_pins leaf1 0
gate() { holds "[.gates[] | select(.name == \"$1\")] | length == 1 and .[0].verdict == \"good\" and (.[0].seen | contains(\"host1: \"))" rollout status; }
eventually 60 "the gate of retransmissions is good, and says what it saw of host1" gate retransmissions
eventually 20 "so is the one of packets out of sequence" gate out-of-sequence
heddle rollout status | sed 's/^/     /'
eventually 20 "leaf1 holds its pins" has_pins leaf1 2
# For some seconds leaf2 drops what comes for one of the servers: nothing that heddle steers by changes, and the sender
# waits for acknowledgements.
ip -n leaf2 route add blackhole "$(address 3)"
eventually 30 "the wave is turned back" holds '.waves[0].state == "rolled-back"' rollout status
ip -n leaf2 route del blackhole "$(address 3)"
heddle rollout status | sed 's/^/     /'
check "because of what the sender counted" holds '.why | contains("gate retransmissions: host1: 0.0 /s before")' rollout status
eventually 20 "no pin is left" has_pins leaf1 0
check "both transfers complete" complete
