# What scenarios share. A check prints one line; the first that fails ends the scenario.
set -uo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive

say() { echo "-- $*"; }

# What a scenario wants to be printed when a check fails; it may define its own.
explain() { :; }

# check WORDS COMMAND...: the command succeeds.
check() {
  local words=$1
  shift
  # Not in a subshell: what it waits for may be a child of this one.
  if "$@" >/tmp/said 2>&1; then
    echo "ok   $words"
  else
    echo "FAIL $words: $*"
    tail -20 /tmp/said | sed 's/^/     /'
    explain 2>&1 | sed 's/^/   | /'
    exit 1
  fi
}

# eventually SECONDS WORDS COMMAND...: it succeeds within that time; asked again every half second.
eventually() {
  local limit=$1 words=$2 start=$SECONDS
  shift 2
  until "$@" >/tmp/said 2>&1; do
    if [ $((SECONDS - start)) -ge "$limit" ]; then
      echo "FAIL $words within $limit s: $*"
      tail -20 /tmp/said | sed 's/^/     /'
      explain 2>&1 | sed 's/^/   | /'
      exit 1
    fi
    read -rt 0.5 <> <(:)
  done
  echo "ok   $words"
}

finish() { touch /host/passed; }

# reboot_into STAGE: the scenario is run again from its start after the boot; stage() tells it where it is.
reboot_into() {
  echo "$1" >/host/stage
  touch /host/again
  exit 0
}
stage() { cat /host/stage 2>/dev/null || echo 1; }
