package engine

// streamFrom is the size of a result, in bytes, from which it is written past
// the caches: whoever reads it has to get it from memory anyhow, and what the
// caches hold of the links stays there.
const streamFrom = 32 << 20

func streams(c *Call) bool {
	return c.bytes() >= streamFrom
}
