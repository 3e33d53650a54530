//go:build (!amd64 || race) && !explore

package ring

// publishWord stores the 4 bytes of b at off after everything that was stored
// before.
func publishWord(b []byte, off int, v uint32) { storeWord(b, off, v) }
