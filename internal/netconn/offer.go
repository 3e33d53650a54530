package netconn

import (
	"encoding/binary"
	"fmt"
)

// offer is what a rank tells all others in the first exchange: where it
// listens, or why it cannot.
//
//	version 1 | failed 1 | settings 8 | host 16 | places 1 | each: port 2 | address 1+4 or 1+16 | device 1+n
//
// and, of a rank that failed, the reason instead of everything behind failed.
type offer struct {
	failed   string   // why this rank cannot take part
	settings settings // equal on all ranks
	host     [16]byte
	places   []place
}

// settings are what all ranks must have in common.
type settings struct {
	streams uint16
	encrypt bool
	epoch   uint32
}

const (
	offerVersion = 1
	offerHead    = 8 + 16 + 1 // bytes behind version and failed
	maxPlaces    = 32
	maxDevice    = 15 // bytes, as in Linux
)

func (o *offer) encode() []byte {
	b := appendHead(nil, offerVersion, o.failed)
	if o.failed != "" {
		return b
	}
	b = binary.BigEndian.AppendUint16(b, o.settings.streams)
	b = binary.BigEndian.AppendUint32(b, o.settings.epoch)
	b = append(b, 0, 0)
	if o.settings.encrypt {
		b[len(b)-1] = 1
	}
	b = append(b, o.host[:]...)
	places := o.places[:min(len(o.places), maxPlaces)]
	b = append(b, byte(len(places)))
	for _, p := range places {
		b = appendAddr(binary.BigEndian.AppendUint16(b, p.port), p.addr)
		device := p.device[:min(len(p.device), maxDevice)]
		b = append(append(b, byte(len(device))), device...)
	}
	return b
}

func decodeOffer(b []byte) (o offer, err error) {
	if b, o.failed, err = cutHead(b, offerVersion); err != nil || o.failed != "" {
		return o, err
	}
	if len(b) < offerHead || b[6] != 0 || b[7] > 1 || b[offerHead-1] > maxPlaces {
		return o, errOffer
	}
	o.settings = settings{
		streams: binary.BigEndian.Uint16(b), epoch: binary.BigEndian.Uint32(b[2:]), encrypt: b[7] == 1,
	}
	copy(o.host[:], b[8:])
	n := int(b[offerHead-1])
	b = b[offerHead:]
	for range n {
		var p place
		if p, b, err = decodePlace(b); err != nil {
			return o, err
		}
		o.places = append(o.places, p)
	}
	if len(b) > 0 {
		return o, errOffer
	}
	return o, nil
}

// decodePlace reads one place and returns what follows it.
func decodePlace(b []byte) (p place, rest []byte, err error) {
	if len(b) < 2 {
		return p, nil, errOffer
	}
	p.port = binary.BigEndian.Uint16(b)
	if p.addr, b, err = cutAddr(b[2:]); err != nil {
		return p, nil, err
	}
	if p.port == 0 || len(b) < 1 || b[0] > maxDevice || len(b) < 1+int(b[0]) {
		return p, nil, errOffer
	}
	n := 1 + int(b[0])
	p.device = printable(b[1:n], maxDevice)
	return p, b[n:], nil
}

// decodeOffers decodes the blobs of the first exchange, one per rank. All must have
// the settings of rank 0.
func decodeOffers(blobs [][]byte, size int) ([]offer, error) {
	all, err := decodeAll(blobs, size, func(b []byte) (offer, string, error) {
		o, err := decodeOffer(b)
		return o, o.failed, err
	})
	if err != nil {
		return nil, err
	}
	var others []string
	for r := range all {
		if all[r].settings != all[0].settings {
			others = append(others, fmt.Sprintf("rank %d has other settings than rank 0: %+v, %+v", r, all[r].settings, all[0].settings))
		}
	}
	if others != nil {
		return nil, summary(others)
	}
	return all, nil
}
