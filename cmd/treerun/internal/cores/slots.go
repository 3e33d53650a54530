package cores

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/numbers"
)

// Slots are the cores of a rank in Open MPI's rank file: physical cores with all their hardware threads, numbered from
// 0 as hwloc does, among those that may be used: 0-2,5 or *, or the cores of a socket, 1:0,1 or 0:*, with semicolons
// between several such lists.
type Slots struct {
	Where string // FILE:LINE
	List  string
}

// slot is some physical cores, of the whole machine unless socket is at least 0.
type slot struct {
	socket int
	cores  []int // nil: all
}

// parseSlots reads a list of slots.
func parseSlots(text string) (slots []slot, err error) {
	for list := range strings.SplitSeq(text, ";") {
		socket := -1
		for word := range strings.SplitSeq(list, ",") {
			number, cores, found := strings.Cut(word, ":")
			if !found {
				cores = word
			} else if socket, err = strconv.Atoi(number); err == nil && socket < 0 {
				err = strconv.ErrRange
			}
			s := slot{socket: socket}
			if cores != "*" && err == nil {
				s.cores, err = parseList(cores)
			}
			if err != nil || len(slots) == maxCores {
				return nil, fmt.Errorf("slot=%.40s: want cores as in 0-2,5, or those of a socket as in 1:0,1 and 0:*", text)
			}
			slots = append(slots, s)
		}
	}
	return slots, nil
}

// fromSlots returns the places that a rank file gives ranks; ranks that were added later have none.
func (r *Request) fromSlots(m *Machine, s *Share) ([]Place, error) {
	plan, owner := make([]Place, len(s.Ranks)), make(map[int]int)
	for i, rank := range s.Ranks {
		if rank >= len(r.Slots) {
			continue
		}
		list, err := m.coresOf(r.Slots[rank].List)
		if err != nil {
			return nil, fmt.Errorf("--rankfile %s: rank %d: %w", r.Slots[rank].Where, rank, err)
		}
		for _, core := range list {
			if other, taken := owner[core]; taken && !r.Oversubscribe {
				return nil, fmt.Errorf("--rankfile %s: rank %d has core %d, and so has rank %d (hint: --oversubscribe "+
					"lets ranks share cores)", r.Slots[rank].Where, rank, core, other)
			}
			owner[core] = rank
		}
		plan[i].Cores = list
	}
	return plan, nil
}

// coresOf returns the cores that a list of slots stands for.
func (m *Machine) coresOf(list string) (cores []int, err error) {
	slots, err := parseSlots(list)
	if err != nil {
		return nil, err
	}
	for _, s := range slots {
		from := part{"", m.Allowed}
		if s.socket >= 0 {
			sockets, err := m.parts(Socket)
			if err != nil {
				return nil, err
			}
			if s.socket >= len(sockets) {
				return nil, fmt.Errorf("slot=%.40s: treerun may use %s, numbered from 0", list,
					numbers.Count(len(sockets), "socket"))
			}
			from = sockets[s.socket]
		}
		if s.cores == nil {
			cores = append(cores, from.cores...)
			continue
		}
		all, err := (&Machine{Allowed: from.cores, System: m.System}).parts(physical)
		if err != nil {
			return nil, err
		}
		for _, i := range s.cores {
			if i >= len(all) {
				return nil, fmt.Errorf("slot=%.40s: treerun may use %s (%s), numbered from 0", list,
					numbers.Count(len(all), "physical core"), from)
			}
			cores = append(cores, all[i].cores...)
		}
	}
	slices.Sort(cores)
	return slices.Compact(cores), nil
}
