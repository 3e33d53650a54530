package sparse

import (
	"math"
	"math/bits"
)

// prices contains predicted times of the dense plans of a communicator, of the host or of devices.
type prices struct {
	predict func(bytes int) float64 // NaN: not known
	known   map[int]float64
}

func newPrices(ask func(bytes int) float64) *prices {
	return &prices{predict: ask, known: make(map[int]float64)}
}

// us predicts the time for n bytes: powers of two are priced once, and sizes between them are interpolated.
func (p *prices) us(n int) float64 {
	n = max(n, 8)
	low := 1 << (bits.Len(uint(n)) - 1)
	a, b := p.of(low), p.of(2*low)
	return a + (b-a)*float64(n-low)/float64(low)
}

func (p *prices) of(n int) float64 {
	if us, known := p.known[n]; known {
		return us
	}
	us := p.predict(n)
	if math.IsNaN(us) || us <= 0 {
		us = 10 + float64(n)/1e3 // not known: 1 GB/s
	}
	p.known[n] = us
	return us
}
