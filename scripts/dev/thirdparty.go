package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const file = "THIRD-PARTY"

// command and library are what is linked: into treerun, and into users' programs.
var (
	command = []string{"./cmd/treerun"}
	library = []string{"./rank", "./collective", "./collective/sparse", "./cuda", "./cuda/nvml", "./topo"}
)

// module is a module that something is linked from.
type module struct {
	Path, Version, Dir string
	users              bool // also into users' programs
}

// thirdParty writes THIRD-PARTY: which modules of others are linked into the command and into
// programs that use the library, and their licences in whole. With --check it fails where the file
// is out of date. A module whose licence it does not know is an error: somebody has to look.
func thirdParty(args []string) error {
	text, err := notices()
	if err != nil {
		return err
	}
	if !slices.Equal(args, []string{"--check"}) {
		return os.WriteFile(file, text, 0o644)
	}
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !bytes.Equal(old, text) {
		return errors.New(file + " is out of date: go run ./scripts/dev third-party")
	}
	return nil
}

// notices returns the contents of the file.
func notices() ([]byte, error) {
	modules, err := linked(append(slices.Clone(command), library...))
	if err != nil {
		return nil, err
	}
	users, err := linked(library)
	if err != nil {
		return nil, err
	}
	var list, texts bytes.Buffer
	for _, m := range modules {
		m.users = slices.ContainsFunc(users, func(u module) bool { return u.Path == m.Path })
		name, text, err := licence(m)
		if err != nil {
			return nil, err
		}
		into := "treerun"
		if m.users {
			into = "treerun, user programs"
		}
		fmt.Fprintf(&list, "%-42s %-40s %-22s %s\n", m.Path, m.Version, name, into)
		fmt.Fprintf(&texts, "\n%s\n%s %s (%s)\n%s\n\n%s", strings.Repeat("=", 80), m.Path, m.Version, name,
			strings.Repeat("=", 80), text)
	}
	return []byte(intro + list.String() + texts.String()), nil
}

const intro = `Software of others in treerun
=============================

Written by go run ./scripts/dev third-party; do not edit. Binaries of treerun, and programs
that use its packages, contain parts of the modules below, unchanged, and of Go's
standard library (BSD-3-Clause, https://go.dev/LICENSE).

Modules under MPL-2.0: their source code is available at their path and version, from
the addresses in this list or by go mod download. github.com/golang/freetype is used
under the FreeType License (FTL).

`

// linked returns the modules of others that the packages are made of, by path.
func linked(packages []string) ([]module, error) {
	out, err := exec.Command("go", append([]string{"list", "-deps", "-json=Module"}, packages...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []module
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Module *struct {
				module
				Main bool
			}
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if p.Module != nil && !p.Module.Main {
			all = append(all, p.Module.module)
		}
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(all, func(a, b module) bool { return a.Path == b.Path }), nil
}

// known are words that a licence has; the first that is found counts.
var known = []struct{ words, name string }{
	{"SIL OPEN FONT LICENSE", "BSD-3-Clause, OFL-1.1"}, // go-fonts: code and fonts
	{"The FreeType Project LICENSE", "FTL"},
	{"Mozilla Public License", "MPL-2.0"},
	{"Apache License", "Apache-2.0"},
	{"Creative Commons Attribution 4.0 International", "CC-BY-4.0"},
	{"Permission is hereby granted, free of charge", "MIT"},
	{"Neither the name of", "BSD-3-Clause"},
	{"Redistribution and use in source and binary forms", "BSD-2-Clause"},
}

var (
	legal  = regexp.MustCompile(`(?i)^(licen[cs]e|notice|copyright|copying|patents)`)
	spaces = regexp.MustCompile(`\s+`)
	// chosen are files beside these, where a module leaves a choice.
	chosen = map[string]string{"github.com/golang/freetype": "licenses/ftl.txt"}
)

// licence returns the name of a module's licence, and all texts that go with it.
func licence(m module) (name, text string, err error) {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w (go mod download?)", m.Path, err)
	}
	var files []string
	for _, e := range entries {
		if legal.MatchString(e.Name()) && e.Type().IsRegular() {
			files = append(files, e.Name())
		}
	}
	if more := chosen[m.Path]; more != "" {
		files = append(files, filepath.FromSlash(more))
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(m.Dir, f))
		if err != nil {
			return "", "", err
		}
		text += strings.ReplaceAll(strings.TrimSpace(string(data)), "\r\n", "\n") + "\n\n"
	}
	words := spaces.ReplaceAllString(text, " ")
	for _, k := range known {
		if strings.Contains(words, k.words) {
			return k.name, text, nil
		}
	}
	return "", "", fmt.Errorf("%s %s: its licence is none of those that are known here (%q)", m.Path, m.Version, files)
}
