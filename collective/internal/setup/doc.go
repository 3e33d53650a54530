// Package setup makes the base of a communicator: its ranks compare settings, read or measure the graph, receive rank
// 0's plans and open links. Its errors, and the World that ranks meet in, are those of package collective.
package setup
