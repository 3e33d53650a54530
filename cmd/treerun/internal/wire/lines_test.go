//go:build linux

package wire

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

type buffer struct{ bytes.Buffer }

func (*buffer) Close() error { return nil }

// What one side writes the other reads, through a program that passes on whole lines only.
func TestLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var passed, sent buffer
	held := ""
	w := &LineWriter{ReadWriteCloser: &passed}
	var want bytes.Buffer
	write := func(b []byte) {
		if n, err := w.Write(b); n != len(b) || err != nil {
			t.Fatal(n, err)
		}
		all := held + passed.String()
		passed.Reset()
		whole := strings.LastIndexByte(all, '\n') + 1
		sent.WriteString(all[:whole])
		held = all[whole:]
		if held != "" {
			t.Fatalf("%d bytes are held back", len(held))
		}
	}
	write([]byte(AgentWord + " v\n"))
	for _, n := range []int{1, 12, 0, 13, 4000, 1<<20 + 5, 10, 256, 10} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		want.Write(b)
		write(b)
	}
	r := bufio.NewReader(&sent)
	if version, _, err := ReadHello(r, AgentWord); version != "v" || err != nil {
		t.Fatalf("hello: %q, %v", version, err)
	}
	got, err := io.ReadAll(NewLineReader(r))
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d bytes, %v, want %d", len(got), err, want.Len())
	}
}

// Whatever arrives, a LineReader returns its data or an error.
func FuzzLineReader(f *testing.F) {
	f.Add([]byte("\n\x00\x00\x00\x02ab\n\x00\x00\x00\x01c\n"))
	f.Add([]byte("\n\xff\xff\xff\xffab"))
	f.Add([]byte("a\x00\x00\x00\x01b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, _ := io.ReadAll(NewLineReader(bufio.NewReader(bytes.NewReader(data))))
		if len(got) > len(data) {
			t.Errorf("%d bytes of %d", len(got), len(data))
		}
	})
}
