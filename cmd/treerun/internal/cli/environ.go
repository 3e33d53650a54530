package cli

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
)

// environment returns base with what -x asks for, and warnings about names that
// it asks for in vain.
func environment(base, exports []string) (env, warnings []string, err error) {
	env = slices.Clone(base)
	for _, x := range exports {
		name, value, set := strings.Cut(x, "=")
		pattern := strings.ContainsAny(name, "*?[")
		switch {
		case name == "" || strings.Contains(x, "\x00"):
			return nil, nil, exitcode.Errorf(exitcode.Usage, "-x %q: want NAME or NAME=VALUE", x)
		case set && pattern:
			return nil, nil, exitcode.Errorf(exitcode.Usage, "-x %s: a pattern has no value", x)
		case set && slices.Contains(launch.Names(), name):
			return nil, nil, exitcode.Errorf(exitcode.Usage, "-x %s: treerun sets %s itself", x, name)
		case set:
			env = setenv(env, name, value)
			continue
		}
		found, err := anyMatch(env, name)
		if err != nil {
			return nil, nil, exitcode.Errorf(exitcode.Usage, "-x %s: %w", x, err)
		}
		switch {
		case !found && pattern:
			warnings = append(warnings, fmt.Sprintf("-x %s: no variable of the environment matches", name))
		case !found:
			warnings = append(warnings, fmt.Sprintf("-x %s: %s is not set in the environment", name, name))
		}
	}
	return env, warnings, nil
}

// anyMatch tells whether a variable of env matches the pattern, as in a shell.
func anyMatch(env []string, pattern string) (bool, error) {
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if ok, err := path.Match(pattern, name); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// setenv gives a variable its only value.
func setenv(env []string, name, value string) []string {
	env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	return append(env, name+"="+value)
}

func absolute(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", exitcode.Errorf(exitcode.Internal, "find %s: %w", dir, err)
	}
	return abs, nil
}
