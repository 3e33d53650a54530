package probe

import (
	"slices"
	"time"
)

// curve is the number of bytes that had come, by time.
type curve struct {
	begin time.Time
	when  []time.Duration // since begin, rising
	total []int64         // until then
}

// add notes that n more bytes have come.
func (c *curve) add(now time.Time, n int) {
	at, sum := now.Sub(c.begin), int64(n)
	if last := len(c.when) - 1; last >= 0 {
		at = max(at, c.when[last])
		sum += c.total[last]
	}
	c.when, c.total = append(c.when, at), append(c.total, sum)
}

// until returns the number of bytes that had come at a time: bytes come evenly between two notes.
func (c *curve) until(at time.Duration) float64 {
	i, _ := slices.BinarySearch(c.when, at)
	switch i {
	case 0:
		return 0
	case len(c.when):
		return float64(c.total[i-1])
	}
	from, to := c.when[i-1], c.when[i]
	part := float64(at-from) / float64(to-from)
	return float64(c.total[i-1]) + part*float64(c.total[i]-c.total[i-1])
}

// rate returns the rate of the bytes that came between two times, in GB/s.
func (c *curve) rate(from, to time.Duration) float64 {
	if to <= from {
		return 0
	}
	return (c.until(to) - c.until(from)) / float64(to-from)
}
