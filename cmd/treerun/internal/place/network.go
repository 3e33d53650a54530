package place

import (
	"strconv"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/topo/network"
)

// Settings adds what was given to the settings of a job.
func (o *Options) Settings(s map[string]string) error {
	for _, name := range []string{"peer-timeout", "start-timeout", "stall-timeout"} { // package rank knows the defaults
		if f := o.flags.Lookup(name); f.Changed {
			s[name] = time.Duration(*f.Value.(*cmdline.Seconds)).String()
		}
	}
	if o.iface != "" {
		if _, err := iface.Parse(o.iface); err != nil {
			return cmdline.Usagef("--iface: %w", err)
		}
		s["iface"] = o.iface
	}
	if o.ports != "" {
		if _, err := netconn.ParsePorts(o.ports); err != nil {
			return cmdline.Usagef("--port-range: %w", err)
		}
		s["port-range"] = o.ports
	}
	if o.encrypt {
		s["encrypt"] = "1"
	}
	if o.flags.Changed("tcp-streams") {
		if o.streams < 1 || o.streams > maxStreams {
			return cmdline.Usagef("--tcp-streams %d: want 1 to %d", o.streams, maxStreams)
		}
		s["tcp-streams"] = strconv.Itoa(o.streams)
	}
	if o.probe != "" {
		if _, err := network.ParseEffort(o.probe); err != nil {
			return cmdline.Usagef("--probe %w", err)
		}
		s["probe"] = o.probe
	}
	return nil
}

// maxStreams is the most that --tcp-streams takes.
const maxStreams = 64
