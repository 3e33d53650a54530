package jobs

import (
	"strings"
	"testing"
)

// Lines of the kit and of treerun bench, among what else they print.
func TestRows(t *testing.T) {
	got, err := Rows([]byte(`# mpi_perf
{"impl":"x","op":"allreduce","np":4,"bytes":8,"time_us":3.5,"wrong":0}
{"ranks":[{"pid":1}]}
{"collective":"broadcast","op":"none","bytes":64,"time_us":7,"wrong":null,"plan":"tree"}
`))
	if err != nil || len(got) != 2 || got[0].TimeUs != 3.5 || got[1].Op != "broadcast" || got[1].Plan != "tree" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Rows([]byte(`{"op":"allreduce","bytes":8,"time_us":3.5,"wrong":2}`)); err == nil || !strings.Contains(err.Error(), "2 wrong elements") {
		t.Errorf("wrong elements: %v", err)
	}
	if _, err := Rows([]byte("Segmentation fault\n")); err == nil {
		t.Error("rows of nothing")
	}
}
