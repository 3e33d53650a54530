package place

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/safefile"
)

// Limits of what is read: hosts as many as there can be ranks, in a file that a
// program may have written.
const (
	maxHosts = job.MaxRanks
	mentions = 16 * maxHosts
	maxFile  = 16 << 20 // bytes
	maxLine  = 1 << 20
)

// Host is one host of a list.
type Host struct {
	Name  string // name or address; an IPv6 address has no brackets
	User  string // to log in as, "" if none was given
	Slots int    // how many ranks it takes, at least 1
	Max   int    // how many it takes when oversubscribed, 0: any number
	Given bool   // the number of slots was written, not counted from mentions
	Where string // where it stands first, for errors: FILE:LINE:COLUMN, or "-H, word 2"
}

// Target returns the host as ssh takes it, [USER@]NAME.
func (h Host) Target() string {
	if h.User == "" {
		return h.Name
	}
	return h.User + "@" + h.Name
}

// Parse reads the value of -H: hosts between commas, each [USER@]HOST[:SLOTS].
// HOST is a name, an address (IPv6 in brackets), or several names as Slurm
// writes them, n[01-04,9]. Columns count bytes from 1.
func Parse(list string) ([]Host, error) {
	l := gatherer{index: make(map[string]int)}
	if strings.TrimSpace(list) == "" {
		return nil, errors.New("-H: no host")
	}
	err := l.list(list, Host{}, func(i, _ int) string { return fmt.Sprintf("-H, word %d", i+1) })
	if err != nil {
		return nil, err
	}
	return l.hosts, nil
}

// ParseFile reads a file of hosts. See Read.
func ParseFile(path string) ([]Host, error) {
	data, err := safefile.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("list of hosts: %w", err)
	}
	return Read(path, data)
}

// Read reads the contents of a file of hosts: one entry per line, as for -H,
// and behind it what Open MPI, Horovod and DeepSpeed write: slots=N (or cpu=,
// count=) and max_slots=N (or max-slots=). Entries may also be lists between
// commas, as in $SLURM_JOB_NODELIST. "#" begins a comment. name is for errors.
func Read(name string, data []byte) ([]Host, error) {
	l := gatherer{index: make(map[string]int)}
	lines := bufio.NewScanner(bytes.NewReader(data))
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

// gatherer collects hosts in order of their first mention.
type gatherer struct {
	hosts    []Host
	index    map[string]int
	mentions int
}

// line adds the hosts of one line of a file.
func (l *gatherer) line(where, text string) error {
	text, _, _ = strings.Cut(text, "#")
	fields, columns := split(text)
	if len(fields) == 0 {
		return nil
	}
	var h Host
	for i, f := range fields[1:] {
		if err := h.set(f); err != nil {
			return fmt.Errorf("%s:%d: %w", where, columns[i+1], err)
		}
	}
	return l.list(fields[0], h, func(_, column int) string { return fmt.Sprintf("%s:%d", where, columns[0]+column) })
}

// list adds the hosts of entries between commas, of which h holds what stands behind them.
// where says where the entry of a number, and a column, stands.
func (l *gatherer) list(text string, h Host, where func(i, column int) string) error {
	column := 0
	for i, word := range numbers.SplitNames(text) {
		h.Where = where(i, column)
		column += len(word) + 1
		err := errors.New("no host between the commas")
		if word = strings.TrimSpace(word); word != "" {
			err = l.word(word, h)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", h.Where, err)
		}
	}
	return nil
}

// word adds the hosts of one entry.
func (l *gatherer) word(text string, h Host) error {
	e, names, err := parseEntry(text)
	if err != nil {
		return err
	}
	if e.Slots > 0 && h.Slots > 0 {
		return fmt.Errorf("slots are given twice, as :%d and slots=%d", e.Slots, h.Slots)
	}
	h.User, h.Slots = e.User, max(e.Slots, h.Slots)
	h.Given = h.Slots > 0
	h.Slots = max(h.Slots, 1)
	if h.Max > 0 && h.Slots > h.Max {
		return fmt.Errorf("slots=%d is more than max_slots=%d", h.Slots, h.Max)
	}
	if l.mentions += len(names); l.mentions > mentions {
		return fmt.Errorf("hosts are mentioned more than %d times", mentions)
	}
	for _, h.Name = range names {
		if err := l.add(h); err != nil {
			return err
		}
	}
	return nil
}

// add adds one mention of a host.
func (l *gatherer) add(h Host) error {
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
	if first.User != h.User {
		return fmt.Errorf("host %.80s is also written as %.80s (%s): as which user shall treerun log in?", h.Target(),
			first.Target(), first.Where)
	}
	first.Slots += h.Slots
	first.Given = first.Given || h.Given
	if first.Slots > maxSlots {
		return fmt.Errorf("host %s has more than %d slots", h.Name, maxSlots)
	}
	switch {
	case h.Max == 0 || first.Max == 0:
		first.Max = 0
	default:
		first.Max += h.Max
	}
	return nil
}
