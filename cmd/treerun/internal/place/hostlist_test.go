//go:build linux

package place

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"pgregory.net/rapid"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/internal/testutil"
)

var rewrite = flag.Bool("rewrite", false, "write the output of the scenarios into testdata")

// TestScenarios runs the commands in testdata/*.txt. A block is a command, the lines of a file of hosts that begin with
// "| ", the line "----", and the output of the command.
//
//	read [-H LIST]       the hosts of LIST, or else of the file
//	map [-np N] [--ppn N] [--map-by WHAT] [--oversubscribe] [-H LIST]
//	rankfile [-np N] [--oversubscribe] [-H LIST]  by the lines as a rank file, f
//	slurm NODES TASKS    the hosts of a step of Slurm
//	in NAME=VALUE ...    the hosts of an allocation with these variables; FILE is the file of hosts, _ a blank
func TestScenarios(t *testing.T) {
	testutil.Scenarios(t, *rewrite, func(input string) string { return scenario(t, input) })
}

// scenario returns the output of one command.
func scenario(t *testing.T, input string) string {
	t.Helper()
	var file strings.Builder
	var words []string
	for line := range strings.Lines(strings.TrimSpace(input) + "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "|"):
			file.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "|"), " "))
		default:
			words = strings.Fields(line)
		}
	}
	f := flag.NewFlagSet("", flag.PanicOnError)
	var r Request
	list := f.String("H", "", "")
	f.IntVar(&r.Size, "np", 0, "")
	f.IntVar(&r.PerHost, "ppn", 0, "")
	f.Var(cmdline.Choice(&r.MapBy, "WHAT", mapByWords...), "map-by", "")
	f.BoolVar(&r.Oversubscribe, "oversubscribe", false, "")
	if err := f.Parse(words[1:]); err != nil {
		t.Fatal(err)
	}
	var hosts []ListedHost
	var err error
	switch {
	case words[0] == "slurm":
		hosts, err = SlurmStep(variables{"SLURM_STEP_NODELIST": f.Arg(0), "SLURM_STEP_TASKS_PER_NODE": f.Arg(1)}.get)
	case words[0] == "rankfile":
		return byRankfile(*list, r, file.String())
	case words[0] == "in":
		return inAllocation(t, f.Args(), file.String())
	case slices.Contains(words, "-H"):
		hosts, err = parse(*list)
	default:
		hosts, err = Read("hosts", []byte(file.String()))
	}
	if err != nil {
		return err.Error()
	}
	var out []string
	if words[0] != "map" {
		return listed(hosts)
	}
	places, err := MapRanks(hosts, r)
	if err != nil {
		return err.Error()
	}
	for _, p := range places {
		out = append(out, strings.Trim(fmt.Sprintf("%s: %v", p.Target, p.Ranks), "[]"))
	}
	return strings.ReplaceAll(strings.Join(out, "\n"), ": [", ": ")
}

// byRankfile returns the hosts and the slots of the ranks of a rank file.
func byRankfile(list string, r Request, file string) string {
	o := Options{rankfile: "f"}
	var hosts []ListedHost
	var err error
	if o.ranks, err = parseRankfile("f", []byte(file)); err != nil {
		return err.Error()
	}
	if hosts, err = rankfileHosts(o.ranks); list != "" {
		hosts, err = parse(list)
	}
	if err == nil {
		hosts, err = o.byRankfile(hosts, r)
	}
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, h := range hosts {
		out = append(out, strings.Trim(fmt.Sprint(h.Target, ": ", h.Ranks), "]"))
	}
	for rank, s := range o.slots {
		out = append(out, fmt.Sprintf("rank %d: %s (%s)", rank, s.List, s.Where))
	}
	return strings.ReplaceAll(strings.Join(out, "\n"), ": [", ": ")
}

// listed formats hosts, one per line.
func listed(hosts []ListedHost) string {
	var out []string
	for _, h := range hosts {
		line := fmt.Sprintf("%s slots=%d", h.Target, h.Slots)
		if h.Max > 0 {
			line += fmt.Sprintf(" max_slots=%d", h.Max)
		}
		if !h.Given {
			line += " (mentions)"
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// variables is an environment.
type variables map[string]string

func (v variables) get(name string) string { return v[name] }

// inAllocation returns the text on the hosts in an environment with these settings.
func inAllocation(t *testing.T, settings []string, file string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "FILE")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	env := variables{}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		env[name] = strings.NewReplacer("FILE", path, "_", " ").Replace(value)
	}
	a, hosts, err := currentAllocation(env.get)
	switch {
	case err != nil:
		return strings.ReplaceAll(err.Error(), path, "FILE")
	case a == nil:
		return "no allocation"
	}
	return "from " + a.scheduler + "'s " + a.variable + "\n" + listed(hosts)
}

// TestThisHostAlone: an allocation of this host alone starts nothing on other hosts, also where the scheduler adds a
// domain.
func TestThisHostAlone(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, as := range []string{name, name + ".example.org"} {
		t.Setenv("LSB_MCPU_HOSTS", as+" 3")
		var o Options
		o.Define(pflag.NewFlagSet("", pflag.PanicOnError))
		if hosts, n, err := o.Hosts(0, 0); hosts != nil || n != 3 || err != nil || o.Source() == "" {
			t.Errorf("%s: hosts %v, %d ranks, error %v, %q", as, hosts, n, err, o.Source())
		}
	}
}

// TestStripOwnDomain: a host is taken for this one, where a scheduler adds a domain, only if no other has its name
// in another domain.
func TestStripOwnDomain(t *testing.T) {
	for _, c := range []struct {
		hosts, want string
	}{
		{"n.a.example n.a.example b.a.example", "n b.a.example"},
		{"N.a.example b", "n b"},
		{"n.a.example n.b.example n.b.example", "n.a.example n.b.example"},
		{"b.a.example n.1.a n.2.a n.3.a", "b.a.example n.1.a n.2.a n.3.a"},
		{"n n.b.example", "n n.b.example"},
		{"nx.a.example b", "nx.a.example b"},
	} {
		hosts, err := Read("hosts", []byte(strings.ReplaceAll(c.hosts, " ", "\n")))
		if err != nil {
			t.Fatal(err)
		}
		stripOwnDomain(hosts, "n")
		var got []string
		for _, h := range hosts {
			got = append(got, h.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.hosts, got, c.want)
		}
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LSB_MCPU_HOSTS", fmt.Sprintf("%[1]s.1.example 2 %[1]s.2.example 2", name))
	var o Options
	o.Define(pflag.NewFlagSet("", pflag.PanicOnError))
	if hosts, n, err := o.Hosts(0, 0); len(hosts) != 2 || hosts[0].Local || hosts[1].Local || n != 4 || err != nil {
		t.Errorf("two domains: hosts %v, %d ranks, error %v", hosts, n, err)
	}
}

// TestMapping checks the properties of every mapping, for any hosts.
func TestMapping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var hosts []ListedHost
		slots, most := 0, 0
		for i := range rapid.IntRange(1, 6).Draw(t, "hosts") {
			h := ListedHost{JobHost: launch.JobHost{Name: fmt.Sprint("h", i)}, Given: true}
			h.Slots = rapid.IntRange(0, 5).Draw(t, "slots")
			if h.Max = h.Slots + rapid.IntRange(0, 3).Draw(t, "more"); h.Slots == 0 {
				h.Max = 0
			}
			hosts = append(hosts, h)
			slots += h.Slots
			most += h.Max
		}
		r := Request{Size: rapid.IntRange(0, 50).Draw(t, "size"), Oversubscribe: rapid.Bool().Draw(t, "over")}
		r.MapBy = MapBy(rapid.IntRange(0, 1).Draw(t, "by"))
		places, err := MapRanks(hosts, r)
		possible := slots > 0 && (r.Size <= slots || r.Oversubscribe && r.Size <= most)
		if (err == nil) != possible {
			t.Fatalf("%d slots, at most %d, %+v: error %v", slots, most, r, err)
		}
		if err != nil {
			return
		}
		on := make(map[int]string)
		first := -1
		for _, p := range places {
			if len(p.Ranks) == 0 || !slices.IsSorted(p.Ranks) || p.Ranks[0] < first {
				t.Fatalf("%+v", places)
			}
			if first = p.Ranks[0]; len(p.Ranks) > p.Max || len(p.Ranks) > p.Slots && r.Size <= slots {
				t.Fatalf("host %+v has ranks %v", p, p.Ranks)
			}
			for _, rank := range p.Ranks {
				on[rank] = p.Name
			}
			if last := p.Ranks[len(p.Ranks)-1]; r.MapBy == BySlot && last-p.Ranks[0] != len(p.Ranks)-1 {
				t.Fatalf("by slot: ranks %v of a host are not in a row", p.Ranks)
			}
		}
		want := r.Size
		if want == 0 {
			want = slots
		}
		for rank := range want {
			if on[rank] == "" {
				t.Fatalf("rank %d of %d is nowhere: %+v", rank, want, places)
			}
		}
		if len(on) != want {
			t.Fatalf("%d ranks, want %d", len(on), want)
		}
	})
}

func TestParseFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	if _, err := parseFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("a:2\n\nb slots=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parseFile(path); err == nil ||
		err.Error() != path+`:3:3: slots "x", want a whole number from 0 to 65536` {
		t.Errorf("error %v", err)
	}
	if err := os.Truncate(path, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := parseFile(path); err == nil ||
		!strings.Contains(err.Error(), "list of hosts: read "+path+": has more than 16777216 bytes") {
		t.Errorf("a huge file: %v", err)
	}
}

// TestTooManyHosts: a few bytes must not stand for more hosts than the maximum.
func TestTooManyHosts(t *testing.T) {
	for _, text := range []string{
		"n[0-2147483647]", "n[0-70000]", "n[0-999][0-999]", "n[0-9][0-9][0-9][0-9][0-9][0-9][0-9]",
		strings.Repeat("x", 1000) + "[0-65535]", "n[" + strings.Repeat("0", 100_000) + "-65535]",
		strings.TrimSuffix(strings.Repeat("n[0-65535],", 100), ","),
	} {
		if hosts, err := parse(text); err == nil {
			t.Errorf("%.40s: %d hosts", text, len(hosts))
		}
	}
}

func FuzzHosts(f *testing.F) {
	for _, s := range []string{"a:2,b", "n[01-04,9],m3", "u@[fd00::1%eth0]:3", "a slots=2 max_slots=4 # x\nb:3\n", "[",
		"n[1-2]x[3-4]:5", "a,,b", "\xff", "a@b@c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func() ([]ListedHost, error){
			func() ([]ListedHost, error) { return parse(text) },
			func() ([]ListedHost, error) { return Read("f", []byte(text)) },
		} {
			hosts, err := read()
			if err != nil {
				if hosts != nil || len(err.Error()) > 2000 {
					t.Fatalf("%d hosts and error %v", len(hosts), err)
				}
				continue
			}
			seen := make(map[string]bool)
			for _, h := range hosts {
				user := strings.TrimSuffix(h.Target, "@"+h.Name)
				if h.Name == "" || h.Name[0] == '-' || strings.ContainsAny(h.Name+user, " \n'\"\\;,@") || h.Slots < 0 ||
					h.Slots > maxSlots || seen[h.Name] {
					t.Fatalf("%q: host %+v", text, h)
				}
				seen[h.Name] = true
			}
			empty := 0
			for i := range hosts {
				if hosts[i].empty() {
					empty++
				}
			}
			if places, err := MapRanks(hosts, Request{}); err == nil && len(places) != len(hosts)-empty {
				t.Fatalf("%d places for %d hosts, %d of them with 0 slots", len(places), len(hosts), empty)
			}
		}
	})
}

// FuzzRankfile: a rank file gives each rank a host of the list, or an error that names the file.
func FuzzRankfile(f *testing.F) {
	for _, s := range []string{"rank 0=a slot=0-2\nrank 1=+n1 slot=1:0,1 # x\n", "rank 0=b slots=0:*",
		"/*\n*/ rank 0=a slot=0//", "rank 3=a slot=0", "rank 0=+n9 slot=0", "rank 0=a slot=", "/*", "rank 0=a slot=0;;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ranks, err := parseRankfile("f", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") || len(err.Error()) > 400 {
				t.Fatal(err)
			}
			return
		}
		own, err := rankfileHosts(ranks)
		if err != nil && !strings.HasPrefix(err.Error(), "f:") || err == nil && len(own) == 0 {
			t.Fatalf("%d hosts, error %v", len(own), err)
		}
		listed, _ := parse("a,b")
		o := Options{rankfile: "f", ranks: ranks}
		places, err := o.byRankfile(listed, Request{})
		n := 0
		for _, p := range places {
			n += len(p.Ranks)
		}
		if err == nil && n != len(ranks) || err != nil && !strings.HasPrefix(err.Error(), "--rankfile f") {
			t.Fatalf("%d of %d ranks have a host, error %v", n, len(ranks), err)
		}
	})
}

func FuzzSlurm(f *testing.F) {
	for _, s := range []string{"2(x3),1", "4", "1,1,2", "2(x", "2(x3", "0", "9(x99999999999)"} {
		f.Add("n[1-4]", s)
	}
	f.Fuzz(func(t *testing.T, nodes, tasks string) {
		hosts, err := SlurmStep(variables{"SLURM_STEP_NODELIST": nodes, "SLURM_STEP_TASKS_PER_NODE": tasks}.get)
		for _, h := range hosts {
			if err != nil || h.Slots < 1 || h.Slots > maxSlots || tasks != "" && !h.Given {
				t.Fatalf("%+v, %v", h, err)
			}
		}
	})
}

// FuzzAllocation: the data of a scheduler gives hosts with slots, or an error that names the variable.
func FuzzAllocation(f *testing.F) {
	for i, text := range []string{"n[1-2],m", "n[1-2]", "a\nb\na\n", "a\na\nb", "h1 4 h2 4",
		"a 2 all.q@a <NULL>\nb 1 q 0-3\n"} {
		f.Add(i, text, "2(x2),1")
	}
	f.Fuzz(func(t *testing.T, row int, text, slots string) {
		a := &allocations[uint(row)%uint(len(allocations))]
		env := variables{"SLURM_TASKS_PER_NODE": slots}
		hosts, err := a.read(a.variable, []byte(text), env.get)
		if a.components != "" {
			env[a.variable], env["SLURM_JOB_NODELIST"+a.components+"0"] = "2", text
			env["SLURM_JOB_NODELIST"+a.components+"1"] = "m"
			hosts, err = a.hosts(env.get)
			if err != nil { // it names the component's variable
				err = fmt.Errorf("%s: %w", a.variable, err)
			}
		}
		if err != nil && (hosts != nil || !strings.Contains(err.Error(), a.variable) || len(err.Error()) > 2000) {
			t.Fatalf("%d hosts and error %v", len(hosts), err)
		}
		for _, h := range hosts {
			if h.Name == "" || h.Name[0] == '-' || strings.ContainsAny(h.Target, " \n'\"\\;,") || h.Slots < 0 ||
				h.Slots > maxSlots {
				t.Fatalf("%q: host %+v", text, h)
			}
		}
	})
}
