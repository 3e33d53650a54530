package testutil

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// outcome is a testing.TB that records how a test ended.
type outcome struct {
	testing.TB
	kind, text string
}

func (o *outcome) Helper() {}

func (o *outcome) Fatal(args ...any) { o.Fatalf("%v", args...) }

func (o *outcome) Fatalf(format string, args ...any) { o.end("failed", format, args...) }

func (o *outcome) Skipf(format string, args ...any) { o.end("skipped", format, args...) }

func (o *outcome) end(kind, format string, args ...any) {
	var b strings.Builder
	for _, a := range args {
		if err, ok := a.(error); ok {
			b.WriteString(err.Error())
		}
	}
	o.kind, o.text = kind, format+b.String()
	runtime.Goexit()
}

func TestNeed(t *testing.T) {
	missing := errors.New("the reason")
	for _, c := range []struct {
		list    string
		missing error
		want    string
	}{
		{"", nil, ""}, {"proc,gpu", nil, ""},
		{"", missing, "skipped"}, {"proc", missing, "skipped"}, {"gpux", missing, "failed"},
		{"gpu", missing, "failed"}, {" proc , gpu,", missing, "failed"},
	} {
		t.Setenv(Variable, c.list)
		o := &outcome{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			Need(o, GPU, c.missing)
		}()
		<-done
		if o.kind != c.want {
			t.Errorf("%s=%q, missing %v: %q, want %q", Variable, c.list, c.missing, o.kind, c.want)
		}
		if c.list != "gpux" && c.missing != nil && !strings.Contains(o.text, missing.Error()) {
			t.Errorf("%q does not tell the reason", o.text)
		}
	}
}

func TestParse(t *testing.T) {
	got, err := parse("bash, netns,,proc")
	if err != nil || !slices.Equal(got, []Feature{Bash, NetNS, Proc}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parse("bash,sh"); err == nil || !strings.Contains(err.Error(), `"sh" is not a feature`) {
		t.Errorf("error %v", err)
	}
}
