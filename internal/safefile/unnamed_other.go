//go:build !linux

package safefile

import "errors"

// writeUnnamed is for Linux only.
func writeUnnamed(string, []byte, bool) error { return errors.ErrUnsupported }
