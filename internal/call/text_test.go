package call

import "testing"

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

func TestCircleHint(t *testing.T) {
	for _, c := range []struct {
		texts []string
		want  bool
	}{
		{[]string{"Send to rank 1", "SendDevice to rank 0"}, true},
		{[]string{"Send to rank 1", "SendRecv with rank 0"}, false},
		{[]string{"Send to rank 1", "Recv from rank 0"}, false},
	} {
		if hint := CircleHint(c.texts); (hint != "") != c.want {
			t.Errorf("%q: hint %q", c.texts, hint)
		}
	}
	if !IsCollective("AllReduce #1") || IsCollective("Recv from rank 0") {
		t.Error("only collectives have numbers")
	}
}
