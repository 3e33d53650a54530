package docs_test

import (
	"go/build/constraint"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// linuxOnly are the packages that only Linux has, and those of cmd/treerun but the files of forAll.
var (
	linuxOnly = strings.Fields(`cmd/treerun cmd/treerun/internal/agent cmd/treerun/internal/bench
		cmd/treerun/internal/check cmd/treerun/internal/control cmd/treerun/internal/host cmd/treerun/internal/inspect
		cmd/treerun/internal/launch cmd/treerun/internal/nodes cmd/treerun/internal/place cmd/treerun/internal/stacks
		cmd/treerun/internal/wire internal/testutil/fakegpu internal/testutil/nethosts scripts/chaos scripts/fakegpu
		scripts/hangs scripts/replan scripts/report`)
	forAll = strings.Fields("cmd/treerun/command.go cmd/treerun/manual.go cmd/treerun/main_other.go")
)

// TestLinuxOnly: each file of a package that only Linux has is for Linux alone, and so is each file with C: without its
// tag the package, or one that imports it, does not compile on other systems.
func TestLinuxOnly(t *testing.T) {
	checked := 0
	for _, s := range sources(t) {
		if !slices.Contains(linuxOnly, s.pkg) && !slices.Contains(s.imported(), "C") || slices.Contains(forAll, s.path) {
			continue
		}
		checked++
		if text, err := os.ReadFile(filepath.Join("..", s.path)); err != nil {
			t.Error(err)
		} else if !onLinuxAlone(s.path, string(text)) {
			t.Errorf("%s: want //go:build linux: a file of %s is for Linux alone", s.path, s.pkg)
		}
	}
	if checked < 100 {
		t.Fatalf("found %d files: the test looks in the wrong place", checked)
	}
}

// onLinuxAlone reports whether the name or the tags of a file exclude all other systems.
func onLinuxAlone(name, text string) bool {
	if strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(name, ".go"), "_test"), "_linux") {
		return true
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "package ") {
			break
		}
		if constraint.IsGoBuild(line) {
			expr, err := constraint.Parse(strings.TrimSpace(line))
			return err == nil && !expr.Eval(func(tag string) bool { return tag != "linux" })
		}
	}
	return false
}
