//go:build linux

package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// gathering returns results for the cases of a command line on 2 ranks, whose table goes to a buffer, and the data that
// rank 0 would send.
func gathering(t *testing.T, line string) (r *results, out *bytes.Buffer, sent []byte) {
	t.Helper()
	o, err := parse(strings.Fields(line))
	if err != nil {
		t.Fatal(err)
	}
	out = new(bytes.Buffer)
	r = &results{np: 2, cases: o.cases(2)}
	r.table = newTable(out, o, 2, r.cases, false)
	if err := r.open(o); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	e := json.NewEncoder(&all)
	if err := e.Encode(Record{Ranks: []Process{{PID: 1, Host: "a", Device: "b"},
		{PID: 2, Host: "a", Device: "b"}}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.cases {
		err := e.Encode(Record{Row: &Row{
			Collective: c.Name, NP: 2, Bytes: c.Bytes, Count: c.Count, Type: c.Type.Name, Op: c.Op, Root: c.Root,
			InPlace: c.InPlace, InFlight: c.Calls,
			TimeUs: 1, Wrong: new(int64),
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return r, out, all.Bytes()
}

// The data of rank 0 becomes rows, with any boundaries between writes.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	rows, picture := filepath.Join(dir, "rows"), filepath.Join(dir, "picture.svg")
	for _, step := range []int{1, 7, 1000, 1 << 20} {
		r, out, sent := gathering(t, "-b 8 -e 64 --json "+rows+" --plot "+picture)
		for len(sent) > 0 {
			n := min(step, len(sent))
			if k, err := r.Write(sent[:n]); k != n || err != nil {
				t.Fatalf("%d bytes at a time: %d, %v", step, k, err)
			}
			sent = sent[n:]
		}
		if code, err := r.finish(0, nil); code != 0 || err != nil {
			t.Fatalf("code %d, %v", code, err)
		}
		if len(r.rows) != 8 || strings.Count(out.String(), "float32") != 4 ||
			!strings.Contains(out.String(), "Collective test concluded") {
			t.Errorf("%d bytes at a time: %d rows and the table\n%s", step, len(r.rows), out)
		}
		text, err := os.ReadFile(rows)
		if err != nil || bytes.Count(text, []byte("\n")) != 8 {
			t.Errorf("rows as JSON: %v\n%s", err, text)
		}
		if text, err = os.ReadFile(picture); err != nil || !bytes.Contains(text, []byte("</svg>")) {
			t.Errorf("the picture: %v\n%s", err, text)
		}
	}
}

// Invalid data of rank 0 is refused.
func TestWriteRefuses(t *testing.T) {
	for change, want := range map[string]string{
		"\"bytes\":8>\"bytes\":9":                       "which is not row 1 of 2",
		"\"np\":2>\"np\":3":                             "which is not row 1 of 2",
		"allreduce>scan":                                "which is not row 1 of 2",
		"{\"row\">{\"rows\"":                            "neither the ranks nor one row",
		"\"pid\":1>\"pid\":\"one\"":                     "in place of a result",
		"\n{\"row\">\nnoise {\"row\"":                   "in place of a result",
		"\"in_place\":true>\"in_place\":false":          "which is not row 2 of 2",
		"\"in_place\":true,>\"in_place\":true,\"x\":1,": "",
	} {
		r, _, sent := gathering(t, "-b 8 -e 8")
		from, to, _ := strings.Cut(change, ">")
		_, err := r.Write([]byte(strings.ReplaceAll(string(sent), from, to)))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
	r, _, sent := gathering(t, "-b 8 -e 8")
	if _, err := r.Write(append(sent, sent...)); err == nil || !strings.Contains(err.Error(), "not row 3 of 2") {
		t.Errorf("a row too many: %v", err)
	}
}

// The end of a job gives the exit code, and files without a row are removed.
func TestFinish(t *testing.T) {
	dir := t.TempDir()
	rows, picture := filepath.Join(dir, "rows"), filepath.Join(dir, "picture.svg")
	for name, c := range map[string]struct {
		lines    int // of the data from rank 0
		wrong    bool
		code     int
		err      error
		wantCode int
		wantErr  string
		files    bool
	}{
		"all":             {lines: 3, files: true},
		"wrong elements":  {lines: 3, wrong: true, wantCode: wrongResults, files: true},
		"interrupted":     {lines: 2, code: 130, wantCode: 130, files: true},
		"failed at once":  {lines: 0, code: 7, wantCode: 7},
		"ended early":     {lines: 2, wantErr: "after 1 of 2 rows", files: true},
		"said nothing":    {lines: 1, wantErr: "after 0 of 2 rows"},
		"nobody reads":    {lines: 3, err: syscall.EPIPE, wantCode: 141, files: true},
		"launcher failed": {lines: 0, code: 126, err: errors.New("noexec"), wantCode: 126, wantErr: "noexec"},
	} {
		r, out, sent := gathering(t, "-b 8 -e 8 --json "+rows+" --plot "+picture)
		lines := bytes.SplitAfter(sent, []byte("\n"))[:c.lines]
		text := bytes.Join(lines, nil)
		if c.wrong {
			text = bytes.ReplaceAll(text, []byte(`"wrong":0`), []byte(`"wrong":5`))
		}
		if _, err := r.Write(text); err != nil {
			t.Fatal(err)
		}
		code, err := r.finish(c.code, c.err)
		if code != c.wantCode || (err == nil) != (c.wantErr == "") || err != nil &&
			!strings.Contains(err.Error(), c.wantErr) {
			t.Errorf("%s: code %d, %v; want %d, %q", name, code, err, c.wantCode, c.wantErr)
		}
		if concluded := strings.Contains(out.String(), "concluded"); concluded != (c.lines == 3 && c.err == nil) {
			t.Errorf("%s: the table is concluded: %v\n%s", name, concluded, out)
		}
		for _, file := range []string{rows, picture} {
			if err := os.Remove(file); (err == nil) != c.files {
				t.Errorf("%s: %s: %v", name, file, err)
			}
		}
	}
}

func TestAvailable(t *testing.T) {
	const text = "MemTotal:       24682976 kB\nMemFree:        22969000 kB\nMemAvailable:   23646000 kB\n"
	if n := available([]byte(text)); n != 23646000<<10 {
		t.Errorf("%d bytes", n)
	}
	if n := available([]byte("MemTotal: 1 kB\nMemAvailable: much\n")); n != 0 {
		t.Errorf("%d bytes of nothing", n)
	}
	if err := checkMemory(1, 2); err != nil {
		t.Error(err)
	}
	if err := checkMemory(1<<60, 2); err == nil || !strings.Contains(err.Error(), "smaller -e or -np") {
		t.Error(err)
	}
}
