package plan

import (
	"reflect"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
	"pgregory.net/rapid"
)

// A plan survives its JSON form, and its digest is that of its content.
func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "n")
		kind := rapid.SampledFrom(allKinds).Draw(t, "kind")
		form := rapid.SampledFrom([]Form{Single, Split}).Draw(t, "form")
		weight := rapid.Float64Range(1e-300, 1e300).Draw(t, "weight")
		p, err := FromTrees(kind, []topo.Tree{drawTree(t, n, "tree")}, []float64{weight}, Options{Form: form})
		if err != nil {
			t.Fatal(err)
		}
		data, err := p.AppendJSON([]byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		q, err := ParsePlan(data[1:])
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(p, q) {
			t.Fatalf("%v came back as\n%v", p, q)
		}
		before := p.Digest()
		q.Lanes[0].Weight *= 1.5
		if p.Digest() != before || q.Digest() == before {
			t.Fatalf("digests %s, %s of two plans", before, q.Digest())
		}
	})
}

func TestJSONForm(t *testing.T) {
	p, err := FromTrees(AllReduce, []topo.Tree{{Root: 0, Parent: []int{-1, 0}}}, []float64{0.1}, Options{Name: "pair"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"pair","kind":"allreduce","size":2,"root":-1,"lanes":[{"weight":0.1,"tracks":[` +
		`{"rank":0,"steps":[{"op":"RecvReduceCopySend","src":"in","dst":"out","from":1,"to":1}]},` +
		`{"rank":1,"steps":[{"op":"Send","src":"in","to":0},{"op":"Recv","dst":"out","from":0}]}]}]}`
	data, err := p.AppendJSON(nil)
	if err != nil || string(data) != want {
		t.Errorf("%s, %v, want\n%s", data, err, want)
	}
}

func TestParsePlanRefuses(t *testing.T) {
	step := func(s string) string {
		return `{"name":"","kind":"allreduce","size":2,"root":-1,"lanes":[{"weight":1,"tracks":[{"rank":0,"steps":[` + s + `]}]}]}`
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "EOF"},
		{"cut off", step(`{"op":"Send"`)[:100], "EOF"},
		{"more text", step(`{"op":"Send","src":"in","to":1}`) + "{}", "more text behind"},
		{"unknown field", step(`{"op":"Send","source":"in","to":1}`), "source"},
		{"unknown op", step(`{"op":"Sent","src":"in","to":1}`), `"Sent" is no op`},
		{"empty op", step(`{"op":"","src":"in","to":1}`), `"" is no op`},
		{"unknown buffer", step(`{"op":"Send","src":"inn","to":1}`), `"inn" is no buffer`},
		{"unknown kind", `{"kind":"gossip"}`, `"gossip" is no kind`},
		{"empty kind", `{"kind":""}`, `"" is no kind`},
		{"no op", step(`{"src":"in","to":1}`), "Op(0) is no op"},
		{"no peer", step(`{"op":"Send","src":"in"}`), "To is rank -1"},
		{"a peer too many", step(`{"op":"Send","src":"in","to":1,"from":1}`), "has no From"},
		{"large peer", step(`{"op":"Send","src":"in","to":4294967297}`), "int32"},
		{"many ranks", `{"kind":"allreduce","size":1000000,"root":-1,"lanes":[]}`, "1000000 ranks, want 1..65536"},
		{"too long", strings.Repeat(" ", MaxPlanBytes+1), "bytes of JSON, want at most"},
	} {
		if _, err := ParsePlan([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
		}
	}
}

// Whatever the bytes: a plan that is read survives its JSON form, and Verify
// comes to an end.
func FuzzParsePlan(f *testing.F) {
	for _, kind := range allKinds {
		for _, form := range []Form{Single, Split} {
			p, err := FromTrees(kind, []topo.Tree{{Root: 2, Parent: []int{2, 2, -1, 1, 1}}}, nil, Options{Form: form})
			if err != nil {
				f.Fatal(err)
			}
			data, err := p.AppendJSON(nil)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
			f.Add(data[:len(data)/2])
		}
	}
	for _, kind := range everyKind {
		p, err := Direct(kind, 3, 1, Options{})
		if err != nil {
			f.Fatal(err)
		}
		data, err := p.AppendJSON(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"name":"a","kind":"allreduce","size":65537,"root":-1,"lanes":[{"weight":1e308,"tracks":[]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePlan(data)
		if err != nil {
			return
		}
		again, err := p.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ParsePlan(again)
		if err != nil {
			t.Fatal(err)
		}
		if p.Digest() != q.Digest() || p.String() != q.String() {
			t.Fatalf("%v came back as\n%v", p, q)
		}
		if p.Size <= 64 { // above, a run takes too long for a fuzz test
			_ = Verify(p, 2)
		}
	})
}
