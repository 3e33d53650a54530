//go:build !linux

package probe

import "errors"

// storeUnnamed is for Linux only.
func storeUnnamed(string, []byte) error { return errors.ErrUnsupported }
