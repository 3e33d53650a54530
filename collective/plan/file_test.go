package plan

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// written returns the file of p, which is about a tree.
func written(t testing.TB, p *Plan) []byte {
	t.Helper()
	data, err := (&File{Algorithm: p.Name}).Append(nil, p)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A plan survives its file, and its digest is that of its steps: the name is no part of it.
func TestFileRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "n")
		kind := rapid.SampledFrom(allKinds).Draw(t, "kind")
		form := rapid.SampledFrom([]Form{Single, Split}).Draw(t, "form")
		weight := rapid.Float64Range(1e-300, 1e300).Draw(t, "weight")
		tree := drawTree(t, n, "tree")
		p, err := FromTrees(kind, []topo.Tree{tree}, []float64{weight}, form)
		if err != nil {
			t.Fatal(err)
		}
		f := File{Algorithm: p.Name, Bytes: 1 << 20, Rate: weight, Bound: 3, PredictedUs: 1.5, ChunkBytes: 4096,
			Trees:          []FileTree{{Root: tree.Root, Share: 1, Rate: weight, Parent: tree.Parent, Round: tree.Round}},
			TightPartition: [][]int{{0}, {n - 1}}, Note: "as drawn",
			Options: map[string]string{"max-trees": "4", "seed": "x", "stable": "true"}}
		data, err := f.Append([]byte("x"), p)
		if err != nil {
			t.Fatal(err)
		}
		g, q, err := ParseFile(data[1:])
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(p, q) {
			t.Fatalf("%v came back as\n%v", p, q)
		}
		if !reflect.DeepEqual(&f, g) {
			t.Fatalf("%+v came back as\n%+v", f, g)
		}
		before := p.Digest()
		q.Name = "another"
		if q.Digest() != before || f.Digest != before {
			t.Fatalf("digests %s, %s and %s of one plan", before, q.Digest(), f.Digest)
		}
		q.Lanes[0].Weight *= 1.5
		if p.Digest() != before || q.Digest() == before {
			t.Fatalf("digests %s, %s of two plans", before, q.Digest())
		}
	})
}

// Every plan of the builders survives its file.
func TestFileOfEveryPlan(t *testing.T) {
	plans := append(directPlans(t, 4), mutantPlans(t, 5)...)
	seen := make(map[string]string)
	for _, p := range plans {
		_, q, err := ParseFile(written(t, p))
		if err != nil {
			t.Fatal(err)
		}
		if q.String() != p.String() || q.Digest() != p.Digest() {
			t.Errorf("%v came back as\n%v", p, q)
		}
		_, text, _ := strings.Cut(p.String(), ": ")
		if other, ok := seen[p.Digest()]; ok && other != text {
			t.Errorf("one digest of\n%sand\n%s", other, text)
		}
		seen[p.Digest()] = text
	}
}

func TestFileForm(t *testing.T) {
	tree := topo.Tree{Root: 0, Parent: []int{-1, 0}}
	p, err := FromTrees(Broadcast, []topo.Tree{tree}, []float64{0.1}, Single)
	if err != nil {
		t.Fatal(err)
	}
	f := File{Algorithm: "kl", Bytes: 8, PredictedUs: 2.5, Rate: 1, Bound: 2, Options: map[string]string{"seed": "7"},
		Trees: []FileTree{{Share: 1, Rate: 1, Parent: tree.Parent}}, ChunkBytes: 64}
	want := `{"algorithm":"kl","collective":"broadcast","bytes":8,"digest":"` + p.Digest() + `","predicted_us":2.5,` +
		`"trees":[{"root":0,"share":1,"rate_gbytes_per_second":1,"parent":[-1,0]}],` +
		`"rate_gbytes_per_second":1,"bound_gbytes_per_second":2,"tight_partition":[],` +
		`"options":{"seed":"7"},"chunk_bytes":64,` +
		`"steps":{"ranks":2,"root":0,"lanes":[{"weight":0.1,"tracks":["0: to 1 = in; out = in","1: out = from 0"]}]}}` + "\n"
	data, err := f.Append(nil, p)
	if err != nil || string(data) != want {
		t.Errorf("%s, %v, want\n%s", data, err, want)
	}
	byHand, _, err := ParseFile([]byte(strings.Replace(want, p.Digest(), "", 1)))
	if err != nil || byHand.Digest != p.Digest() {
		t.Errorf("without a digest: %+v, %v, want the digest of the steps, %s", byHand, err, p.Digest())
	}
}

func TestParseFileRefuses(t *testing.T) {
	const steps = `"steps":{"ranks":2,"lanes":[{"weight":1,"tracks":["0: to 1 = in; out = in + from 1",` +
		`"1: to 0 = in; out = in + from 0"]}]}`
	file := func(more string) string { return `{"algorithm":"x","collective":"allreduce",` + more + steps + `}` }
	step := func(s string) string {
		return strings.Replace(file(""), "to 1 = in; out = in + from 1", s, 1)
	}
	if _, _, err := ParseFile([]byte(file(`"digest":"",`))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "line 1, column 1: the JSON text ends too early, at byte 0"},
		{"null", "null", "the JSON value is null, want an object"},
		{"cut off", file("")[:100],
			"steps.lanes[0].tracks[0]: line 1, column 101: the JSON text ends too early, at byte 100"},
		{"more text", file("") + "{}", "more text behind the JSON value"},
		{"unknown field", file(`"algorithmus":"y",`), `unknown field "algorithmus", want algorithm, collective`},
		{"upper case", file(`"Note":"y",`), `unknown field "Note"`},
		{"twice", file(`"algorithm":"y",`), "algorithm is given twice"},
		{"null text", file(`"note":null,`), "note is null"},
		{"null track", strings.Replace(file(""), `["0: `, `[null,"0: `, 1), "steps.lanes[0].tracks[0] is null"},
		{"deep", file(`"ring":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + ","),
			"ring[0] holds an array, want a whole number"},
		{"many elements", file(`"ring":[0` + strings.Repeat(",0", 2*MaxRanks) + "],"), "ring has more than 131072 elements"},
		{"a number for a text", file(`"note":3,`), "note holds a number, want a string"},
		{"a text for a number", strings.Replace(file(""), `"weight":1`, `"weight":"1"`, 1),
			"steps.lanes[0].weight holds a string, want a number"},
		{"large number", file(`"predicted_us":1e999,`), "predicted_us is 1e999, which is out of range"},
		{"unknown kind", strings.Replace(file(""), "allreduce", "gossip", 1), `"gossip" is no kind`},
		{"empty kind", strings.Replace(file(""), "allreduce", "", 1), `"" is no kind`},
		{"no kind", strings.Replace(file(""), `"collective":"allreduce",`, "", 1), "Kind(0) is no kind"},
		{"no algorithm", strings.Replace(file(""), `"algorithm":"x",`, "", 1), "algorithm is missing"},
		{"no steps", `{"algorithm":"x","collective":"allreduce"}`, "steps.lanes is missing"},
		{"no root", strings.Replace(file(""), "allreduce", "broadcast", 1), "steps.root is missing: broadcast has one"},
		{"a root too many", strings.Replace(file(""), `"ranks":2`, `"ranks":2,"root":0`, 1),
			"root 0, but allreduce has none"},
		{"many ranks", strings.Replace(file(""), `"ranks":2`, `"ranks":1000000`, 1), "1000000 ranks, want 1..65536"},
		{"many lanes", strings.Replace(file(""), `"lanes":[`, `"lanes":[`+strings.Repeat("{},", MaxLanes), 1),
			"4097 lanes, want 1..4096"},
		{"no rank", strings.Replace(file(""), `"0: `, `"`, 1), "does not begin with a rank"},
		{"negative rank", strings.Replace(file(""), `"0: `, `"-1: `, 1), "does not begin with a rank"},
		{"long rank", strings.Replace(file(""), `"0: `, `"00: `, 1), "does not begin with a rank"},
		{"no step", step(""), `lanes[0].tracks[0] is wrong: rank 0, step 0: "" is no step`},
		{"unknown step", step("to 1 = in; gossip"), `rank 0, step 1: "gossip" is no step`},
		{"unknown buffer", step("to 1 = inn"), `"to 1 = inn" is no step`},
		{"padded peer", step("to 01 = in"), `"to 01 = in" is no step`},
		{"large peer", step("to 4294967297 = in"), `"to 4294967297 = in" is no step`},
		{"no peer", step("to -1 = in"), "sends to rank -1"},
		{"far peer", step("to 2 = in"), "sends to rank 2, want 0..1"},
		{"two sums", step("out = in + tmp + from 1"), "is no step"},
		{"a sum of two buffers", step("out = in + tmp"), "is no step"},
		{"blanks", step("to 1  = in"), "is no step"},
		{"no blank", step("to 1 = in;out = in + from 1"), "is no step"},
		{"negative bytes", file(`"bytes":-1,`), "bytes is -1"},
		{"negative chunk", file(`"chunk_bytes":-1,`), "chunk_bytes: chunks of -1 bytes"},
		{"crossed chunks", file(`"min_chunk_bytes":128,"chunk_bytes":64,`), "min_chunk_bytes is 128, want at most chunk_bytes, 64"},
		{"control characters", strings.Replace(file(""), `"x"`, `"\u001b[31m"`, 1), "printable text"},
		{"list as option", file(`"options":{"seed":[]},`), `options["seed"] holds an array, want a string`},
		{"digest", file(`"digest":"0123456789abcdef",`), `digest "0123456789abcdef" does not match the steps, which have "`},
		{"too long", strings.Repeat(" ", MaxPlanBytes+1), "67108865 bytes of JSON, want at most 67108864"},
	} {
		_, _, err := ParseFile([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
		}
	}
}

// Steps that were changed under a digest are wrong twice: the error contains both.
func TestChangedFileSaysWhatIsWrong(t *testing.T) {
	p, err := Direct(AllReduce, 3, -1, Single)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(written(t, p)), "1: to 0 = in; ", "1: ", 1)
	_, _, err = ParseFile([]byte(text))
	for _, want := range []string{"does not match the steps", "deadlock, lane 0, rank 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
}

// The plan with the most steps that a job of the given number of ranks may have fits into a file, and reading it does
// not take long.
func TestFileOfManyRanks(t *testing.T) {
	for _, c := range []struct{ ranks, mib int }{{64, 1}, {512, 24}} {
		if c.ranks > 64 && !testutil.Thorough() {
			continue
		}
		p, err := Direct(AllReduce, c.ranks, -1, Split)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		data := written(t, p)
		wrote := time.Now()
		if _, _, err := ParseFile(data); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d ranks: %d bytes, written in %v, read in %v", c.ranks, len(data), wrote.Sub(start), time.Since(wrote))
		if len(data) > c.mib<<20 {
			t.Errorf("%d ranks: %d bytes, want at most %d MiB", c.ranks, len(data), c.mib)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	p, err := Direct(AllReduce, 64, -1, Split)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p.Digest()
	}
}

// For any bytes: a plan that is read survives its file, and Verify comes to an end.
func FuzzParseFile(f *testing.F) {
	for _, kind := range allKinds {
		for _, form := range []Form{Single, Split} {
			p, err := FromTrees(kind, []topo.Tree{{Root: 2, Parent: []int{2, 2, -1, 1, 1}}}, nil, form)
			if err != nil {
				f.Fatal(err)
			}
			data := written(f, p)
			f.Add(data)
			f.Add(data[:len(data)/2])
		}
	}
	for _, kind := range everyKind {
		p, err := Direct(kind, 3, 1, Single)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(written(f, p))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, p, err := ParseFile(data)
		if err != nil {
			return
		}
		again, err := g.Append(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		h, q, err := ParseFile(again)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(g, h) || p.Digest() != q.Digest() || p.String() != q.String() {
			t.Fatalf("%+v, %v came back as\n%+v, %v", g, p, h, q)
		}
		if p.Size <= 64 { // above, a run takes too long for a fuzz test
			_ = Verify(p, 2)
		}
	})
}
