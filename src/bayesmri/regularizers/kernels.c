/* 3x3 convolutions on images (H, W, features), and their exact adjoints, with what stands around them fused in.

   Features come in blocks of 16, one vector each. native.py compiles this once per machine; conv.py and blocks.py say the
   same in torch. Every row of an output is computed by itself: bands of rows give the same bits as the whole. */
#include "kernels.h"

/* n outputs, `to` floats apart, of inputs `step` floats apart. */
static void stencil(const Tap *taps, int n_taps, int inputs, int step, float *out, int to, int n) {
  for (int p = 0; p < n; p += P) {
    int first = n - p >= P || n < P ? p : n - P; /* the last block overlaps the one before */
    Tap at[9];
    for (int t = 0; t < n_taps; t++) at[t] = (Tap){taps[t].x + (long)first * step, taps[t].w};
    float *y = out + (long)first * to;
    if (n < P)
      for (int q = 0; q < n; q++, y += to) {
        block(at, n_taps, inputs, step, y, to, 1);
        for (int t = 0; t < n_taps; t++) at[t].x += step;
      }
    else if (inputs == B && step == B) /* the common ones, with addresses known to the compiler */
      block(at, n_taps, B, B, y, to, P);
    else if (inputs == B && step == 2 * B)
      block(at, n_taps, B, 2 * B, y, to, P);
    else if (inputs == 2 * B && step == 2 * B)
      block(at, n_taps, 2 * B, 2 * B, y, to, P);
    else if (inputs == 4 * B && step == 4 * B)
      block(at, n_taps, 4 * B, 4 * B, y, to, P);
    else
      block(at, n_taps, inputs, step, y, to, P);
  }
}

#define FOLD(a, b, ...) (__builtin_shufflevector(a, b, LOW##__VA_ARGS__) + __builtin_shufflevector(a, b, HIGH##__VA_ARGS__))
#define LOW8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define LOW4 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define HIGH4 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#define LOW2 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29
#define HIGH2 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31
#define LOW1 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define HIGH1 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31

/* The sums of the entries of 16 vectors, as one vector. */
INLINE V sums(const V *a) {
  V b[8], c[4];
  for (int i = 0; i < 8; i++) b[i] = FOLD(a[2 * i], a[2 * i + 1], 8);
  for (int i = 0; i < 4; i++) c[i] = FOLD(b[2 * i], b[2 * i + 1], 4);
  V d = FOLD(c[0], c[1], 2), e = FOLD(c[2], c[3], 2);
  return FOLD(d, e, 1);
}

/* The same for outputs of less than a block: inner products over the inputs. w (taps, outputs, inputs). */
static void products(const Tap *taps, int n_taps, int inputs, float *out, int outputs, int n) {
  int p = 0;
  if (outputs == 2 && inputs == B) /* complex images of one coil: eight pixels at a time */
    for (; p + 8 <= n; p += 8) {
      V acc[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; i++) acc[i] = (V){0};
      for (int t = 0; t < n_taps; t++) {
        V re = load(taps[t].w), im = load(taps[t].w + B);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
          V x = load(taps[t].x + (long)(p + i) * B);
          acc[2 * i] += x * re;
          acc[2 * i + 1] += x * im;
        }
      }
      store(out + 2 * p, sums(acc));
    }
  for (; p < n; p++)
    for (int o = 0; o < outputs; o++) {
      V acc = {0};
      for (int t = 0; t < n_taps; t++)
        for (int c = 0; c < inputs; c += B)
          acc += load(taps[t].x + (long)p * inputs + c) * load(taps[t].w + (long)o * inputs + c);
      float sum = 0, part[B];
      store(part, acc);
      for (int i = 0; i < B; i++) sum += part[i];
      out[(long)p * outputs + o] = sum;
    }
}

/* Kernels k (outputs, inputs, 3, 3), or the other way round where they are transposed, in the order the stencils read:
   (outputs/16, 9, inputs, 16), for fewer than 16 outputs (9, outputs, inputs). */
static void pack(float *w, const float *k, int inputs, int outputs, int transposed) {
  for (int o = 0; o < outputs; o++)
    for (int c = 0; c < inputs; c++)
      for (int t = 0; t < 9; t++) {
        long to = outputs < B ? ((long)t * outputs + o) * inputs + c : ((o / B * 9L + t) * inputs + c) * B + o % B;
        w[to] = k[(transposed ? (long)c * outputs + o : (long)o * inputs + c) * 9 + t];
      }
}

static void conv_band(const void *job, int part, float *scratch) {
  const Conv *c = job;
  int inputs = c->inputs, outputs = c->outputs, n = (c->W + c->stride - 1) / c->stride, rows = (c->H + c->stride - 1) / c->stride;
  int first = part * c->band, last = first + c->band < rows ? first + c->band : rows;
  Lines a = {c->x, NULL, scratch, c->H, c->W, inputs, c->pre, 1, 3, NONE};
  float *y = scratch + 3 * (c->W + 8L) * inputs;
  for (int r = first; r < last; r++) {
    int top = r * c->stride - 1;
    for (int o = 0; o < outputs / B; o++) {
      Tap taps[9];
      for (int t = 0; t < 9; t++)
        taps[t] = (Tap){line(&a, top + t / 3) + t % 3 * inputs, c->w + (o * 9L + t) * inputs * B};
      stencil(taps, 9, inputs, c->stride * inputs, y + o * B, outputs, n);
    }
    long place = (long)r * n * outputs;
    leave(c->out + place, y, c->other ? c->other + place : NULL, n * outputs, outputs, c->post);
  }
}

/* k ∗ P x at every `stride`-th pixel, P the padding that repeats the edge. x (H, W, inputs); k (outputs, inputs, 3, 3);
   scratch: 9 inputs outputs, and for each thread 3 (W + 8) inputs + W outputs. */
void conv3x3(const float *x, const float *k, const float *other, float *out, int H, int W, int inputs, int outputs,
             int stride, int pre, int post, int threads, float *scratch) {
  int rows = (H + stride - 1) / stride, band = band_of(rows, threads);
  Conv c = {x, NULL, scratch, other, out, H, W, inputs, outputs, stride, pre, post, band};
  pack(scratch, k, inputs, outputs, 0);
  share(conv_band, &c, (rows + band - 1) / band, threads, scratch + 9L * inputs * outputs,
        3 * (W + 8L) * inputs + (long)W * outputs);
}

#define ROWS (P < 16 ? 8 : 16) /* of products at a time */
INLINE void outer(const float *x, const float *g, float *w, int channels, int step, int outputs, int n) {
  for (int part = 0; part < B; part += WIDTH) {
    Part acc[ROWS];
    const float *from = x, *seen = g + part;
#pragma GCC unroll 16
    for (int c = 0; c < channels; c++) acc[c] = *(const Part *)(w + B * c + part);
    for (int p = 0; p < n; p++, from += step, seen += outputs) {
      Part v = *(const Part *)seen;
#pragma GCC unroll 16
      for (int c = 0; c < channels; c++) acc[c] += from[c] * v;
    }
#pragma GCC unroll 16
    for (int c = 0; c < channels; c++) *(Part *)(w + B * c + part) = acc[c];
  }
}

static void kernel_band(const void *job, int part, float *scratch) {
  const Conv *job_of = job, c = *job_of;
  int inputs = c.inputs, outputs = c.outputs, n = (c.W + c.stride - 1) / c.stride, step = c.stride * inputs;
  int rows = (c.H + c.stride - 1) / c.stride, first = part * c.band, last = first + c.band < rows ? first + c.band : rows;
  Lines a = {c.x, NULL, scratch, c.H, c.W, inputs, c.pre, 1, 3, NONE};
  float *w = scratch + 3 * (c.W + 8L) * inputs, *k = c.out + part * 9L * inputs * outputs;
  memset(w, 0, 9L * inputs * outputs * sizeof(float));
  for (int r = first; r < last; r++)
    for (int o = 0; o < outputs / B; o++)
      for (int t = 0; t < 9; t++) {
        const float *from = line(&a, r * c.stride - 1 + t / 3) + t % 3 * inputs;
        const float *seen = c.other + (long)r * n * outputs + o * B;
        float *to = w + (o * 9L + t) * inputs * B;
        if (inputs % B)
          for (int f = 0; f < inputs; f += 2) outer(from + f, seen, to + f * B, 2, step, outputs, n);
        else
          for (int f = 0; f < inputs; f += ROWS) outer(from + f, seen, to + f * B, ROWS, step, outputs, n);
      }
  for (int o = 0; o < outputs; o++)
    for (int f = 0; f < inputs; f++)
      for (int t = 0; t < 9; t++)
        k[((long)o * inputs + f) * 9 + t] = w[((o / B * 9L + t) * inputs + f) * B + o % B];
}

/* The gradient of ⟨g, conv3x3(x)⟩ in k, (parts, outputs, inputs, 3, 3), a part for every `band` rows of g (h, w, outputs).
   scratch: for each thread 3 (W + 8) inputs + 9 inputs outputs. */
void kernel3x3(const float *x, const float *g, float *k, int H, int W, int inputs, int outputs, int stride, int pre, int band,
               int threads, float *scratch) {
  int rows = (H + stride - 1) / stride;
  Conv c = {x, NULL, NULL, g, k, H, W, inputs, outputs, stride, pre, STORE, band};
  share(kernel_band, &c, (rows + band - 1) / band, threads, scratch, 3 * (W + 8L) * inputs + 9L * inputs * outputs);
}

/* Of t = φ′(u) b, given the gradient a in t: a becomes the one in b, a φ′(u), and d the one in u, a b φ″(u). n values. */
void bend_back(float *a, const float *b, const float *u, float *d, long n) {
  for (long i = 0; i < n; i += B) {
    V x = load(u + i), s = x * x, q = 1.0f / (s + 1.0f), da = load(a + i);
    store(a + i, da * x * q);
    store(d + i, da * load(b + i) * (1.0f - s) * q * q);
  }
}

/* φ′(u) b into t. */
void bend(const float *b, const float *u, float *t, long n) {
  for (long i = 0; i < n; i += B) store(t + i, phi_prime(load(u + i)) * load(b + i));
}

/* Row r of kᵀ ∗ g before its edges are folded, W + 2 pixels, columns folded: y[0 … W − 1] follow at y + outputs. */
static void spread_row(Lines *a, const float *w, int r, int W, int outputs, int stride, float *y) {
  int blocks = outputs < B ? 1 : outputs / B, step = outputs < B ? outputs : B;
  memset(y, 0, (long)(W + 2) * outputs * sizeof(float));
  for (int phase = 0; phase < stride; phase++)
    for (int o = 0; o < blocks; o++) {
      Tap taps[9];
      int n_taps = 0;
      for (int t = 0; t < 9; t++) {
        int row = r - t / 3, column = phase - t % 3;
        if (row < 0 || row % stride || row / stride >= a->H || column % stride) continue;
        taps[n_taps++] = (Tap){line(a, row / stride) + (long)(column / stride + 2) * a->inputs,
                               w + (o * 9L + t) * a->inputs * step};
      }
      int n = (W + 2 - phase + stride - 1) / stride;
      if (!n_taps) continue;
      if (outputs < B) products(taps, n_taps, a->inputs, y, outputs, n);
      else stencil(taps, n_taps, a->inputs, a->inputs, y + phase * outputs + o * B, stride * outputs, n);
    }
  for (int i = 0; i < outputs; i++) {
    y[outputs + i] += y[i];
    y[(long)W * outputs + i] += y[(long)(W + 1) * outputs + i];
  }
}

static void spread_band(const void *job, int part, float *scratch) {
  const Conv *c = job;
  int H = c->H, W = c->W, outputs = c->outputs, w = (W + c->stride - 1) / c->stride;
  int first = part * c->band, last = first + c->band < H ? first + c->band : H;
  Lines a = {c->x, c->edges, scratch, (H + c->stride - 1) / c->stride, w, c->inputs, c->pre, 2, 3, NONE};
  float *y = scratch + 3L * (w + 8) * c->inputs, *more = y + (W + 2L) * outputs;
  for (int r = first; r < last; r++) {
    spread_row(&a, c->w, r + 1, W, outputs, c->stride, y);
    for (int edge = 0; edge < 2; edge++) { /* the rows beyond the image fold onto its first and last one */
      if (r != (edge ? H - 1 : 0)) continue;
      spread_row(&a, c->w, edge ? H + 1 : 0, W, outputs, c->stride, more);
      for (long i = outputs; i < (long)(W + 1) * outputs; i++) y[i] += more[i];
    }
    long place = (long)r * W * outputs;
    leave(c->out + place, y + outputs, c->other && c->post != ADD_SAME ? c->other + place : c->other, W * outputs, outputs,
          c->post);
  }
}

/* The adjoint of `conv3x3` on images (H, W, outputs).
   g (⌈H/stride⌉, ⌈W/stride⌉, inputs); k (inputs, outputs, 3, 3), with fewer than 16 outputs for stride 1 alone;
   scratch: 9 inputs outputs, and for each thread 3 (⌈W/stride⌉ + 8) inputs + 2 (W + 2) outputs. */
void spread3x3(const float *g, const float *edges, const float *k, const float *other, float *out, int H, int W, int inputs,
               int outputs, int stride, int pre, int post, int threads, float *scratch) {
  int band = band_of(H, threads);
  Conv c = {g, edges, scratch, other, out, H, W, inputs, outputs, stride, pre, post, band};
  pack(scratch, k, inputs, outputs, 1);
  share(spread_band, &c, (H + band - 1) / band, threads, scratch + 9L * inputs * outputs,
        3L * ((W + stride - 1) / stride + 8) * inputs + 2L * (W + 2) * outputs);
}
