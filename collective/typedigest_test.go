package collective

import (
	"reflect"
	"testing"
)

// typesOfOneName returns structs of one name and size. The first two are the same but for their place in the program.
func typesOfOneName() []reflect.Type {
	var all []reflect.Type
	{
		type point struct{ X, Y float32 }
		all = append(all, reflect.TypeFor[point]())
	}
	{
		type point struct{ X, Y float32 }
		all = append(all, reflect.TypeFor[point]())
	}
	{
		type point struct{ Y, X float32 }
		all = append(all, reflect.TypeFor[point]())
	}
	{
		type point struct{ X, Y int32 }
		all = append(all, reflect.TypeFor[point]())
	}
	{
		type point struct{ At [2]float32 }
		all = append(all, reflect.TypeFor[point]())
	}
	{
		type point struct{ At [2]uint32 }
		all = append(all, reflect.TypeFor[point]())
	}
	return all
}

// TestTypesOfOneName: structs with one name and size and other fields are other types, as in programs of two versions.
func TestTypesOfOneName(t *testing.T) {
	all := typesOfOneName()
	for i, a := range all {
		for j, b := range all {
			if a.String() != b.String() || a.Size() != b.Size() {
				t.Fatalf("%v of %d bytes and %v of %d", a, a.Size(), b, b.Size())
			}
			if same := i == j || i+j == 1; (digestOf(a) == digestOf(b)) != same {
				t.Errorf("types %d and %d have the digests %04x and %04x, want equal: %v", i, j, uint16(digestOf(a)),
					uint16(digestOf(b)), same)
			}
		}
	}
}
