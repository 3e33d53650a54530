// Package device runs one rank's part of verified plans on CUDA streams. A step that package engine would do is
// enqueued here: waits for flags, a kernel that reads the other rank's memory, flags that signal the read. Nothing on
// the host waits for a chunk.
//
// # Links
//
// A link is a FIFO of slots in the staging memory of the sender's device, which the receiver's device reads where they
// lie. Two counters, the flags, hold the numbers of filled slots and of released payloads; they lie in a segment of
// host memory that all ranks of the host map and register, and streams wait for them and write them. A payload that one
// step sends to several such receivers is in one slot, for which they all wait at one flag. Flags count from 0 and wrap
// around.
//
// Where writing is quicker than reading, over PCIe, the slots lie in the staging memory of the receiver.
// Where their devices cannot read each other, the slots lie in memory of the host, which both have
// registered, and all else is the same. Those slots are smaller, as they are pinned.
//
// A link between ranks that share no memory is a network link: it has slots of pinned memory at both ends. The proxy,
// two goroutines per rank, one for each direction, moves payloads between them and a transport.Endpoint. It sleeps
// while nothing is under way.
//
// # Order
//
// Calls are done in the order of Enqueue, on all ranks the same. Every step of a plan has a level, above those of the
// steps that it waits for. All steps of a rank that have one level are enqueued together, for all lanes: their waits,
// their kernel, their signals. A call forks from the caller's stream to streams of the Group, so that levels are at
// different chunks, and joins it again; one that is a single chunk stays on the caller's stream.
//
// # Failure
//
// A Group is fail-stop. Abort sets the word of the segment that all its ranks look at, and then lets all waits of this
// rank's streams pass, so that they drain; their results are void. A caller that has waited for a stream must call Err
// before it uses a result: the word is set before anything void is passed on.
package device
