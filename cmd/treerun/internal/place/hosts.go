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
)

// Hosts returns how many ranks there are, and where; no hosts for this one. size
// is what -np says, 0 when it says nothing. beside is how many more ranks there are, which
// are not counted and come last: on slots that the others leave free, else on the others'
// hosts in turn.
func (o *Options) Hosts(size cmdline.Ranks, beside int) ([]launch.Host, int, error) {
	var hosts []Host
	var err error
	switch {
	case o.flags.Changed("host") && o.flags.Changed("hostfile"):
		return nil, 0, cmdline.Usagef("-H and --hostfile: give one of them")
	case o.flags.Changed("host") && o.hosts == "":
		return nil, 0, cmdline.Usagef("-H names no host: is a variable in it not set?")
	case o.flags.Changed("hostfile") && o.hostfile == "":
		return nil, 0, cmdline.Usagef("--hostfile names no file: is a variable in it not set?")
	case o.hosts != "":
		hosts, err = Parse(o.hosts)
	case o.hostfile != "":
		if hosts, err = ParseFile(o.hostfile); err != nil {
			err = fmt.Errorf("--hostfile: %w", err)
		}
	default:
		r, err := o.GPUs()
		if err != nil {
			return nil, 0, err
		}
		n, err := DefaultRanks(size, r)
		return nil, n, err
	}
	if err != nil {
		return nil, 0, cmdline.Usagef("%w", err)
	}
	request := Request{Size: int(size), PerHost: int(o.PerHost), By: o.by}
	if size > 0 && beside > 0 {
		all := request
		all.Size += beside
		if places, err := Map(hosts, all); err == nil {
			list, n := placed(places, o.remote.Command == nil)
			return list, n - beside, nil
		}
	}
	request.Oversubscribe = o.oversubscribe
	places, err := Map(hosts, request)
	if err != nil {
		return nil, 0, cmdline.Usagef("%w", err)
	}
	list, n := placed(places, o.remote.Command == nil)
	for i := range beside {
		at := &list[i%len(list)]
		at.Ranks = append(slices.Clip(at.Ranks), n+i)
	}
	return list, n, nil
}

// placed turns places into what launch needs, and returns the number of ranks.
// Names of this very host are one, if it may be started on directly.
func placed(places []Place, direct bool) ([]launch.Host, int) {
	var list []launch.Host
	n, here := 0, -1
	for _, p := range places {
		n += len(p.Ranks)
	}
	for _, p := range places {
		h := launch.Host{Name: p.Host.Name, Target: p.Host.Target(), Ranks: p.Ranks}
		if direct && isHere(p.Host) {
			h.Local = true
			if here >= 0 {
				list[here].Ranks = append(slices.Clone(list[here].Ranks), p.Ranks...)
				slices.Sort(list[here].Ranks)
				continue
			}
			here = len(list)
		}
		list = append(list, h)
	}
	return list, n
}

// isHere tells whether a host is this one, without asking anybody: by the name
// that this host gives itself, or an address that it has.
func isHere(h Host) bool {
	if h.User != "" {
		if me, err := user.Current(); err != nil || me.Username != h.User {
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

// OwnAddress tells whether this host has an address.
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
