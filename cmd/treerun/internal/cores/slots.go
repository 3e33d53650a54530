package cores

import (
	"fmt"
	"regexp"
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

// slotsPattern matches lists of slots.
var slotsPattern = regexp.MustCompile(strings.ReplaceAll(`^X([,;]X)*$`, "X", `(\d+:)?(\*|\d+(-\d+)?)`))

// physicalMark matches the letter for the numbers of the system in a list of slots, with what is before it.
var physicalMark = regexp.MustCompile(`(^|[,;:-])[pP]`)

// slotsRange matches a range in a list of slots.
var slotsRange = regexp.MustCompile(`(\d+)-(\d+)`)

// check returns an error if the list is none.
func (s *Slots) check() error {
	if plain := physicalMark.ReplaceAllString(s.List, "$1"); !slotsPattern.MatchString(plain) {
		return fmt.Errorf("%s: slot=%.40s: want cores as in 0-2,5, or those of a socket as in 1:0,1 and 0:*", s.Where,
			s.List)
	} else if plain != s.List {
		return fmt.Errorf("%s: slot=%.40s: p is for the numbers of the system, and treerun counts cores as hwloc and Open "+
			"MPI do (hint: lstopo -l shows the numbers)", s.Where, s.List)
	}
	for _, ends := range slotsRange.FindAllStringSubmatch(s.List, -1) {
		first, err := strconv.Atoi(ends[1])
		last, err2 := strconv.Atoi(ends[2])
		if err == nil && err2 == nil && first > last {
			return fmt.Errorf("%s: slot=%.40s: the range %s is backwards (hint: %d-%d)", s.Where, s.List, ends[0], last, first)
		}
	}
	return nil
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
func (m *Machine) coresOf(slots string) (list []int, err error) {
	for several := range strings.SplitSeq(slots, ";") {
		from := Place{Cores: m.Allowed}
		for word := range strings.SplitSeq(several, ",") {
			socket, numbers, found := strings.Cut(word, ":")
			if !found {
				numbers = word
			} else if from, err = m.pick(Socket, socket); err != nil {
				return nil, fmt.Errorf("slot=%.40s: %w", slots, err)
			}
			if numbers != "*" {
				p, err := (&Machine{from.Cores, m.System, m.known}).pick(physical, numbers)
				if err != nil {
					return nil, fmt.Errorf("slot=%.40s: %w", slots, err)
				}
				list = append(list, p.Cores...)
				continue
			}
			list = append(list, from.Cores...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// pick returns the cores of some parts, of which there is a list of numbers.
func (m *Machine) pick(level Level, list string) (all Place, err error) {
	parts, err := m.parts(level)
	if err != nil {
		return all, err
	}
	wanted := numbers.ParseList(list, maxCores)
	for _, i := range wanted {
		if i >= len(parts) {
			wanted = nil
			break
		}
		all.Cores = append(all.Cores, parts[i].Cores...)
	}
	if wanted == nil {
		return all, fmt.Errorf("treerun may use %s (%s), numbered from 0",
			numbers.Count(len(parts), kinds[level].name), List(m.Allowed))
	}
	return all, nil
}
