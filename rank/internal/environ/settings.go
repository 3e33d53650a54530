package environ

import (
	"fmt"
	"time"

	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
)

// Settings of the launcher that package rank uses. Their names are those of treerun's flags.
const (
	SettingIface        = "iface" // iface.Parse
	SettingPorts        = "port-range"
	settingPeerTimeout  = "peer-timeout"
	settingStartTimeout = "start-timeout"
	settingStall        = "stall-timeout"
	settingVerbose      = "verbose" // "1"
	SettingPprof        = "pprof"   // the folder for profiles
)

// maxTimeout is the longest of the timeouts.
const maxTimeout = 7 * 24 * time.Hour

// Settings are the parsed settings of the launcher.
type Settings struct {
	Iface        iface.Spec        // which addresses to offer
	Ports        netconn.PortRange // of all listeners
	PeerTimeout  time.Duration     // how long a rank on another host may be silent
	StartTimeout time.Duration     // how long Init may take
	StallTimeout time.Duration     // how long a rank may wait without progress; 0: forever
	Verbose      bool              // log the addresses that are offered
}

// variables are the settings that may come from the environment of ranks that another launcher started; the last ones
// are those of package collective.
var variables = []string{SettingIface, SettingPorts, settingPeerTimeout, settingStartTimeout, settingStall,
	SettingPprof, "graph", "algorithm", "plan"}

func (j *Job) settingsFrom(get func(string) string) {
	j.Settings, j.Variables = map[string]string{}, map[string]string{}
	take := func(setting, variable string) {
		if value := get(variable); value != "" && j.Settings[setting] == "" {
			j.Settings[setting], j.Variables[setting] = value, variable
		}
	}
	for _, setting := range variables {
		take(setting, job.Variable(setting))
	}
	take(SettingIface, "NCCL_SOCKET_IFNAME") // the setting for NCCL holds where treerun has none
}

// Parse reads the settings of package rank. s holds the defaults of those that are not set.
func (j *Job) Parse(s *Settings) (err error) {
	s.Verbose = j.Settings[settingVerbose] == "1"
	if s.Iface, err = iface.Parse(j.Settings[SettingIface]); err != nil {
		return fmt.Errorf("%s: %w", j.Source(SettingIface), err)
	}
	if text := j.Settings[SettingPorts]; text != "" {
		if s.Ports, err = netconn.ParsePorts(text); err != nil {
			return fmt.Errorf("%s: %w", j.Source(SettingPorts), err)
		}
	}
	for _, t := range []struct {
		name string
		low  time.Duration
		to   *time.Duration
	}{
		{settingPeerTimeout, job.MinPeerTimeout, &s.PeerTimeout}, {settingStall, job.MinStallTimeout, &s.StallTimeout},
		{settingStartTimeout, time.Millisecond, &s.StartTimeout},
	} {
		text := j.Settings[t.name]
		if text == "" {
			continue
		}
		if *t.to, err = job.ParseTime(text); err != nil || *t.to < t.low || *t.to > maxTimeout {
			return fmt.Errorf("%s is %.40q, want a time from %v to %v, such as 10 or 10s", j.Source(t.name), text, t.low,
				maxTimeout)
		}
	}
	return nil
}

// Source names the place where the user has set a setting: a flag of treerun, or a variable where another launcher
// started the ranks.
func (j *Job) Source(name string) string {
	if v := j.Variables[name]; v != "" {
		return v
	}
	if j.Control == nil {
		return job.Variable(name)
	}
	return "--" + name
}

// CheckPorts reports an error for a range that is too small for the ranks of a host.
func (j *Job) CheckPorts(ports netconn.PortRange) error {
	each, words := 1, "one each"
	if j.SeveralHosts() {
		each, words = 2, "two each, one of them for data between hosts"
	}
	if n := ports.Count(); n > 0 && n < each*j.LocalSize {
		return fmt.Errorf("%s %s has %d ports, and the %d ranks of this host need %s: %d at least", j.Source(SettingPorts),
			ports, n, j.LocalSize, words, each*j.LocalSize)
	}
	return nil
}
