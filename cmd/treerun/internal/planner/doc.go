// Package planner holds the subcommands topo, plan and sim of treerun: they
// read a graph from a file or by the name of a machine, make trees or rings with
// the builders of topo/tree and topo/pack, price the plans with collective/sim,
// and print what came out, with the proof of how good it is.
//
// It starts no process; it reads the one graph file it is given, or has its
// caller measure the host, and writes to its Writer. The same arguments and the
// same graph print the same bytes. Only package cli below cmd/treerun imports
// it.
package planner
