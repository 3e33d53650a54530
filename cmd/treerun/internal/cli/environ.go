package cli

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
)

// environment returns base with what -x asks for, what of that goes to other
// hosts (with the variables of treerun's own), and warnings about names that -x
// asks for in vain.
func environment(base, exports []string) (env, far, warnings []string, err error) {
	env = slices.Clone(base)
	far = matching(env, "TREERUN_*")
	for _, x := range exports {
		name, _, set := strings.Cut(x, "=")
		pattern := strings.ContainsAny(name, "*?[")
		switch {
		case name == "" || strings.Contains(x, "\x00"):
			return nil, nil, nil, cmdline.Usagef("-x %q: want NAME or NAME=VALUE", x)
		case set && pattern:
			return nil, nil, nil, cmdline.Usagef("-x %s: a pattern has no value", x)
		case set && slices.Contains(host.Names(), name):
			return nil, nil, nil, cmdline.Usagef("-x %s: treerun sets %s itself", x, name)
		case set:
			env, far = host.Setenv(env, x), host.Setenv(far, x)
			continue
		}
		found := matching(env, name)
		for _, e := range found {
			far = host.Setenv(far, e)
		}
		if _, err := path.Match(name, ""); err != nil {
			return nil, nil, nil, cmdline.Usagef("-x %s: %w", x, err)
		}
		switch {
		case len(found) == 0 && pattern:
			warnings = append(warnings, fmt.Sprintf("-x %s: no variable of the environment matches", name))
		case len(found) == 0:
			warnings = append(warnings, fmt.Sprintf("-x %s: %s is not set in the environment", name, name))
		}
	}
	return env, far, warnings, nil
}

// matching returns the variables of env that match the pattern, as in a shell,
// but for those that treerun itself gives to ranks.
func matching(env []string, pattern string) []string {
	var found []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if ok, _ := path.Match(pattern, name); ok && !slices.Contains(host.Names(), name) {
			found = append(found, e)
		}
	}
	return found
}
