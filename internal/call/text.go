package call

import "strings"

// Form is how a program makes a call: a sum of the values below. Other ranks may make the same call in other forms.
type Form uint8

// The forms besides a plain call.
const (
	Started   Form = 1 << iota // StartAllReduce
	Prepared                   // AllReduceInit
	Coalesced                  // AllReduceCoalesced
	OfValue                    // AllReduceValue
	OfObject                   // BroadcastObject
)

// Name returns the name of the function with which the program makes call id.
func (f Form) Name(id *ID) string {
	part := func(is bool, text string) string {
		if is {
			return text
		}
		return ""
	}
	switch {
	case id.OfBuckets():
		return id.Name() // its text has that of Buckets
	case f&OfObject > 0:
		return id.Kind.String() + "Object"
	}
	return part(f&Started > 0, "Start") + id.Kind.String() + part(id.Scaled, "PreMul") +
		part(f&Coalesced > 0, "Coalesced") + part(f&OfValue > 0, "Value") + strings.TrimPrefix(id.Name(), id.Kind.String()) +
		part(f&Prepared > 0, "Init")
}

// Text describes call id with that name.
func (f Form) Text(id ID) string { return strings.Replace(id.String(), id.Name(), f.Name(&id), 1) }

// The texts of calls are those of reports and errors: "AllReduce #12 (sum of 64 float32)", "Send to rank 2".

// IsCollective reports whether a text is that of a collective: collectives have numbers, messages have none.
func IsCollective(text string) bool { return strings.Contains(text, "#") }

// UsedBy returns the name of the communicator that the call of a text on a communicator uses: New of a part, as
// "world/split#1", uses the one that creates it.
func UsedBy(text, comm string) string {
	if part := strings.LastIndexByte(comm, '/'); part > 0 && strings.HasPrefix(text, "New") {
		return comm[:part]
	}
	return comm
}

// CircleHint returns a remedy for ranks in calls that wait for each other, "" if none is known.
func CircleHint(texts []string) string {
	sends, devices := 0, false
	for _, text := range texts {
		if text = strings.TrimPrefix(text, "Start"); strings.HasPrefix(text, "Send") && !strings.HasPrefix(text, "SendRecv") {
			sends++
		}
		devices = devices || strings.HasPrefix(text, "SendDevice")
	}
	switch {
	case sends == len(texts) && devices:
		return "SendRecvDevice sends and receives at once"
	case sends == len(texts):
		return "SendRecv sends and receives at once"
	case sends > 0 && !devices:
		return "StartSend does not wait for the receiver, as a Send of more than 64 KiB does"
	}
	return ""
}
