//go:build race

package segment

import (
	"encoding/binary"
	"hash/fnv"
	"runtime"
	"unsafe"

	"github.com/treerun/treerun/transport"
)

// raceVars stand for the publication words and release counters of links in mapped memory, which the race detector
// ignores: without them, data that one goroutine wrote before a Commit and another read after the TryPeek would be
// reported although the link orders it. Both ends of a link in one process find the same pair, whatever their mappings'
// addresses are.
var raceVars [1 << 14]struct{ forward, back uint64 }

// raceSync reports the order that one link imposes to the race detector.
type raceSync struct{ forward, back *uint64 }

func newRaceSync(m *Map, k transport.Link) raceSync {
	h := fnv.New64a()
	_, _ = h.Write(m.Digest[:])
	for _, v := range []int{k.Lane, k.Src, k.Dst} {
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	}
	v := &raceVars[h.Sum64()%uint64(len(raceVars))]
	return raceSync{forward: &v.forward, back: &v.back}
}

func (s raceSync) acquireForward() { raceAcquire(s.forward) }
func (s raceSync) releaseForward() { raceRelease(s.forward) }
func (s raceSync) acquireBack()    { raceAcquire(s.back) }
func (s raceSync) releaseBack()    { raceRelease(s.back) }

func raceAcquire(p *uint64) {
	if p != nil {
		runtime.RaceAcquire(unsafe.Pointer(p))
	}
}

func raceRelease(p *uint64) {
	if p != nil {
		runtime.RaceReleaseMerge(unsafe.Pointer(p))
	}
}
