package call

import (
	"slices"
	"strings"
)

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
	isSend := func(text string) bool { return strings.HasPrefix(text, "Send") && !strings.HasPrefix(text, "SendRecv") }
	if slices.ContainsFunc(texts, func(text string) bool { return !isSend(text) }) {
		return ""
	}
	return "SendRecv, or SendRecvDevice, sends and receives at once"
}
