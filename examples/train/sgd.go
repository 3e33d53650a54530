package main

// sgd is stochastic gradient descent with momentum.
type sgd struct {
	rate     float32 // of the next steps
	momentum float32
	velocity []float32
}

func newSGD(params int, momentum float64) *sgd {
	return &sgd{momentum: float32(momentum), velocity: make([]float32, params)}
}

// step moves params against the gradient, which is a sum over batch images.
func (s *sgd) step(params, gradient []float32, batch int) {
	share := 1 / float32(batch)
	for i, g := range gradient {
		s.velocity[i] = s.momentum*s.velocity[i] + g*share
		params[i] -= s.rate * s.velocity[i]
	}
}
