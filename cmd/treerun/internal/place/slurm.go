package place

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// expand returns the names that Slurm's notation stands for: in each pair of
// brackets there are numbers and ranges between commas, as in n[01-04,9]. A
// number is as wide as it is written. Several pairs make every combination, the
// last one fastest.
func expand(text string) ([]string, error) {
	names := []string{""}
	for text != "" {
		open := strings.IndexByte(text, '[')
		if open < 0 {
			open = len(text)
		}
		if strings.Contains(text[:open], "]") {
			return nil, errBrackets
		}
		parts := []string{""}
		var rest string
		if open < len(text) {
			inner, after, found := strings.Cut(text[open+1:], "]")
			if !found || strings.Contains(inner, "[") {
				return nil, errBrackets
			}
			var err error
			if parts, err = bracketed(inner); err != nil {
				return nil, err
			}
			rest = after
		}
		switch {
		case len(names)*len(parts) > maxHosts:
			return nil, fmt.Errorf("more than %d hosts", maxHosts)
		case len(names[0])+open+len(parts[0]) > maxName:
			return nil, fmt.Errorf("a name of more than %d bytes", maxName)
		}
		var next []string
		for _, n := range names {
			for _, p := range parts {
				next = append(next, n+text[:open]+p)
			}
		}
		names, text = next, rest
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
	if err != nil {
		return nil, err
	}
	if tasks == "" {
		return hosts, nil
	}
	counts, err := TasksPerNode(tasks, len(hosts))
	if err != nil {
		return nil, err
	}
	for i := range hosts {
		hosts[i].Slots, hosts[i].Given = counts[i], true
	}
	return hosts, nil
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
		for range k {
			all = append(all, n)
		}
	}
	if len(all) != want {
		return nil, fmt.Errorf("tasks per node %.60q are for %d hosts, the list has %d", text, len(all), want)
	}
	return all, nil
}
