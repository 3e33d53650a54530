_treerun() {
    local line=${COMP_LINE:0:COMP_POINT} words IFS=$' \t\n'
    read -ra words <<< "$line"
    [[ $line != *[[:space:]] ]] || words+=('')
    IFS=$'\n'
    COMPREPLY=($("${words[0]}" complete:words "${words[@]:1}" 2> /dev/null))
    [[ ${words[-1]} != *=* ]] || COMPREPLY=("${COMPREPLY[@]#*=}") # bash itself parts words at =
}
complete -o default -F _treerun treerun
