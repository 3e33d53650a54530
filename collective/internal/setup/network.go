package setup

import (
	"context"
	"errors"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
	"github.com/treerun/treerun/transport/tcp"
)

// Connect opens the links of a layout between the ranks of a World: shared
// memory within each host, TCP between hosts. The ranks exchange by all.
func Connect(ctx context.Context, w World, all allGather, purpose string, layout transport.Layout,
) (transport.Endpoint, error) {
	hosts := HostsOf(w)
	members := neighbors(hosts, w.Rank())
	if OneHost(hosts) {
		return endpoint(connectHost(ctx, w, all, purpose, layout, members, false))
	}
	cfg := &tcp.Config{Layout: layout, Hosts: hosts, Gone: func(r int) bool { return Gone(w, r) },
		Cores: coreList(w.Setting("shared-cpus"))}
	local, mesh := together(ctx, w.Size(), all, func(g allGather) (*shm.Endpoint, error) {
		return connectHost(ctx, w, g, purpose, layout, members, true)
	}, func(g allGather) (_ *netconn.Mesh, err error) {
		if cfg.Config, err = networkConfig(w, g, purpose); err != nil {
			return nil, err
		}
		if len(hosts) > eagerRanks {
			cfg.First = joinsHosts(hosts, w.Rank())
		}
		return tcp.Connect(ctx, cfg)
	})
	err := errors.Join(local.err, mesh.err)
	if err == nil {
		return endpoint(tcp.New(cfg, local.value, mesh.value))
	}
	if local.value != nil {
		err = closeFailed(ctx, w, local.value, err)
	}
	if mesh.value != nil {
		err = errors.Join(err, mesh.value.Close())
	}
	return nil, err
}

// endpoint makes no Endpoint of one that is nil.
func endpoint[E transport.Endpoint](ep E, err error) (transport.Endpoint, error) {
	if err != nil {
		return nil, err
	}
	return ep, nil
}

// eagerRanks is the largest number of ranks of which all pairs connect in New, so that New reports every pair that
// cannot. With more ranks, ranks of two hosts connect when a plan, or a message, first needs their link: 64 ranks of 16
// namespaces on two cores took 1.5 s for all pairs.
const eagerRanks = 16

// joinsHosts reports with which ranks a rank connects at once, where other pairs wait: the first ranks of hosts form a
// ring and a binary tree, by which all ranks learn of faults, even if any one host is missing.
func joinsHosts(hosts []int, rank int) func(r int) bool {
	firsts := firstRanks(hosts)
	n, own := len(firsts), hosts[rank]
	return func(r int) bool {
		a, b := min(own, hosts[r]), max(own, hosts[r])
		return firsts[own] == rank && firsts[hosts[r]] == r && (b-a == 1 || b-a == n-1 || (b-1)/2 == a)
	}
}

// purposeProbe is the purpose of connections that end with the measurement.
const purposeProbe = "probe"

var errNotNetworked = errors.New("the ranks are on several hosts, and their World does not know its addresses (it is " +
	"not a collective.Networked)")

// networkConfig returns how ranks of different hosts connect, from the World's addresses and the launcher's settings.
func networkConfig(w World, g allGather, purpose string) (netconn.Config, error) {
	n, is := networkOf(w)
	if !is {
		return netconn.Config{}, errNotNetworked
	}
	cfg := netconn.Config{
		Rank: w.Rank(), Size: w.Size(),
		Key: w.DeriveKey("tcp " + purpose), JobID: w.JobID(), Epoch: n.Epoch(), Purpose: purpose,
		Encrypt:  w.Setting("encrypt") != "",
		Verbose:  w.Setting("verbose") != "" && purpose != purposeProbe,
		Listen:   n.ListenAddrs(),
		HostOf:   n.HostName,
		Exchange: g,
		Timeout:  timeSetting(w, "start-timeout"), PeerTimeout: timeSetting(w, "peer-timeout"),
	}
	cfg.Ports, _ = netconn.ParsePorts(w.Setting("port-range")) // as in timeSetting
	return cfg, nil
}

// timeSetting returns a time of the World's settings, 0 where it is not set: package rank has refused invalid ones.
func timeSetting(w World, name string) time.Duration {
	d, _ := job.ParseTime(w.Setting(name))
	return d
}
