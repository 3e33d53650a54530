package place

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
)

// gpuOptions are the flags that say which GPUs ranks get.
type gpuOptions struct {
	request gpus.Request
	perGPU  perGPU
}

func (g *gpuOptions) define(f *pflag.FlagSet) {
	f.StringVar(&g.request.List, "gpus", "",
		"give ranks these `GPUS` of every host, in this order: numbers as\nnvidia-smi has them, 0-3,6, UUIDs or PCI "+
			"addresses (default: all that\nCUDA_VISIBLE_DEVICES shows, by NUMA node and PCI address)")
	f.Var(&g.perGPU, "ranks-per-gpu", "let so many ranks share each GPU")
	f.Var(&g.request.Bind, "gpu-bind", "visible: ranks see all GPUs, TREERUN_DEVICE names the rank's own;\nisolate: "+
		"each sees its own only, which other libraries may not like;\nnone: ranks get no GPU (default: visible)")
	f.Lookup("gpu-bind").DefValue = ""
}

// perGPU is the value of --ranks-per-gpu; 0 is the default.
type perGPU int

func (n *perGPU) Set(s string) error {
	v, err := strconv.Atoi(s)
	if err != nil || v < 1 || v > gpus.MaxPerGPU {
		return fmt.Errorf("want a whole number from 1 to %d", gpus.MaxPerGPU)
	}
	*n = perGPU(v)
	return nil
}

func (n *perGPU) Type() string { return "K" }

func (n *perGPU) String() string {
	if *n == 0 {
		return "" // no default in the help
	}
	return strconv.Itoa(int(*n))
}

// GPUs returns which GPUs the ranks of every host get.
func (o *Options) GPUs() (gpus.Request, error) {
	r := o.gpus.request
	r.PerGPU = int(o.gpus.perGPU)
	if err := r.Check(); err != nil {
		return r, cmdline.Usagef("%w", err)
	}
	return r, nil
}
