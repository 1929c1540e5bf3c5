/* ∇R of a smoothed total variation, as `tv.py` says it in torch: λ ∂*(∂v / √(‖∂v‖² + ε²)), differences periodic. */
#include <math.h>
#include "kernels.h"

typedef struct { const float *v; float *out; int H, W, channels, band; float lambda, epsilon; } TV;

INLINE float weight(const TV *t, const float *here, const float *below, const float *right, int channels) {
  float s = t->epsilon * t->epsilon;
  for (int i = 0; i < channels; i++) {
    float dh = below[i] - here[i], dw = right[i] - here[i];
    s += dh * dh + dw * dw;
  }
  return t->lambda / sqrtf(s);
}

/* λ / √(‖∂v‖² + ε²) of row r. */
INLINE void weights(const TV *t, int r, int channels, float *q) {
  const float *here = t->v + (long)r * t->W * channels, *below = t->v + (long)((r + 1) % t->H) * t->W * channels;
  int last = t->W - 1;
  for (int c = 0; c < last; c++) q[c] = weight(t, here + c * channels, below + c * channels, here + (c + 1) * channels, channels);
  q[last] = weight(t, here + last * channels, below + last * channels, here, channels);
}

/* One row of the image, from the weights `before` of the row above and its own. */
INLINE void row(const TV *t, int r, int channels, const float *before, const float *q) {
  int W = t->W;
  long at = (long)W * channels;
  const float *x = t->v + r * at, *above = t->v + (r + t->H - 1) % t->H * at, *below = t->v + (r + 1) % t->H * at;
  float *to = t->out + r * at;
#define PIXEL(c, l, n)                                                                                              \
  for (int i = 0; i < channels; i++) {                                                                              \
    float here = x[(c) * channels + i];                                                                             \
    to[(c) * channels + i] += before[c] * (here - above[(c) * channels + i]) + q[l] * (here - x[(l) * channels + i]) - \
                              q[c] * (below[(c) * channels + i] - here + (x[(n) * channels + i] - here));           \
  }
  for (int c = 1; c < W - 1; c++) PIXEL(c, c - 1, c + 1)
  PIXEL(0, W - 1, 1 % W)
  if (W > 1) PIXEL(W - 1, W - 2, 0)
}

INLINE void rows(const TV *t, int part, int channels, float *scratch) {
  int first = part * t->band, last = first + t->band < t->H ? first + t->band : t->H;
  float *before = scratch, *q = scratch + t->W;
  weights(t, (first + t->H - 1) % t->H, channels, before);
  for (int r = first; r < last; r++) {
    weights(t, r, channels, q);
    row(t, r, channels, before, q);
    float *spent = before;
    before = q, q = spent;
  }
}

static void band(const void *job, int part, float *scratch) {
  const TV *t = job;
  if (t->channels == 2) rows(t, part, 2, scratch); /* one coil, known to the compiler */
  else rows(t, part, t->channels, scratch);
}

/* Added to out. v, out (H, W, channels); scratch: for each thread 2 W. */
void total_variation(const float *v, float *out, int H, int W, int channels, int threads, float lambda, float epsilon,
                     float *scratch) {
  TV t = {v, out, H, W, channels, band_of(H, threads), lambda, epsilon};
  share(band, &t, (H + t.band - 1) / t.band, threads, scratch, 2L * W);
}
