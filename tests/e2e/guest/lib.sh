# What scenarios share. A check prints one line; the first that fails ends the scenario.
set -uo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive

say() { echo "-- $*"; }
pause() { read -rt "$1" <> <(:); }

# What a scenario wants to be printed when a check fails; it may define its own.
explain() { journalctl -b -o short-unix -n 30 -u "heddle*"; }

# took START: how long, where that is worth knowing: emulation makes some things slow.
took() { [ $((SECONDS - $1)) -lt 3 ] || echo " ($((SECONDS - $1)) s)"; }

failed() {
  echo "FAIL $*"
  tail -20 /tmp/said | sed 's/^/     /'
  explain 2>&1 | sed 's/^/   | /'
  exit 1
}

# check WORDS COMMAND...: the command succeeds.
check() {
  local words=$1 start=$SECONDS
  shift
  # Not in a subshell: what it waits for may be a child of this one.
  "$@" >/tmp/said 2>&1 || failed "$words: $*"
  echo "ok   $words$(took $start)"
}

# never WORDS COMMAND...: the command fails.
never() {
  local words=$1
  shift
  ! "$@" >/tmp/said 2>&1 || failed "$words: $* succeeded"
  echo "ok   $words"
}

# eventually SECONDS WORDS COMMAND...: it succeeds within that time on a quiet machine, of which an emulated processor
# beside others may need three times as much; asked again every half second. What it took is printed.
eventually() {
  local limit=$((3 * $1)) words=$2 start=$SECONDS
  shift 2
  until "$@" >/tmp/said 2>&1; do
    [ $((SECONDS - start)) -lt "$limit" ] || failed "$words within $limit s: $*"
    pause 0.5
  done
  echo "ok   $words$(took $start)"
}

# shown: what was said last, as it is in the README.
shown() { sed 's/^/     /' /tmp/said; }

finish() { touch /host/passed; }

# reboot_into STAGE: the scenario is run again from its start after the boot; stage() tells it where it is.
reboot_into() {
  echo "$1" >/host/stage
  touch /host/again
  exit 0
}
stage() { cat /host/stage 2>/dev/null || echo 1; }

# keep_disk: when this scenario has passed, its disk is what those that do not say "disk: bare" begin with.
keep_disk() { touch /host/keep; }

# guide BLOCK [SED_SCRIPT]: runs that block of the operator's guide, and prints it if it fails. What the example calls
# leaf1 may be called something else.
guide() {
  local block=$1 edit=${2:-} start=$SECONDS
  awk -v fence="\`\`\`sh $block" '{sub(/^ +/, "")} /^```/ && inside {exit} inside; $0 == fence {inside = 1}' \
    /host/guide.md | sed "$edit" >/tmp/block.sh
  [ -s /tmp/block.sh ] || failed "the guide has no block $block"
  # A shell of its own, which the first command that fails ends.
  (cd "${PACKAGES:-/host/packages}" && bash -c 'source /host/lib.sh; set -e; source /tmp/block.sh') >/tmp/said 2>&1 ||
    failed "the guide's $block: $(cat /tmp/block.sh)"
  echo "ok   the guide: $block${edit:+ ($edit)}$(took $start)"
}
