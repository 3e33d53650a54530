// Package planner is not for users: it chooses the plan of a collective and proves how good it is: it maps a
// topo.Graph, the Machine that runs the plan, a collective, its root and the size of its message to a plan.Plan, with
// its price, the bound that no plan exceeds, and the candidates that lost. Jobs, `treerun plan`, `treerun sim` and
// `treerun bench --explain` all use it, so the plans that they print are the plans that run.
//
// A Site describes what plans are made for. Every algorithm has a file, and a line in the table of algorithm.go. It
// makes Candidates for a collective on a site: trees, rings, or a plan that needs neither. Prices has their times,
// which the simulator computes, and the Planner chooses the quickest for each size.
//
// The package is pure: no I/O, clock, goroutine or global state. The same graph,
// machine and options give the same plans on every machine, byte for byte. Work is
// bounded by numbers of ranks, never by time.
package planner
