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

typedef double D __attribute__((vector_size(128))); /* of 16 outputs */

/* G k Gᵀ of all kernels, (outputs/16, 36, inputs, 16), in the order of `multiply`; flipped and transposed for adjoints. */
static void transform_kernels(float *u, const float *k, int inputs, int outputs, int transposed) {
  const double A = a, C = b, e = A * A, f = C * C, na = 2 * e * (e - f), nb = 2 * f * (f - e);
  const double G[6][3] = {{1 / (e * f), 0, 0}, {1 / na, A / na, e / na}, {1 / na, -A / na, e / na},
                          {1 / nb, C / nb, f / nb}, {1 / nb, -C / nb, f / nb}, {0, 0, 1}};
  for (int o = 0; o < outputs; o += B)
    for (int c = 0; c < inputs; c++) {
      D from[9], half[3];
      for (int t = 0; t < 9; t++)
        for (int i = 0; i < B; i++)
          from[t][i] = transposed ? k[((long)c * outputs + o + i) * 9 + 8 - t] : k[((long)(o + i) * inputs + c) * 9 + t];
      for (int i = 0; i < 6; i++) {
        for (int x = 0; x < 3; x++) half[x] = G[i][0] * from[x] + G[i][1] * from[3 + x] + G[i][2] * from[6 + x];
        for (int j = 0; j < 6; j++)
          store(u + (((long)o / B * N + 6 * i + j) * inputs + c) * B,
                __builtin_convertvector(half[0] * G[j][0] + half[1] * G[j][1] + half[2] * G[j][2], V));
      }
    }
}

/* Bᵀ d of the columns from p on of `tiles` tiles, one block of features, into half (6, 4 T + 2, inputs). Beyond the image
   columns are 0 where `zero` says so, and the outermost one where not. */
static void enter_columns(const float *const *rows, int p, int W, int zero, int inputs, int tiles, float *half) {
  for (int x = 0; x < SIDE * tiles + 2; x++) {
    int column = p + x < 0 ? 0 : p + x < W ? p + x : W - 1;
    V d[6], y[6];
    for (int i = 0; i < 6; i++) d[i] = zero && column != p + x ? (V){0} : load(rows[i] + (long)column * inputs);
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

/* Aᵀ (·): half (6, 4 T, 16) to y (4, 4 T, outputs). */
static void leave_columns(const float *half, float *y, int outputs, int tiles) {
  for (int x = 0; x < SIDE * tiles; x++) {
    V d[6], to[4];
    for (int i = 0; i < 6; i++) d[i] = load(half + (i * SIDE * T + x) * B);
    leave_tile(d, to);
    for (int i = 0; i < 4; i++) store(y + (i * SIDE * T + (long)x) * outputs, to[i]);
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

static void add(float *to, const float *y, long n) {
  for (long i = 0; i < n; i += B) store(to + i, load(to + i) + load(y + i));
}

/* What adjoints give beyond the image, one pixel on every side, onto its edges: y begins at pixel (q, p), 4 rows of n. */
static void fold(float *y, int q, int p, int n, const Conv *c) {
  long pixel = c->outputs, row = SIDE * T * pixel;
  for (int i = 0; i < SIDE; i++) {
    float *to = y + i * row - p * pixel; /* column 0 */
    if (p < 0) add(to, to - pixel, pixel);
    if (p + n > c->W) add(to + (c->W - 1) * pixel, to + c->W * pixel, pixel);
  }
  for (int i = 0; i < SIDE; i++) {
    if (q + i == -1) add(y + (i + 1) * row, y + i * row, n * pixel);
    if (q + i == c->H) add(y + (i - 1) * row, y + i * row, n * pixel);
  }
}

/* Rows q … q + 3 of the output, columns from p on, of six rows of the input; those outside the image are left out.
   scratch: 6 (4 T + 2) inputs + 6 T inputs + 6 T 16 + 40 T outputs. */
static void four_rows(const Conv *c, const float *const *rows, int adjoint, int q, int p, int tiles, float *scratch) {
  int inputs = c->inputs, outputs = c->outputs, parts = (tiles + T - 1) / T, most = (tiles + parts - 1) / parts;
  float *half = scratch, *v = half + 6 * (SIDE * T + 2L) * inputs, *m = v + 6L * T * inputs, *back = m + 6 * T * B;
  float *y = back + 24L * T * outputs;
  for (; tiles > 0; tiles -= most, p += SIDE * most) {
    int n = tiles < most ? tiles : most;
    for (int f = 0; f < inputs; f += B) {
      const float *from[6];
      for (int i = 0; i < 6; i++) from[i] = rows[i] + f;
      enter_columns(from, p - 1, c->W, adjoint, inputs, n, half + f);
    }
    for (int i = 0; i < 6; i++) {
      enter_rows(half + i * (SIDE * T + 2L) * inputs, inputs, n, v);
      for (int o = 0; o < outputs / B; o++) {
        multiply(v, c->w + ((long)o * N + 6 * i) * inputs * B, m, inputs, n);
        leave_rows(m, back + (o * 6L + i) * SIDE * T * B, n);
      }
    }
    for (int o = 0; o < outputs / B; o++) leave_columns(back + o * 6L * SIDE * T * B, y + o * B, outputs, n);
    if (adjoint) fold(y, q, p, SIDE * n, c);
    int first = p < 0 ? -p : 0, last = p + SIDE * n < c->W ? SIDE * n : c->W - p;
    for (int i = 0; i < SIDE; i++) {
      long at = ((q + i) * (long)c->W + p + first) * outputs;
      const float *other = c->post == ADD_SAME || !c->other ? c->other : c->other + at;
      if (q + i >= 0 && q + i < c->H)
        leave(c->out + at, y + (i * SIDE * T + (long)first) * outputs, other, (last - first) * outputs, outputs, c->post);
    }
  }
}

/* Row r of the input, beyond the image its edge, or zeros for adjoints; those that are not taken as they are are held. */
static const float *row(Lines *a, int r) {
  long width = (long)a->W * a->inputs;
  if (a->margin == 2 && (r < 0 || r >= a->H)) return memset(a->rows + 6 * width, 0, width * sizeof(float));
  r = r < 0 ? 0 : r < a->H ? r : a->H - 1;
  if (a->pre == PLAIN) return a->x + r * width;
  float *to = a->rows + r % 6 * width;
  if (a->held[r % 6] != r) line_values(a, r, to);
  a->held[r % 6] = r;
  return to;
}

/* Adjoints begin a pixel outside, or two: rows and columns that are folded together have to be in one tile. */
static int before(int size, int adjoint) { return !adjoint ? 0 : size % SIDE == SIDE - 1 ? 2 : 1; }

static void tiles_band(const Conv *c, int adjoint, int part, float *scratch) {
  int up = before(c->H, adjoint), left = before(c->W, adjoint), end = (part + 1) * c->band;
  int tiles = (c->W + left + adjoint + SIDE - 1) / SIDE;
  Lines a = {c->x, c->edges, scratch, c->H, c->W, c->inputs, c->pre, 1 + adjoint, 6, NONE};
  if (end >= c->H) end = c->H + up + adjoint;
  for (int r = part * c->band; r < end; r += SIDE) {
    const float *rows[6];
    for (int i = 0; i < 6; i++) rows[i] = row(&a, r - up - 1 + i);
    four_rows(c, rows, adjoint, r - up, -left, tiles, scratch + 7L * c->W * c->inputs);
  }
}

static void forth(const void *job, int part, float *scratch) { tiles_band(job, 0, part, scratch); }
static void back(const void *job, int part, float *scratch) { tiles_band(job, 1, part, scratch); }

/* The same as conv3x3 with stride 1, or for adjoints as spread3x3 with stride 1, and features of whole blocks.
   scratch: 36 inputs outputs, and for each thread 7 W inputs + 732 inputs + 960 outputs + 2304. */
void winograd3x3(const float *x, const float *edges, const float *k, const float *other, float *out, int H, int W, int inputs,
                 int outputs, int adjoint, int pre, int post, int threads, float *scratch) {
  int band = band_of(H, threads);
  Conv c = {x, edges, scratch, other, out, H, W, inputs, outputs, 1, pre, post, band};
  transform_kernels(scratch, k, inputs, outputs, adjoint);
  share(adjoint ? back : forth, &c, (H + band - 1) / band, threads, scratch + (long)N * inputs * outputs,
        7L * W * inputs + 732L * inputs + 960L * outputs + 2304);
}
