// Package planner holds the subcommands topo, plan and sim of treerun, and the flags
// that say how a job plans: it reads a graph from a file or by the name of a machine,
// asks package collective/planner for plans, as a job does, and prints what came out,
// with the proof of how good it is.
//
// It starts no process; it reads the files that it is given, or has its caller measure
// the host, and writes to its Writer. The same arguments and the same graph print the
// same bytes on hosts with as many cores. Only packages below cmd/treerun import it.
package planner
