//go:build linux

package output

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/treerun/treerun/cmd/treerun/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newPipe returns a pipe and the file that feeds it.
func newPipe(t *testing.T) (*host.Pipe, *os.File) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, err := host.NewPipe(fds[0], "rank")
	if err != nil {
		t.Fatal(err)
	}
	return r, os.NewFile(uintptr(fds[1]), "rank")
}

// run runs a Stream; the channel is closed at its end.
func run(s *Stream, src Source) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(src)
	}()
	return done
}

func newScreen(t *testing.T) (*Screen, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "screen")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return NewScreen(f, f), name
}

// Eight ranks write lines of all lengths at once, in odd pieces. Every line
// arrives whole, once, and in the order of its rank; the raw files hold the
// same bytes.
func TestLinesOfManyRanks(t *testing.T) {
	const ranks, lines = 8, 300
	screen, name := newScreen(t)
	rawDir := t.TempDir()
	var streams []<-chan struct{}
	for rank := range ranks {
		src, w := newPipe(t)
		raw, err := os.Create(filepath.Join(rawDir, fmt.Sprint(rank)))
		if err != nil {
			t.Fatal(err)
		}
		screen.Out.OnError(func(err error) { t.Error(err) })
		s := NewStream(screen.Out, rank, Options{Tag: Tag{Rank: true}, Raw: raw})
		streams = append(streams, run(s, src))
		go func() {
			defer w.Close()
			rng := rand.New(rand.NewPCG(uint64(rank), 1))
			for i := range lines {
				line := fmt.Appendf(nil, "line %d %s end\n", i, strings.Repeat("x", rng.IntN(20_000)>>rng.IntN(14)))
				for len(line) > 0 {
					n := 1 + rng.IntN(len(line))
					if _, err := w.Write(line[:n]); err != nil {
						t.Error(err)
						return
					}
					line = line[n:]
				}
			}
		}()
	}
	for _, done := range streams {
		<-done
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// Under load a line may have been cut by a pause, with the mark: join it.
	perRank := make([]string, ranks)
	for line := range strings.Lines(string(text)) {
		var rank int
		if _, err := fmt.Sscanf(line, "[%d] ", &rank); err != nil {
			t.Fatalf("the line %.80q has no tag", line)
		}
		_, line, _ = strings.Cut(line, "] ")
		perRank[rank] += strings.TrimSuffix(line, Mark)
	}
	for rank, got := range perRank {
		raw, err := os.ReadFile(filepath.Join(rawDir, fmt.Sprint(rank)))
		if err != nil || string(raw) != got {
			t.Errorf("rank %d: %d bytes shown, %d in the raw file, %v", rank, len(got), len(raw), err)
		}
		i := 0
		for line := range strings.Lines(got) {
			if !strings.HasPrefix(line, fmt.Sprintf("line %d ", i)) || !strings.HasSuffix(line, " end\n") {
				t.Fatalf("rank %d, line %d is %.80q", rank, i, line)
			}
			i++
		}
		if i != lines {
			t.Errorf("rank %d: %d lines, want %d", rank, i, lines)
		}
	}
}

// Four ranks write long lines without tags at once. Lines up to the limit arrive whole; of a longer one each part that
// another rank's line follows ends with the mark.
func TestLongLinesWithoutTags(t *testing.T) {
	const ranks, limit = 4, 40_000
	screen, name := newScreen(t)
	var streams []<-chan struct{}
	for rank := range ranks {
		src, w := newPipe(t)
		s := NewStream(screen.Out, rank, Options{})
		if s.cut.(*unchanged).limit != 1<<20 {
			t.Errorf("lines are cut at %d bytes", s.cut.(*unchanged).limit)
		}
		s.cut = &unchanged{hold: time.Hour, limit: limit}
		streams = append(streams, run(s, src))
		go func() {
			defer w.Close()
			for i := range 100 {
				n := limit - i*100
				if i%10 == 0 {
					n = 5 * limit
				}
				fmt.Fprintf(w, "<%s>\n", strings.Repeat(string(rune('a'+rank)), n-2))
			}
		}()
	}
	for _, done := range streams {
		<-done
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var counts [ranks]int
	whole := map[string]bool{}
	for line := range strings.Lines(strings.ReplaceAll(string(text), Mark, "\n")) {
		line = strings.TrimSuffix(line, "\n")
		part := strings.Trim(line, "<>")
		if part == "" || strings.Trim(part, part[:1]) != "" {
			t.Fatalf("a line of %d bytes mixes ranks: %.40q", len(line), line)
		}
		counts[part[0]-'a'] += len(part)
		if line[0] == '<' && line[len(line)-1] == '>' {
			whole[fmt.Sprint(part[:1], len(line))] = true
		}
	}
	for rank, n := range counts {
		want := 0
		for i := range 100 {
			if i%10 == 0 {
				want += 5*limit - 2
			} else if want += limit - i*100 - 2; !whole[fmt.Sprint(string(rune('a'+rank)), limit-i*100)] {
				t.Errorf("rank %d: line %d is cut", rank, i)
			}
		}
		if n != want {
			t.Errorf("rank %d: %d bytes, want %d", rank, n, want)
		}
	}
}

// TestTailCharacters: the kept end of a stream begins with a whole character.
func TestTailCharacters(t *testing.T) {
	for n := range 8 {
		var tail Tail
		text := strings.Repeat("漢", tailBytes) + strings.Repeat("x", n)
		for part := range slices.Chunk([]byte(text), 100) {
			_, _ = tail.Write(part)
		}
		if got := tail.Lines(1)[0]; !utf8.ValidString(got) || len(got) < tailBytes-3 || !strings.HasSuffix(text, got[3:]) {
			t.Errorf("with %d letters: %.20q, %d bytes", n, got, len(got))
		}
	}
}

// A stream shows an unfinished line by itself after FlushAfter, and Finish ends
// it although the other side stays open.
func TestStreamFlushesAndFinishes(t *testing.T) {
	screen, name := newScreen(t)
	src, w := newPipe(t)
	defer w.Close()
	s := NewStream(screen.Err, 0, Options{Tag: Tag{Rank: true}})
	done := run(s, src)
	fmt.Fprint(w, "question?")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if text, _ := os.ReadFile(name); string(text) == "[0] question? \\\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("an unfinished line was not shown")
		}
	}
	fmt.Fprint(w, "last words")
	src.Finish()
	<-done
	text, _ := os.ReadFile(name)
	// flushed, too, if this machine is busy
	if got := strings.ReplaceAll(string(text), "words"+Mark, "words\n"); got != "[0] question? \\\n[0] last words\n" {
		t.Errorf("shown: %q", text)
	}
	if got := s.Tail.Lines(5); !slices.Equal(got, []string{"question?last words"}) {
		t.Errorf("the tail is %q", got)
	}
}

// When the reader is gone, the error is reported once, and the ranks do not block.
func TestBrokenSink(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	screen := NewScreen(w, w)
	var errs []error
	screen.Out.OnError(func(err error) { errs = append(errs, err) })
	src, rank := newPipe(t)
	s := NewStream(screen.Out, 0, Options{Tag: Tag{Rank: true}})
	done := run(s, src)
	for range 100 {
		if _, err := rank.Write(bytes.Repeat([]byte("line\n"), 1000)); err != nil {
			t.Fatal(err)
		}
	}
	rank.Close()
	<-done
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "broken pipe") {
		t.Errorf("errors: %v", errs)
	}
}

// The erase of a progress line crosses from sink to sink of one terminal.
func TestDirtyLine(t *testing.T) {
	screen, name := newScreen(t)
	screen.Out.out.terminal = true
	screen.Out.write([]byte("[0] 10%\r"), nil, false)
	screen.Err.Printf("treerun: %s", "failed")
	screen.Out.write([]byte("[0] done\n"), nil, false)
	if text, _ := os.ReadFile(name); string(text) != "[0] 10%\r"+erase+"treerun: failed\n[0] done\n" {
		t.Errorf("written: %q", text)
	}
}

func TestTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tail Tail
		var all []byte
		for range rapid.IntRange(0, 20).Draw(t, "writes") {
			b := bytes.Repeat([]byte(rapid.SampledFrom([]string{"a", "bc\n", "\n", "\r1%"}).Draw(t, "text")),
				rapid.IntRange(0, 4000).Draw(t, "times"))
			tail.Write(b)
			all = append(all, b...)
		}
		got, cut := tail.text, tail.cut
		want := all[max(0, len(all)-tailBytes):]
		if !bytes.Equal(got, want) || cut != (len(all) > tailBytes) {
			t.Fatalf("remembers %d bytes, cut %v; want %d of %d", len(got), cut, len(want), len(all))
		}
	})
}

func TestTailLines(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  []string
	}{
		{"", 3, nil},
		{"\n\n", 3, nil},
		{"one\ntwo\nthree\nfour\n", 3, []string{"two", "three", "four"}},
		{"one\r\n10%\r20%\r", 3, []string{"one", "20%"}},
		{strings.Repeat("x", tailBytes) + "yz\n", 3, []string{"..." + strings.Repeat("x", tailBytes-3) + "yz"}},
	} {
		var tail Tail
		tail.Write([]byte(c.text))
		if got := tail.Lines(c.limit); !slices.Equal(got, c.want) {
			t.Errorf("%.40q: %.100q, want %.100q", c.text, got, c.want)
		}
	}
}
