//go:build cgo

package cuda

import "testing"

// BenchmarkEnqueue tells what it costs to put work into a stream.
func BenchmarkEnqueue(b *testing.B) {
	d := gpus(b, 1)[0]
	s := stream(b, d)
	e := event(b, d, false)
	m := alloc[uint32](b, d, 64)
	to, from := m.Addr()+128, m.Addr()
	ops := []MemOp{{Addr: from, Value: 1}, {Addr: from, Value: 1, Wait: true}}
	for _, c := range []struct {
		name string
		put  func() error
	}{
		{"copy", func() error { return s.Memcpy(to, from, 64) }},
		{"event", func() error { return s.Record(e) }},
		{"value", func() error { return write(s, from, 1) }},
		{"values", func() error { return s.MemOps(ops) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if err := c.put(); err != nil {
					b.Fatal(err)
				}
				if i%64 == 63 { // streams have room for so much
					must(b, s.Synchronize(b.Context()))
				}
			}
			must(b, s.Synchronize(b.Context()))
		})
	}
}

// BenchmarkRoundTrip tells how long a stream takes to do nothing, and its caller
// to see that.
func BenchmarkRoundTrip(b *testing.B) {
	d := gpus(b, 1)[0]
	s := stream(b, d)
	m := alloc[uint32](b, d, 1)
	for range b.N {
		must(b, write(s, m.Addr(), 1))
		must(b, s.Synchronize(b.Context()))
	}
}
