// Package setup makes what a communicator stands on: its ranks compare settings, read or measure
// the graph, hear rank 0's plans and open links. Its errors, and the World that ranks meet in,
// are those of package collective.
package setup
