// Package pack is not for users: it packs spanning trees into a topo.Graph: a set of trees with rates that can be used
// at the same time, so that no link and no port carries more than it can; and the proof of a rate that no packing can
// exceed.
//
// On direct links a packing of trees, each used upwards to reduce and
// downwards to broadcast, is the fastest AllReduce that moves partial sums.
// One tree of rate r takes r of both directions of each of its links, and of a
// port r per tree link that crosses the port's set. For Broadcast and Reduce,
// which need one direction only, there is a packing of its own.
//
// The package knows no messages, plans or links in use, and shares a message
// out by sizes only (Shares). It is pure, as topo is, and imports topo only.
// The same graph and options give the same result on every machine.
package pack
