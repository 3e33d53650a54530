package collective

import "github.com/treerun/treerun/collective/internal/setup"

// World is the job as a communicator sees it: rank, size, hosts, AllGather of small blobs, news of lost ranks, keys and
// settings. *rank.World implements it.
type World = setup.World

// Networked is an additional interface of a World whose ranks are on several hosts: it provides addresses and names of
// hosts. *rank.World implements it.
type Networked = setup.Networked

// Between describes the origin of the graph of a communicator of several hosts.
type Between = setup.Between

// InProcess returns the Worlds, by rank, of n ranks that are goroutines of this process. Every rank calls New with its
// own World, in a goroutine of its own, and makes its calls there. The Worlds need no Close, and never fail. Device
// calls, such as AllReduceDevice, return ErrDevice: they need a process per rank, as treerun starts them.
func InProcess(n int) []World { return setup.InProcess(n) }
