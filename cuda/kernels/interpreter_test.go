package kernels_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// PTX is code in PTX, the assembly language of NVIDIA's GPUs, after it was read. It runs one thread after the other, so
// that tests can try the very code that is given to the driver on a machine without a GPU. It supports the instructions
// of plainly written kernels: integers, floating-point numbers of 16, 32 and 64 bits, branches, loads, stores and one
// atomic operation. Anything else is an error, and so is an access to memory that is not there or not at a multiple of
// its size, as it is on a GPU.
type PTX struct {
	kernels map[string]*Kernel
}

// Kernel is an entry of a module.
type Kernel struct {
	name      string
	params    int            // bytes of the parameter
	registers map[string]int // by name, to their place in a thread
	widths    []uint         // bits of each register
	labels    map[string]int // to the instruction behind it
	code      []instruction
}

// instruction is one line of a kernel.
type instruction struct {
	text   string
	guard  int // the predicate register that allows it, -1 for none
	negate bool
	run    func(t *thread) error
}

var (
	entryLine = regexp.MustCompile(`^\.visible \.entry (\w+)\($`)
	paramLine = regexp.MustCompile(`^\.param \.align \d+ \.b8 (\w+)\[(\d+)\]$`)
	regsLine  = regexp.MustCompile(`^\.reg \.(pred|[bfus]\d+) (%\w+)<(\d+)>;$`)
	scopeLine = regexp.MustCompile(`^\{ \.reg \.(b\d+) (\w+); (.*;) \}$`)
	labelLine = regexp.MustCompile(`^(\$\w+):$`)
	codeLine  = regexp.MustCompile(`^(?:@(!?)(%\w+) )?([a-z][\w.]*)(?: (.*))?;$`)
	space     = regexp.MustCompile(`\s+`)
)

// ParsePTX reads PTX.
func ParsePTX(text string) (*PTX, error) {
	m := &PTX{kernels: map[string]*Kernel{}}
	var k *Kernel
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSpace(space.ReplaceAllString(line, " "))
		var err error
		if found := entryLine.FindStringSubmatch(line); found != nil {
			k = &Kernel{name: found[1], registers: map[string]int{}, labels: map[string]int{}}
			m.kernels[k.name] = k
		} else if k != nil {
			err = k.parse(line)
		}
		if err != nil {
			return nil, fmt.Errorf("ptx: line %d: %q: %w", n, line, err)
		}
	}
	for _, k := range m.kernels {
		if err := k.link(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Kernel returns an entry by its name.
func (m *PTX) Kernel(name string) (*Kernel, error) {
	k := m.kernels[name]
	if k == nil {
		return nil, fmt.Errorf("ptx: no entry %s", name)
	}
	return k, nil
}

// parse reads a line of a kernel. Code is kept as text until all registers and
// labels are known.
func (k *Kernel) parse(line string) error {
	switch {
	case line == "" || line == ")" || line == "{" || line == "}" || strings.HasPrefix(line, ".maxntid ") ||
		strings.HasPrefix(line, ".pragma "):
		return nil
	case paramLine.MatchString(line):
		found := paramLine.FindStringSubmatch(line)
		size, err := strconv.Atoi(found[2])
		k.params = size
		return err
	case regsLine.MatchString(line):
		found := regsLine.FindStringSubmatch(line)
		number, err := strconv.Atoi(found[3])
		for i := range number {
			k.declare(fmt.Sprintf("%s%d", found[2], i), found[1])
		}
		return err
	case scopeLine.MatchString(line): // a register of its own for one instruction
		found := scopeLine.FindStringSubmatch(line)
		k.declare(found[2], found[1])
		line = found[3]
	case labelLine.MatchString(line):
		k.labels[labelLine.FindStringSubmatch(line)[1]] = len(k.code)
		return nil
	}
	if !codeLine.MatchString(line) {
		return fmt.Errorf("not understood")
	}
	k.code = append(k.code, instruction{text: line})
	return nil
}

func (k *Kernel) declare(name, typ string) {
	if _, known := k.registers[name]; known {
		return
	}
	bits := 1
	if typ != "pred" {
		bits, _ = strconv.Atoi(typ[1:]) // regsLine and scopeLine match digits only
	}
	k.registers[name] = len(k.widths)
	k.widths = append(k.widths, uint(bits))
}

// link makes functions of the lines of code.
func (k *Kernel) link() error {
	for i := range k.code {
		in := &k.code[i]
		parts := codeLine.FindStringSubmatch(in.text)
		in.guard, in.negate = -1, parts[1] != ""
		var err error
		if parts[2] != "" {
			in.guard, err = k.register(parts[2])
		}
		if err == nil {
			in.run, err = k.compile(strings.Split(parts[3], "."), split(parts[4]))
		}
		if err != nil {
			return fmt.Errorf("ptx: %s: %q: %w", k.name, in.text, err)
		}
	}
	return nil
}

// split separates operands at commas that are not in braces.
func split(list string) (all []string) {
	depth, begin := 0, 0
	for i, c := range list {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == ',' && depth == 0:
			all = append(all, strings.TrimSpace(list[begin:i]))
			begin = i + 1
		}
	}
	if last := strings.TrimSpace(list[begin:]); last != "" {
		all = append(all, last)
	}
	return all
}

func (k *Kernel) register(name string) (int, error) {
	r, ok := k.registers[name]
	if !ok {
		return 0, fmt.Errorf("%s is no register", name)
	}
	return r, nil
}
