/* What the kernels have in common: vectors of 16 features, φ and φ′, padded lines, and the innermost loops. */
#include "vectors.h"

#if defined(__AVX512F__) || defined(__aarch64__)
#define P 24 /* pixels at a time: as many as there are registers for */
#else
#define P 12
#endif

enum { PLAIN, PHI, UNIFORM };         /* input x as it is; φ(x); φ′(x) times an image that is constant but at its edges */
enum { STORE, ADD, TIMES_PHI_PRIME, ADD_SAME }; /* output y as it is; y + other; y φ′(other); y + the same for all pixels */

/* φ(u) = ½ log(1 + u²) */
INLINE V phi(V u) {
  V s = u * u, t = s + 1.0f;
  I bits = (I)t, e = (bits - 0x3f3504f3) >> 23;
  V m = (V)(bits - (e << 23)) - 1.0f;           /* t = (1 + m) 2^e, 1 + m between √½ and √2 */
  m += (s - (t - 1.0f)) * (V)((127 - e) << 23); /* what rounding took from 1 + u² */
  V y = 7.0376836292e-2f * m - 1.1514610310e-1f;
  y = y * m + 1.1676998740e-1f;
  y = y * m - 1.2420140846e-1f;
  y = y * m + 1.4249322787e-1f;
  y = y * m - 1.6668057665e-1f;
  y = y * m + 2.0000714765e-1f;
  y = y * m - 2.4999993993e-1f;
  y = y * m + 3.3333331174e-1f;
  y = (y * m - 0.5f) * m * m + m;
  return 0.5f * (y + __builtin_convertvector(e, V) * 6.93147180559945e-1f);
}

/* φ′(u) = u / (1 + u²) */
INLINE V phi_prime(V u) { return u / (u * u + 1.0f); }

/* One tap of a stencil: the pixel it reads for the first output, and its weights (inputs, 16). */
typedef struct { const float *x, *w; } Tap;

INLINE void block(const Tap *taps, int n_taps, int inputs, int step, float *out,
                                                        int to, int pixels) {
  for (int part = 0; part < B; part += WIDTH) {
    Part acc[P];
#pragma GCC unroll 32
    for (int p = 0; p < pixels; p++) acc[p] = (Part){0};
    for (int t = 0; t < n_taps; t++) {
      const float *x = taps[t].x, *w = taps[t].w + part;
      for (int c = 0; c < inputs; c++) {
        Part k = *(const Part *)(w + B * c);
#pragma GCC unroll 32
        for (int p = 0; p < pixels; p++) acc[p] += x[p * step + c] * k;
      }
    }
#pragma GCC unroll 32
    for (int p = 0; p < pixels; p++) *(Part *)(out + p * to + part) = acc[p];
  }
}

/* work(job, part, scratch) for all parts, on some threads, each with `size` floats of scratch for itself. */
typedef void (*Work)(const void *job, int part, float *scratch);
void share(Work work, const void *job, int parts, int threads, float *scratch, long size);

/* The arguments of a convolution, w its packed kernels, and of how many rows its parts are. */
typedef struct {
  const float *x, *edges, *w, *other;
  float *out;
  int H, W, inputs, outputs, stride, pre, post, band;
} Conv;

/* Parts of whole tiles of four rows, a few for each thread, so that none waits long for another. */
INLINE int band_of(int rows, int threads) {
  int band = rows / (threads < 2 ? 1 : 3 * threads) / 4 * 4;
  return threads < 2 ? rows : band < 8 ? 8 : band;
}

static void leave(float *out, const float *y, const float *other, int n, int outputs, int post) {
  if (post == STORE) memcpy(out, y, n * sizeof(float));
  else if (post == ADD)
    for (int i = 0; i < n; i += B) store(out + i, load(y + i) + load(other + i));
  else if (post == TIMES_PHI_PRIME)
    for (int i = 0; i < n; i += B) store(out + i, load(y + i) * phi_prime(load(other + i)));
  else
    for (int i = 0; i < n; i += B) store(out + i, load(y + i) + load(other + i % outputs));
}

/* Lines of an image (H, W, inputs) as they are needed, padded, the last n of them held; W + 8 pixels of room each.
   margin 1: the edge pixel repeated, lines beyond the image, too. margin 2: two pixels of zeros on either side, zeros beyond.
   pre: what is done to their values; edges (4, 4, inputs) of the image of UNIFORM, the same everywhere inside. */
typedef struct { const float *x, *edges; float *rows; int H, W, inputs, pre, margin, n, held[6]; } Lines;
#define NONE {-99, -99, -99, -99, -99, -99}

static void line_values(const Lines *a, int r, float *to) {
  const float *from = a->x + (long)r * a->W * a->inputs;
  long n = (long)a->W * a->inputs;
  if (a->pre == PLAIN) memcpy(to, from, n * sizeof(float));
  else if (a->pre == PHI)
    for (long i = 0; i < n; i += B) store(to + i, phi(load(from + i)));
  else
    for (int c = 0; c < a->W; c++) {
      const float *e = a->edges + ((r == 0 ? 0 : r == a->H - 1 ? 3 : 1) * 4 + (c == 0 ? 0 : c == a->W - 1 ? 3 : 1)) * a->inputs;
      for (int i = 0; i < a->inputs; i += B, from += B, to += B) store(to, phi_prime(load(from)) * load(e + i));
    }
}

static const float *line(Lines *a, int r) {
  int slot = (r + 6 * a->n) % a->n, outside = r < 0 || r >= a->H;
  long pixel = a->inputs, inner = a->W * pixel, width = inner + 8 * pixel, after = a->margin * pixel + inner;
  float *row = a->rows + slot * width;
  if (a->held[slot] == r) return row;
  a->held[slot] = r;
  if (outside && a->margin == 2) return memset(row, 0, width * sizeof(float));
  line_values(a, r < 0 ? 0 : outside ? a->H - 1 : r, row + a->margin * pixel);
  memset(row, 0, a->margin * pixel * sizeof(float));
  memset(row + after, 0, (width - after) * sizeof(float));
  if (a->margin == 1) {
    memcpy(row, row + pixel, pixel * sizeof(float));
    memcpy(row + after, row + after - pixel, pixel * sizeof(float));
  }
  return row;
}
