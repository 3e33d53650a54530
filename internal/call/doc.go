// Package call names the calls of a communicator: the Header of a call travels in front of each of its chunks, and
// reports about waits contain its text.
//
// It is below the transports, and knows no communicator. The package is pure.
package call
