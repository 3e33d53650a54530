package main

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// write makes a folder of files: some of plain text, one that is not text.
func write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text := strings.Repeat("The red fox eats the small mouse. A grey wolf eats a small hare!\n", 200)
	for name, content := range map[string]string{
		"a/README": text, "b.txt": strings.Repeat("one two three four five six seven eight nine ten\n", 100),
		"c.bin": "zebra\x00zebra", "d": "squeezed squeezed",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCorpus(t *testing.T) {
	dir := write(t)
	c, err := readCorpus(dir, 100000, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]int64{"the": 400, "eats": 400, "fox": 200, "ten": 100, "squeezed": 2} {
		i := slices.Index(c.words, word)
		if i < 0 || c.Count[i] != want {
			t.Errorf("%q stands there as word %d, want %d times", word, i, want)
		}
	}
	if slices.Contains(c.words, "zebra") || slices.Contains(c.words, "a") ||
		!slices.IsSortedFunc(c.Count, func(a, b int64) int { return int(b - a) }) {
		t.Errorf("words %v, counts %v", c.words, c.Count)
	}
	if few, err := readCorpus(dir, 2500, 10); err != nil || len(few.words) != 10 || len(few.Text) > 2500 {
		t.Errorf("of 2500 words %d different, %v", len(few.words), err)
	}
	if _, err := readCorpus(filepath.Join(dir, "nothing"), 500, 10); err == nil {
		t.Error("a folder that is not there can be read")
	}
	if _, err := readCorpus(filepath.Join(dir, "d"), 500, 10); err == nil || !strings.Contains(err.Error(), "too few") {
		t.Errorf("a text of one word: %v", err)
	}
}

// The gradient is that of the loss, according to finite differences.
func TestGradient(t *testing.T) {
	const words, dim = 3, 4
	m := newModel(words, dim, 1)
	for i := range m.rows {
		m.rows[i] = float32(i%7-3) / 4
	}
	loss := func(p pair) float64 {
		return m.gradient(p, words, 1, make([]int32, dim), func(int, []int32) {})
	}
	for _, p := range []pair{{0, 1, 1}, {2, 0, 0}} {
		sum := make([]float64, len(m.rows))
		m.gradient(p, words, 1, make([]int32, dim), func(row int, step []int32) {
			for i, v := range step {
				sum[row*dim+i] += float64(v) / fixedOne
			}
		})
		for i := range m.rows {
			const h = 1e-3
			was := m.rows[i]
			m.rows[i] = was + h
			up := loss(p)
			m.rows[i] = was - h
			down := loss(p)
			m.rows[i] = was
			if slope := (down - up) / (2 * h); math.Abs(slope-sum[i]) > 1e-3 {
				t.Errorf("pair %+v, element %d: the step is %.5f, the loss falls by %.5f", p, i, sum[i], slope)
			}
		}
	}
}

// On real ranks all ways to add up gradients result in the same vectors, for any number of ranks.
func TestLaunched(t *testing.T) {
	dir := t.TempDir()
	for _, pkg := range []string{"cmd/treerun", "examples/embedding"} {
		if err := testutil.Build("github.com/treerun/treerun/"+pkg, filepath.Join(dir, filepath.Base(pkg))); err != nil {
			t.Fatal(err)
		}
	}
	text := write(t)
	vectors := ""
	for _, np := range []string{"1", "3"} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, filepath.Join(dir, "treerun"), "-np", np, "--tag-output=false",
			filepath.Join(dir, "embedding"),
			"--text", text, "--steps", "40", "--batch", "64", "--dim", "16").CombinedOutput()
		if err != nil {
			t.Fatalf("np %s: %v\n%s", np, err, out)
		}
		var digests []string
		for line := range strings.Lines(string(out)) {
			if _, digest, found := strings.Cut(line, "vectors "); found && strings.Contains(line, "loss") {
				digests = append(digests, strings.TrimSpace(digest))
			}
		}
		if vectors == "" && len(digests) > 0 {
			vectors = digests[0]
		}
		if len(digests) != 3 || digests[0] != vectors || digests[1] != vectors || digests[2] != vectors ||
			strings.Count(string(out), "the same vectors") != 2 {
			t.Errorf("np %s: vectors %v, want three times %s\n%s", np, digests, vectors, out)
		}
	}
}
