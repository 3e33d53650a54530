//go:build linux

package place

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/safefile"
)

// Limits of the input: as many hosts as there can be ranks, in a file that a program may have written.
const (
	maxHosts    = job.MaxRanks
	maxMentions = 16 * maxHosts
	maxFile     = 16 << 20 // bytes
	maxLine     = 1 << 20
)

// ListedHost is one host of a list. Map gives it ranks.
type ListedHost struct {
	launch.JobHost        // an IPv6 address has no brackets
	Slots          int    // number of ranks it takes; 0: the user wants none there
	Max            int    // the number it takes when oversubscribed, 0: any
	Given          bool   // the number of slots was given, not counted from mentions
	Where          string // its first mention, for errors: FILE:LINE:COLUMN, or "-H, column 2"
}

// parse reads the value of -H: hosts between commas, each [USER@]HOST[:SLOTS].
// HOST is a name, an address (IPv6 in brackets), or several names as Slurm
// writes them, n[01-04,9]. Columns count bytes from 1.
func parse(list string) ([]ListedHost, error) {
	l := hostList{index: make(map[string]int), fromFlag: true}
	if strings.TrimSpace(list) == "" {
		return nil, errors.New("-H names no host: is a variable in it not set?")
	}
	if err := l.list(list, ListedHost{}, "-H, column ", 1); err != nil {
		return nil, err
	}
	return l.hosts, nil
}

// parseFile reads a file of hosts. See Read.
func parseFile(path string) ([]ListedHost, error) {
	data, err := safefile.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("list of hosts: %w", err)
	}
	return Read(path, data)
}

// Read reads the contents of a file of hosts: one entry per line, as for -H, followed by the attributes of Open MPI,
// Horovod and DeepSpeed: slots=N (or cpu=, count=) and max_slots=N (or max-slots=), also with blanks around "=".
// Entries may also be lists separated by commas, as in $SLURM_JOB_NODELIST. "#" begins a comment. name is for errors.
func Read(name string, data []byte) ([]ListedHost, error) {
	l := hostList{index: make(map[string]int)}
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff")))) // editors put it there
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		if err := l.line(fmt.Sprintf("%s:%d", name, n), lines.Text()); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, n+1, err)
	}
	if len(l.hosts) == 0 {
		return nil, fmt.Errorf("%s: no host", name)
	}
	return l.hosts, nil
}

// hostList collects hosts in order of their first mention.
type hostList struct {
	hosts    []ListedHost
	index    map[string]int
	mentions int
	fromFlag bool // by the user, in -H; schedulers may list a host twice, once with 0 slots
}

// wordPattern matches a word between blanks, or a whole attribute with blanks around its "=".
var wordPattern = regexp.MustCompile(`[^\s=]+\s*=\s*\S+|\S+`)

// line adds the hosts of one line of a file.
func (l *hostList) line(where, text string) error {
	text, _, _ = strings.Cut(text, "#")
	words := wordPattern.FindAllStringIndex(text, -1)
	if len(words) == 0 {
		return nil
	}
	var h ListedHost
	for _, at := range words[1:] {
		if err := h.set(text[at[0]:at[1]]); err != nil {
			return fmt.Errorf("%s:%d: %w", where, at[0]+1, err)
		}
	}
	return l.list(text[words[0][0]:words[0][1]], h, where+":", words[0][0]+1)
}

// list adds the hosts of entries separated by commas; h holds the attributes after them. The first entry is in this
// column of where.
func (l *hostList) list(text string, h ListedHost, where string, column int) error {
	for _, entry := range numbers.SplitNames(text) {
		h.Where = fmt.Sprint(where, column)
		column += len(entry) + 1
		err := errors.New("no host between the commas")
		if entry = strings.TrimSpace(entry); entry != "" {
			err = l.entry(entry, h)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", h.Where, err)
		}
	}
	return nil
}

// entry adds the hosts of one entry.
func (l *hostList) entry(text string, h ListedHost) error {
	user, names, slots, err := parseEntry(text)
	if err != nil {
		return err
	}
	switch {
	case slots != noSlots && h.Given:
		return fmt.Errorf("slots are given twice, as :%d and slots=%d", slots, h.Slots)
	case slots != noSlots:
		h.Slots, h.Given = slots, true
	case !h.Given:
		h.Slots = 1
	}
	if h.Max > 0 && h.Slots > h.Max {
		return fmt.Errorf("slots=%d is more than max_slots=%d", h.Slots, h.Max)
	}
	if l.mentions += len(names); l.mentions > maxMentions {
		return fmt.Errorf("hosts are mentioned more than %d times", maxMentions)
	}
	for _, h.Name = range names {
		h.Target = user + h.Name
		if err := l.add(h); err != nil {
			return err
		}
	}
	return nil
}

// add adds one mention of a host.
func (l *hostList) add(h ListedHost) error {
	i, known := l.index[h.Name]
	if !known {
		if len(l.hosts) == maxHosts {
			return fmt.Errorf("more than %d hosts", maxHosts)
		}
		l.index[h.Name] = len(l.hosts)
		l.hosts = append(l.hosts, h)
		return nil
	}
	first := &l.hosts[i]
	if first.Target != h.Target {
		return fmt.Errorf("host %.80s is also given as %.80s (%s): give one user for both", h.Target,
			first.Target, first.Where)
	}
	if l.fromFlag && (first.Slots == 0) != (h.Slots == 0) {
		return fmt.Errorf("host %s has %s here and %d in its first entry (%s)", h.Name,
			numbers.Count(h.Slots, "slot"), first.Slots, first.Where)
	}
	first.Slots += h.Slots
	first.Given = first.Given || h.Given
	if first.Slots > maxSlots {
		return fmt.Errorf("host %s has more than %d slots", h.Name, maxSlots)
	}
	if first.Max += h.Max; h.Max == 0 || first.Max == h.Max {
		first.Max = 0
	}
	return nil
}

const (
	maxSlots = job.MaxRanks
	noSlots  = -1 // slots that were not given
)

// parseEntry reads [USER@]HOST[:SLOTS], where HOST may stand for several names.
func parseEntry(text string) (user string, names []string, slots int, err error) {
	rest := text
	if name, host, found := strings.Cut(text, "@"); found {
		user, rest = name+"@", host
		err = checkName("user", name)
	}
	end := strings.LastIndexByte(rest, ']') + 1
	host, number, counted := strings.Cut(rest[end:], ":")
	slots = noSlots
	if host = rest[:end] + host; counted && err == nil {
		slots, err = parseCount("slots", number, 0)
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
			return "", nil, 0, fmt.Errorf("%.60q is not an IPv6 address", host)
		}
		if a.Zone() != "" {
			err = checkName("zone", a.Zone())
		}
		return user, []string{a.String()}, slots, err
	}
	if strings.HasPrefix(host, "+") {
		return "", nil, 0, fmt.Errorf("host %.60q: Open MPI takes +N for a host of an allocation by its number; treerun "+
			"wants its name", host)
	}
	names, err = numbers.ExpandNames(host, maxHosts)
	for _, name := range names {
		if err == nil {
			err = checkName("host", name)
		}
	}
	return user, names, slots, err
}

// parseCount reads a number of ranks or slots.
func parseCount(what, text string, lowest int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < lowest || n > maxSlots || text[0] == '+' || text[0] == '-' {
		return 0, fmt.Errorf("%s %.40q, want a whole number from %d to %d", what, text, lowest, maxSlots)
	}
	return n, nil
}

// namePattern matches valid names. ssh would take one that begins with a dash for an option.
var namePattern = regexp.MustCompile(`^[\w.$+][\w.$+-]*$`)

// checkName returns an error for an invalid name.
func checkName(what, name string) error {
	if len(name) > numbers.MaxName || !namePattern.MatchString(name) {
		return fmt.Errorf("%s %.60q, want up to %d letters, digits and ._-, and no dash in front", what, name,
			numbers.MaxName)
	}
	return nil
}

// set reads one NAME=VALUE after a host in a file.
func (h *ListedHost) set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if key, value = strings.TrimSpace(key), strings.TrimSpace(value); !found {
		return fmt.Errorf("%.60q, want slots=N or max_slots=N; one host per line", text)
	}
	dst, lowest, known := &h.Slots, 0, h.Given
	switch strings.ReplaceAll(key, "-", "_") {
	case "slots", "cpu", "count":
		h.Given = true
	case "max_slots", "slots_max":
		dst, lowest, known = &h.Max, 1, h.Max != 0
	case "binding", "ifname": // MPICH's; treerun has flags for all hosts
		return nil
	default:
		return fmt.Errorf("unknown attribute %.40q, want slots=N or max_slots=N", key)
	}
	if known {
		return fmt.Errorf("%s is given twice", key)
	}
	n, err := parseCount(key, value, lowest)
	*dst = n
	return err
}

// setSlots gives hosts the slots in Slurm's notation: "2(x3),1" for 2, 2, 2 and 1.
func setSlots(hosts []ListedHost, slots string) error {
	var counts []int
	for part := range strings.SplitSeq(slots, ",") {
		count, times, _ := strings.Cut(strings.TrimSuffix(part, ")"), "(x")
		n, err := parseCount("slots", count, 1)
		if err != nil {
			return err
		}
		k, err := parseCount("repetition", cmp.Or(times, "1"), 1)
		if err != nil {
			return err
		}
		counts = append(counts, slices.Repeat([]int{n}, min(k, len(hosts)+1))...)
	}
	if len(counts) != len(hosts) {
		return fmt.Errorf("%.60q does not match the %d hosts of the list", slots, len(hosts))
	}
	for i, n := range counts {
		hosts[i].Slots, hosts[i].Given = n, true
	}
	return nil
}
