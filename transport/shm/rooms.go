package shm

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/internal/segment"
)

// rooms are the rooms of a memory file as one of its ranks has them: the rank gives out its own, and joins others in
// theirs. A room's word counts the ranks that have left it for good, until the last one empties it.
type rooms struct {
	m     *segment.Map // of the file's own segment
	first int          // the first room of this rank

	mu    sync.Mutex
	fd    int    // of the file, -1 after the last user
	users int    // mappings, and Offers
	words []byte // nil before the first Offer
	given []bool // own rooms that are not known to be empty
}

// empty is the word of a room that all its ranks have left, and that reads as zeros.
const empty = 1 << 31

// newRooms returns the rooms of a file, for a mapping of its own segment.
func newRooms(m *segment.Map, rank, fd int) *rooms {
	return &rooms{m: m, fd: fd, users: 1, first: m.Layout.MemberIndex(rank)*m.RoomsEach() + 1,
		given: make([]bool, m.RoomsEach())}
}

// take gives out a room of this rank, or -1 if there is none. mu is held.
func (s *rooms) take() int {
	for i := range s.given {
		if w := segment.Word(s.words, s.first+i); !s.given[i] || atomic.CompareAndSwapUint32(w, empty, 0) {
			s.given[i] = true
			return s.first + i
		}
	}
	return -1
}

// leave ends the use of a room of so many ranks. The last one empties it, unless memory of it is kept.
func (s *rooms) leave(room, ranks int, kept bool) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.words != nil && !kept {
		w := segment.Word(s.words, room)
		if atomic.AddUint32(w, 1) == uint32(ranks) {
			if err = osys.Deallocate(s.fd, s.m.Room(room), s.m.Ends); err == nil {
				atomic.StoreUint32(w, empty)
			}
		}
	}
	return errors.Join(err, s.release())
}

// release ends a use. mu is held.
func (s *rooms) release() error {
	if s.users--; s.users > 0 {
		return nil
	}
	fd := s.fd
	s.fd = -1
	return osys.CloseFD(fd)
}

// Offer is a room in the memory file of some ranks, for links between all or some of them.
type Offer struct {
	Room int // where this rank would have the links, if it is their first
	e    *Endpoint
}

// Offer returns an Offer of this rank, which Join or Drop ends; nil if it has no room.
func (e *Endpoint) Offer() *Offer {
	s := e.mapping.rooms
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		return nil
	}
	if s.words == nil {
		from, n := s.m.Words()
		words, err := osys.Map(s.fd, from, n)
		if err != nil {
			return nil
		}
		s.words = words
		runtime.AddCleanup(s, func(b []byte) { _ = osys.Unmap(b) }, words)
	}
	room := s.take()
	if room < 0 {
		return nil
	}
	s.users++
	return &Offer{room, e}
}

// Drop ends o. unused means that no rank will use its room.
func (o *Offer) Drop(unused bool) {
	s := o.e.mapping.rooms
	s.mu.Lock()
	defer s.mu.Unlock()
	if unused {
		s.given[o.Room-s.first] = false
	}
	_ = s.release()
}

// Join opens this rank's end of the links of a layout between members, ranks of the Endpoint that has made the Offer,
// which are all on its host. Where they are a part of the layout, ranks sleep on doorbells, as the Endpoint does. room
// is that of the first member's Offer; every member joins, or the room is lost. id is another one for each Join of
// the same ranks. Nothing is sent, and no other rank need have joined yet. After an error the caller drops o.
func (o *Offer) Join(room int, members []int, layout transport.Layout, rank int, id string) (*Endpoint, error) {
	parent, s := o.e, o.e.mapping.rooms
	m, err := segment.NewMap(layout)
	switch {
	case err != nil:
		return nil, err
	case layout.Members != nil && parent.bell.bells == nil:
		return nil, errors.New("shm: ranks that sleep on futexes have no links with other hosts")
	case room < 1 || room > s.m.Rooms() || m.Ends > s.m.Ends || len(members) != layout.MemberCount():
		return nil, fmt.Errorf("shm: room %d of %d has no place for %d ranks", room, s.m.Rooms(), layout.Size)
	}
	var bells *doorbells
	if layout.Members != nil {
		if bells, err = parent.bell.bells.child(id, members, &layout, rank); err != nil {
			return nil, err
		}
	}
	reach, err := parent.reach.among(members, &layout)
	if err != nil {
		bells.close()
		return nil, err
	}
	if room == o.Room {
		err = osys.Allocate(s.fd, s.m.Room(room), m.Bytes)
	}
	board := []byte(nil)
	if err == nil {
		board, err = osys.Map(s.fd, s.m.Room(room), m.Bytes)
	}
	if err != nil {
		bells.close()
		return nil, errors.Join(err, reach.close())
	}
	e := newEndpoint(newMapping(m, board, s, room), rank, bells, reach, parent.noReach,
		osys.Yielder{Within: parent.bell.Within})
	if parent.bell.cores != nil {
		e.bell.cores = newCores(e.Endpoint, &layout, rank)
	}
	if room != o.Room {
		s.mu.Lock()
		s.given[o.Room-s.first] = false
		s.mu.Unlock()
	}
	return e, nil
}
