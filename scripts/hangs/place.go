//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"slices"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// place is where jobs of eight ranks run:
//
//	host   this host, with shared memory
//	tcp    this host under eight names, with TCP between them
//	hosts  four network namespaces of two ranks
type place struct {
	name    string
	treerun string
	hosts   *nethosts.Hosts
}

const (
	ranks     = 8
	hostCount = 4
)

// placeNames has the words for the page.
var placeNames = map[string]string{"host": "shared memory", "tcp": "TCP", "hosts": "4 hosts of 2"}

// open makes the place of this name.
func (p *place) open(name, treerun string) (err error) {
	p.name, p.treerun = name, treerun
	switch name {
	case "host", "tcp":
	case "hosts":
		p.hosts, err = nethosts.Make(hostCount, nethosts.Options{Prefix: "hangs"})
	default:
		err = fmt.Errorf("place %q is none of host, tcp, hosts", name)
	}
	return err
}

func (p *place) close() error {
	if p.hosts == nil {
		return nil
	}
	return p.hosts.Close()
}

// hostOf returns the host of a rank.
func (p *place) hostOf(rank int) int { return rank * hostCount / ranks }

// command returns a command of treerun where its launcher runs.
func (p *place) command(args ...string) *exec.Cmd {
	if p.hosts != nil {
		return p.hosts.Command(0, p.treerun, args...)
	}
	return exec.Command(p.treerun, args...)
}

// job returns the command of a job.
func (p *place) job(args ...string) *exec.Cmd {
	flags := []string{"-np", fmt.Sprint(ranks), "--tag-output=false", "--shutdown-timeout", "0.2", "--no-topo-cache"}
	switch p.name {
	case "tcp":
		flags = append(flags, "-H", "a,b,c,d,e,f,g,h", "--launch-agent", `env FAKEHOST={host} sh -c 'exec "$@"' -`)
	case "hosts":
		flags = append(flags, "-H", p.hosts.Slots(ranks/hostCount), "--launch-agent", p.hosts.Agent(), "--peer-timeout", "60")
	}
	return p.command(slices.Concat(flags, args)...)
}
