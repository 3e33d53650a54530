package tcp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/treerun/treerun/transport/internal/osys"
)

// However few bytes the socket takes at a time, the stream consists of whole frames, those of each kind in their order,
// and lent memory is released with the last byte of its frame.
func TestOutbox(t *testing.T) {
	frames := regexp.MustCompile(`^(<(\d+) x*>|\[(\d+)\])`)
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := &sender{end: end{e: &Endpoint{}}}
		var o outbox
		var out osys.Vectors
		var stream []byte
		data, controls := 0, 0
		for step := 0; step < 300 || !o.empty(); step++ {
			switch action := rng.IntN(4); {
			case action == 0 && step < 300:
				frame := fmt.Appendf(nil, "<%d %s>", data, bytes.Repeat([]byte("x"), rng.IntN(40)))
				a := rng.IntN(len(frame) + 1)
				b := a + rng.IntN(len(frame)-a+1)
				t := item{from: s, buf: new(buffer), head: frame[:a], body: frame[a:b], tail: frame[b:], lent: true}
				o.push(t)
				s.lent.Add(1)
				data++
			case action == 1 && step < 300:
				o.ctl = fmt.Appendf(o.ctl, "[%d]", controls)
				controls++
			default:
				o.gather(&out)
				sent := rng.IntN(min(30, out.Bytes()) + 1)
				out.Each(func(b []byte) bool {
					stream = append(stream, b...)
					return true
				})
				stream = stream[:len(stream)-out.Bytes()+sent]
				o.markSent(sent, s.e)
			}
			if sent := bytes.Count(stream, []byte(">")); int(s.lent.Load()) != data-sent {
				t.Fatalf("seed %d: %d frames of %d are sent, and %d are not released", seed, sent, data,
					s.lent.Load())
			}
		}
		next := map[byte]int{}
		for rest := stream; len(rest) > 0; {
			m := frames.FindSubmatch(rest)
			if m == nil || string(m[2])+string(m[3]) != fmt.Sprint(next[rest[0]]) {
				t.Fatalf("seed %d: after %v frames comes %.20q", seed, next, rest)
			}
			next[rest[0]]++
			rest = rest[len(m[0]):]
		}
		if next['<'] != data || next['['] != controls {
			t.Errorf("seed %d: %v frames, want %d and %d", seed, next, data, controls)
		}
	}
}
