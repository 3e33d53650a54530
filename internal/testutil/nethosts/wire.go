//go:build linux

package nethosts

import (
	"errors"
	"fmt"
)

// plan collects the commands for one namespace.
type plan struct {
	ns     *namespace
	ip, tc []string
}

func (p *plan) link(format string, args ...any) { p.ip = append(p.ip, fmt.Sprintf(format, args...)) }

// pair makes a pair of devices, one in p and the other in it.
func (p *plan) pair(mine, its string, it *plan) {
	p.link("link add name %s type veth peer name %s netns %s", mine, its, it.ns.pid())
}

// shape limits the rate of outgoing packets on device dev.
func (p *plan) shape(dev, rate string) {
	if rate == "-" || rate == "0" {
		return
	}
	var mbit float64
	_, _ = fmt.Sscanf(rate, "%gmbit", &mbit) // tc refuses an invalid rate
	// Whole 64 KiB packets would pass as one burst; queues of 10 ms keep TCP busy.
	burst, queue := max(int(mbit*1e6/8/2000), 32<<10), max(int(mbit*1e6/8/100), 256<<10)
	p.link("link set dev %s gso_max_size 16384 gso_max_segs 16", dev)
	p.tc = append(p.tc, fmt.Sprintf("qdisc add dev %s root tbf rate %s burst %d limit %d", dev, rate, burst, queue))
}

// rate returns the rate at which host i may send and receive.
func (nw Network) rate(i int) string {
	if len(nw.Rates) == 0 {
		return "-"
	}
	return nw.Rates[min(i, len(nw.Rates)-1)]
}

// wire makes all links, in one batch per namespace: the namespace of the switches comes first, and a host with a link
// of a mesh before the host at the other end, as the first makes both ends.
func (h *Hosts) wire() error {
	middle := &plan{ns: h.middle}
	hosts := make([]*plan, len(h.hosts))
	for i, ns := range h.hosts {
		hosts[i] = &plan{ns: ns}
	}
	for k, nw := range h.networks {
		h.wirePorts(k, middle, hosts)
		if nw.Mesh != nil {
			h.wireMesh(k, hosts)
		}
	}
	for _, p := range append([]*plan{middle}, hosts...) {
		if err := errors.Join(p.ns.batch("ip", p.ip), p.ns.batch("tc", p.tc)); err != nil {
			return err
		}
	}
	return nil
}

// wirePorts makes the device of every host in network k; the other end is port p<k>x<i> of the switch br<k>, which a
// mesh does not have.
func (h *Hosts) wirePorts(k int, middle *plan, hosts []*plan) {
	nw := h.networks[k]
	if nw.Mesh == nil {
		middle.link("link add name br%d type bridge", k)
		middle.link("link set dev br%d up", k)
	}
	dev := h.Device(k)
	for i, p := range hosts {
		port := port(k, i)
		middle.pair(port, dev, p)
		if nw.Mesh == nil {
			middle.link("link set dev %s master br%d", port, k)
		}
		middle.link("link set dev %s up", port)
		p.link("addr add %s/24 dev %s", h.AddrIn(k, i), dev)
		if nw.Mesh == nil {
			p.link("addr add %s/64 dev %s nodad", h.Addr6In(k, i), dev)
		}
		p.link("link set dev %s up", dev)
		p.link("route change 10.77.%d.0/24 dev %s src %s congctl cubic", k, dev, h.AddrIn(k, i))
		p.shape(dev, nw.rate(i))
		middle.shape(port, nw.rate(i))
	}
}

// Device returns the name of the hosts' device in network k.
func (h *Hosts) Device(k int) string { return fmt.Sprint("eth", k) }

// port returns the name of host i's port on the switch of network k.
func port(k, i int) string { return fmt.Sprintf("p%dx%d", k, i) }
