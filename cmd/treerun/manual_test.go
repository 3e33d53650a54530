//go:build linux

package main

import (
	"slices"
	"testing"
)

// Every documented command has its flags in the manual, unless it has none.
func TestCommandsWithFlags(t *testing.T) {
	none := []string{"completion", "man", "version"}
	for _, name := range listedCommands() {
		if slices.Contains(commandsWithFlags, name) == slices.Contains(none, name) {
			t.Errorf("%s is either among %q or among %q", name, commandsWithFlags, none)
		}
	}
	for _, name := range commandsWithFlags {
		if f := flagsOf(name); !f.HasFlags() || f.Lookup("help") == nil {
			t.Errorf("%s has no flags", name)
		}
	}
}
