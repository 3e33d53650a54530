// The steps of a training, one kernel each and plainly written: a thread computes
// one number after the other, and adds up terms in the same order as the host.
// Matrices lie row by row; a row is an image of the batch.

#include "../../cuda/kernels/device.h"

typedef Addr Floats; // of float

DEVICE float get(Floats x, u64 i) { return load<float>(x + 4 * i); }
DEVICE void set(Floats x, u64 i, float v) { store<float>(x + 4 * i, v); }

// Images number first to first + rows - 1 of order become the rows of x, with
// pixels from 0 to 1, and their labels those of the rows.
struct Images {
	Addr pixels, labels, order; // u8, u8, i32
	Floats x;
	Addr row_labels; // u8
	u64 first, rows, width, scale; // scale: the bits of a float
};

KERNEL(train_images, Images) {
	for (u64 i = thread_number(); i < a.rows * a.width; i += thread_count()) {
		u64 row = i / a.width, j = i % a.width;
		u64 image = load<i32>(a.order + 4 * (a.first + row));
		set(a.x, i, (float)load<u8>(a.pixels + image * a.width + j) * bits<float>((u32)a.scale));
		if (j == 0)
			store<u8>(a.row_labels + row, load<u8>(a.labels + image));
	}
}

// out = in * weight + bias, and with relu nothing below 0. The biases lie behind
// the weights.
struct Forward {
	Floats in, weight, out;
	u64 rows, inputs, outputs, relu;
};

KERNEL(train_forward, Forward) {
	for (u64 i = thread_number(); i < a.rows * a.outputs; i += thread_count()) {
		u64 row = i / a.outputs, j = i % a.outputs;
		float sum = get(a.weight, a.inputs * a.outputs + j);
		for (u64 k = 0; k < a.inputs; k++)
			sum += get(a.in, row * a.inputs + k) * get(a.weight, k * a.outputs + j);
		set(a.out, i, a.relu && sum < 0 ? 0 : sum);
	}
}

// e to the x, for x up to 0: 2 to the whole part of x / ln 2, times a series for
// the remainder. The error is some 1e-16 of the result.
DEVICE double exponential(double x) {
	if (!(x > -700)) // or NaN
		return x == x ? 0 : x;
	int n = (int)(x * 1.4426950408889634 - 0.5);
	double r = x - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10; // ln 2 in two parts
	double sum = 1;
	for (int i = 14; i > 0; i--)
		sum = 1 + sum * r / i;
	return sum * bits<double>((u64)(1023 + n) << 52);
}

// The natural logarithm, for x from 1 on: that of the power of 2 in x, and a
// series for the remaining factor.
DEVICE double logarithm(double x) {
	if (!(x < 1e300)) // or NaN
		return x;
	u64 b = bits<u64>(x);
	int n = (int)(b >> 52) - 1023;
	double m = bits<double>((b & 0xFFFFFFFFFFFFF) | 1023ull << 52);
	if (m > 1.4142135623730951) {
		m = m / 2;
		n++;
	}
	double f = (m - 1) / (m + 1), square = f * f, sum = 0;
	for (int i = 25; i > 0; i -= 2)
		sum = sum * square + 1.0 / i;
	return 2 * f * sum + n * 0.6931471805599453;
}

// The column of the largest of a row, the first of several.
DEVICE u64 largest(Floats scores, u64 row, u64 classes) {
	u64 at = 0;
	for (u64 j = 1; j < classes; j++)
		if (get(scores, row * classes + j) > get(scores, row * classes + at))
			at = j;
	return at;
}

// The loss of a row is -log softmax(scores) at the label; gradient becomes its
// derivative by the scores. Losses are added to those in memory.
struct Loss {
	Floats scores;
	Addr labels; // u8
	Floats gradient;
	Addr losses; // double
	u64 rows, classes;
};

KERNEL(train_loss, Loss) {
	for (u64 row = thread_number(); row < a.rows; row += thread_count()) {
		u64 begin = row * a.classes, label = load<u8>(a.labels + row);
		float highest = get(a.scores, begin + largest(a.scores, row, a.classes)); // subtracted: no overflow
		double sum = 0;
		for (u32 j = 0; j < a.classes; j++)
			sum += exponential(get(a.scores, begin + j) - highest);
		for (u32 j = 0; j < a.classes; j++) {
			float share = (float)(exponential(get(a.scores, begin + j) - highest) / sum);
			set(a.gradient, begin + j, j == label ? share - 1 : share);
		}
		double loss = logarithm(sum) - (double)(get(a.scores, begin + label) - highest);
		store<double>(a.losses + 8 * row, load<double>(a.losses + 8 * row) + loss);
	}
}

// The gradient of weights and biases, from that of the layer's output.
struct Backward {
	Floats in, weight, gradient_out; // weight for train_backward_input only
	Floats gradient; // of the weights and biases, or of the input
	u64 rows, inputs, outputs;
};

KERNEL(train_backward_weight, Backward) {
	for (u64 i = thread_number(); i < (a.inputs + 1) * a.outputs; i += thread_count()) {
		u64 k = i / a.outputs, j = i % a.outputs;
		float sum = 0;
		for (u64 row = 0; row < a.rows; row++) {
			float g = get(a.gradient_out, row * a.outputs + j);
			sum += k < a.inputs ? get(a.in, row * a.inputs + k) * g : g;
		}
		set(a.gradient, i, sum);
	}
}

// The gradient of a layer's input, which is the output of a ReLU: 0 where that
// was flat.
KERNEL(train_backward_input, Backward) {
	for (u64 i = thread_number(); i < a.rows * a.inputs; i += thread_count()) {
		u64 row = i / a.inputs, k = i % a.inputs;
		float sum = 0;
		if (!(get(a.in, i) <= 0))
			for (u64 j = 0; j < a.outputs; j++)
				sum += get(a.gradient_out, row * a.outputs + j) * get(a.weight, k * a.outputs + j);
		set(a.gradient, i, sum);
	}
}

// A step of gradient descent with momentum. The last three are the bits of floats.
struct Update {
	Floats params, velocity, gradient;
	u64 n, momentum, rate, share;
};

KERNEL(train_update, Update) {
	float momentum = bits<float>((u32)a.momentum), rate = bits<float>((u32)a.rate), share = bits<float>((u32)a.share);
	for (u64 i = thread_number(); i < a.n; i += thread_count()) {
		float v = momentum * get(a.velocity, i) + get(a.gradient, i) * share;
		set(a.velocity, i, v);
		set(a.params, i, get(a.params, i) - rate * v);
	}
}

// Counts the rows whose largest score is that of the label, each in a counter of
// its own.
struct Count {
	Floats scores;
	Addr labels, counts; // u8, u32
	u64 rows, classes;
};

KERNEL(train_count, Count) {
	for (u64 row = thread_number(); row < a.rows; row += thread_count())
		if (largest(a.scores, row, a.classes) == load<u8>(a.labels + row))
			store<u32>(a.counts + 4 * row, load<u32>(a.counts + 4 * row) + 1);
}
