package place

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
)

const maxSlots = job.MaxRanks

// parseEntry reads [USER@]HOST[:SLOTS], where HOST may stand for several names.
func parseEntry(text string) (user string, names []string, slots int, err error) {
	rest := text
	if name, host, found := strings.Cut(text, "@"); found {
		user, rest = name+"@", host
		err = checkName("user", name)
	}
	end := strings.LastIndexByte(rest, ']') + 1
	host, number, counted := strings.Cut(rest[end:], ":")
	if host = rest[:end] + host; counted && err == nil {
		slots, err = parseCount("slots", number)
	}
	switch {
	case strings.ContainsAny(rest, " \t") || err != nil && strings.Contains(number, ":"):
		return "", nil, 0, fmt.Errorf("%.60q: hosts are parted by commas, as in a:2,b:2, and an IPv6 address stands in "+
			"brackets, as in [fd00::1]:4", rest)
	case err != nil:
		return "", nil, 0, err
	case strings.HasPrefix(host, "["):
		a, err := netip.ParseAddr(strings.TrimSuffix(host[1:], "]"))
		if err != nil || !a.Is6() {
			return "", nil, 0, fmt.Errorf("%.60q is no IPv6 address", host)
		}
		if a.Zone() != "" {
			err = checkName("zone", a.Zone())
		}
		return user, []string{a.String()}, slots, err
	}
	names, err = numbers.ExpandNames(host, maxHosts)
	for _, name := range names {
		if err == nil {
			err = checkName("host", name)
		}
	}
	return user, names, slots, err
}

// parseCount reads a number of ranks.
func parseCount(what, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxSlots || text[0] == '+' {
		return 0, fmt.Errorf("%s %.40q, want a whole number from 1 to %d", what, text, maxSlots)
	}
	return n, nil
}

// plain is what names are like. ssh would take one that begins with a dash for an option.
var plain = regexp.MustCompile(`^[\w.$+][\w.$+-]*$`)

// checkName refuses what cannot be a name.
func checkName(what, name string) error {
	if len(name) > numbers.MaxName || !plain.MatchString(name) {
		return fmt.Errorf("%s %.60q, want up to %d letters, digits and ._-, and no dash in front", what, name,
			numbers.MaxName)
	}
	return nil
}

// set reads one NAME=VALUE, as it stands behind a host in a file.
func (h *Host) set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found {
		return fmt.Errorf("%.60q, want slots=N or max_slots=N; one host per line", text)
	}
	var to *int
	switch strings.ReplaceAll(key, "-", "_") {
	case "slots", "cpu", "count":
		to = &h.Slots
	case "max_slots", "slots_max":
		to = &h.Max
	case "binding", "ifname": // MPICH's; treerun has flags for all hosts
		return nil
	default:
		return fmt.Errorf("unknown attribute %.40q, want slots=N or max_slots=N", key)
	}
	if *to != 0 {
		return fmt.Errorf("%s is given twice", key)
	}
	n, err := parseCount(key, value)
	*to = n
	return err
}

// giveSlots gives hosts slots as Slurm writes them: "2(x3),1" for 2, 2, 2 and 1.
func giveSlots(hosts []Host, slots string) error {
	var counts []int
	for part := range strings.SplitSeq(slots, ",") {
		count, times, _ := strings.Cut(strings.TrimSuffix(part, ")"), "(x")
		n, err := parseCount("slots", count)
		if err != nil {
			return err
		}
		k, err := parseCount("repetition", cmp.Or(times, "1"))
		if err != nil {
			return err
		}
		counts = append(counts, slices.Repeat([]int{n}, min(k, len(hosts)+1))...)
	}
	if len(counts) != len(hosts) {
		return fmt.Errorf("%.60q is not for %d hosts, which the list has", slots, len(hosts))
	}
	for i, n := range counts {
		hosts[i].Slots, hosts[i].Given = n, true
	}
	return nil
}
