//go:build !cgo

package nvml

import (
	"fmt"

	"github.com/treerun/treerun/topo/gpu"
)

func read() (*gpu.Machine, error) {
	return nil, fmt.Errorf("%w: this treerun was built without cgo (CGO_ENABLED=0)", ErrUnavailable)
}
