package output

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// play feeds a script to a cutter: each string is written at once, "50ms" and "1s" let
// the clock pass until a flush is due, if one is.
func play(c cutter, script []string) string {
	var out []byte
	now := time.Unix(1000, 0)
	for _, s := range script {
		pause := map[string]time.Duration{"50ms": FlushAfter, "1s": ProgressEvery}[s]
		if pause == 0 {
			out = c.add(out, []byte(s), now)
			now = now.Add(time.Millisecond)
			continue
		}
		now = now.Add(pause)
		if at := c.due(); !at.IsZero() && !at.After(now) {
			out = c.flush(out, now)
		}
	}
	return string(c.end(out))
}

func TestTagged(t *testing.T) {
	const limit = 1000
	long := strings.Repeat("x", limit)
	for _, c := range []struct {
		name           string
		script         []string
		file, terminal string // terminal: where it differs
	}{
		{"nothing", nil, "", ""},
		{"lines", []string{"one\ntwo\n\nfour\n"}, "[3] one\n[3] two\n[3] \n[3] four\n", ""},
		{"a line in three parts", []string{"o", "n", "e\n"}, "[3] one\n", ""},
		{"no newline at the end", []string{"one\ntwo"}, "[3] one\n[3] two\n", ""},
		{"a pause in a line", []string{"abc", "50ms", "def\n"}, "[3] abc \\\n[3] def\n", ""},
		{"a pause before the newline", []string{"abc", "50ms", "\n"}, "[3] abc \\\n[3] \n", ""},
		{"a pause between lines", []string{"abc\n", "50ms", "def\n"}, "[3] abc\n[3] def\n", ""},
		{"a pause, then the end", []string{"abc", "50ms"}, "[3] abc \\\n", ""},
		{"a pause after half a character", []string{"\xc3", "50ms", "\xa9\n"}, "[3] é\n", ""},
		{"half a character, then the end", []string{"a\xe2", "50ms"}, "[3] a \\\n[3] \xe2\n", ""},
		{"not UTF-8, by parts", []string{"\xe9", "50ms", "t\xe9", "50ms", " \n"}, "[3] \xe9t \\\n[3] \xe9 \n", ""},
		{"progress, a pause in a character", []string{"\r\xc3", "1s", "\xa9\r"}, "[3] é\n", ""},
		{"not UTF-8", []string{"\xff\xfe\x00\x80", "50ms", "\n"}, "[3] \xff\xfe\x00\x80 \\\n[3] \n", ""},
		{"longest line", []string{long, "\n"}, "[3] " + long + "\n", ""},
		{"longer line", []string{long + "yz\n"}, "[3] " + long + " \\\n[3] yz\n", ""},
		{"longer line, byte by byte", strings.Split(long+"yz\n", ""), "[3] " + long + " \\\n[3] yz\n", ""},
		{"cut within a character", []string{long[1:] + "é\n"}, "[3] " + long[1:] + " \\\n[3] é\n", ""},
		{"line ends of DOS", []string{"one\r\n", "two\r", "\nthree\r\n"}, "[3] one\r\n[3] two\r\n[3] three\r\n", ""},
		{
			"progress, return at the end",
			[]string{"10%\r", "50ms", "20%\r", "done\n"},
			"[3] 10%\n[3] 20%\n[3] done\n", "",
		},
		{
			"progress, return in front",
			[]string{"\r10%", "50ms", "\r20%", "50ms", "50ms", "\n", "after", "50ms", "\n"},
			"[3] 10%\n[3] 20%\n[3] after \\\n[3] \n", "",
		},
		{
			"progress, return in front, slow",
			[]string{"\r1", "1s", "\r2", "1s", "0%\n"},
			"[3] 1\n[3] 2\n[3] 20%\n", "",
		},
		{
			"progress goes on",
			[]string{"10%\r20%\r", "50ms", "30%\r40%\r", "1s", "50%\r", "60%\r", "1s", "1s", "99%\r", "100%\n"},
			"[3] 10%\n[3] 20%\n[3] 30%\n[3] 40%\n[3] 50%\n[3] 60%\n[3] 99%\n[3] 100%\n",
			"[3] 10%\n[3] 40%\n[3] 60%\n[3] 99%\n[3] 100%\n",
		},
		{
			"progress in two parts",
			[]string{"\r1", "50ms", "0%", "50ms", "\r\n"},
			"[3] 10%\r\n",
			"[3] 1\n[3] 10%\n",
		},
		{
			"progress shown becomes a line",
			[]string{"\r1", "50ms", "0%", "1s", "\n", "after\n"},
			"[3] 10%\n[3] after\n",
			"[3] 1\n[3] 10%\n[3] after\n",
		},
		{"progress at the end", []string{"10%\r20%\r"}, "[3] 10%\n[3] 20%\n", ""},
		{
			"colors left on",
			[]string{"\x1b[31mred\nplain\n"},
			"[3] \x1b[31mred\n[3] plain\n",
			"[3] \x1b[31mred" + reset + "\n[3] plain\n",
		},
		{"returns only", []string{"\r\r\r", "50ms"}, "", ""},
	} {
		for _, terminal := range []bool{false, true} {
			want := c.file
			if terminal && c.terminal != "" {
				want = c.terminal
			}
			if got := play(&tagged{tag: [2]string{"[3] "}, terminal: terminal, limit: limit}, c.script); got != want {
				t.Errorf("%s, terminal %v:\n got %.200q\nwant %.200q", c.name, terminal, got, want)
			}
		}
	}
}

func TestWhole(t *testing.T) {
	script := []string{"one\ntwo", "50ms", " three\n10%\r20%", "x\n\xff"}
	want := strings.ReplaceAll(strings.Join(script, ""), "50ms", "")
	if got := play(&unchanged{hold: FlushAfter, limit: 1000}, script); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w := &unchanged{hold: FlushAfter, limit: 1000}
	if got := w.add(nil, []byte("one\ntwo"), time.Now()); string(got) != "one\n" {
		t.Errorf("an unfinished line is shown at once: %q", got)
	}
	if w.due().IsZero() {
		t.Error("nothing is due for an unfinished line")
	}
	single := &unchanged{}
	if got := single.add(nil, []byte("name? "), time.Now()); string(got) != "name? " {
		t.Errorf("a single rank's prompt is held back: %q", got)
	}
}

// TestCharacters: a table of random characters, written in random pieces with pauses between, gives the same
// bytes, and no piece that is shown begins or ends within a character.
func TestCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := rapid.StringOfN(rapid.SampledFrom([]rune("─│╭╮é🌲aß漢\n")), 1, 400, -1).Draw(t, "table")
		var script []string
		for rest := table; rest != ""; {
			n := rapid.IntRange(1, min(len(rest), 12)).Draw(t, "piece")
			script, rest = append(script, rest[:n]), rest[n:]
			if rapid.Bool().Draw(t, "pause") {
				script = append(script, "50ms")
			}
		}
		got := play(&tagged{tag: [2]string{"[3] "}, limit: 20}, script)
		plain := strings.ReplaceAll(strings.ReplaceAll(got, Mark, ""), "[3] ", "")
		if !utf8.ValidString(got) || strings.TrimSuffix(plain, "\n") != strings.TrimSuffix(table, "\n") {
			t.Fatalf("%q became %q", table, got)
		}
		for line := range strings.Lines(got) {
			if !utf8.ValidString(line) || len(line) > len("[3] ")+20+len(Mark) {
				t.Fatalf("%q of %q", line, table)
			}
		}
		w := &unchanged{hold: FlushAfter, limit: 20}
		now, all := time.Unix(1000, 0), ""
		show := func(piece []byte) {
			if all += string(piece); !utf8.Valid(piece) {
				t.Fatalf("%q is shown of %q", piece, table)
			}
		}
		for _, s := range script {
			switch at := w.due(); {
			case s != "50ms":
				show(w.add(nil, []byte(s), now))
			case !at.IsZero():
				now = at
				show(w.flush(nil, now))
			}
		}
		if show(w.end(nil)); all != table {
			t.Fatalf("%q became %q", table, all)
		}
	})
}

// FuzzCutters cuts data into writes and pauses according to steps. No byte gets lost, of any value; every line shown
// has the tag; and without carriage returns the output determines exactly the bytes that were written.
func FuzzCutters(f *testing.F) {
	f.Add([]byte("one\ntwo\nthree"), []byte{3, 0, 200})
	f.Add([]byte("caf\xc3\xa9 10%\r20%\r\nend\r"), []byte{1, 1, 0, 1, 1, 0})
	f.Add([]byte("\r\r\n\n\r \xff\xfe"), []byte{0, 0, 1, 0, 2})
	f.Add([]byte("0E\r\r\n"), []byte{1, 0})
	f.Add(bytes.Repeat([]byte("0123456789"), 20_000), []byte{255, 255, 0, 255, 255})
	f.Fuzz(func(t *testing.T, data, steps []byte) {
		data = bytes.ReplaceAll(data, []byte(`\`), []byte("/")) // keeps the marks unambiguous
		script := cutUp(data, steps)
		if got := play(&unchanged{hold: FlushAfter, limit: 1000}, script); got != string(data) {
			t.Fatalf("whole: %q became %q", data, got)
		}
		// A terminal may miss progress lines, but not the last line.
		terminal := play(&tagged{tag: [2]string{"[3] "}, terminal: true, limit: 1000}, script)
		last := strings.TrimRight(string(data), "\r\n")
		last = last[strings.LastIndexAny(last, "\r\n")+1:]
		var shown strings.Builder // without tags: an empty line may follow the last
		for line := range strings.Lines(terminal) {
			shown.WriteString(strings.TrimSuffix(strings.TrimPrefix(line, "[3] "), Mark))
		}
		plain := strings.NewReplacer(reset, "", "\r", "", "\n", "").Replace(shown.String())
		if last = strings.ReplaceAll(last, reset, ""); !strings.HasSuffix(plain, last) {
			t.Fatalf("a terminal shows %q of %q, without the end %q", terminal, data, last)
		}
		got := play(&tagged{tag: [2]string{"[3] "}, limit: 1000}, script)
		var back strings.Builder
		for line := range strings.Lines(got) {
			text, ok := strings.CutPrefix(line, "[3] ")
			if !ok || !strings.HasSuffix(line, "\n") || len(line) > len("[3] ")+1000+len(Mark) {
				t.Fatalf("from %q came the line %.100q", data, line)
			}
			back.WriteString(strings.TrimSuffix(text, Mark))
		}
		want := string(data)
		if strings.Contains(want, "\r") {
			plain := strings.NewReplacer("\r", "", "\n", "")
			if plain.Replace(back.String()) != plain.Replace(want) {
				t.Fatalf("%q became %q", data, got)
			}
			return
		}
		if b := back.String(); b != want && b != want+"\n" {
			t.Fatalf("%q became %q", data, got)
		}
	})
}

// cutUp turns data into a script for play: each step is the length of a
// write, 0 a pause.
func cutUp(data, steps []byte) []string {
	var script []string
	for _, s := range steps {
		if s == 0 {
			script = append(script, "50ms")
			continue
		}
		n := min(len(data), int(s)*int(s))
		if piece := string(data[:n]); piece != "50ms" && n > 0 {
			script = append(script, piece)
			data = data[n:]
		}
	}
	for _, piece := range bytes.SplitAfter(data, []byte("50ms")) { // never a write that reads like a pause
		if len(piece) > 1 {
			script = append(script, string(piece[:1]), string(piece[1:]))
		} else if len(piece) > 0 {
			script = append(script, string(piece))
		}
	}
	return script
}
