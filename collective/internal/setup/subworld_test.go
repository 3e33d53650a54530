package setup

import "testing"

// FuzzLengths: lengths that other ranks announce are within bounds, or refused.
func FuzzLengths(f *testing.F) {
	f.Add([]byte("123456781234567812345678"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lengths, err := readLengths(data, 8, 3)
		if err != nil {
			return
		}
		for _, n := range lengths {
			if n < 0 || n > maxBlob/3 {
				t.Errorf("a blob of %d bytes", n)
			}
		}
	})
}
