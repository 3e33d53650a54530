_treerun() {
    local IFS=$'\n'
    COMPREPLY=($("${COMP_WORDS[0]}" complete:words "${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null))
    [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace
}
complete -o default -F _treerun treerun
