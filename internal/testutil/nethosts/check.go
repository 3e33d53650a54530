package nethosts

import (
	"fmt"
	"slices"
	"strconv"
)

const maxHosts = 250

// check reports the first option that cannot be used with n hosts.
func (o Options) check(n int) error {
	if n < 1 || n > maxHosts {
		return fmt.Errorf("%d hosts, want 1..%d", n, maxHosts)
	}
	for k, nw := range o.Networks {
		if r := len(nw.Rates); r > 1 && r != n {
			return fmt.Errorf("network %d: %d rates for %d hosts: give none, one, or one per host", k, r, n)
		}
		if nw.Mesh != nil && (len(nw.Mesh) != n ||
			slices.ContainsFunc(nw.Mesh, func(row []string) bool { return len(row) != n })) {
			return fmt.Errorf("network %d: the mesh of %d hosts must have %d rows of %d rates", k, n, n, n)
		}
		for _, r := range slices.Concat(append(nw.Mesh, nw.Rates)...) {
			if _, err := parseRate(r); err != nil {
				return fmt.Errorf("network %d: %w", k, err)
			}
		}
	}
	return nil
}

// rate returns what host i may send and receive.
func (nw Network) rate(i int) string {
	if len(nw.Rates) == 0 {
		return "-"
	}
	return nw.Rates[min(i, len(nw.Rates)-1)]
}

var units = map[string]float64{"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}

// parseRate returns a rate in bits per second, 0 for "-" and "0".
func parseRate(s string) (int64, error) {
	if s == "-" || s == "0" {
		return 0, nil
	}
	if len(s) > 4 {
		v, err := strconv.ParseFloat(s[:len(s)-4], 64)
		unit := units[s[len(s)-4:]]
		if bits := v * unit; err == nil && bits >= 1e3 && bits <= 1e12 {
			return int64(bits), nil
		}
	}
	return 0, fmt.Errorf("rate %q, want one like 500mbit, 2.5gbit, or - for unshaped", s)
}
