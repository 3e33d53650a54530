package recording

import (
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// perfetto writes track events: messages of the type Trace of perfetto_trace.proto, of which it uses the fields below.
type perfetto struct {
	w       io.Writer
	err     error
	started bool
}

// Numbers of fields, by their messages.
const (
	tracePacket = 1 // Trace.packet

	packetTimestamp  = 8
	packetSequence   = 10
	packetEvent      = 11
	packetFlags      = 13
	packetDescriptor = 60

	trackUUID    = 1 // TrackDescriptor
	trackName    = 2
	trackProcess = 3
	trackThread  = 4
	trackParent  = 5
	trackRank    = 12

	processPID    = 1 // ProcessDescriptor
	processName   = 6
	processLabels = 8

	threadPID  = 1 // ThreadDescriptor
	threadTID  = 2
	threadName = 5

	eventAnnotation = 4 // TrackEvent
	eventType       = 9
	eventTrack      = 11
	eventCategory   = 22
	eventName       = 23
	eventFlow       = 47
	eventFlowEnd    = 48

	annotationInt    = 4 // DebugAnnotation
	annotationDouble = 5
	annotationText   = 6
	annotationName   = 10
)

// Values.
const (
	sliceBegin, sliceEnd, instant = 1, 2, 3 // of TrackEvent.Type

	sequence     = 1
	stateCleared = 1 // of a packet's flags
	groupUUIDs   = 1 << 32
)

// message is an encoded message that is being made.
type message []byte

func (m message) number(field protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

func (m message) fixed(field protowire.Number, v uint64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, field, protowire.Fixed64Type), v)
}

func (m message) text(field protowire.Number, s string) message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), s)
}

func (m message) message(field protowire.Number, b message) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
}

// packet writes a packet.
func (p *perfetto) packet(m message) {
	m = m.number(packetSequence, sequence)
	if !p.started {
		p.started = true
		m = m.number(packetFlags, stateCleared)
	}
	if p.err == nil {
		_, p.err = p.w.Write(message(nil).message(tracePacket, m))
	}
}

func (p *perfetto) group(id int, name, label string) {
	process := message(nil).number(processPID, uint64(id)).text(processName, name).text(processLabels, label)
	track := message(nil).number(trackUUID, groupUUIDs+uint64(id)).message(trackProcess, process)
	p.packet(message(nil).message(packetDescriptor, track))
}

func (p *perfetto) row(id, group int, name string, order int) {
	// A number of a thread that is that of its process would make it the main thread, which comes first.
	thread := message(nil).number(threadPID, uint64(group)).number(threadTID, 1<<20+uint64(id)).text(threadName, name)
	track := message(nil).number(trackUUID, uint64(id)).number(trackParent, groupUUIDs+uint64(group)).
		text(trackName, name).message(trackThread, thread).number(trackRank, uint64(order))
	p.packet(message(nil).message(packetDescriptor, track))
}

// event writes an event.
func (p *perfetto) event(row int, at int64, kind uint64, m message) {
	m = m.number(eventType, kind).number(eventTrack, uint64(row))
	p.packet(message(nil).number(packetTimestamp, uint64(max(at, 0))).message(packetEvent, m))
}

func (p *perfetto) begin(row int, at int64, name, category string, args []arg, arrows []uint64) {
	m := annotated(message(nil).text(eventCategory, category).text(eventName, name), args)
	for _, a := range arrows {
		m = m.fixed(eventFlowEnd, a)
	}
	p.event(row, at, sliceBegin, m)
}

func (p *perfetto) end(row int, at int64) { p.event(row, at, sliceEnd, nil) }

func (p *perfetto) mark(row int, at int64, name string, args []arg, arrow uint64) {
	m := annotated(message(nil).text(eventCategory, "mark").text(eventName, name), args)
	if arrow > 0 {
		m = m.fixed(eventFlow, arrow)
	}
	p.event(row, at, instant, m)
}

// annotated adds args to an event.
func annotated(m message, args []arg) message {
	for _, a := range args {
		n := message(nil).text(annotationName, a.name)
		switch v := a.value.(type) {
		case int64:
			n = n.number(annotationInt, uint64(v))
		case float64:
			n = n.fixed(annotationDouble, math.Float64bits(v))
		case string:
			n = n.text(annotationText, v)
		}
		m = m.message(eventAnnotation, n)
	}
	return m
}
