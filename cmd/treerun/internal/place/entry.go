package place

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/job"
)

const (
	maxSlots = job.MaxRanks
	maxName  = 253 // bytes, as in the domain name system
)

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
	names, err = expand(host)
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
	if len(name) > maxName {
		return fmt.Errorf("the name %.20q... has %d bytes, at most %d are possible", name, len(name), maxName)
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

// splitTop parts text at the commas outside brackets.
func splitTop(text string) []string {
	var words []string
	depth, begin := 0, 0
	for i, c := range []byte(text) {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth <= 0:
			words = append(words, text[begin:i])
			begin = i + 1
		}
	}
	return append(words, text[begin:])
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

var errBrackets = errors.New("brackets that do not match")

// expand returns the names that Slurm's notation stands for: in each pair of
// brackets there are numbers and ranges between commas, as in n[01-04,9]. A
// number is as wide as it is written. Several pairs make every combination, the
// last one fastest.
func expand(text string) ([]string, error) {
	head, tail, more := strings.Cut(text, "[")
	inner, after, closed := strings.Cut(tail, "]")
	switch {
	case strings.Contains(head, "]") || more && (!closed || strings.Contains(inner, "[")):
		return nil, errBrackets
	case !more:
		return []string{head}, nil
	}
	parts, err := bracketed(inner)
	if err != nil {
		return nil, err
	}
	rest, err := expand(after)
	switch {
	case err != nil:
		return nil, err
	case len(parts)*len(rest) > maxHosts:
		return nil, fmt.Errorf("more than %d hosts", maxHosts)
	case len(head)+len(parts[0])+len(rest[0]) > maxName:
		return nil, fmt.Errorf("a name of more than %d bytes", maxName)
	}
	var names []string
	for _, p := range parts {
		for _, r := range rest {
			names = append(names, head+p+r)
		}
	}
	return names, nil
}

// bracketed returns what stands for one pair of brackets.
func bracketed(inner string) ([]string, error) {
	var all []string
	for part := range strings.SplitSeq(inner, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		a, errA := number(lo)
		b, errB := number(hi)
		if err := errors.Join(errA, errB); err != nil {
			return nil, fmt.Errorf("%.40q in brackets, want numbers and ranges as in [01-04,9]", part)
		}
		if b < a {
			return nil, fmt.Errorf("the range %.60s goes down", part)
		}
		if len(all)+b-a >= maxHosts {
			return nil, fmt.Errorf("more than %d hosts", maxHosts)
		}
		for n := a; n <= b; n++ {
			all = append(all, fmt.Sprintf("%0*d", len(lo), n))
		}
	}
	return all, nil
}

// number reads digits only, no more than a name has room for.
func number(text string) (int, error) {
	if len(text) > maxName {
		return 0, strconv.ErrRange
	}
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err
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
