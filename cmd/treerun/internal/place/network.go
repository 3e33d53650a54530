package place

import (
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/topo/network"
)

// netOptions are the flags that ranks on several hosts go by.
type netOptions struct {
	iface, ports, probe string
	streams             int
	encrypt             bool
}

func (n *netOptions) define(f *pflag.FlagSet) {
	f.StringVar(&n.iface, "iface", "", "reach ranks on other hosts over these network `DEVICES`: names or\ntheir "+
		"beginnings, =name for exactly this one, ^name for any but these,\nor 10.1.0.0/16 (default: the best of each host)")
	f.StringVar(&n.ports, "port-range", "", "let ranks listen at these `PORTS` only: LO-HI")
	f.BoolVar(&n.encrypt, "encrypt", false, "encrypt what ranks send to other hosts (TLS 1.3)")
	f.IntVar(&n.streams, "tcp-streams", 0, "use `N` connections between two ranks (default: as many as it takes)")
	f.StringVar(&n.probe, "probe", "", "`HOW` to measure the network between hosts where no earlier job has:\nquick "+
		"(default), full or off")
}

// Settings adds what was given to the settings of a job.
func (o *Options) Settings(s map[string]string) error {
	n, changed := &o.net, o.flags.Changed
	for _, name := range []string{"peer-timeout", "start-timeout", "stall-timeout"} { // package rank knows the defaults
		if f := o.flags.Lookup(name); f.Changed {
			s[name] = time.Duration(*f.Value.(*cmdline.Seconds)).String()
		}
	}
	if n.iface != "" {
		if _, err := iface.Parse(n.iface); err != nil {
			return cmdline.Usagef("--iface: %w", err)
		}
		s["iface"] = n.iface
	}
	if n.ports != "" {
		if _, err := netconn.ParsePorts(n.ports); err != nil {
			return cmdline.Usagef("--port-range: %w", err)
		}
		s["port-range"] = n.ports
	}
	if n.encrypt {
		s["encrypt"] = "1"
	}
	if changed("tcp-streams") {
		if n.streams < 1 || n.streams > maxStreams {
			return cmdline.Usagef("--tcp-streams %d: want 1 to %d", n.streams, maxStreams)
		}
		s["tcp-streams"] = strconv.Itoa(n.streams)
	}
	if n.probe != "" {
		if _, err := network.ParseEffort(n.probe); err != nil {
			return cmdline.Usagef("--probe %w", err)
		}
		s["probe"] = n.probe
	}
	return nil
}

// maxStreams is the most that --tcp-streams takes.
const maxStreams = 64
