//go:build linux

package host

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzParseJobProcesses: a guard accepts only arguments that a launcher could have passed: one that it has decoded is
// equal after another round trip.
func FuzzParseJobProcesses(f *testing.F) {
	f.Add(`{"Job":"TREERUN_JOB_ID=a","Ranks":["RANK=0","RANK=1"],"Session":12,"Launcher":34,"Silence":1000}`)
	f.Add(`{"Launcher":0}`)
	f.Add(`{"Launcher":1,"Silence":-1}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseJobProcesses(text)
		if err != nil {
			return
		}
		if got.Launcher <= 0 || got.Silence < 0 {
			t.Fatalf("%q gives %+v", text, got)
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parseJobProcesses(string(again)); err != nil || !reflect.DeepEqual(back, got) {
			t.Errorf("%q gives %+v, and that %+v: %v", text, got, back, err)
		}
	})
}
