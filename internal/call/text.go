package call

import "strings"

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
		if strings.HasPrefix(text, "Send") && !strings.HasPrefix(text, "SendRecv") {
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
