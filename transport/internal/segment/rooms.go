package segment

// A segment has rooms behind its heaps, each as large as all that is before them. Communicators that are made of the
// ranks of the segment have their own segments there. They take no memory before.
//
// Each member has as many rooms, which it gives to the segments whose first member it is. In front of the rooms is a
// word for each, and one more, the first, for the segment itself.

// maxRooms is the largest number of rooms of a member.
const maxRooms = 256

// RoomsEach returns the number of rooms of each member: those of member i are i*RoomsEach()+1 and the ones after it.
func (m *Map) RoomsEach() int {
	n := m.Layout.MemberCount()
	return min(maxRooms, max(0, maxSegment-m.Ends)/m.Ends/n)
}

// Rooms returns the number of rooms.
func (m *Map) Rooms() int { return m.RoomsEach() * m.Layout.MemberCount() }

// wordBytes is the size of the words of all rooms.
func (m *Map) wordBytes() int { return roundUp(4*(m.Rooms()+1), pageBytes) }

// Words returns the place of the words.
func (m *Map) Words() (from, n int) { return m.Ends, m.wordBytes() }

// Room returns the place of a room; room 0 is the segment itself.
func (m *Map) Room(i int) int {
	if i == 0 {
		return 0
	}
	return m.Ends + m.wordBytes() + (i-1)*m.Ends
}

// Word returns the word of a room, where words are their memory.
func Word(words []byte, i int) *uint32 { return word(words, 4*i) }
