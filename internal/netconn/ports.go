package netconn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// PortRange is a range of ports, both ends within. The zero value is any port.
type PortRange struct{ Lo, Hi int }

// ParsePorts reads LO-HI, with 1 <= LO <= HI <= 65535.
func ParsePorts(text string) (PortRange, error) {
	lo, hi, _ := strings.Cut(text, "-")
	a, err1 := strconv.ParseUint(lo, 10, 16)
	b, err2 := strconv.ParseUint(hi, 10, 16)
	if err1 != nil || err2 != nil || a == 0 || a > b {
		return PortRange{}, fmt.Errorf("%.40q is no range of ports, want LO-HI, such as 40000-40050", text)
	}
	return PortRange{int(a), int(b)}, nil
}

// Check reports a range that ParsePorts would not return.
func (r PortRange) Check() error {
	if r != (PortRange{}) && !(1 <= r.Lo && r.Lo <= r.Hi && r.Hi <= 65535) {
		return fmt.Errorf("ports from %d to %d", r.Lo, r.Hi)
	}
	return nil
}

// Count returns how many ports the range has, 0 for any.
func (r PortRange) Count() int {
	if r == (PortRange{}) {
		return 0
	}
	return r.Hi - r.Lo + 1
}

// String returns the range as the flag has it.
func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.Lo, r.Hi) }

// ListenIn calls open with one port of the range after the other until one is not
// taken: until the error is nil, or not EADDRINUSE. It begins with the one numbered
// first, so that the ranks of a host do not all try the same ones. Where all are
// taken the error wraps EADDRINUSE. For any port it calls open once, with 0.
func ListenIn[T any](r PortRange, first int, open func(port uint16) (T, error)) (T, error) {
	n := r.Count()
	if n == 0 {
		return open(0)
	}
	for i := range n {
		l, err := open(uint16(r.Lo + (max(first, 0)+i)%n))
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	var none T
	return none, fmt.Errorf("all ports from %d to %d are taken (hint: --port-range needs one per rank of a host, and "+
		"some more): %w", r.Lo, r.Hi, syscall.EADDRINUSE)
}
