package setup

import "time"

// Event is a call of this rank that has ended.
type Event struct {
	Comm      string        // name of the communicator
	Call      string        // as in CallStats: "AllReduce"
	Number    uint64        // of the call on its communicator, from 1; 0 for messages
	Bytes     int64         // length of the message, of all parts if it has parts
	Algorithm string        // that has run the call, "" for one without a plan
	Took      time.Duration // from the beginning of the call to its end
	Waited    time.Duration // the part of Took that Stats counts as Waiting
	Begun     bool          // a Start, which has not waited: Took is the time of the Start
	Resumed   bool          // a Wait or Test for a call that has begun before, whose Begun event had the same Number
	Err       error         // the failure of the communicator; nil: there is none
}
