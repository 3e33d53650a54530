package topo

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
)

// The graphs of well-known machines, to plan and to simulate on: their links and ports as data sheets
// and published descriptions give them.
//
// The graphs are JSON files, built in, as the command line reads them. Rates are those
// of the hardware in one direction, before any protocol takes its part. Latencies are
// not from data sheets: they are round figures of the order that programs see (1.5 us
// over NVLink, 2 us through a switch of NVLinks, 5 to 9 us over PCIe and sockets, 14 us
// over InfiniBand, 30 us over Ethernet and TCP).
//
// In clusters of switched GPUs the port of a GPU counts its card, too. Between more
// than two hosts a card has several links: there a port per host holds the sum of its
// cards, as no port can hold one card beside the GPU's other links.
//
//go:embed machines/*.json
var machineFiles embed.FS

// MachineDetails has a paragraph per machine, for people: name, ranks, and all there is to say
// about it with the source of the figures, in lines of at most 80 characters.
//
//go:embed machines/machines.txt
var MachineDetails string

// Machines returns the names of all machines, sorted.
func Machines() (names []string) {
	entries, _ := machineFiles.ReadDir("machines") // they are built in
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	slices.Sort(names)
	return names
}

// Machine returns the graph of a machine, a new one with every call, its links
// marked as declared. It reports whether there is a machine of that name.
func Machine(name string) (*Graph, bool) {
	data, err := machineFiles.ReadFile("machines/" + name + ".json")
	if err != nil {
		return nil, false
	}
	g, err := ParseGraph(data)
	if err != nil {
		panic(fmt.Sprintf("topo: machine %s: %v", name, err))
	}
	for i := range g.Links {
		g.Links[i].Source = Declared
	}
	return g, true
}

// AboutMachine says what a machine is and where its figures come from, for people;
// empty when there is none of that name.
func AboutMachine(name string) string {
	_, text, _ := strings.Cut("\n"+MachineDetails, "\n"+name+", ")
	_, text, _ = strings.Cut(text, "\n") // behind the number of ranks
	var words []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, " ") {
			break
		}
		words = append(words, strings.Fields(line)...)
	}
	return strings.Join(words, " ")
}
