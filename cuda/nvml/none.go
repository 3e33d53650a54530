//go:build !cgo

package nvml

import "fmt"

func open() (*library, func(), error) {
	return nil, nil, fmt.Errorf("%w: this treerun was built without cgo (CGO_ENABLED=0)", ErrUnavailable)
}
