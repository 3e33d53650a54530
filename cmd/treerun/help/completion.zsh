_treerun() {
    local -a list=(${(f)"$("${words[1]}" complete:words "${(@)words[2,CURRENT]}" 2> /dev/null)"})
    if (( $#list )); then compadd -- $list; else _files; fi
}
compdef _treerun treerun
