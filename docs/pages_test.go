package docs_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write docs/options.md again; commit only a difference that you understand")

// forOthers are the pages of this folder that are not for users.
var forOthers = []string{"architecture.md", "packages.md", "principles.md", "security.md", "decisions.md"}

// pages returns the pages for users, seen from this folder.
func pages(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(p string) bool { return slices.Contains(forOthers, p) })
	return append(all, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../CHANGELOG.md", "../examples/README.md",
		"lab/README.md")
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the contents of fences of a language.
func blocks(text, language string) (all []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// reader is the folder of a reader of the pages: treerun is in PATH, and the folder has the program of the
// README, ./train, and files that a user has to make.
type reader struct {
	dir, root string
	path      string // of treerun
}

func newReader(t *testing.T) reader {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	r := reader{t.TempDir(), root, filepath.Dir(built(t, "treerun"))}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sum", "train"} {
		if err := os.Link(built(t, "readme-sum"), filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, file := range map[string]string{"topology.xml": "cube.xml", "matrix.txt": "cube.txt"} {
		write(name, read(t, "../topo/foreign/testdata/"+file))
	}
	write("hosts", "node1 slots=8\nnode2 slots=8\n")
	write("key", strings.Repeat("0a", 32)+"\n")
	return r
}

// goFlags makes go omit the data for debuggers, which take half of the time for linking programs.
var goFlags = sync.OnceValue(func() string {
	own, _ := exec.Command("go", "env", "GOFLAGS").Output()
	return "GOFLAGS=" + strings.TrimSpace(string(own)) + " -ldflags=-w"
})

// run runs a command of a page with bash.
func (r reader) run(command string) (out string, code int) {
	for _, folder := range []string{"examples/", "scripts/"} {
		command = regexp.MustCompile(`(^|\s)(\./)?`+folder).ReplaceAllString(command, "${1}"+r.root+"/"+folder)
	}
	cmd := exec.Command("bash", "-c", command)
	cmd.Dir, cmd.WaitDelay = r.dir, time.Minute
	cmd.Env = append(os.Environ(), "PATH="+r.path+":"+os.Getenv("PATH"), goFlags())
	text, err := cmd.CombinedOutput()
	if err != nil {
		text = fmt.Appendln(text, err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// TestPagesRun: the commands after a "$" in console blocks work here. A command of several pages runs once.
func TestPagesRun(t *testing.T) {
	r, ran := newReader(t), make(map[string]bool)
	for _, page := range pages(t) {
		for _, block := range blocks(read(t, page), "console") {
			for line := range strings.Lines(block) {
				command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
				if !ok {
					t.Errorf("%s: %q in a console block is no command", page, line)
					continue
				}
				if ran[command] {
					continue
				}
				ran[command] = true
				out, code := r.run(command)
				if unfit := code == 1 && strings.HasPrefix(command, "treerun check"); code != 0 && !unfit {
					t.Errorf("%s: %s: exit code %d\n%s", page, command, code, out)
				}
			}
		}
	}
}

// TestPagesElsewhere: the commands in sh blocks, which are for other machines than this one, are valid shell, and
// treerun accepts their flags.
func TestPagesElsewhere(t *testing.T) {
	r := newReader(t)
	subcommand := regexp.MustCompile(`^treerun (topo|bench|plan|sim)\b`)
	ofJob := regexp.MustCompile(`^treerun (resize|status)( \w{13})?`)
	for _, page := range pages(t) {
		for _, block := range blocks(read(t, page), "sh") {
			for line := range strings.Lines(block) {
				command, _, _ := strings.Cut(strings.TrimSpace(line), " # ")
				want := []int{0}
				switch {
				case strings.Contains(command, " --nnodes "):
					command = strings.Replace(command, "treerun", "treerun --start-timeout 0.3", 1)
					command = strings.ReplaceAll(command, "node1:", "127.0.0.1:")
					want = []int{125} // the other hosts do not join
				case subcommand.MatchString(command):
					command = subcommand.ReplaceAllString(command, "${0} --launch-agent 'false {host}'")
					want = []int{125} // there is no such host
				case ofJob.MatchString(command):
					command = ofJob.ReplaceAllString(command, "treerun ${1} none")
					want = []int{125} // there is no such job
				case strings.HasPrefix(command, "treerun "):
					command = "treerun --dry-run " + strings.TrimPrefix(command, "treerun ")
				default:
					command = "bash -n <<'END'\n" + command + "\nEND"
				}
				if out, code := r.run(command); !slices.Contains(want, code) {
					t.Errorf("%s: %s: exit code %d\n%s", page, command, code, out)
				}
			}
		}
	}
}

// TestOptions: docs/options.md has the help of the commands.
func TestOptions(t *testing.T) {
	exe := built(t, "treerun")
	var page strings.Builder
	page.WriteString("# Options\n\nWhat `treerun --help` and its subcommands print. " +
		"Generated: `go test ./docs -run TestOptions -rewrite`.\n")
	for _, sub := range []string{"", "topo", "plan", "sim", "bench", "check", "status", "resize"} {
		args := append(strings.Fields(sub), "--help")
		out, err := exec.Command(exe, args...).Output()
		if err != nil {
			t.Fatalf("treerun %s: %v", strings.Join(args, " "), err)
		}
		fmt.Fprintf(&page, "\n## treerun %s\n\n```text\n%s```\n", sub, out)
	}
	text := strings.ReplaceAll(page.String(), "treerun \n", "treerun\n")
	if *rewrite {
		if err := os.WriteFile("options.md", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, "options.md") != text {
		t.Error("docs/options.md differs from the help of the commands: go test ./docs -run TestOptions -rewrite")
	}
}

// TestLinks: the targets of links within this repository exist.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#: ,]+)(#[^)]*)?\)`)
	for _, page := range append(pages(t), "architecture.md", "principles.md", "security.md") {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

var fences = regexp.MustCompile("(?ms)^```.*?^```$")

// proseOf returns the lines of a page that are not code.
func proseOf(t *testing.T, page string) (all []string) {
	t.Helper()
	for line := range strings.Lines(fences.ReplaceAllString(read(t, page), "")) {
		if !strings.HasPrefix(line, "    ") {
			all = append(all, line)
		}
	}
	return all
}

// TestWords: pages for users have sentences of at most 30 words, those for contributors of at most 25, and the README
// and architecture.md have a limit of words.
func TestWords(t *testing.T) {
	for page, most := range map[string]int{"../README.md": 1200, "architecture.md": 3500} {
		if n := len(strings.Fields(read(t, page))); n > most {
			t.Errorf("%s has %d words, at most %d are read", page, n, most)
		}
	}
	inside, err := filepath.Glob("inside/*.md")
	if err != nil || len(inside) < 9 {
		t.Fatal(inside, err)
	}
	inside = append(inside, "architecture.md", "glossary.md", "testing.md", "decisions.md")
	most := map[string]int{}
	for _, page := range pages(t) {
		most[page] = 30
	}
	for _, page := range inside {
		most[page] = 25
	}
	for page, most := range most {
		if n, sentence := longestSentence(t, page); n > most {
			t.Errorf("%s: a sentence of %d words, at most %d are read: %.80s...", page, n, most, sentence)
		}
	}
}

// longestSentence returns the number of words of the longest sentence of a page, outside of code and tables.
func longestSentence(t *testing.T, page string) (most int, longest string) {
	t.Helper()
	var prose strings.Builder
	for _, line := range proseOf(t, page) {
		if !strings.HasPrefix(line, "|") {
			prose.WriteString(line)
		}
	}
	for _, sentence := range sentenceEnd.Split(prose.String(), -1) {
		if n := len(strings.Fields(sentence)); n > most {
			most, longest = n, sentence
		}
	}
	return most, longest
}

var sentenceEnd = regexp.MustCompile(`[.:?!]\**\s|\n\n|\n *(- |\d\. |#+ )`)
