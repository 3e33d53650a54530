package tcp

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/transporttest"
)

// script is a wire that gives what it was given, in pieces of the sizes given,
// and swallows what is sent.
type script struct {
	data   []byte
	pieces []byte
	turn   int
}

func (s *script) send(v *osys.Vectors) (int, error) { return v.Bytes(), nil }
func (s *script) push() (bool, error)               { return true, nil }
func (s *script) hides() bool                       { return false }

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

// scripted returns an endpoint of rank 0 of two that hears what s says.
func scripted(l transport.Layout, s *script) (*Endpoint, *conn) {
	e := &Endpoint{
		layout: l, peers: make([]*remote, l.Size), stopped: make(chan struct{}),
		senders: make(map[transport.Link]*sender), receivers: make(map[transport.Link]*receiver),
	}
	e.buffers.slotBytes = l.SlotBytes
	e.board.peers = make([]record, l.Size)
	e.faults = faults{e: e, done: make(chan struct{})}
	e.bell = bell{e: e, poller: -1, event: -1}
	e.pump = pump{e: e, event: -1}
	e.addConn(socket{peer: 1, fd: -1, wire: s})
	e.addLinks()
	c := e.conns[0]
	c.expects = hello{version: version, src: 1, dst: 0, streams: 1, layout: layoutDigest(&l)}
	return e, c
}

// speech is what rank 1 would send: a hello and then what add appends.
func speech(l transport.Layout, add ...[]byte) []byte {
	h := hello{version: version, src: 1, dst: 0, streams: 1, layout: layoutDigest(&l)}
	return append(appendControl(nil, kindHello, h.encode()), bytes.Join(add, nil)...)
}

func chunkFrame(link, pos uint32, payload []byte) []byte {
	b := make([]byte, dataBytes+len(payload)+tailBytes)
	(&base{kind: kindData, more: callBytes + len(payload) + tailBytes, link: link, pos: pos}).put(b)
	putCall(b[baseBytes:], &transport.Header{Seq: uint64(pos), Root: -1})
	copy(b[dataBytes:], payload)
	putTail(b[dataBytes+len(payload):], link, pos)
	return b
}

// FuzzFrames feeds a connection with anything, in pieces of any size: it must
// come to an error or not, and hand on only chunks that are whole.
func FuzzFrames(f *testing.F) {
	l := transporttest.Pair(4, 128)
	payload := bytes.Repeat([]byte{7}, 100)
	f.Add(speech(l, chunkFrame(0, 0, payload), chunkFrame(0, 1, payload[:3]), appendControl(nil, kindPing, nil)),
		[]byte{3})
	f.Add(speech(l, appendCredit(nil, 0, 0), appendControl(nil, kindClosed, nil)), []byte{0})
	f.Add(speech(l, appendControl(nil, kindFault, (&report{by: 1, fault: transport.Fault{Rank: -1, Text: "x"}}).encode())),
		[]byte{200})
	f.Add(speech(l, appendControl(nil, kindStatus, encodeStatus(nil, 2, make([]transport.Header, 2)))), []byte{})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), []byte{})
	f.Fuzz(func(t *testing.T, data, pieces []byte) {
		e, c := scripted(l, &script{data: data, pieces: pieces})
		for range len(data) + 1 {
			c.receive()
			r := e.receivers[transport.Link{Src: 1, Dst: 0}]
			var h transport.Header
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
		if got := e.senders[transport.Link{Src: 0, Dst: 1}].released.Load(); got != 0 {
			t.Fatalf("%d slots of nothing sent are free", got)
		}
	})
}

// FuzzControl decodes the bodies of the frames that are no data, and encodes
// them again.
func FuzzControl(f *testing.F) {
	f.Add(encodeStatus(nil, 20, make([]transport.Header, remembered)))
	f.Add((&report{by: 3, decided: true, fault: transport.Fault{Rank: 2, Text: "why"}}).encode())
	f.Add((&hello{version: version}).encode())
	f.Fuzz(func(t *testing.T, body []byte) {
		var calls [remembered]transport.Header
		if total, n, err := decodeStatus(body, &calls); err == nil {
			if again := encodeStatus(nil, total, calls[:n]); !bytes.Equal(again, body) {
				t.Errorf("status %x became %x", body, again)
			}
		}
		if r, err := decodeReport(body, 8); err == nil {
			if r.by < 0 || r.by >= 8 || r.fault.Rank < -1 || r.fault.Rank >= 8 {
				t.Errorf("report %+v", r)
			}
			if again := r.encode(); len(body) <= reportBytes+transport.MaxFaultText && !bytes.Equal(again, body) {
				t.Errorf("report %x became %x", body, again)
			}
		}
		h := hello{version: version}
		if err := h.check(body); (err == nil) != bytes.Equal(body, h.encode()) {
			t.Errorf("hello %x: %v", body, err)
		}
	})
}

// TestCorrupt: what the protocol does not allow is an error that says so, and no
// chunk.
func TestCorrupt(t *testing.T) {
	l := transporttest.Pair(4, 128)
	payload := bytes.Repeat([]byte{7}, 100)
	whole := chunkFrame(0, 0, payload)
	change := func(at int, to byte) []byte {
		b := bytes.Clone(whole)
		b[at] = to
		return b
	}
	twice := append(bytes.Clone(whole[:60]), whole[59:]...) // one byte of the payload stands twice
	other := l
	other.Slots = 8
	for name, c := range map[string]struct {
		said []byte
		want string
	}{
		"no frame":         {[]byte("GET / HTTP/1.1\r\n\r\n"), "is not the beginning of a frame"},
		"no hello":         {whole, "data frame out of turn"},
		"two hellos":       {speech(l, speech(l)), "hello frame out of turn"},
		"hello of others":  {speech(other), "another layout"},
		"unknown kind":     {speech(l, change(4, 99)), "kind 99"},
		"no kind":          {speech(l, change(4, 0)), "kind 0"},
		"too long":         {speech(l, change(1, 1)), "want 28 to 156"},
		"too short":        {speech(l, change(0, 27)), "want 28 to 156"},
		"no such link":     {speech(l, chunkFrame(1, 0, payload)), "chunk on link 1 of 1"},
		"ahead":            {speech(l, chunkFrame(0, 4, payload)), "chunk 4 of lane 0"},
		"behind":           {speech(l, chunkFrame(0, 1<<31, payload)), "chunk 2147483648 of lane 0"},
		"same chunk twice": {speech(l, whole, whole), "came twice"},
		"bytes twice":      {speech(l, twice, whole), "lost or came twice"},
		"bytes lost":       {speech(l, whole[:60], whole[61:], whole), "lost or came twice"},
		"tail of another": {speech(l, whole[:len(whole)-tailBytes], chunkFrame(0, 1, payload)[dataBytes+100:]),
			"lost or came twice"},
		"released too much":  {speech(l, appendCredit(nil, 0, 1)), "released 1 chunks of 0 sent"},
		"released elsewhere": {speech(l, appendCredit(nil, 7, 0)), "slots of link 7 of 1"},
		"long status": {speech(l, appendControl(nil, kindStatus, make([]byte, 8+callBytes*(remembered+1)))),
			"status of"},
		"status without": {speech(l, appendControl(nil, kindStatus, encodeStatus(nil, 1, make([]transport.Header, 2)))),
			"2 calls of 1"},
		"fault of nobody": {speech(l, appendControl(nil, kindFault, (&report{by: 2}).encode())), "by rank 2"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pieces := range [][]byte{nil, {0}, {6, 90}} {
				e, k := scripted(l, &script{data: bytes.Clone(c.said), pieces: pieces})
				for range len(c.said) {
					k.receive()
				}
				if err := k.broken(); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("in pieces of %v: error %v, want %q", pieces, err, c.want)
				}
				r := e.receivers[transport.Link{Src: 1, Dst: 0}]
				if _, ok, _ := r.TryPeek(&transport.Header{}); ok != (name == "same chunk twice") {
					t.Errorf("in pieces of %v: TryPeek = %v", pieces, ok)
				}
			}
		})
	}
}
