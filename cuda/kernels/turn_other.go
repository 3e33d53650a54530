//go:build !linux

package kernels

func inTurn(load func() error) error { return load() }
