package main

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// model has two vectors for every word: as itself, and as a context of others.
type model struct {
	dim  int
	rows []float32 // of all words as themselves, then as contexts
}

// newModel draws the first vectors: small ones for the words, none for contexts.
func newModel(words, dim int, seed uint64) *model {
	m := &model{dim: dim, rows: make([]float32, 2*words*dim)}
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range m.rows[:words*dim] {
		m.rows[i] = (r.Float32() - 0.5) / float32(dim)
	}
	return m
}

func (m *model) row(i int) []float32 { return m.rows[i*m.dim : (i+1)*m.dim] }

// fixedOne is 1 as a fixed-point number: gradients are integers.
const fixedOne = 1 << 20

func fixed(x float32) int32 { return int32(math.Round(float64(x) * fixedOne)) }

// pair is a word, and a word near it as its context; or, with a label of 0, a context that was
// drawn.
type pair struct {
	word, context int
	label         float32
}

// gradient calls add with the rows that a pair touches and the step of each,
// in fixed point, and returns the pair's loss.
func (m *model) gradient(p pair, words int, rate float32, step []int32, add func(row int, step []int32)) float64 {
	u, v := m.row(p.word), m.row(words+p.context)
	dot := float32(0)
	for i := range u {
		dot += u[i] * v[i]
	}
	likely := float32(1 / (1 + math.Exp(-float64(dot))))
	g := rate * (p.label - likely)
	for i := range step {
		step[i] = fixed(g * v[i])
	}
	add(p.word, step)
	for i := range step {
		step[i] = fixed(g * u[i])
	}
	add(words+p.context, step)
	if p.label == 0 {
		likely = 1 - likely
	}
	return -math.Log(max(float64(likely), 1e-7))
}

// apply adds a row of a summed gradient.
func (m *model) apply(row int, step []int32) {
	for i, v := range m.row(row) {
		m.rows[row*m.dim+i] = v + float32(step[i])/fixedOne
	}
}

// digest returns the same number for two models if all their bits are equal.
func (m *model) digest() uint64 {
	h := fnv.New64a()
	binary.Write(h, binary.LittleEndian, m.rows) // a hash takes everything
	return h.Sum64()
}
