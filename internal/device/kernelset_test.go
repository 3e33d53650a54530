package device

import (
	"testing"

	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// Types and operations are the same numbers on the host and on devices.
func TestKernelNumbers(t *testing.T) {
	for d := kernel.DType(0); d < 32; d++ {
		on := kernels.DType(d)
		if d.Valid() != on.Valid() || d.Valid() && (d.String() != on.String() || d.Size() != int(on.Size())) {
			t.Errorf("type %d is %v of %d bytes on the host, %v on devices", d, d, d.Size(), on)
		}
	}
	for op := kernel.Op(0); op < 32; op++ {
		on := kernels.Op(op)
		if op.Valid() != on.Valid() || op.Valid() && op.String() != on.String() {
			t.Errorf("operation %d is %v on the host, %v on devices", op, op, on)
		}
	}
}
