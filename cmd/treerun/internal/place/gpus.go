package place

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
)

// gpuOptions are the flags that say which GPUs ranks get.
type gpuOptions struct {
	request gpus.Request
}

func (g *gpuOptions) define(f *pflag.FlagSet) {
	f.StringVar(&g.request.List, "gpus", "",
		"give ranks these `GPUS` of every host, in this order: numbers as\nnvidia-smi has them, 0-3,6, UUIDs or PCI "+
			"addresses (default: all that\nCUDA_VISIBLE_DEVICES shows, by NUMA node and PCI address)")
	f.IntVar(&g.request.PerGPU, "ranks-per-gpu", 0, "let `K` ranks share each GPU")
	bind := cmdline.Choice(&g.request.Bind, "HOW", "visible", "isolate", "none")
	f.Var(bind, "gpu-bind", "visible: ranks see all GPUs, TREERUN_DEVICE names the rank's own;\nisolate: "+
		"each sees its own only, which other libraries may not like;\nnone: ranks get no GPU (default: visible)")
}

// GPUs returns which GPUs the ranks of every host get.
func (o *Options) GPUs() (gpus.Request, error) {
	r := o.gpus.request
	err := r.Check()
	if err == nil && r.PerGPU == 0 && o.flags.Changed("ranks-per-gpu") {
		err = errors.New("--ranks-per-gpu 0: want at least 1")
	}
	if err != nil {
		return r, cmdline.Usagef("%w", err)
	}
	return r, nil
}
