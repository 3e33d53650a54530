//go:build !linux

package iface

func namespaceID() string { return namespaceLink() }

// heardOfDevices is for Linux only.
func heardOfDevices() map[int]heardOf { return nil }
