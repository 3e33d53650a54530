// Package collective runs collectives (AllReduce, Reduce, Broadcast, AllGather, ReduceScatter, AllToAll, Gather,
// Scatter, Barrier) over the ranks of a job, and sends messages from rank to rank.
//
//	w, err := rank.Init(ctx)
//	c, err := collective.New(ctx, w)
//	err = collective.AllReduce(ctx, c, grad, grad, collective.Sum)
//
// New measures the links between the ranks (or takes the measurement of an earlier job on this host), builds trees and
// plans from the measurement, and checks that all ranks have the same ones. Each call then runs the plan with the
// lowest predicted time for its size.
//
// # Calls
//
// All ranks of a communicator make the same calls in the same order, with the same operation, element type, count and
// root. A rank that makes another call is detected within a second: the call fails with ErrMismatch, and the error
// names both calls. On a rank that has already returned from the call, as the root of a Broadcast may, the next call or
// Close fails instead. Calls that differ only in their slices cannot be distinguished: where one rank makes them in
// another order, as when it ranges over a map, the results are wrong and no error is reported. send and recv are the
// same slice (in place) or do not overlap. Messages are not calls of all ranks: a Send and a Recv with different tags
// do not match, and both may be correct as long as neither rank waits for the other; a stall report names the message
// or call that a rank waits for.
//
// Calls whose names end in V have parts that may differ in length: counts[i] is the number of elements of rank i's
// part, and may be 0. The parts follow each other in rank order. All ranks pass the same counts, including ranks that
// do not hold the whole message. A rank that knows only its own count gets the other counts with AllGather. In GatherV
// and ScatterV only the root has counts, and in AllToAllV each two ranks their own: these find a wrong one, and fail.
// So do later calls of the other ranks, and the job. But a rank whose last call this was may get nil from Close, if it
// closes before the two compare.
//
// Calls that combine take the elements of Element. Calls that only move data, Broadcast, the Gathers, Scatters and
// AllToAlls, Send, Recv and their other forms, take elements of any type without pointers, slices, maps, strings and
// the like, such as structs and arrays. A type of size 0 is an ErrArgument, and so is one with pointers: it names the
// field; the calls for objects encode such values. Types are compared between ranks by a digest of 15 bits of their
// names and fields, so a program must be the same on all ranks. An ErrMismatch names the types that the rank has used
// itself, or the one that found the difference; of others it has the digest. It counts elements that are no Element in
// bytes, and so does a Status; an ErrArgument counts elements.
//
// A wrong argument is reported as ErrArgument before any data is sent, and the communicator stays usable. Any other
// error ends the communicator on all ranks: this call, and every later one, returns a *RankError with the first cause
// on each rank.
//
// # After a failure
//
// A failed call leaves the slices that it writes with undefined contents: recv, send if the call is in place, and the
// buf of a Recv. An AllReduce in place leaves partial sums, so a program that wants to retry keeps a copy of its input.
// Slices that a call only reads, such as send of a call that is not in place and the buf of a Send, are unchanged. Once
// the error is returned, treerun no longer writes to these slices, with one exception: a sender that was stopped in the
// middle of a write to its peer's memory.
//
// A communicator that has failed can only be closed. Its World, the communicators that it was split from and other
// communicators of the same World stay usable, unless a rank is lost, which ends all of them. A program that expects
// failures, by a timeout or by Abort, therefore makes its calls on a communicator from Split, and retries on the next
// one; see the example of Split.
//
// When a call times out, by its context or by WithStallTimeout, Rank of the error is the rank at the end of the chain
// of waiting ranks: a rank that is stopped, does not answer or is not in a call. The call itself may wait for other
// ranks. Rank is -1 where ranks wait for each other in a cycle, and the text of the error then names the cycle.
//
// # Contexts
//
// When the context of a call ends, the communicator ends on all ranks: other ranks may have begun the call, and cannot
// finish it without this rank. The error of every rank, from this call, the next one or Close, matches ErrCanceled and
// the error of the context, context.Canceled or context.DeadlineExceeded. The same holds for a context that has ended
// before the call, and for one that ends in Wait, in Split, Dup or Sub, or in a wait for a message. The contexts of the
// ranks need not be the same; a deadline on one rank bounds the wait of all ranks. New is different: only the rank
// whose context ended gets an error that matches the error of the context.
//
// If a rank gives up a Split, Dup or Sub, other ranks may already have the new communicator. Every call on it fails
// there, usually with ErrPeerClosed; they close it.
//
// Do not pass a context that ends at program shutdown, such as that of signal.NotifyContext, to calls: it ends at a
// different moment on each rank. Ranks agree on a common point of shutdown instead; see the example AllReduceValue
// (Shutdown).
//
// # Goroutines
//
// Only one goroutine at a time may make a call on a communicator, and it may be a different one for each call. A second
// one gets ErrBusy, and its call has no effect. Any goroutine may call Abort, Close, Stats, Name, Rank, Size, Graph,
// Between and Explain at any time. Calls on different communicators may run concurrently. The function of an
// AllReduceFunc must not make calls on its communicator.
//
// # Devices
//
// AllReduceDevice and the other calls whose names end in Device are the collectives on GPU memory that package cuda
// allocates:
//
//	gpu, err := cuda.DeviceByUUID(w.Device())
//	s, err := gpu.NewStream()
//	err = collective.AllReduceDevice(ctx, c, s, grad, grad, collective.Sum)
//	err = c.SyncDevice(ctx, s)
//
// Device calls and other calls share one order, the same on all ranks. A device call runs in the order of its stream,
// after the work that is already in the stream, and returns once it is in the stream. Its results are valid only after
// SyncDevice has returned nil. Until then only work that comes later in the stream may use send and recv. A rank can
// have up to 256 device calls in flight, on one stream or on several streams of its device; the next call waits for the
// first of them.
//
// SendDevice, RecvDevice and SendRecvDevice are calls of two ranks, and have no place in that order.
//
// All ranks make the first of the other device calls together, and this call opens their devices: it creates streams
// and allocates memory for calls in flight, and maps that memory into the ranks of the host that read it. A trial copy
// decides whether one device can read another's memory; where it cannot, the data passes through host memory, and
// through TCP between hosts. If a device cannot be opened, the call fails with ErrDevice on all ranks, the error names
// the rank of that device, and the communicator is unchanged. Do not make that first call while a stream of this
// process waits for an action of the calling goroutine: the driver waits for streams when memory is allocated.
//
// Goroutines may make device calls on different communicators concurrently, in any order. But some operations wait for
// the device: the first device call, the first one with an element type, Close, freeing device memory and loading code.
// Run them only while no call of another communicator is in flight: if such an operation waits for that call, and on a
// second rank the order is reversed, both ranks wait forever.
//
// # Numbers
//
// The same plan gives bit-identical results from run to run and on all ranks, because the plan fixes the order of
// additions. Sum, Prod and Avg of Float16 and BFloat16 are computed in float32 and rounded to nearest even after each
// operation. Integers wrap; Avg of integers divides the wrapped sum and truncates toward zero. Min and Max give NaN
// when any input is NaN.
//
// The package does not start processes and does not import package rank: it accepts any World.
package collective
