// Package tree is not for users: it builds trees and rings from a topo.Graph:
//
//   - Exact, the balanced reduce trees of the largest total rate, of small
//     graphs;
//   - KL, a heuristic for balanced reduce trees of larger ones;
//   - All and Multi, one tree per root that share the links;
//   - DoubleBinary, NCCL's two complementary trees;
//   - Uniform, one tree per root that share equal links evenly, and Binomial, the
//     plain binomial tree;
//   - Rings, Chain and Star, to compare with.
//
// It is pure, as topo is, and imports topo only. It knows nothing of plans,
// messages or links in use; package plan makes collectives from its trees.
//
// Every builder gives a spanning tree of every valid graph, which is connected. Where the balanced reduce tree it looks
// for does not exist, the tree's Note names the substitute. Equal candidates are decided by the lowest rank, so that
// the same graph gives the same trees on every machine.
package tree
