package netconn

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/strict"
)

// Bounds of the messages that ranks send through Config.Exchange, before and after they connect.
const (
	maxPlaces = job.MaxAddresses
	maxDevice = 15  // bytes, as in Linux
	maxReason = 160 // bytes
	maxText   = 640 // bytes of the description of a pair that could not connect
	maxPairs  = 64
	maxTries  = 4
	maxLines  = 32 // about ranks in one error
)

// offer is the message of a rank in the first exchange: the addresses where it listens.
type offer struct {
	Settings settings // equal on all ranks
	Host     [16]byte
	Places   []place
}

// settings must be the same on all ranks.
type settings struct {
	Encrypt bool
	Epoch   int
	Use     Digest
}

// Report is the message of a rank in the second exchange: the ranks that it could not connect to.
type Report struct {
	Total int // pairs that failed
	Pairs []FailedPair
}

// FailedPair is a rank that the rank of the report could not connect to.
type FailedPair struct {
	To           int
	Reason, Text string // of the first path; the line about the pair
}

func (o *offer) check() error {
	if len(o.Places) > maxPlaces {
		return fmt.Errorf("it offers %d addresses, at most %d are possible", len(o.Places), maxPlaces)
	}
	for _, p := range o.Places {
		if !Usable(p.Addr) || p.Port == 0 || len(p.Device) > maxDevice || strict.Printable(p.Device, maxDevice) != p.Device {
			return errors.New("it offers an invalid address")
		}
	}
	return nil
}

// Usable reports whether an address from outside can be the address of another host.
func Usable(a netip.Addr) bool {
	return a.IsValid() && !a.Is4In6() && !a.IsUnspecified() && !a.IsMulticast() && a.Zone() == ""
}

// checkOffers returns an error for the first invalid offer: all must have the settings of rank 0.
func checkOffers(all []offer) error {
	for r := range all {
		if err := all[r].check(); err != nil {
			return fmt.Errorf("rank %d: %w", r, err)
		}
		if all[r].Settings != all[0].Settings {
			return fmt.Errorf("rank %d has other settings than rank 0: %+v, %+v", r, all[r].Settings, all[0].Settings)
		}
	}
	return nil
}

// Add records that rank from could not connect to rank to. There is at least one try.
func (r *Report) Add(from, to int, hostOf func(int) string, tries []Try) {
	if r.Total++; len(r.Pairs) < maxPairs {
		text := pairLine(from, to, hostOf, tries)
		reason := strict.Printable(tries[0].Reason, maxReason)
		r.Pairs = append(r.Pairs, FailedPair{to, reason, strict.Printable(text, maxText)})
	}
}

// DecodeReport decodes the report of a rank of a job of size ranks.
func DecodeReport(b []byte, size int) (r Report, err error) {
	if err = strict.Unmarshal(b, &r); err == nil {
		err = r.check(size)
	}
	if err != nil {
		return Report{}, fmt.Errorf("its list of failures cannot be read: %w", err)
	}
	return r, nil
}

func (r *Report) check(size int) error {
	ok := r.Total >= len(r.Pairs) && r.Total < size && len(r.Pairs) <= maxPairs
	for _, p := range r.Pairs {
		ok = ok && p.To >= 0 && p.To < size && strict.Printable(p.Reason, maxReason) == p.Reason &&
			strict.Printable(p.Text, maxText) == p.Text
	}
	if !ok {
		return errors.New("it is invalid")
	}
	return nil
}

// UnreachableError reports the pairs of ranks that could not connect. It is the same on all ranks.
type UnreachableError struct {
	Total   int  // pairs
	Refused bool // the ports of these ranks were closed
	text    string
}

// Error returns one line per pair, or, if there are very many, one for each pair of hosts and reason; and a hint.
func (e *UnreachableError) Error() string { return e.text }

// Try is one path on which two ranks could not connect.
type Try struct {
	Own, Address string // "10.0.0.4, eth0" and "10.0.0.2:41234, eth0"; "" if there is no path
	Reason       string // "connection refused"
}

// pairLine returns a line such as "rank 3 (10.0.0.4, eth0 on host d) -> rank 1 (10.0.0.2:41234, eth0 on host b):
// connection refused". There is at least one try.
func pairLine(from, to int, hostOf func(int) string, tries []Try) string {
	first := tries[0]
	text := fmt.Sprintf("rank %d%s -> rank %d%s: %s", from, where(first.Own, hostOf(from)), to,
		where(first.Address, hostOf(to)), first.Reason)
	for _, t := range tries[1:min(len(tries), maxTries)] {
		text += fmt.Sprintf("; %s -> %s: %s", t.Own, t.Address, t.Reason)
	}
	if n := len(tries) - maxTries; n > 0 {
		text += fmt.Sprintf("; and %d more ways", n)
	}
	return text
}

func where(at, host string) string {
	switch {
	case at == "" && host == "":
		return ""
	case host == "":
		return " (" + at + ")"
	case at == "":
		return " (on host " + host + ")"
	}
	return " (" + at + " on host " + host + ")"
}

// Unreachable returns the error that the reports, by rank, amount to, nil if all pairs have connected. iface and ports
// are the names of the user's settings that may help.
func Unreachable(reports []Report, hostOf func(int) string, iface, ports string) error {
	type kind struct{ from, to, reason string }
	total, known := 0, 0
	for _, r := range reports {
		total, known = total+r.Total, known+len(r.Pairs)
	}
	if total == 0 {
		return nil
	}
	hint := fmt.Sprintf("hint: does a firewall stand between? %s chooses the network, %s the ports that ranks listen at",
		iface, ports)
	var lines []string
	refused := true
	seen := map[kind]bool{}
	for from, r := range reports {
		slices.SortFunc(r.Pairs, func(a, b FailedPair) int { return cmp.Compare(a.To, b.To) })
		for _, p := range r.Pairs {
			refused = refused && p.Reason == syscall.ECONNREFUSED.Error()
			k := kind{hostOf(from), hostOf(p.To), p.Reason}
			if len(lines) < maxLines && (known <= maxLines || !seen[k]) {
				lines = append(lines, "\n  "+p.Text)
			}
			seen[k] = true
			switch {
			case strings.Contains(p.Text, ErrKey.Error()):
				hint = "hint: have all ranks been started with the same key?"
			case p.Reason == syscall.EMFILE.Error():
				hint = "hint: ulimit -n"
			}
		}
	}
	text := "two ranks cannot connect:"
	if total > 1 {
		text = fmt.Sprintf("%d pairs of ranks cannot connect:", total)
	}
	if more := total - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("\n  and %d pairs more", more))
	}
	return &UnreachableError{total, refused, text + strings.Join(lines, "") + "\n" + hint}
}
