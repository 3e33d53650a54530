package place

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
)

const maxSlots = job.MaxRanks

// parseEntry reads [USER@]HOST[:SLOTS], where HOST may stand for several names.
func parseEntry(text string) (h Host, names []string, err error) {
	rest := text
	if user, host, found := strings.Cut(text, "@"); found {
		if err := checkChars("user", user, "._-$+"); err != nil {
			return h, nil, err
		}
		h.User, rest = user, host
	}
	host, slots, err := cutSlots(rest)
	if err == nil && slots != "" {
		h.Slots, err = parseCount("slots", slots)
	}
	if err != nil {
		return h, nil, err
	}
	if strings.HasPrefix(host, "[") {
		a, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil || !a.Is6() || host != "["+strings.Trim(host, "[]")+"]" {
			return h, nil, fmt.Errorf("%.60q is no IPv6 address", host)
		}
		if a.Zone() != "" {
			err = checkChars("zone", a.Zone(), "._-")
		}
		return h, []string{a.String()}, err
	}
	names, err = numbers.ExpandNames(host, maxHosts)
	for _, name := range names {
		if err == nil {
			err = checkName(name)
		}
	}
	return h, names, err
}

// cutSlots parts HOST:SLOTS at the colon behind all brackets. slots is empty
// where there is no colon.
func cutSlots(text string) (host, slots string, err error) {
	end := strings.LastIndexByte(text, ']') + 1
	colon := strings.IndexByte(text[end:], ':')
	if colon < 0 {
		return text, "", nil
	}
	host, slots = text[:end+colon], text[end+colon+1:]
	switch {
	case strings.ContainsAny(text, " \t"):
		return "", "", fmt.Errorf("%.60q: hosts are parted by commas, as in a:2,b:2", text)
	case strings.Contains(slots, ":"):
		return "", "", fmt.Errorf("%.60q: put an IPv6 address in brackets, as in [fd00::1] or [fd00::1]:4", text)
	case slots == "":
		return "", "", fmt.Errorf("%.60q: no number behind the colon", text)
	}
	return host, slots, nil
}

// parseCount reads a number of ranks.
func parseCount(what, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxSlots || text[0] == '+' {
		return 0, fmt.Errorf("%s %.40q, want a whole number from 1 to %d", what, text, maxSlots)
	}
	return n, nil
}

// checkName refuses what cannot be the name of a host. It must not begin with a
// dash: ssh would take it for an option.
func checkName(name string) error {
	if len(name) > numbers.MaxName {
		return fmt.Errorf("the name %.20q... has %d bytes, at most %d are possible", name, len(name), numbers.MaxName)
	}
	return checkChars("host", name, "._-")
}

// checkChars wants letters, digits and those of more, and no dash in front.
func checkChars(what, text, more string) error {
	if text == "" {
		return fmt.Errorf("no %s", what)
	}
	if text[0] == '-' {
		return fmt.Errorf("%s %.60q begins with a dash", what, text)
	}
	for _, r := range text {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		if !letter && !strings.ContainsRune(more, r) {
			return fmt.Errorf("%s %.60q: %q is not allowed in it", what, text, r)
		}
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

// split parts a line at blanks, and tells the columns, from 1.
func split(line string) (fields []string, columns []int) {
	fields, at := strings.Fields(line), 0
	for _, f := range fields {
		at += strings.Index(line[at:], f)
		columns = append(columns, at+1)
		at += len(f)
	}
	return fields, columns
}

// Slurm returns the hosts of an allocation: nodes is as in SLURM_JOB_NODELIST,
// tasks as in SLURM_TASKS_PER_NODE, "2(x3),1"; with empty tasks each host has one
// slot.
func Slurm(nodes, tasks string) ([]Host, error) {
	hosts, err := Parse(nodes)
	if err != nil || tasks == "" {
		return hosts, err
	}
	counts, err := TasksPerNode(tasks, len(hosts))
	for i, n := range counts {
		hosts[i].Slots, hosts[i].Given = n, true
	}
	return hosts, err
}

// TasksPerNode reads Slurm's "2(x3),1", which stands for 2, 2, 2 and 1. There
// must be want numbers.
func TasksPerNode(text string, want int) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		count, times, repeated := strings.Cut(part, "(x")
		n, err := parseCount("number of tasks", count)
		if err != nil {
			return nil, err
		}
		k := 1
		if repeated {
			digits, found := strings.CutSuffix(times, ")")
			if k, err = parseCount("repetition", digits); err != nil || !found {
				return nil, fmt.Errorf("tasks per node %.60q, want something like 2(x3),1", text)
			}
		}
		if len(all)+k > want {
			return nil, fmt.Errorf("tasks per node %.60q are for more than the %d hosts of the list", text, want)
		}
		all = append(all, slices.Repeat([]int{n}, k)...)
	}
	if len(all) != want {
		return nil, fmt.Errorf("tasks per node %.60q are for %d hosts, the list has %d", text, len(all), want)
	}
	return all, nil
}
