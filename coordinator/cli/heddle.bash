# Completion of heddle for bash; installed as /usr/share/bash-completion/completions/heddle.
# Static on purpose: pressing a key must not wait for a coordinator.

_heddle() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local global='--coordinator --key --server-key --config --plain --timeout --json --help'
  local simulate='--jobs --preset --ring --model --tensor --pipeline --communication --placement --concurrent --schemes
    --spines-down --links-down --oversubscription --qps --seeds --fabric --leaves --uplinks --nics --bundle
    --thin-bundles --capacity --seconds --iterations --together --period --fail-at --recover-at --background --enabled
    --steer --csv --report --export-routing --import-routing --epochs --no-times --solves --threads'
  local command='' group='' i

  # The command, and the word after it where the command is a group: what is no option and no option's value.
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --coordinator | --key | --server-key | --config | --timeout | --node | --rack | --job | --dir | --jobs) ((i++)) ;;
      --down | --up | --scheme | --role | --name | --output | --waves | --spine | --leaf | --cable | --last) ((i++)) ;;
      -*) ;;
      *)
        if [[ -z $command ]]; then
          command=${COMP_WORDS[i]}
          [[ $command == @(plan|job|jobs|fabric|key|rollout|drain) ]] && group=$command
        elif [[ -n $group && $command == "$group" ]]; then
          command="$group ${COMP_WORDS[i]}"
        fi
        ;;
    esac
  done

  case $previous in
    --key | --server-key | --config | --jobs | --waves | --output | --fabric | --csv | --export-routing | --import-routing)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --dir | --report)
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return
      ;;
    --preset)
      mapfile -t COMPREPLY < <(compgen -W 'paper hard-equal hard-unequal model' -- "$word")
      return
      ;;
    --role)
      mapfile -t COMPREPLY < <(compgen -W 'agent viewer operator' -- "$word")
      return
      ;;
    --coordinator | --timeout | --node | --rack | --job | --down | --up | --name | --spine | --leaf | --cable | --last) return ;;
  esac

  local words
  case $command in
    '') words="status agents flows links jobs plan rollout drain undrain disable enable job key keygen support-bundle fabric simulate --version $global" ;;
    plan) words="show diff explain preview log $global" ;;
    'plan preview') words="--down --up --jobs --scheme $global" ;;
    'plan log') words="--last --follow $global" ;;
    rollout) words="start status pause resume abort rollback $global" ;;
    'rollout start') words="--waves $global" ;;
    drain) words="status --spine --leaf --cable --rack $global" ;;
    undrain) words="--spine --leaf --cable --rack $global" ;;
    jobs) words="explain --watch $global" ;;
    key) words="add list revoke $global" ;;
    'key add')
      words="--role --name --dir $global"
      [[ $word == -* ]] || { mapfile -t COMPREPLY < <(compgen -f -- "$word"); return; }
      ;;
    'key list') words="--dir $global" ;;
    'key revoke') words="--role --dir $global" ;;
    support-bundle) words="--output $global" ;;
    job) words="declare list remove $global" ;;
    fabric) words="check $global" ;;
    status | agents | flows | links | 'jobs explain' | 'rollout status' | 'drain status') words="--watch $global" ;;
    disable | enable) words="--all --node --rack --job $global" ;;
    keygen) words="--dir $global" ;;
    simulate) words="$simulate $global" ;;
    'fabric check')
      words="--jobs $global"
      [[ $word == -* ]] || { mapfile -t COMPREPLY < <(compgen -f -- "$word"); return; }
      ;;
    *) words=$global ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o filenames -F _heddle heddle
