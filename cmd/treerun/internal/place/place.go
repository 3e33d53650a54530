// Package place has the flags that say where ranks run, and how hosts and ranks
// reach each other. Commands that start ranks share them: jobs, topo and bench.
// It starts nothing. Only the packages below cmd/treerun import it.
package place

import (
	"github.com/spf13/pflag"
)

// Options is what the flags say.
type Options struct {
	hosts  hostOptions
	remote remoteOptions
	net    netOptions
	gpus   gpuOptions
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

// Elsewhere reports whether hosts were named.
func (o *Options) Elsewhere() bool { return o.hosts.list != "" || o.hosts.file != "" }
