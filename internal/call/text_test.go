package call

import (
	"testing"

	"github.com/treerun/treerun/internal/kernel"
)

func TestUsedBy(t *testing.T) {
	for _, c := range []struct{ text, comm, want string }{
		{"AllReduce #3", "world", "world"},
		{"Split", "world/split#1", "world/split#1"},
		{"New: opening links", "world/split#1", "world"},
		{"New: opening links", "a/b/c", "a/b"},
		{"New", "world", "world"},
	} {
		if got := UsedBy(c.text, c.comm); got != c.want {
			t.Errorf("%s on %s uses %s, want %s", c.text, c.comm, got, c.want)
		}
	}
}

// TestForms: a rank names its calls by the functions that its program calls.
func TestForms(t *testing.T) {
	sum := ID{Kind: AllReduce, Op: kernel.Sum, Count: 4, DType: kernel.Int8, Root: -1, Seq: 3}
	scaled, function, varied := sum, sum, ID{Kind: AllGather, Varied: true}
	scaled.Scaled = true
	function.Func = true
	for _, c := range []struct {
		form Form
		id   ID
		want string
	}{
		{0, sum, "AllReduce"}, {Started, sum, "StartAllReduce"}, {Prepared, scaled, "AllReducePreMulInit"},
		{OfValue, function, "AllReduceValueFunc"}, {Started | Coalesced, sum, "StartAllReduceCoalesced"},
		{Started, varied, "StartAllGatherV"}, {OfObject, ID{Kind: Scatter, Varied: true}, "ScatterObject"},
		{Prepared, function, "AllReduceFuncInit"},
	} {
		if got := c.form.Name(&c.id); got != c.want {
			t.Errorf("form %d of %v is %s, want %s", c.form, c.id, got, c.want)
		}
	}
	if got := Started.Text(sum); got != "StartAllReduce #3 (sum of 4 int8)" {
		t.Error(got)
	}
	if got := Started.Text(ID{Kind: Exchange, Seq: 3}); got != "sparse collective #3" {
		t.Error(got)
	}
}

func TestCircleHint(t *testing.T) {
	for _, c := range []struct {
		texts []string
		want  string
	}{
		{[]string{"Send (9 int8, tag 1)", "Send (8 int8, tag 1)"}, "SendRecv sends and receives at once"},
		{[]string{"SendDevice to rank 1", "SendDevice to rank 0"}, "SendRecvDevice sends and receives at once"},
		{[]string{"Send (9 int8, tag 1)", "Barrier #1"},
			"StartSend does not wait for the receiver, as a Send of more than 64 KiB does"},
		{[]string{"SendDevice to rank 1", "Recv from rank 0"}, ""},
		{[]string{"SendRecv with rank 1", "Recv from rank 0"}, ""},
	} {
		if hint := CircleHint(c.texts); hint != c.want {
			t.Errorf("%q: hint %q, want %q", c.texts, hint, c.want)
		}
	}
	if !IsCollective("AllReduce #1") || IsCollective("Recv from rank 0") {
		t.Error("only collectives have numbers")
	}
}
