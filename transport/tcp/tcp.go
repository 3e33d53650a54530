// Package tcp is not for users: it is the transport of ranks on several hosts. Between hosts links go over TCP
// connections, one for each pair of ranks, which all links of the pair share; within a host they are those of package
// shm, which every rank has, also one that is alone there. A rank sleeps on its doorbell and on its sockets at the same
// time.
//
// The rank's own goroutine does the sending and receiving. Commit sends from the slot with one system call; TryPeek,
// where there is nothing, polls the sockets once per turn of the caller's loop, and incoming bytes are received
// directly into the slot. A goroutine per connection would cost a hand-over between threads for each message, which
// takes longer than the message. Frames that cannot be sent at once, and frames that arrive while the rank is in no
// call, are left to one goroutine per network, the pump. The sockets are taken out of the Go runtime's poller, which
// would wake a thread for each packet.
//
// A link may have as many chunks on their way as it has slots; the receiver reports the slots that it has released to
// the sender, with other frames if possible. So there is always room for arriving chunks, and no link can hold up
// another on the same connection. Payloads that are lent or shared are sent from where they lie.
//
// Communicators that are made of the ranks of another one are sets of links of their own on the same connections:
// network.go.
//
// The board of the set is made of messages: the latest calls of each rank are sent to its peers several times a second,
// and a fault at once, from rank to rank. The first fault is elected once: a report of a rank is a proposal of its
// host, which the ranks with connections forward, and they bring the decision to their host. The end of a connection is
// no fault: Status returns it, as a hint, with the system's error. Where a peer's host does not answer any more, the
// kernel ends the connection after PeerTimeout. Only the World reports which rank was lost, and why.
//
// # Measurements
//
// On a machine of two cores that others used too, between network namespaces that
// a bridge joins, so that differences of a tenth mean nothing:
//
//   - A round trip of 8 bytes takes 15 to 18 us, with bare system calls on the same
//     sockets 10 to 17 us, over net.Conn 28 to 100 us.
//   - Where a link is shaped to 500 Mbit/s, one connection carries 468 Mbit/s of
//     payload (478 is what headers leave), two as much and four less. Without a limit
//     several connections gain nothing either: the cores are the limit. So there
//     is one.
//   - sendmsg from two pieces of memory costs no more than write from one, some
//     0.65 s of CPU per GB. With MSG_ZEROCOPY it is 0.95 s: on its way to another
//     process of the same machine everything is copied after all, and the notices of
//     that come on top. It is not used.
//   - Chunks of 32 KiB cost the sender 0.2 s per GB, of 128 KiB 0.35 s: the bytes that are
//     on their way should fit a core's cache.
//
// It knows nothing of launchers, collectives or graphs. Package collective
// imports it.
package tcp
