complete -c treerun -a '(treerun complete:words (commandline -opc)[2..] "$(commandline -ct)" 2> /dev/null)'
