// Package place has the flags that say where ranks run, and how hosts and ranks
// reach each other. Commands that start ranks share them: jobs, topo and bench.
// It starts nothing. Only the packages below cmd/treerun import it.
package place

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/rank/job"
)

// Options is what the flags say.
type Options struct {
	hosts  hostOptions
	remote remoteOptions
	net    netOptions
	gpus   gpuOptions
	aggs   int // aggregators beside the ranks
	flags  *pflag.FlagSet
}

// Define adds the flags to f, which is to be parsed before the other methods are
// called.
func (o *Options) Define(f *pflag.FlagSet) {
	o.flags = f
	o.hosts.define(f)
	o.remote.define(f)
	o.net.define(f)
	o.gpus.define(f)
}

// DefineAggregators adds --aggregators to f, for commands whose ranks may reduce
// sparse tensors.
func (o *Options) DefineAggregators(f *pflag.FlagSet) {
	f.IntVar(&o.aggs, "aggregators", 0, "start `N` processes beside the ranks that add up sparse tensors for them,\non slots that the ranks leave free, else on their hosts in turn (default: ranks do it)")
}

// Aggregators returns how many there are.
func (o *Options) Aggregators() (int, error) {
	if o.aggs < 0 || o.aggs > job.MaxAggregators {
		return 0, exitcode.Errorf(exitcode.Usage, "--aggregators %d: want 0 to %d", o.aggs, job.MaxAggregators)
	}
	return o.aggs, nil
}

// Spread gives so many aggregators, whose numbers begin with size, to hosts in turn.
func Spread(hosts []launch.Host, size, aggregators int) {
	for a := range aggregators {
		h := &hosts[a%len(hosts)]
		h.Ranks = append(slices.Clip(h.Ranks), size+a)
	}
}

// Elsewhere reports whether hosts were named.
func (o *Options) Elsewhere() bool { return o.hosts.list != "" || o.hosts.file != "" }
