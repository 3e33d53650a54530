//go:build !cgo || !linux

package nvml

import "fmt"

func open() (*library, error) {
	return nil, fmt.Errorf("%w: this treerun was built without cgo (CGO_ENABLED=0), or not for Linux", ErrUnavailable)
}
