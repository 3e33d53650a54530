//go:build !linux

package cpu

import "errors"

// Allowed returns an error: the cores are not known.
func Allowed() ([]int, error) { return nil, errors.ErrUnsupported }
