/* 3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3): four rows and four columns at a time, a quarter of the products.

   Y = Aᵀ [Σ_c (G k Gᵀ) ⊙ (Bᵀ d B)] A for 6x6 pixels d, with the points 0, ±a, ±b, ∞. These a and b lose about two bits less
   than the usual 1 and 2. Rows of tiles stand by themselves: bands that begin at one give the same bits as the whole. */
#include "kernels.h"

#define N 36   /* products of a tile */
#define T 24   /* most tiles at a time */
#define SIDE 4 /* rows and columns that a tile gives */
static const float a = 0.625f, b = 1.5f, aa = 0.390625f, bb = 2.25f, sum = 2.640625f, product = 0.87890625f;

/* Bᵀ d: six to six. */
INLINE void enter(const V *d, V *to) {
  V p = d[4] - bb * d[2], q = d[3] - bb * d[1], r = d[4] - aa * d[2], s = d[3] - aa * d[1];
  to[0] = product * d[0] + (d[4] - sum * d[2]);
  to[1] = p + a * q;
  to[2] = p - a * q;
  to[3] = r + b * s;
  to[4] = r - b * s;
  to[5] = product * d[1] + (d[5] - sum * d[3]);
}

/* Aᵀ m: six to four. */
INLINE void leave_tile(const V *m, V *to) {
  V p = m[1] + m[2], q = m[1] - m[2], r = m[3] + m[4], s = m[3] - m[4];
  to[0] = m[0] + p + r;
  to[1] = a * q + b * s;
  to[2] = aa * p + bb * r;
  to[3] = m[5] + (a * aa * q + b * bb * s);
}

/* G k Gᵀ of all kernels, (outputs/16, 36, inputs, 16), in the order of `multiply`; flipped and transposed for adjoints. */
static void transform_kernels(float *u, const float *k, int inputs, int outputs, int transposed) {
  const double A = a, C = b, e = A * A, f = C * C, na = 2 * e * (e - f), nb = 2 * f * (f - e);
  const double G[6][3] = {{1 / (e * f), 0, 0}, {1 / na, A / na, e / na}, {1 / na, -A / na, e / na},
                          {1 / nb, C / nb, f / nb}, {1 / nb, -C / nb, f / nb}, {0, 0, 1}};
  for (int o = 0; o < outputs; o++)
    for (int c = 0; c < inputs; c++) {
      const float *from = k + (transposed ? (long)c * outputs + o : (long)o * inputs + c) * 9;
      double half[6][3];
      for (int i = 0; i < 6; i++)
        for (int x = 0; x < 3; x++) {
          half[i][x] = 0;
          for (int y = 0; y < 3; y++) half[i][x] += G[i][y] * from[transposed ? 8 - (3 * y + x) : 3 * y + x];
        }
      for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
          u[((o / B * (long)N + 6 * i + j) * inputs + c) * B + o % B] =
              (float)(half[i][0] * G[j][0] + half[i][1] * G[j][1] + half[i][2] * G[j][2]);
    }
}

/* Bᵀ d of the columns of `tiles` tiles, one block of features, into half (6, 4 T + 2, inputs). */
static void enter_columns(const float *const *rows, long at, int inputs, int tiles, float *half) {
  for (int x = 0; x < SIDE * tiles + 2; x++) {
    V d[6], y[6];
    for (int i = 0; i < 6; i++) d[i] = load(rows[i] + at + (long)x * inputs);
    enter(d, y);
    for (int i = 0; i < 6; i++) store(half + (i * (SIDE * T + 2L) + x) * inputs, y[i]);
  }
}

/* (·) B of one row of those, into v (6, T, inputs). */
static void enter_rows(const float *half, int inputs, int tiles, float *v) {
  for (int t = 0; t < tiles; t++)
    for (int c = 0; c < inputs; c += B) {
      V d[6], y[6];
      for (int j = 0; j < 6; j++) d[j] = load(half + (SIDE * t + j) * (long)inputs + c);
      enter(d, y);
      for (int j = 0; j < 6; j++) store(v + (j * (long)T + t) * inputs + c, y[j]);
    }
}

/* (·) A of one row: m (6, T, 16) into half (4 T, 16). */
static void leave_rows(const float *m, float *half, int tiles) {
  for (int t = 0; t < tiles; t++) {
    V d[6], y[4];
    for (int j = 0; j < 6; j++) d[j] = load(m + (j * T + t) * B);
    leave_tile(d, y);
    for (int j = 0; j < 4; j++) store(half + (SIDE * t + j) * B, y[j]);
  }
}

/* Aᵀ (·): half (6, 4 T, 16) to four rows of y. */
static void leave_columns(const float *half, float *const *y, long at, int outputs, int tiles) {
  for (int x = 0; x < SIDE * tiles; x++) {
    V d[6], to[4];
    for (int i = 0; i < 6; i++) d[i] = load(half + (i * SIDE * T + x) * B);
    leave_tile(d, to);
    for (int i = 0; i < 4; i++) store(y[i] + at + (long)x * outputs, to[i]);
  }
}

/* m[j] = v[j] u[j] for six products, (tiles, inputs) times (inputs, 16) each; tiles beyond are whatever was there. */
INLINE void multiply_by(const float *v, const float *u, float *m, int inputs,
                                                              int tiles, int wide) {
  for (int j = 0; j < 6; j++)
    for (int t = 0; t < tiles; t += wide) {
      Tap tap = {v + ((long)j * T + t) * inputs, u + (long)j * inputs * B};
      if (inputs == B) block(&tap, 1, B, B, m + (j * T + t) * B, B, wide);
      else block(&tap, 1, inputs, inputs, m + (j * T + t) * B, B, wide);
    }
}

static void multiply(const float *v, const float *u, float *m, int inputs, int tiles) {
#if P == 24
  if (tiles > 22) multiply_by(v, u, m, inputs, tiles, 24);
  else if (tiles > 20) multiply_by(v, u, m, inputs, tiles, 22);
  else if (tiles > 18) multiply_by(v, u, m, inputs, tiles, 20);
  else if (tiles > 16) multiply_by(v, u, m, inputs, tiles, 18);
  else if (tiles > 12) multiply_by(v, u, m, inputs, tiles, 16);
  else if (tiles > 8) multiply_by(v, u, m, inputs, tiles, 12);
  else multiply_by(v, u, m, inputs, tiles, 8);
#else
  if (tiles % 12 == 0 || tiles % 12 > 8) multiply_by(v, u, m, inputs, tiles, 12);
  else if (tiles % 10 == 0) multiply_by(v, u, m, inputs, tiles, 10);
  else if (tiles % 8 == 0 || tiles % 8 > 4) multiply_by(v, u, m, inputs, tiles, 8);
  else multiply_by(v, u, m, inputs, tiles, 4);
#endif
}

/* Four rows of the output from six padded ones of the input, 4 tiles columns.
   scratch: 6 (4 T + 2) inputs + 6 T inputs + 6 T 16 + 24 T outputs. */
static void four_rows(const float *const *rows, const float *u, float *const *y, int inputs, int outputs, int tiles,
                      float *scratch) {
  float *half = scratch, *v = half + 6 * (SIDE * T + 2L) * inputs, *m = v + 6L * T * inputs, *back = m + 6 * T * B;
  int parts = (tiles + T - 1) / T, most = (tiles + parts - 1) / parts;
  for (int first = 0; first < tiles; first += most) {
    int n = tiles - first < most ? tiles - first : most;
    for (int c = 0; c < inputs; c += B) enter_columns(rows, (long)SIDE * first * inputs + c, inputs, n, half + c);
    for (int i = 0; i < 6; i++) {
      enter_rows(half + i * (SIDE * T + 2L) * inputs, inputs, n, v);
      for (int o = 0; o < outputs / B; o++) {
        multiply(v, u + ((long)o * N + 6 * i) * inputs * B, m, inputs, n);
        leave_rows(m, back + (o * 6L + i) * SIDE * T * B, n);
      }
    }
    for (int o = 0; o < outputs / B; o++)
      leave_columns(back + o * 6L * SIDE * T * B, y, (long)SIDE * first * outputs + o * B, outputs, n);
  }
}

/* Where the parts of scratch begin: lines, four rows of the output, transformed kernels, and `four_rows`'. */
typedef struct { float *y[4], *u, *rest; } Room;

static Room room(float *scratch, int W, int inputs, int outputs) {
  long width = W + 8L;
  Room a = {.u = scratch + width * (6 * inputs + 4 * outputs)};
  for (int i = 0; i < 4; i++) a.y[i] = scratch + width * (6 * inputs + i * outputs);
  a.rest = a.u + (long)N * inputs * outputs;
  return a;
}

/* The same as conv3x3 with stride 1. Bands begin at multiples of four.
   scratch: (W + 8) (6 inputs + 4 outputs) + 36 inputs outputs + 732 inputs + 576 outputs + 2304. */
void winograd3x3(const float *x, const float *k, const float *other, float *out, int H, int W, int inputs, int outputs,
                 int pre, int post, int first, int last, float *scratch) {
  Lines lines = {x, NULL, scratch, H, W, inputs, pre, 1, 6, NONE};
  Room at = room(scratch, W, inputs, outputs);
  transform_kernels(at.u, k, inputs, outputs, 0);
  for (int r = first; r < last; r += SIDE) {
    const float *rows[6];
    for (int i = 0; i < 6; i++) rows[i] = line(&lines, r - 1 + i);
    four_rows(rows, at.u, at.y, inputs, outputs, (W + 3) / SIDE, at.rest);
    for (int i = 0; i < SIDE && r + i < H; i++) {
      long place = (long)(r + i) * W * outputs;
      leave(out + place, at.y[i], other ? other + place : other, W * outputs, outputs, post);
    }
  }
}

static void add_row(float *to, const float *y, long n) {
  for (long i = 0; i < n; i += B) store(to + i, load(to + i) + load(y + i));
}

/* The edges of kᵀ ∗ g, one pixel beyond the image on every side, onto its own: four rows from r on, of 0 … H + 1. */
static void fold(float *const *y, int r, int H, int W, int outputs) {
  for (int i = 0; i < SIDE; i++) {
    add_row(y[i] + outputs, y[i], outputs);
    add_row(y[i] + (long)W * outputs, y[i] + (W + 1L) * outputs, outputs);
  }
  for (int i = 0; i < SIDE; i++) {
    if (r + i == 0) add_row(y[i + 1], y[i], (W + 2L) * outputs);
    if (r + i == H + 1) add_row(y[i - 1], y[i], (W + 2L) * outputs);
  }
}

/* The same as spread3x3 with stride 1 and outputs of whole blocks. Bands begin at multiples of four: of rows of tiles, since
   the rows of an edge that are folded together have to be in one of them. scratch: as for `winograd3x3`. */
void winograd_spread3x3(const float *g, const float *edges, const float *k, const float *other, float *out, int H, int W,
                        int inputs, int outputs, int pre, int post, int first, int last, float *scratch) {
  int shift = H % SIDE == SIDE - 1, end = last == H ? (H + 2 + shift + SIDE - 1) / SIDE : last / SIDE;
  Lines lines = {g, edges, scratch, H, W, inputs, pre, 2, 6, NONE};
  Room at = room(scratch, W, inputs, outputs);
  transform_kernels(at.u, k, inputs, outputs, 1);
  for (int t = first / SIDE; t < end; t++) {
    int r = t * SIDE - shift; /* of 0 … H + 1, the image and a pixel on either side */
    const float *rows[6];
    for (int i = 0; i < 6; i++) rows[i] = line(&lines, r - 2 + i);
    four_rows(rows, at.u, at.y, inputs, outputs, (W + 2 + 3) / SIDE, at.rest);
    fold(at.y, r, H, W, outputs);
    for (int i = 0; i < SIDE; i++) {
      if (r + i < 1 || r + i > H) continue;
      long place = (r + i - 1L) * W * outputs;
      leave(out + place, at.y[i] + outputs, other && post != ADD_SAME ? other + place : other, W * outputs, outputs, post);
    }
  }
}
