package main

import (
	"strings"
	"testing"
)

const sample = `package p

func f(n int) (int, error) {
	if n > 3 {
		return 0, g()
	}
	h()
	n += 2
	return n, nil
}
`

// TestPlaces: each kind of change is found once where it stands, and changes nothing else.
func TestPlaces(t *testing.T) {
	found, err := places("p.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"condition": "if !(n > 3) {",
		"operator":  "if n >= 3 {",
		"error":     "return 0, nil",
		"number 4":  "if n > 4 {",
		"number 1":  "return 1, g()",
		"number 3":  "n += 3",
		"h()":       "\t}\n\t\n\tn += 2",
		"n += 2":    "\th()\n\t\n\treturn",
	}
	for _, p := range found {
		name := p.Kind
		switch p.Kind {
		case "number":
			name += " " + p.Text
		case "statement":
			name = sample[p.From:p.To]
		}
		mutant := string(p.apply([]byte(sample)))
		if text, ok := want[name]; !ok || !strings.Contains(mutant, text) || strings.Contains(sample, text) {
			t.Errorf("%s gives\n%s", p.describe([]byte(sample)), mutant)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("no place: %s", name)
	}
}
