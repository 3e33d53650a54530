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
		} else if s, ok := a.(string); ok {
			b.WriteString(s)
		}
	}
	o.kind, o.text = kind, format+b.String()
	runtime.Goexit()
}

func outcomeOf(test func(t testing.TB)) *outcome {
	o := &outcome{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(o)
	}()
	<-done
	return o
}

func TestLeftOut(t *testing.T) {
	for value, spared := range map[string]bool{"": true, "all": false} {
		t.Setenv(Rounds, value)
		o := outcomeOf(func(t testing.TB) { NotUnderRace(t, "it is C") })
		if want := Race && spared; (o.kind == "skipped") != want || want && !strings.HasSuffix(o.text, "it is C") {
			t.Errorf("%s=%q: %q %q, want that it is skipped: %v", Rounds, value, o.kind, o.text, want)
		}
	}
	if o := outcomeOf(func(t testing.TB) { Long(t, "no C") }); (o.kind == "skipped") != testing.Short() {
		t.Errorf("-short is %v: %q %q", testing.Short(), o.kind, o.text)
	}
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
		o := outcomeOf(func(t testing.TB) { Need(t, GPU, c.missing) })
		if o.kind != c.want {
			t.Errorf("%s=%q, missing %v: %q, want %q", Variable, c.list, c.missing, o.kind, c.want)
		}
		if c.list != "gpux" && c.missing != nil && !strings.Contains(o.text, missing.Error()) {
			t.Errorf("%q does not contain the reason", o.text)
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
