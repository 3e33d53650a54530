//go:build linux

package place

import (
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/cores"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// defineShare adds the flags of s to f.
func defineShare(f *pflag.FlagSet, s *wire.Share) {
	f.Var(cmdline.IntRange(&s.PerRank, 1, job.MaxRanks), "cpus-per-rank",
		"bind each rank to `N` cores of its own, which the kernel calls CPUs")
	f.StringVar(&s.GPUs.List, "gpus", "",
		"give ranks these `GPUS` of every host, in this order: numbers as in nvidia-smi, 0-3,6, UUIDs or PCI "+
			"addresses (default: all that CUDA_VISIBLE_DEVICES shows, by NUMA node and PCI address)")
	f.Var(cmdline.IntRange(&s.GPUs.PerGPU, 1, gpus.MaxPerGPU), "ranks-per-gpu", "let `K` ranks share each GPU")
	f.Var(cmdline.Choice(&s.GPUs.Bind, "HOW", "visible", "isolate", "none"), "gpu-bind",
		"visible: ranks see all GPUs, TREERUN_DEVICE names the rank's own; isolate: each sees its own only, which other "+
			"libraries may not support; none: ranks get no GPU (default: visible)")
}

// DefineBind adds the flag --bind-to, whose value is in b, to f.
func DefineBind(f *pflag.FlagSet, b *cores.Bind) {
	f.Var(cmdline.Choice(b, "WHAT", "", "core", "none"), "bind-to",
		"core: each rank on its own share of the cores, or on one that it shares; none: wherever the kernel puts it "+
			"(default: core where every core has as many ranks, and several, or there are NUMA nodes; with a GPU, the cores of "+
			"its NUMA node; else none)")
}

// PartShare is what the ranks of one program of a job of several get.
type PartShare struct {
	wire.Share
	flags *pflag.FlagSet // nil: the part has none of its own
}

// Define adds the flags to f, which must be parsed before Over is called.
func (s *PartShare) Define(f *pflag.FlagSet) {
	s.flags = f
	defineShare(f, &s.Share)
	DefineBind(f, &s.Bind)
}

// Over returns the settings of the part, of a job with j for all parts. With a flag for cores, the part has none of the
// job's settings for the cores of each rank, and likewise for GPUs.
func (s *PartShare) Over(j *launch.Job) (wire.Share, error) {
	all := wire.Share{Bind: j.Cores.Bind, PerRank: j.Cores.PerRank, GPUs: j.GPUs}
	if s.changed("bind-to", "cpus-per-rank") {
		if len(j.Cores.Slots) > 0 {
			return all, cmdline.Usagef("--rankfile has the cores of each rank: no program can have --bind-to or --cpus-per-rank")
		}
		all.Bind, all.PerRank = s.Bind, s.PerRank
	}
	if s.changed("gpus", "ranks-per-gpu", "gpu-bind") {
		all.GPUs = s.GPUs
	}
	r := all.CoresOf(j.Cores)
	if err := errors.Join(r.Check(), all.GPUs.Check()); err != nil {
		return all, cmdline.Usagef("%w", err)
	}
	return all, nil
}

// changed reports whether one of the flags was given.
func (s *PartShare) changed(names ...string) bool {
	return s.flags != nil && slices.ContainsFunc(names, s.flags.Changed)
}
