package collective

import "github.com/treerun/treerun/collective/internal/setup"

// World is what a communicator needs to know of the job: rank, size, hosts, AllGather of small
// blobs, news of lost ranks, keys and settings. *rank.World is one.
type World = setup.World

// Networked is what the World must be, too, where its ranks are on several
// hosts: it knows addresses and names of hosts. *rank.World is one.
type Networked = setup.Networked

// Between says, for a communicator of several hosts, how its graph is known.
type Between = setup.Between

// InProcess returns the Worlds of n ranks that are goroutines of this process,
// by rank. Every rank calls New with its own, in a goroutine of its own, and makes
// its calls there. Nothing of them needs to be closed, and none of them ever
// fails. Device calls, such as AllReduceDevice, are an ErrDevice: they need a process
// per rank, as treerun starts them.
func InProcess(n int) []World { return setup.InProcess(n) }
