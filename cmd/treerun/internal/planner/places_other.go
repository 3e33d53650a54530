//go:build !linux

package planner

import "github.com/spf13/pflag"

// Places are none: links are measured on Linux only.
type Places struct{}

// Define adds no flags.
func (*Places) Define(*pflag.FlagSet) {}

// NamesHosts reports false.
func (*Places) NamesHosts() bool { return false }
