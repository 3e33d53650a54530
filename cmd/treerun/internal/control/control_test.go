//go:build linux

package control

import (
	"bytes"
	"context"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/strict"
)

// A command finds the job and gets the launcher's answer, or its refusal. After Close it finds neither.
func TestAsk(t *testing.T) {
	id := job.NewID()
	l, err := Listen(id, func(r Request) Answer {
		if r.Size > 8 {
			return Answer{Error: "there is no room"}
		}
		return Answer{Text: "starting"}
	})
	if err != nil {
		t.Fatal(err)
	}
	if jobs, err := Jobs(t.Context()); err != nil || !slices.Contains(jobs, id) {
		t.Errorf("jobs %v, error %v, want %s among them", jobs, err, id)
	}
	if a, err := Ask(t.Context(), id, Request{Size: 4}); err != nil || a.Text != "starting" {
		t.Errorf("answer %+v, error %v", a, err)
	}
	for size, want := range map[int]string{9: "there is no room", -1: "number of ranks: -1", 1 << 20: "number of ranks"} {
		if _, err := Ask(t.Context(), id, Request{Size: size}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d ranks: error %v, want %q", size, err, want)
		}
	}
	if _, err := Listen(id, nil); err == nil {
		t.Error("two jobs have one id")
	}
	l.Close()
	if _, err := Ask(t.Context(), id, Request{Size: 4}); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("after Close: error %v", err)
	}
	if jobs, _ := Jobs(t.Context()); slices.Contains(jobs, id) {
		t.Errorf("after Close there is job %v", jobs)
	}
}

// What is no request is refused, and does not stop the launcher from answering others.
func TestStranger(t *testing.T) {
	id := job.NewID()
	l, err := Listen(id, func(Request) Answer { return Answer{Text: "well"} })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, text := range []string{"", "GET / HTTP/1.1\r\n\r\n", string(strict.AppendHead(nil, requestFrame, 1<<40))} {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "unix", prefix+id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Error(err)
		}
		if text == "" {
			conn.Close()
			continue
		}
		if a, err := decode[Answer](conn, answerFrame); err != nil || !strings.Contains(a.Error, "cannot be read") {
			t.Errorf("%q: answer %+v, error %v", text, a, err)
		}
		conn.Close()
	}
	if a, err := Ask(t.Context(), id, Request{Size: 1}); err != nil || a.Text != "well" {
		t.Errorf("answer %+v, error %v", a, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(Request{Size: 3}, requestFrame))
	f.Add(encode(Answer{Text: "starting"}, answerFrame))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decode[Request](bytes.NewReader(b), requestFrame); err == nil {
			if again, err := decode[Request](bytes.NewReader(encode(r, requestFrame)), requestFrame); err != nil ||
				!reflect.DeepEqual(again, r) {
				t.Errorf("%+v came back as %+v, %v", r, again, err)
			}
		}
		if a, err := decode[Answer](bytes.NewReader(b), answerFrame); err == nil && len(a.Error)+len(a.Text) < 1<<10 {
			if again, err := decode[Answer](bytes.NewReader(encode(a, answerFrame)), answerFrame); err != nil ||
				!reflect.DeepEqual(again, a) {
				t.Errorf("%+v came back as %+v, %v", a, again, err)
			}
		}
	})
}
