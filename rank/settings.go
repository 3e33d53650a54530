package rank

import (
	"fmt"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
)

// Settings of the launcher that this package goes by. Their names are those of
// treerun's flags.
const (
	settingIface        = "iface"         // which addresses to offer; iface.Parse
	settingPorts        = "port-range"    // lo-hi, of all listeners
	settingPeerTimeout  = "peer-timeout"  // how long a rank on another host may be silent
	settingStartTimeout = "start-timeout" // how long Init may take
	settingStall        = "stall-timeout" // how long a rank may wait without progress
	settingVerbose      = "verbose"       // "1": say which addresses are offered

	// Those of package collective.
	settingGraph     = "graph"
	settingAlgorithm = "algorithm"
	settingPlan      = "plan"
)

// defaultPeerTimeout is how long a rank on another host may be silent before it
// counts as lost.
const defaultPeerTimeout = 10 * time.Second

// limits of the timeouts. A shorter peer timeout would take a rank that waits
// for its core for one that is lost.
const (
	minPeerTimeout = 200 * time.Millisecond
	longestTimeout = 7 * 24 * time.Hour

	minStallTimeout = 100 * time.Millisecond
)

// settings are the launcher's words, understood.
type settings struct {
	iface        iface.Spec
	ports        netconn.PortRange
	peerTimeout  time.Duration
	stallTimeout time.Duration // 0: none
	verbose      bool
}

// useSettings reads the settings that concern this package.
func (c *config) useSettings() (err error) {
	c.parsed = settings{peerTimeout: defaultPeerTimeout, verbose: c.settings[settingVerbose] == "1"}
	if c.parsed.iface, err = iface.Parse(c.settings[settingIface]); err != nil {
		return fmt.Errorf("%s: %w", c.source(settingIface), err)
	}
	if text := c.settings[settingPorts]; text != "" {
		if c.parsed.ports, err = netconn.ParsePorts(text); err != nil {
			return fmt.Errorf("%s: %w", c.source(settingPorts), err)
		}
	}
	if err = c.duration(settingPeerTimeout, minPeerTimeout, &c.parsed.peerTimeout); err != nil {
		return err
	}
	if err = c.duration(settingStall, minStallTimeout, &c.parsed.stallTimeout); err != nil {
		return err
	}
	return c.duration(settingStartTimeout, time.Millisecond, &c.startTimeout)
}

// source says where the user has set a setting: a flag of treerun, or a variable
// where another launcher started the ranks.
func (c *config) source(name string) string {
	if v := c.variables[name]; v != "" {
		return v
	}
	if c.control == nil {
		return "TREERUN_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	}
	return "--" + name
}

// settingsFrom reads the settings that stand in the environment of ranks that
// another launcher started. What was set for NCCL holds for treerun, unless it
// was told otherwise.
func (c *config) settingsFrom(env environment) {
	c.settings, c.variables = map[string]string{}, map[string]string{}
	for _, s := range []struct{ setting, variable string }{
		{settingIface, job.EnvIface}, {settingIface, "NCCL_SOCKET_IFNAME"}, {settingPorts, job.EnvPortRange},
		{settingPeerTimeout, job.EnvPeerTimeout}, {settingStartTimeout, job.EnvStartTimeout},
		{settingStall, job.EnvStallTimeout},
		{settingGraph, job.EnvGraph}, {settingAlgorithm, job.EnvAlgorithm}, {settingPlan, job.EnvPlan},
	} {
		if value := env.get(s.variable); value != "" && c.settings[s.setting] == "" {
			c.settings[s.setting], c.variables[s.setting] = value, s.variable
		}
	}
}

// duration reads a setting into d, if it is set.
func (c *config) duration(name string, least time.Duration, d *time.Duration) error {
	text := c.settings[name]
	if text == "" {
		return nil
	}
	value, err := time.ParseDuration(text)
	if err != nil || value < least || value > longestTimeout {
		return fmt.Errorf("%s is %.40q, want a time from %v to %v, such as 10s", c.source(name), text, least, longestTimeout)
	}
	*d = value
	return nil
}
