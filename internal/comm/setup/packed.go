package setup

import (
	"encoding/binary"
	"errors"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo"
)

// packedGraph is a graph as ranks send it. Most of its links are like others: each is of a class.
type packedGraph struct {
	Rest    topo.Graph  // without links
	Classes []topo.Link // without ranks
	Links   []byte      // three numbers of packedBytes for each: its ranks and its class
}

const packedBytes = 4

// packGraph returns g as ranks send it.
func packGraph(g *topo.Graph) ([]byte, error) {
	p := packedGraph{Rest: *g, Links: make([]byte, 0, 3*packedBytes*len(g.Links))}
	p.Rest.Links = nil
	classes := make(map[topo.Link]int)
	class := 0
	for _, l := range g.Links {
		a, b := l.A, l.B
		l.A, l.B = 0, 0
		if len(p.Classes) == 0 || l != p.Classes[class] { // the one before is often of the same
			known := false
			if class, known = classes[l]; !known {
				class = len(p.Classes)
				classes[l] = class
				p.Classes = append(p.Classes, l)
			}
		}
		for _, v := range []int{a, b, class} {
			p.Links = binary.LittleEndian.AppendUint32(p.Links, uint32(v))
		}
	}
	return msgpack.Marshal(&p)
}

// unpackGraph reads what packGraph wrote, and checks it.
func unpackGraph(data []byte) (*topo.Graph, error) {
	var p packedGraph
	if err := strict.Unmarshal(data, &p); err != nil {
		return nil, err
	}
	if len(p.Links)%(3*packedBytes) != 0 || len(p.Rest.Links) > 0 {
		return nil, errors.New("links that are not whole")
	}
	g := p.Rest
	g.Links = make([]topo.Link, 0, len(p.Links)/(3*packedBytes))
	number := func(i int) int { return int(binary.LittleEndian.Uint32(p.Links[i*packedBytes:])) }
	for i := 0; i < 3*cap(g.Links); i += 3 {
		if number(i+2) >= len(p.Classes) {
			return nil, errors.New("a link of no class")
		}
		l := p.Classes[number(i+2)]
		l.A, l.B = number(i), number(i+1)
		g.Links = append(g.Links, l)
	}
	return &g, g.Validate()
}
