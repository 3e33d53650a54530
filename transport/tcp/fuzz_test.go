package tcp

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/shm"
)

// script is a wire that delivers its data in pieces of the given sizes, and discards all sent bytes.
type script struct {
	data   []byte
	pieces []byte
	turn   int
}

func (s *script) send(v *osys.Vectors) (int, error) { return v.Bytes(), nil }
func (s *script) push() (bool, error)               { return true, nil }
func (s *script) buffersInput() bool                { return false }

func (s *script) recv(v *osys.Vectors) (n int, err error) {
	if len(s.data) == 0 {
		return 0, osys.ErrAgain
	}
	limit := len(s.data)
	if len(s.pieces) > 0 {
		limit = 1 + int(s.pieces[s.turn%len(s.pieces)])
		s.turn++
	}
	v.Each(func(b []byte) bool {
		m := copy(b[:min(len(b), limit-n)], s.data)
		s.data = s.data[m:]
		n += m
		return n < limit && len(s.data) > 0
	})
	return n, nil
}

// lone is the links within the host, shared by all scripted endpoints.
var lone = sync.OnceValue(func() *shm.Endpoint {
	e, err := alone(0, testutil.Pair(4, 128))
	if err != nil {
		panic(err)
	}
	return e
})

// scripted returns an endpoint of rank 0 of two that receives the bytes of s.
func scripted(l transport.Layout, s *script) (*Endpoint, *conn) {
	n := &network{cfg: configOf(0, l), poller: -1}
	n.pump = pump{n: n}
	n.conns.Store(new([]*conn))
	n.users.Store(new([]*Endpoint))
	e := newMember(n.cfg, n, 0, nil, lone())
	_ = n.join(e)
	c := n.addConn(1)
	c.connecting.Store(false)
	c.wire = s
	return e, c
}

// speech returns the bytes that rank 1 would send.
func speech(add ...[]byte) []byte { return bytes.Join(add, nil) }

func chunkFrame(link, pos uint32, payload []byte) []byte {
	b := make([]byte, dataBytes+len(payload)+tailBytes)
	(&base{kind: kindData, more: callBytes + len(payload) + tailBytes, link: link, pos: pos}).put(b)
	putCall(b[baseBytes:], &call.Header{Seq: uint64(pos), What: call.What(0, 0, 0, 0, -1)})
	copy(b[dataBytes:], payload)
	putTail(b[dataBytes+len(payload):], link, pos)
	return b
}

// FuzzFrames feeds a connection with arbitrary bytes, in pieces of any size: it may return an error, and passes on only
// complete chunks.
func FuzzFrames(f *testing.F) {
	l := testutil.Pair(4, 128)
	payload := bytes.Repeat([]byte{7}, 100)
	f.Add(speech(chunkFrame(0, 0, payload), chunkFrame(0, 1, payload[:3])),
		[]byte{3})
	f.Add(speech(appendCredit(nil, 0, 0, 0), appendControl(nil, 0, kindClosed, nil)), []byte{0})
	f.Add(speech(appendControl(nil, 0, kindFault, strict.Marshal(&report{By: 1,
		Fault: transport.Fault{Rank: -1, Text: "x"}}))),
		[]byte{200})
	f.Add(speech(appendControl(nil, 0, kindStatus, strict.Marshal(make(record, 2)))), []byte{})
	f.Add([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), []byte{})
	f.Fuzz(func(t *testing.T, data, pieces []byte) {
		e, c := scripted(l, &script{data: data, pieces: pieces})
		for range len(data) + 1 {
			c.receive(e)
			r := e.peers[1].Load().receiver(transport.Link{Src: 1, Dst: 0})
			var h call.Header
			b, ok, err := r.TryPeek(&h)
			if err != nil && !errors.Is(err, transport.ErrCorrupt) && !errors.Is(err, transport.ErrPeerClosed) {
				t.Fatalf("error %v", err)
			}
			if ok && len(b) > l.SlotBytes {
				t.Fatalf("chunk of %d bytes", len(b))
			}
			if ok {
				r.Release()
			}
		}
		if got := e.peers[1].Load().sender(transport.Link{Src: 0, Dst: 1}).released.Load(); got != 0 {
			t.Fatalf("%d slots of nothing sent are free", got)
		}
	})
}

// FuzzControl decodes the bodies of control frames, and encodes them again.
func FuzzControl(f *testing.F) {
	f.Add(strict.Marshal(make(record, remembered)))
	f.Add(strict.Marshal(&report{By: 3, Decided: true, Fault: transport.Fault{Rank: 2, Text: "why"}}))
	f.Fuzz(func(t *testing.T, body []byte) {
		if status, err := decodeStatus(body); err == nil {
			if again, err := decodeStatus(strict.Marshal(status)); err != nil || !slices.Equal(again, status) ||
				len(status) > remembered {
				t.Errorf("status %+v became %+v, %v", status, again, err)
			}
		}
		if r, err := decodeReport(body, 8); err == nil {
			if r.By < 0 || r.By >= 8 || r.Fault.Rank < -1 || r.Fault.Rank >= 8 || len(r.Fault.Text) > transport.MaxFaultText {
				t.Errorf("report %+v", r)
			}
			if again, err := decodeReport(strict.Marshal(&r), 8); err != nil || again != r {
				t.Errorf("report %+v became %+v, %v", r, again, err)
			}
		}
	})
}

// TestCorrupt checks that bytes that violate the protocol give an error that describes the violation, and no chunk.
func TestCorrupt(t *testing.T) {
	l := testutil.Pair(4, 128)
	payload := bytes.Repeat([]byte{7}, 100)
	whole := chunkFrame(0, 0, payload)
	change := func(at int, to byte) []byte {
		b := bytes.Clone(whole)
		b[at] = to
		return b
	}
	twice := append(bytes.Clone(whole[:60]), whole[59:]...) // one byte of the payload stands twice
	for name, c := range map[string]struct {
		sent []byte
		want string
	}{
		"no frame":           {[]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), "is not the beginning of a frame"},
		"unknown kind":       {speech(change(4, 99)), "kind 99"},
		"no kind":            {speech(change(4, 0)), "kind 0"},
		"too long":           {speech(change(3, 9)), "want 28 to 67108892"},
		"too short":          {speech(change(0, 27)), "want 28 to 67108892"},
		"longer than a slot": {speech(change(1, 1)), "chunk of 356 bytes, slots hold 128"},
		"number of a set":    {speech(change(16, 1)), "is not the beginning of a frame"},
		"no such link":       {speech(chunkFrame(transport.MaxLanes, 0, payload)), "chunk on lane 8192, which there is not"},
		"ahead":              {speech(chunkFrame(0, 4, payload)), "chunk 4 of lane 0"},
		"behind":             {speech(chunkFrame(0, 1<<31, payload)), "chunk 2147483648 of lane 0"},
		"same chunk twice":   {speech(whole, whole), "came twice"},
		"bytes twice":        {speech(twice, whole), "lost or came twice"},
		"bytes lost":         {speech(whole[:60], whole[61:], whole), "lost or came twice"},
		"tail of another": {speech(whole[:len(whole)-tailBytes], chunkFrame(0, 1, payload)[dataBytes+100:]),
			"lost or came twice"},
		"released too much":  {speech(appendCredit(nil, 0, 0, 1)), "released 1 chunks of 0 sent"},
		"released elsewhere": {speech(appendCredit(nil, 0, 7, 0)), "slots of lane 7, on which nothing was sent"},
		"long status": {speech(appendControl(nil, 0, kindStatus,
			strict.Marshal(make(record, remembered+1)))), "status with 16 calls"},
		"status of the past": {speech(appendControl(nil, 0, kindStatus, strict.Marshal(record{{Seq: 2}})),
			appendControl(nil, 0, kindStatus, strict.Marshal(record{{Seq: 1}}))), "status of call 1 after call 2"},
		"fault of nobody": {speech(appendControl(nil, 0, kindFault, strict.Marshal(&report{By: 2}))), "by rank 2"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pieces := range [][]byte{nil, {0}, {6, 90}} {
				e, k := scripted(l, &script{data: bytes.Clone(c.sent), pieces: pieces})
				e.peers[1].Load().sender(transport.Link{Src: 0, Dst: 1})
				for range len(c.sent) {
					k.receive(e)
				}
				if err := k.broken(); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("in pieces of %v: error %v, want %q", pieces, err, c.want)
				}
				r := e.peers[1].Load().receiver(transport.Link{Src: 1, Dst: 0})
				if _, ok, _ := r.TryPeek(&call.Header{}); ok != (name == "same chunk twice") {
					t.Errorf("in pieces of %v: TryPeek = %v", pieces, ok)
				}
			}
		})
	}
}
