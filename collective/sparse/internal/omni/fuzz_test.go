package omni

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/sparsetest"
	"github.com/treerun/treerun/internal/kernel"
)

// fuzzed are the tensors of the fuzz tests: 2 workers, a last block that is
// shorter, more rows than one.
func fuzzed() *tensors {
	x := shaped(sparsetest.New(2, block.Grid{Elements: 43, Size: 4}, kernel.Sum, kernel.Float32).Random(seeded(1), 0.5), 1,
		2, 2)
	x.shape.Lists = true
	return x
}

// packets cuts input into packets: two bytes of length, then the packet, whose
// digest is put right unless it begins with an odd byte: else hardly any input
// would get further.
func packets(input []byte, digest uint64) (list [][]byte) {
	for len(input) >= 2 {
		n := min(int(binary.LittleEndian.Uint16(input)), len(input)-2)
		p := append([]byte(nil), input[2:2+n]...)
		if n >= HeaderBytes && p[0]&1 == 0 {
			binary.LittleEndian.PutUint64(p[16:], digest)
		}
		list = append(list, p)
		input = input[2+n:]
	}
	return list
}

func appendPacket(input, p []byte) []byte {
	return append(binary.LittleEndian.AppendUint16(input, uint16(len(p))), p...)
}

// dialogue returns what workers send and what aggregators answer.
func dialogue(f *testing.F) (up, down []byte) {
	x := fuzzed()
	n := newCluster(2, 1)
	n.begin(f, x, false)
	var queue [][]byte
	for w := range 2 {
		for stream := range x.shape.Live() {
			queue = append(queue, n.compose(f, &x.shape, w, stream))
		}
	}
	for len(queue) > 0 {
		up = appendPacket(up, queue[0])
		answer, err := n.aggregators[0].Handle(queue[0])
		if err != nil {
			f.Fatal(err)
		}
		queue = queue[1:]
		if answer.Packet == nil {
			continue
		}
		down = appendPacket(down, answer.Packet)
		for w := range 2 {
			step, err := n.workers[w].Handle(answer.Packet)
			if err != nil {
				f.Fatal(err)
			}
			if step.Send {
				queue = append(queue, n.compose(f, &x.shape, w, step.Stream))
			}
		}
	}
	return up, down
}

// known fails when err is none of the errors that packets may cause.
func known(t *testing.T, err error) {
	if !errors.Is(err, block.ErrProtocol) && !errors.Is(err, block.ErrMismatch) {
		t.Fatalf("error %v", err)
	}
}

// FuzzAggregator: whatever workers send is an error or changes the state as the
// protocol allows.
func FuzzAggregator(f *testing.F) {
	up, _ := dialogue(f)
	f.Add(up)
	f.Fuzz(func(t *testing.T, input []byte) {
		x := fuzzed()
		a := NewAggregator(0)
		if err := a.Begin(1, x.shape); err != nil {
			t.Fatal(err)
		}
		for _, p := range packets(input, x.shape.Digest()) {
			answer, err := a.Handle(p)
			if err != nil {
				known(t, err)
				return
			}
			if answer.Packet == nil {
				continue
			}
			if h, err := Decode(answer.Packet); err != nil || h.Worker != -1 || h.Stream != answer.Stream ||
				len(answer.Packet) > x.shape.MaxPacket() {
				t.Fatalf("answer %+v (%v) of %d bytes", h, err, len(answer.Packet))
			}
		}
	})
}

// FuzzWorker: whatever an aggregator answers is an error or a result.
func FuzzWorker(f *testing.F) {
	_, down := dialogue(f)
	f.Add(down)
	f.Fuzz(func(t *testing.T, input []byte) {
		x := fuzzed()
		w := NewWorker(0)
		_, recv := x.Buffers(false)
		if err := w.Begin(1, x.shape, Input{Blocks: x.Sets[0], Send: x.Send[0], Recv: recv[0], Fill: true}); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, x.shape.MaxPacket())
		for _, p := range packets(input, x.shape.Digest()) {
			step, err := w.Handle(p)
			if err != nil {
				known(t, err)
				return
			}
			if step.Send {
				if h, err := Decode(buf[:w.Compose(step.Stream, buf)]); err != nil || h.Stream != step.Stream {
					t.Fatalf("packet %+v: %v", h, err)
				}
			}
		}
	})
}
