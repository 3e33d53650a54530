package kernels

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/kernel"
)

var entry = regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`)

// bodies returns the PTX of every kernel in a file.
func bodies(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := ptx.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	starts := entry.FindAllSubmatchIndex(text, -1)
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		all[string(text[at[2]:at[3]])] = string(text[at[0]:end])
	}
	return all
}

// The PTX holds the kernels that a Set looks up, each in the file where it looks, and no others.
func TestEveryKernelIsThere(t *testing.T) {
	want := map[string][]string{"copy.ptx": {"treerun_copy"}}
	for _, size := range []int{8, 16, 32, 64} {
		want["blocks.ptx"] = append(want["blocks.ptx"], fmt.Sprint("treerun_search_", size),
			fmt.Sprint("treerun_pick_", size), fmt.Sprint("treerun_compact_", size))
	}
	for d := range kernel.DeviceDTypes {
		file := Of(d) + ".ptx"
		want[file] = append(want[file], "treerun_reduce_"+Of(d), "treerun_divide_"+d.String())
	}
	files, err := fs.Glob(ptx, "*.ptx")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for name := range bodies(t, file) {
			if !slices.Contains(want[file], name) {
				t.Errorf("%s has %s, which no type needs", file, name)
			}
		}
	}
	for file, names := range want {
		have := bodies(t, file)
		for _, name := range names {
			if have[name] == "" {
				t.Errorf("%s lacks %s", file, name)
			}
		}
	}
}

// The properties that make the kernels as fast as memory and the same as on the host, seen in the PTX: 16-byte
// accesses, nothing kept in memory of the thread's own, and no product and sum in one rounding.
func TestCode(t *testing.T) {
	files, err := fs.Glob(ptx, "*.ptx")
	if err != nil {
		t.Fatal(err)
	}
	contracted := regexp.MustCompile(`\b(fma|mad)\.\w*\.?(f16|f16x2|bf16|f32|f64)\b|\b(add|sub|mul)\.(f1` +
		`6|f16x2|f32|f64)\b|\.ftz|\.approx`)
	for _, file := range files {
		for name, code := range bodies(t, file) {
			loads, stores := 2, 1 // of two vectors for one that lies otherwise
			switch {
			case strings.Contains(name, "search"):
				loads, stores = 1, 0
			case strings.Contains(name, "compact"):
				loads = 1 // blocks that lie otherwise go by elements
			}
			if n := strings.Count(code, "ld.global.v4.") + strings.Count(code, "ld.global.v2.u64") + strings.Count(code,
				"ld.global.v2.f64"); n < loads {
				t.Errorf("%s loads 16 bytes in %d places, want %d or more", name, n, loads)
			}
			if n := strings.Count(code, "st.global.v4.") + strings.Count(code, "st.global.v2.u64") + strings.Count(code,
				"st.global.v2.f64"); n < stores {
				t.Errorf("%s stores 16 bytes in %d places, want %d or more", name, n, stores)
			}
			for _, bad := range []string{".local", "call", "ld.u", "ld.f", "st.u", "st.f", "ld.v", "st.v"} {
				if strings.Contains(code, "\t"+bad) {
					t.Errorf("%s has %q", name, bad)
				}
			}
			if bad := contracted.FindString(code); bad != "" {
				t.Errorf("%s has %q, which rounds otherwise than the host", name, bad)
			}
		}
	}
}

func TestBitmapBytes(t *testing.T) {
	for _, c := range []struct{ n, block, want int64 }{
		{0, 256, 0}, {1, 256, 4}, {32 * 256, 256, 4}, {32*256 + 1, 256, 8}, {33, 1, 8}, {5, 0, 0}, {1 << 40, 1 << 41, 4},
	} {
		if got := BitmapBytes(c.n, c.block); got != c.want {
			t.Errorf("BitmapBytes(%d, %d) = %d, want %d", c.n, c.block, got, c.want)
		}
	}
}
