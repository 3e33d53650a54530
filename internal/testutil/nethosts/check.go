package nethosts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	maxHosts    = 250
	maxNetworks = 16
)

// check reports the first option that cannot be used with n hosts.
func (o Options) check(n int) error {
	if n < 1 || n > maxHosts {
		return fmt.Errorf("%d hosts, want 1..%d", n, maxHosts)
	}
	if len(o.Networks) > maxNetworks {
		return fmt.Errorf("%d networks, at most %d are possible", len(o.Networks), maxNetworks)
	}
	for k, nw := range o.Networks {
		if err := nw.check(n); err != nil {
			return fmt.Errorf("network %d: %w", k, err)
		}
	}
	return nil
}

func (nw Network) check(n int) error {
	for _, i := range nw.Absent {
		if i < 0 || i >= n {
			return fmt.Errorf("no host %d, there are %d", i, n)
		}
	}
	if nw.Mesh != nil {
		return nw.checkMesh(n)
	}
	if r := len(nw.Rates); r > 1 && r != n {
		return fmt.Errorf("%d rates for %d hosts: give none, one, or one per host", r, n)
	}
	for _, r := range nw.Rates {
		out, in, both := strings.Cut(r, "/")
		if _, err := parseRate(out); err != nil {
			return err
		}
		if _, err := parseRate(in); both && err != nil {
			return err
		}
	}
	return nil
}

func (nw Network) checkMesh(n int) error {
	if nw.Rates != nil || nw.Absent != nil {
		return fmt.Errorf("a mesh has neither Rates nor Absent")
	}
	if len(nw.Mesh) != n || slices.ContainsFunc(nw.Mesh, func(row []string) bool { return len(row) != n }) {
		return fmt.Errorf("the mesh of %d hosts must have %d rows of %d rates", n, n, n)
	}
	for i, row := range nw.Mesh {
		for j, r := range row {
			if i == j || r == "0" && nw.Mesh[j][i] == "0" {
				continue
			}
			if _, err := parseRate(r); err != nil {
				return fmt.Errorf("from host %d to %d: %w", i, j, err)
			}
		}
	}
	return nil
}

// rates returns what host i may send and receive.
func (nw Network) rates(i int) (out, in string) {
	switch len(nw.Rates) {
	case 0:
		return "-", "-"
	case 1:
		i = 0
	}
	out, in, both := strings.Cut(nw.Rates[i], "/")
	if !both {
		in = out
	}
	return out, in
}

var units = map[string]float64{"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}

// parseRate returns a rate in bits per second, 0 for "-".
func parseRate(s string) (int64, error) {
	if s == "-" {
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

// mustRate is parseRate of a rate that check has seen.
func mustRate(s string) int64 {
	bits, err := parseRate(s)
	if err != nil {
		panic(err)
	}
	return bits
}
