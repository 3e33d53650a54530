package strict

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// word is a type with its own text form.
type word string

func (w *word) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("no word")
	}
	*w = word(text)
	return nil
}

type inner struct {
	Weight float64 `json:"weight"`
	Tracks []int8  `json:"tracks,omitempty"`
}

type embedded struct {
	Word word `json:"word,omitempty"`
}

type outer struct {
	embedded
	Name  string         `json:"name"`
	Count uint16         `json:"count,omitempty"`
	Flag  *bool          `json:"flag,omitempty"`
	Inner []inner        `json:"inner,omitempty"`
	Names map[string]int `json:"names,omitempty"`
	Plain *inner         `json:",omitempty"`
	//lint:ignore U1000 the decoder passes over it
	ignored int
	Never   int `json:"-"`
}

var limits = JSONLimits{Bytes: 1000, Elements: 4}

func TestAccepts(t *testing.T) {
	for _, text := range []string{
		`{"name":"x"}`,
		"\ufeff {\n\"name\" : \"\\u0041\\\"}\" , \"count\":65535,\"flag\":false,\"word\":\"w\"}\r\n",
		`{"n\u0061me":"x","inner":[{"weight":1e-3,"tracks":[-128,127]},{"weight":-0.5,"tracks":[]}],"Plain":{"weight":2}}`,
		`{"name":"x","names":{"a":1,"":2},"inner":[]}`,
	} {
		var got, want outer
		if err := UnmarshalJSON([]byte(text), &got, limits); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(text, "\ufeff")), &want); err != nil ||
			!reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v, %v", text, got, want, err)
		}
	}
	if err := UnmarshalJSON([]byte(`{"inner":[{}]}`), new(outer), JSONLimits{Bytes: 99, Elements: 9, Partial: true}); err != nil {
		t.Errorf("fields may be missing: %v", err)
	}
}

func TestRefuses(t *testing.T) {
	with := func(more string) string { return `{"name":"x",` + more + `}` }
	for _, c := range []struct{ text, want string }{
		{"", "the JSON value: line 1, column 1: the JSON text ends too early, at byte 0: is the file cut off?"},
		{`{"name":"x"}` + "\n {}", "line 2, column 2: more text behind the JSON value"},
		{`{"name":"x"`, "the JSON value: line 1, column 12: the JSON text ends too early, at byte 11"},
		{`{"name":"x","count":1.`, "count: line 1, column 23: the JSON text ends too early"},
		{`{"name":"x","count":1. }`, "count: line 1, column 23: invalid character ' ' after decimal point"},
		{`{"name":"x","inner":[{"weight":1},`, "inner[1]: line 1, column 35: the JSON text ends too early"},
		{`{"name":"x","inner":[{"weight":1,"tracks":[1,`,
			"inner[0].tracks[1]: line 1, column 46: the JSON text ends too early"},
		{"{\"name\":\"x\",\n\"inner\":[{\"weight\":NaN}]}",
			"inner[0].weight: line 2, column 20: invalid character 'N' looking for beginning of value"},
		{with(`"inner":[{"weight":-Infinity}]`),
			"inner[0].weight: line 1, column 33: invalid character 'I' in numeric literal"},
		{with(`"inner":[{"weight":nan}]`), "inner[0].weight: line 1, column 33: invalid character 'a' in literal null"},
		{with(`"count":tomorrow`), "count: line 1, column 22: invalid character 'o' in literal true"},
		{with(`"inner":[{"weight" 1}]`), "inner[0].weight: line 1, column 32: invalid character '1' after object key"},
		{with(`"name":"y"`), "name is given twice (line 1, column 13)"},
		{with(`"n\u0061me":"y"`), "name is given twice"},
		{with(`"names":{"a":1,"\u0061":2}`), `names["a"] is given twice (line 1, column 28)`},
		{with(`"Count":1`), `the JSON value has an unknown field "Count", ` +
			`want word, name, count, flag, inner, names or Plain (line 1, column 13)`},
		{with(`"Never":1`), `unknown field "Never"`},
		{with(`"ignored":1`), `unknown field "ignored"`},
		{with(`"plain":1`), `unknown field "plain"`},
		{with(`"inner":[{"weight":1},{"wieght":1}]`),
			`inner[1] has an unknown field "wieght", want weight or tracks (line 1, column 36)`},
		{with(`"\u001b[2J` + strings.Repeat("x", 99) + `":1`), `has an unknown field "\x1b[2Jxxx`},
		{`{}`, "name is missing (line 1, column 1)"},
		{with(`"inner":[{"weight":1}, {}]`), "inner[1].weight is missing (line 1, column 36)"},
		{`null`, "the JSON value is null, want an object (line 1, column 1)"},
		{`[]`, "the JSON value holds an array, want an object"},
		{with(`"inner":{}`), "inner holds an object, want an array"},
		{with(`"inner":null`), "inner is null, want an array"},
		{with(`"inner":[null]`), "inner[0] is null, want an object"},
		{with(`"flag":null`), "flag is null, want a bool"},
		{with(`"flag":"true"`), "flag holds a string, want a bool"},
		{with(`"names":{"a":1,"b":2,"c":3,"d":4,"e":5}`), "names has more than 4 elements"},
		{with(`"inner":[{"weight":1,"tracks":[1,2,3,4,5]}]`), "inner[0].tracks has more than 4 elements (line 1, column 43)"},
		{with(`"inner":[{"weight":1,"tracks":[128]}]`), "inner[0].tracks[0] is 128, which is out of range"},
		{with(`"count":-1`), "count is -1, which is out of range"},
		{with(`"count":65536`), "count is 65536, which is out of range"},
		{with(`"count":1e1`), "count is 1e1, want a whole number without point and exponent (line 1, column 21)"},
		{with(`"count":"1"`), "count holds a string, want a whole number"},
		{with(`"count":true`), "count holds a bool, want a whole number"},
		{with(`"inner":[{"weight":1e400}]`), "inner[0].weight is 1e400, which is out of range"},
		{with(`"word":""`), "word is wrong: no word (line 1, column 20)"},
		{with(`"word":7`), "word holds a number, want a string"},
		{strings.Repeat(" ", 1001), "1001 bytes of JSON, want at most 1000"},
	} {
		if err := UnmarshalJSON([]byte(c.text), new(outer), limits); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to contain %q", c.text, err, c.want)
		}
	}
}

// For any bytes: data that is accepted is also accepted by encoding/json, with the same value, and an error in valid
// JSON names an element, not the syntax.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"name":"x","inner":[{"weight":1,"tracks":[1,2]}]}`))
	f.Add([]byte(`{"n\u0061me":"\ud800","names":{"\"":1},"flag":true,"count":0`))
	f.Add([]byte(`{"name":"\\",`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want outer
		err := UnmarshalJSON(data, &got, JSONLimits{Bytes: 1 << 20, Elements: 100})
		bare := []byte(strings.TrimPrefix(string(data), "\ufeff"))
		if err != nil {
			if json.Valid(bare) && !strings.Contains(err.Error(), " (line ") {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		if err := json.Unmarshal(bare, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v, %v", data, got, want, err)
		}
	})
}
