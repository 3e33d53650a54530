//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// place is where jobs run:
//
//	host   this host, with shared memory
//	tcp    this host under four names, with TCP between them
//	hosts  four network namespaces, with a launch agent
//	nodes  four network namespaces, with a treerun started on each
type place struct {
	name    string
	treerun string
	hosts   *nethosts.Hosts
	key     string // a file
}

const (
	hostCount   = 4
	peerTimeout = 3 // seconds, in namespaces
	rate        = "500mbit"
)

// open makes the place of this name.
func (p *place) open(name, treerun string) (err error) {
	p.name, p.treerun = name, treerun
	switch name {
	case "host", "tcp":
		return nil
	case "hosts", "nodes":
		p.hosts, err = nethosts.Make(hostCount, nethosts.Options{Prefix: "chaos",
			Networks: []nethosts.Network{{Rates: []string{rate}}}})
	default:
		err = fmt.Errorf("-place: %q is none of host, tcp, hosts, nodes", name)
	}
	if err == nil && name == "nodes" {
		var f *os.File
		if f, err = os.CreateTemp("", "chaos-key-"); err == nil {
			p.key = f.Name()
			_, err = fmt.Fprintf(f, "%064x\n", os.Getpid())
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

func (p *place) close() error {
	if p.hosts == nil {
		return nil
	}
	if p.key != "" {
		_ = os.Remove(p.key)
	}
	return p.hosts.Close()
}

// hostOf returns the host of a rank.
func (p *place) hostOf(rank int) int {
	if p.name == "host" {
		return 0
	}
	return rank % hostCount
}

// commands returns the commands of a job, the launcher's first.
func (p *place) commands(job string, np int, args []string) (all []*exec.Cmd) {
	switch p.name {
	case "host":
		return []*exec.Cmd{exec.Command(p.treerun, slices.Concat([]string{"-np", fmt.Sprint(np)}, args)...)}
	case "tcp":
		return []*exec.Cmd{exec.Command(p.treerun, slices.Concat([]string{"-np", fmt.Sprint(np), "-H", "a:4,b:4,c:4,d:4",
			"--map-by", "host", "--launch-agent", `env FAKEHOST={host} sh -c 'exec "$@"' -`}, args)...)}
	case "hosts":
		return []*exec.Cmd{p.hosts.Command(0, p.treerun, slices.Concat([]string{"-np", fmt.Sprint(np), "-H",
			p.hosts.Slots(4), "--map-by", "host", "--launch-agent", p.hosts.Agent(), "--peer-timeout",
			fmt.Sprint(peerTimeout)}, args)...)}
	}
	for i := range hostCount {
		all = append(all, p.hosts.Command(i, p.treerun, slices.Concat([]string{"--nnodes", fmt.Sprint(hostCount),
			"--node-rank", fmt.Sprint(i), "--seed", p.hosts.Addr(0).String() + ":7077", "--key-file", p.key, "--job-id", job,
			"--ppn", fmt.Sprint(np / hostCount), "--peer-timeout", fmt.Sprint(peerTimeout)}, args)...))
	}
	return all
}

// has reports whether a process runs on a host.
func (p *place) has(host, pid int) bool {
	if p.hosts != nil {
		pids, _ := p.hosts.Pids(host)
		return slices.Contains(pids, pid)
	}
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return bytes.Contains(env, fmt.Appendf(nil, "FAKEHOST=%c\x00", 'a'+host))
}

// heal repairs the card of a host.
func (p *place) heal(host int) error {
	return errors.Join(p.hosts.Plug(0, host), p.hosts.SetRate(0, host, rate), p.hosts.Unmute(0, host))
}
