//go:build linux

package place

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
)

// Hosts returns the number of ranks, and their hosts; no hosts for this one. size is the value of -np, 0 without -np.
// extra is the number of further ranks, which are not counted and come last: on slots that the others leave free, else
// on the others' hosts in turn.
func (o *Options) Hosts(size, extra int) ([]launch.JobHost, int, error) {
	var hosts []ListedHost
	var err error
	switch {
	case o.flags.Changed("host") && o.flags.Changed("hostfile"):
		return nil, 0, cmdline.Usagef("-H and --hostfile: give one of them")
	case o.flags.Changed("hostfile") && o.hostfile == "":
		return nil, 0, cmdline.Usagef("--hostfile names no file: is a variable in it not set?")
	case o.flags.Changed("host"):
		hosts, err = parse(o.hosts)
	case o.flags.Changed("hostfile"):
		if hosts, err = parseFile(o.hostfile); err != nil {
			err = fmt.Errorf("--hostfile: %w", err)
		}
	default:
		o.allocation, hosts, err = currentAllocation(os.Getenv)
		o.scheduler = o.allocation
	}
	if o.allocation == nil && err == nil {
		o.findScheduler(hosts)
	}
	if err == nil && o.flags.Changed("rankfile") {
		if o.ranks, err = readRankfile(o.rankfile); err != nil {
			err = fmt.Errorf("--rankfile: %w", err)
		} else if hosts == nil {
			hosts, err = rankfileHosts(o.ranks)
		}
	}
	if err != nil {
		return nil, 0, cmdline.Usagef("%w%s", err, o.hint())
	}
	if hosts == nil {
		n, err := o.DefaultRanks(size)
		return nil, n, err
	}
	spares, err := o.takeSpares(&hosts)
	if err != nil {
		return nil, 0, cmdline.Usagef("%w%s", err, o.hint())
	}
	list, n, err := o.mapHosts(hosts, size, extra)
	if err != nil {
		return nil, 0, cmdline.Usagef("%w%s", err, o.hint())
	}
	if list = append(list, spares...); o.allocation != nil && len(list) == 1 && list[0].Local {
		list = nil
	}
	return list, n, nil
}

// findScheduler sets the allocation that all of these hosts belong to, which the user has named. Those that need no
// agent may be outside of it.
func (o *Options) findScheduler(hosts []ListedHost) {
	a, all, err := currentAllocation(os.Getenv)
	if a == nil || a.agent == nil || err != nil {
		return
	}
	for i := range hosts {
		h := &hosts[i]
		if o.remote.Command == nil && isThisHost(*h) {
			continue
		}
		short, _, _ := strings.Cut(h.Target, ".")
		k := slices.IndexFunc(all, func(in ListedHost) bool { return strings.EqualFold(in.Name, h.Target) })
		if k < 0 {
			k = slices.IndexFunc(all, func(in ListedHost) bool {
				name, _, _ := strings.Cut(in.Name, ".")
				return strings.EqualFold(name, short) && (name == in.Name || short == h.Target)
			})
		}
		if k < 0 {
			o.outside = fmt.Sprintf(" (ssh reaches it, since %s is not in %s's %s; hint: hosts as written there need no ssh)",
				h.Target, a.scheduler, a.variable)
			return
		}
		h.Target = all[k].Name
	}
	o.scheduler = a
}

// takeSpares removes the spare hosts from a list, and returns them.
func (o *Options) takeSpares(hosts *[]ListedHost) (spares []launch.JobHost, err error) {
	n := len(*hosts) - o.spares
	if n < 1 {
		return nil, fmt.Errorf("--spares %d leaves none of %s", o.spares, numbers.Count(len(*hosts), "host"))
	}
	for _, h := range (*hosts)[n:] {
		if isThisHost(h) {
			return nil, fmt.Errorf("--spares: %s is this host, and is lost with treerun", h.Name)
		}
		h.Room = o.room(&h)
		spares = append(spares, h.JobHost)
	}
	*hosts = (*hosts)[:n]
	return spares, nil
}

// Source names the allocation that the hosts are from, "" where there is none.
func (o *Options) Source() string {
	if o.allocation == nil {
		return ""
	}
	return "hosts are from " + o.allocation.scheduler + "'s " + o.allocation.variable
}

// hint returns the end of an error about hosts of an allocation.
func (o *Options) hint() string {
	if o.allocation == nil {
		return ""
	}
	return " (" + o.Source() + "; hint: -H localhost:N runs on this host alone)"
}

// mapHosts returns which ranks run on which of these hosts.
func (o *Options) mapHosts(hosts []ListedHost, size, extra int) ([]launch.JobHost, int, error) {
	request := o.Request
	request.Size = size
	mapRanks := MapRanks
	if o.ranks != nil {
		mapRanks = o.byRankfile
	}
	if size > 0 && extra > 0 {
		total := request
		total.Size, total.Oversubscribe = size+extra, false
		if places, err := mapRanks(hosts, total); err == nil {
			list, n := jobHosts(places, o.remote.Command == nil)
			return list, n - extra, nil
		}
	}
	places, err := mapRanks(hosts, request)
	if err != nil {
		return nil, 0, err
	}
	for i := range places {
		places[i].Room = o.room(&places[i])
	}
	o.setIdle(hosts, places)
	list, n := jobHosts(places, o.remote.Command == nil)
	for i := range extra {
		h := &list[i%len(list)]
		h.Ranks = append(slices.Clip(h.Ranks), n+i)
	}
	return list, n, nil
}

// room returns the number of ranks that a host takes without --oversubscribe.
func (r *Request) room(h *ListedHost) int {
	if r.PerHost > 0 && !h.empty() {
		return r.PerHost
	}
	return h.Slots
}

// setIdle records the hosts that have got no rank, and take some when the job is resized.
func (o *Options) setIdle(hosts, used []ListedHost) {
	o.idle = nil
	for _, h := range hosts {
		same := func(u ListedHost) bool { return u.Target == h.Target && u.Name == h.Name }
		if !h.empty() && !slices.ContainsFunc(used, same) && !(o.remote.Command == nil && isThisHost(h)) {
			h.Room = o.room(&h)
			o.idle = append(o.idle, h.JobHost)
		}
	}
}

// jobHosts converts hosts for launch, and returns the number of ranks. Names of this very host are one, if ranks may be
// started on it directly.
func jobHosts(hosts []ListedHost, direct bool) (list []launch.JobHost, n int) {
	here := -1
	for _, h := range hosts {
		n += len(h.Ranks)
		if h.Local = direct && isThisHost(h); h.Local && here >= 0 {
			list[here].Room += h.Room
			list[here].Ranks = slices.Concat(list[here].Ranks, h.Ranks)
			slices.Sort(list[here].Ranks)
			continue
		}
		if h.Local {
			here = len(list)
		}
		list = append(list, h.JobHost)
	}
	return list, n
}

// isThisHost reports whether a host is this one, without a query to a server: by this host's own name, or an address
// that it has.
func isThisHost(h ListedHost) bool {
	if login, _, found := strings.Cut(h.Target, "@"); found {
		if me, err := user.Current(); err != nil || me.Username != login {
			return false
		}
	}
	if strings.EqualFold(h.Name, "localhost") {
		return true
	}
	if addr, err := netip.ParseAddr(h.Name); err == nil {
		return addr.IsLoopback() || OwnAddress(addr)
	}
	name, err := os.Hostname()
	short, _, _ := strings.Cut(name, ".")
	return err == nil && (strings.EqualFold(h.Name, name) || strings.EqualFold(h.Name, short))
}

// OwnAddress reports whether this host has an address.
func OwnAddress(addr netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr() == addr.Unmap().WithZone("")
	})
}

// MapBy is the order in which ranks are dealt to hosts.
type MapBy int

// BySlot fills a host before the next one; byHost deals one rank to each host in turn.
const (
	BySlot MapBy = iota
	byHost
	byNode // byHost
	// From here on BySlot, and a cores.Level within each host.
)

// mapByWords are the values of --map-by, in the order of MapBy.
var mapByWords = []string{"slot", "host", "node", "numa", "socket", "l3"}

// Request describes the number of ranks, and their placement.
type Request struct {
	Size          int // number of ranks, 0: one for each slot
	PerHost       int // maximum on each host, instead of its slots; 0: its slots
	MapBy         MapBy
	Oversubscribe bool // go beyond the slots, up to Max
}

// MapRanks deals ranks to hosts. Hosts without a rank are left out; the others keep their order, which is that of their
// first ranks. Ranks beyond all slots, if they are allowed, are dealt to the hosts in turn before ranks get their
// numbers: but for --map-by host those of a host are consecutive.
func MapRanks(hosts []ListedHost, r Request) ([]ListedHost, error) {
	capacity, total := make([]int, len(hosts)), 0
	for i, h := range hosts {
		capacity[i] = h.Slots
		if r.PerHost > 0 && !h.empty() {
			if h.Given && r.PerHost > h.Slots && !r.Oversubscribe {
				return nil, fmt.Errorf("%s per host, but host %s has %s (%s): give it more slots, or use --oversubscribe",
					numbers.Count(r.PerHost, "rank"), h.Name, numbers.Count(h.Slots, "slot"), h.Where)
			}
			if h.Max > 0 && r.PerHost > h.Max {
				return nil, fmt.Errorf("%s per host, but host %s takes at most %d (%s)", numbers.Count(r.PerHost, "rank"),
					h.Name, h.Max, h.Where)
			}
			capacity[i] = r.PerHost
		}
		total += capacity[i]
	}
	size := r.Size
	if size == 0 {
		size = total
	}
	switch {
	case len(hosts) == 0:
		return nil, fmt.Errorf("no hosts")
	case total == 0:
		return nil, fmt.Errorf("no host for a rank: %s with 0 slots", numbers.Count(len(hosts), "host"))
	case size > job.MaxRanks:
		return nil, fmt.Errorf("%d ranks, at most %d are possible", size, job.MaxRanks)
	case size > total && r.PerHost > 0:
		return nil, fmt.Errorf("%d ranks, but there is room for %d: --ppn %d on %s", size, total, r.PerHost,
			numbers.Count(len(hosts), "host"))
	case size > total && !r.Oversubscribe:
		return nil, fmt.Errorf("%d ranks, but %s on %s: give the hosts more slots, as in HOST:SLOTS, or use --oversubscribe",
			size, numbers.Count(total, "slot"), numbers.Count(len(hosts), "host"))
	}
	if err := addCapacity(capacity, hosts, size-total); err != nil {
		return nil, fmt.Errorf("%s: %w", numbers.Count(size, "rank"), err)
	}
	return numberRanks(hosts, capacity, size, r.MapBy), nil
}

// empty reports whether a host is listed and gets no rank.
func (h *ListedHost) empty() bool { return h.Given && h.Slots == 0 }

// addCapacity makes room for more ranks, on the hosts in turn.
func addCapacity(capacity []int, hosts []ListedHost, more int) error {
	for more > 0 {
		before := more
		for i, h := range hosts {
			if more > 0 && !h.empty() && (h.Max == 0 || capacity[i] < h.Max) {
				capacity[i]++
				more--
			}
		}
		if more == before {
			return fmt.Errorf("max_slots leaves %d of them no host", more)
		}
	}
	return nil
}

// numberRanks numbers the ranks.
func numberRanks(hosts []ListedHost, capacity []int, size int, by MapBy) []ListedHost {
	hosts = slices.Clone(hosts)
	turn := 1
	for rank := 0; rank < size; {
		for i := range hosts {
			if by != byHost && by != byNode {
				turn = capacity[i]
			}
			for k := 0; k < turn && rank < size && len(hosts[i].Ranks) < capacity[i]; k++ {
				hosts[i].Ranks = append(hosts[i].Ranks, rank)
				rank++
			}
		}
	}
	return slices.DeleteFunc(hosts, func(h ListedHost) bool { return len(h.Ranks) == 0 })
}
