//go:build linux

package place

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cores"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/safefile"
)

// rankLine is where a rank file puts a rank.
type rankLine struct {
	host  string // a name, or +nK for the host with index K of the list; "": the file has no line for the rank
	slots cores.Slots
}

// A line of a rank file, and what counts as none.
var (
	rankPattern  = regexp.MustCompile(`^rank\s+(\d+)\s*=\s*(\S+?)\s+slots?\s*=\s*(\S.*)$`)
	blockComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	lineComment  = regexp.MustCompile(`(#|//).*`)
)

// readRankfile reads a rank file of Open MPI: "rank 0=a slot=0-2", or +n0 for the first host, and comments as in shells
// and in C. It returns the lines by rank.
func readRankfile(name string) ([]rankLine, error) {
	data, err := safefile.Read(name, maxFile)
	if err != nil {
		return nil, err
	}
	return parseRankfile(name, data)
}

func parseRankfile(name string, data []byte) (ranks []rankLine, err error) {
	data = blockComment.ReplaceAllFunc(data, func(text []byte) []byte { // lines keep their numbers
		return bytes.Repeat([]byte("\n"), bytes.Count(text, []byte("\n")))
	})
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		where := fmt.Sprintf("%s:%d", name, number)
		if line = strings.TrimSpace(lineComment.ReplaceAllString(line, "")); line == "" {
			continue
		}
		words := rankPattern.FindStringSubmatch(line)
		if words == nil {
			return nil, fmt.Errorf("%s: %.60q: want rank N=HOST slot=CORES, as in rank 0=a slot=0-2 or slot=1:0,1", where, line)
		}
		rank, err := strconv.Atoi(words[1])
		if err != nil || rank >= job.MaxRanks {
			return nil, fmt.Errorf("%s: rank %.20s: want at most %d", where, words[1], job.MaxRanks-1)
		}
		for rank >= len(ranks) {
			ranks = append(ranks, rankLine{})
		}
		if r := ranks[rank]; r.host != "" {
			return nil, fmt.Errorf("%s: rank %d has a place already (%s)", where, rank, r.slots.Where)
		}
		slots := cores.Slots{Where: where, List: strings.Join(strings.Fields(words[3]), "")}
		if err := (&cores.Request{Slots: []cores.Slots{slots}}).Check(); err != nil {
			return nil, err
		}
		ranks[rank] = rankLine{words[2], slots}
	}
	if ranks == nil {
		return nil, fmt.Errorf("%s: no rank", name)
	}
	return ranks, nil
}

// rankfileHosts returns the hosts that the lines of a rank file name; this one where they name none.
func rankfileHosts(ranks []rankLine) ([]ListedHost, error) {
	l := hostList{index: make(map[string]int)}
	for _, r := range ranks {
		if r.host == "" || r.host[0] == '+' {
			continue
		}
		entry := r.host
		if addr, err := netip.ParseAddr(entry); err == nil && addr.Is6() {
			entry = "[" + entry + "]"
		}
		if err := l.entry(entry, ListedHost{Where: r.slots.Where}); err != nil {
			return nil, fmt.Errorf("%s: %w", r.slots.Where, err)
		}
	}
	if l.hosts == nil {
		return parse("localhost")
	}
	return l.hosts, nil
}

// byRankfile does what MapRanks does, as the rank file has it.
func (o *Options) byRankfile(hosts []ListedHost, r Request) ([]ListedHost, error) {
	size := cmp.Or(r.Size, len(o.ranks))
	hosts, o.slots = slices.Clone(hosts), make([]cores.Slots, size)
	for rank := range size {
		if rank >= len(o.ranks) || o.ranks[rank].host == "" {
			return nil, fmt.Errorf("--rankfile %s: there is no line for rank %d of %d", o.rankfile, rank, size)
		}
		line := &o.ranks[rank]
		i := indexOf(hosts, line.host)
		if i < 0 {
			return nil, fmt.Errorf("--rankfile %s: rank %d: %s is not on the list of %s", line.slots.Where, rank, line.host,
				numbers.Count(len(hosts), "host"))
		}
		h := &hosts[i]
		h.Ranks, o.slots[rank] = append(h.Ranks, rank), line.slots
		if n := len(h.Ranks); h.Max > 0 && n > h.Max || h.Given && n > h.Slots && !r.Oversubscribe {
			return nil, fmt.Errorf("--rankfile %s: rank %d is number %d on host %s, which has %s (%s): give it more slots, or "+
				"use --oversubscribe", line.slots.Where, rank, n, h.Name, numbers.Count(h.Slots, "slot"), h.Where)
		}
	}
	hosts = slices.DeleteFunc(hosts, func(h ListedHost) bool { return len(h.Ranks) == 0 })
	slices.SortFunc(hosts, func(a, b ListedHost) int { return a.Ranks[0] - b.Ranks[0] })
	return hosts, nil
}

// indexOf returns the index of the host that a rank file names, -1 if there is none.
func indexOf(hosts []ListedHost, name string) int {
	if number, found := strings.CutPrefix(strings.ToLower(name), "+n"); found {
		if i, err := strconv.ParseUint(number, 10, 16); err == nil && int(i) < len(hosts) {
			return int(i)
		}
		return -1
	}
	named := ListedHost{JobHost: launch.JobHost{Name: name[strings.Index(name, "@")+1:], Target: name}}
	i := slices.IndexFunc(hosts, func(h ListedHost) bool { return name == h.Name || name == h.Target })
	if i < 0 && isThisHost(named) {
		i = slices.IndexFunc(hosts, isThisHost)
	}
	return i
}
