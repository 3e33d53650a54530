// Finding the blocks of a tensor that are not zero, at one level. kernel.c includes
// this file once per level, with these of the level: OR_VECTOR, a register's type,
// OR_LOAD, OR_JOIN (a | b), OR_SPREAD (64 bits to all of it), OR_HIT (a & mask is
// not zero) and OR_ZERO.

// nonzero sets bit b of bits for every block b that has a bit of mask. It returns
// whether any of the other blocks has a bit at all. A block is left as soon as it
// is known to count.
//
// Blocks of whole chunks, of 4 vectors, are read from several places by turns, STREAM
// bytes apart: the processor fetches ahead no further than to the end of a page, and
// stops at none when it is in several.
#define STREAMS 4
#define STREAM (32 << 10)
static TARGET int F(nonzero)(const uint8_t *src, size_t size, size_t block, uint64_t mask, uint64_t *bits) {
	enum { WIDE = sizeof(OR_VECTOR), CHUNK = 4 * WIDE };
	const OR_VECTOR masks = OR_SPREAD(mask), ones = OR_SPREAD(~0ull);
	OR_VECTOR rest = OR_ZERO;
	uint64_t rest64 = 0;
	size_t b = 0, each = STREAM / block; // blocks of a stream
	if (block % CHUNK == 0 && each > 1)
		for (; size >= STREAMS * each * block; size -= STREAMS * each * block, src += STREAMS * each * block, b += STREAMS * each)
			for (size_t i = 0; i < each; i++) {
				OR_VECTOR seen[STREAMS];
				int hit[STREAMS];
				for (int s = 0; s < STREAMS; s++)
					seen[s] = OR_ZERO, hit[s] = 0;
				for (size_t at = 0; at < block; at += CHUNK)
					for (int s = 0; s < STREAMS; s++) {
						if (hit[s])
							continue;
						const uint8_t *p = src + (s * each + i) * block + at;
						OR_VECTOR x = OR_JOIN(OR_JOIN(OR_LOAD(p), OR_LOAD(p + WIDE)), OR_JOIN(OR_LOAD(p + 2 * WIDE), OR_LOAD(p + 3 * WIDE)));
						hit[s] = OR_HIT(x, masks);
						seen[s] = OR_JOIN(seen[s], x);
					}
				for (int s = 0; s < STREAMS; s++)
					if (hit[s])
						bits[(b + s * each + i) / 64] |= 1ull << ((b + s * each + i) % 64);
					else
						rest = OR_JOIN(rest, seen[s]);
			}
	for (; size > 0; b++) {
		size_t n = block < size ? block : size;
		const uint8_t *p = src, *end = src + n;
		OR_VECTOR seen = OR_ZERO;
		uint64_t seen64 = 0;
		int hit = 0;
		for (; end - p >= CHUNK && !hit; p += CHUNK) {
			OR_VECTOR x = OR_JOIN(OR_JOIN(OR_LOAD(p), OR_LOAD(p + WIDE)), OR_JOIN(OR_LOAD(p + 2 * WIDE), OR_LOAD(p + 3 * WIDE)));
			hit = OR_HIT(x, masks);
			seen = OR_JOIN(seen, x);
		}
		if (!hit) {
			for (; end - p >= WIDE; p += WIDE)
				seen = OR_JOIN(seen, OR_LOAD(p));
			for (; end - p >= 8; p += 8)
				seen64 |= *(const u64 *)p;
			uint64_t last = 0;
			if (p < end) {
				memcpy(&last, p, end - p);
				seen64 |= last;
			}
			hit = OR_HIT(seen, masks) || (seen64 & mask);
		}
		if (hit) {
			bits[b / 64] |= 1ull << (b % 64);
		} else {
			rest = OR_JOIN(rest, seen);
			rest64 |= seen64;
		}
		src += n, size -= n;
	}
	return OR_HIT(rest, ones) || rest64;
}
#undef STREAMS
#undef STREAM

#undef OR_VECTOR
#undef OR_LOAD
#undef OR_JOIN
#undef OR_SPREAD
#undef OR_HIT
#undef OR_ZERO
