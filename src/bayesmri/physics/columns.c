/* F⁻¹ M F for masks M of whole columns, where the transforms along the other axis cancel: 16 rows at a time, one to a lane.

   Forward passes go by decimation in frequency and leave the spectrum out of order, where the mask, ordered alike, meets it;
   backward passes are their transposes, with real and imaginary parts exchanged, and put it in order again. */
#include "vectors.h"

#define MOST 64 /* a prime factor */

/* factors of W; of each but the last, in their order, (n/r, r − 1) twiddles; r roots of unity of each; the mask over W. */
typedef struct { int W, n; const int *factors; const float *twiddles, *roots, *mask; } Plan;

/* Sums over r points, in place: x_k ← Σ_j x_j exp(−2πi jk/r). */
INLINE void butterfly2(V *x, V *y) {
  V a = x[0] - x[1], b = y[0] - y[1];
  x[0] += x[1], y[0] += y[1], x[1] = a, y[1] = b;
}

INLINE void butterfly3(V *x, V *y) {
  const float half = 0.5f, s = 0.866025403784438647f;
  V p = x[1] + x[2], q = y[1] + y[2], d = s * (x[1] - x[2]), e = s * (y[1] - y[2]);
  V a = x[0] - half * p, b = y[0] - half * q;
  x[0] += p, y[0] += q;
  x[1] = a + e, y[1] = b - d, x[2] = a - e, y[2] = b + d;
}

INLINE void butterfly4(V *x, V *y) {
  V a = x[0] + x[2], b = y[0] + y[2], c = x[0] - x[2], d = y[0] - y[2];
  V e = x[1] + x[3], f = y[1] + y[3], g = x[1] - x[3], h = y[1] - y[3];
  x[0] = a + e, y[0] = b + f, x[2] = a - e, y[2] = b - f;
  x[1] = c + h, y[1] = d - g, x[3] = c - h, y[3] = d + g;
}

INLINE void butterfly5(V *x, V *y) {
  const float c = 0.309016994374947424f, d = -0.809016994374947424f, s = 0.951056516295153572f, t = 0.587785252292473129f;
  V p = x[1] + x[4], q = y[1] + y[4], u = x[1] - x[4], v = y[1] - y[4];
  V P = x[2] + x[3], Q = y[2] + y[3], U = x[2] - x[3], W = y[2] - y[3];
  V a = x[0] + c * p + d * P, b = y[0] + c * q + d * Q, e = s * v + t * W, f = s * u + t * U;
  V g = x[0] + d * p + c * P, h = y[0] + d * q + c * Q, k = t * v - s * W, l = t * u - s * U;
  x[0] += p + P, y[0] += q + Q;
  x[1] = a + e, y[1] = b - f, x[4] = a - e, y[4] = b + f;
  x[2] = g + k, y[2] = h - l, x[3] = g - k, y[3] = h + l;
}

/* r odd: points j and r − j by their sum and difference. */
static void butterfly_odd(V *x, V *y, int r, const float *roots) {
  V p[MOST / 2], q[MOST / 2], u[MOST / 2], v[MOST / 2], x0 = x[0], y0 = y[0];
  int half = (r - 1) / 2;
  for (int j = 0; j < half; j++) {
    p[j] = x[j + 1] + x[r - 1 - j], q[j] = y[j + 1] + y[r - 1 - j];
    u[j] = x[j + 1] - x[r - 1 - j], v[j] = y[j + 1] - y[r - 1 - j];
    x[0] += p[j], y[0] += q[j];
  }
  for (int k = 1; k <= half; k++) {
    V a = x0, b = y0, e = {0}, f = {0};
    for (int j = 0, at = k; j < half; j++, at = (at + k) % r) {
      a += roots[2 * at] * p[j], b += roots[2 * at] * q[j];
      e += roots[2 * at + 1] * u[j], f += roots[2 * at + 1] * v[j]; /* roots: cos, sin */
    }
    x[k] = a + f, y[k] = b - e, x[r - k] = a - f, y[r - k] = b + e;
  }
}

INLINE void butterfly(V *x, V *y, int r, const float *roots) {
  if (r == 2) butterfly2(x, y);
  else if (r == 3) butterfly3(x, y);
  else if (r == 4) butterfly4(x, y);
  else if (r == 5) butterfly5(x, y);
  else butterfly_odd(x, y, r, roots);
}

/* One pass over W points in parts of n = r m: sums, then twiddles; back: their transpose, real and imaginary exchanged. */
INLINE void pass_of(float *z, int W, int n, int r, const float *twiddles, const float *roots, int back) {
  int m = n / r;
  for (float *part = z; part < z + 2L * B * W; part += 2L * B * n)
    for (int k = 0; k < m; k++) {
      V x[MOST], y[MOST];
      const float *w = twiddles + 2L * k * (r - 1);
      float *at = part + 2L * B * k;
      for (int j = 0; j < r; j++) {
        V re = load(at + 2L * B * m * j + (back ? B : 0)), im = load(at + 2L * B * m * j + (back ? 0 : B));
        if (back && j) x[j] = re * w[2 * j - 2] - im * w[2 * j - 1], y[j] = re * w[2 * j - 1] + im * w[2 * j - 2];
        else x[j] = re, y[j] = im;
      }
      butterfly(x, y, r, roots);
      for (int j = 0; j < r; j++) {
        V re = x[j], im = y[j];
        if (!back && j) re = x[j] * w[2 * j - 2] - y[j] * w[2 * j - 1], im = x[j] * w[2 * j - 1] + y[j] * w[2 * j - 2];
        store(at + 2L * B * m * j + (back ? B : 0), re);
        store(at + 2L * B * m * j + (back ? 0 : B), im);
      }
    }
}

/* The last sums of the way there, the mask, and the first of the way back. */
INLINE void turn_of(float *z, int W, int r, const float *mask, const float *roots) {
  for (int g = 0; g < W; g += r) {
    V x[MOST], y[MOST];
    for (int j = 0; j < r; j++) x[j] = load(z + 2L * B * (g + j)), y[j] = load(z + 2L * B * (g + j) + B);
    butterfly(x, y, r, roots);
    for (int j = 0; j < r; j++) x[j] *= mask[g + j], y[j] *= mask[g + j];
    butterfly(y, x, r, roots);
    for (int j = 0; j < r; j++) store(z + 2L * B * (g + j), x[j]), store(z + 2L * B * (g + j) + B, y[j]);
  }
}

#define BY_RADIX(call) \
  switch (r) { \
    case 2: call(2); break; \
    case 3: call(3); break; \
    case 4: call(4); break; \
    case 5: call(5); break; \
    default: call(r); \
  }

static void forward(float *z, int W, int n, int r, const float *w, const float *roots) {
#define CALL(r) pass_of(z, W, n, r, w, roots, 0)
  BY_RADIX(CALL)
#undef CALL
}

static void backward(float *z, int W, int n, int r, const float *w, const float *roots) {
#define CALL(r) pass_of(z, W, n, r, w, roots, 1)
  BY_RADIX(CALL)
#undef CALL
}

static void turn(float *z, int W, int r, const float *mask, const float *roots) {
#define CALL(r) turn_of(z, W, r, mask, roots)
  BY_RADIX(CALL)
#undef CALL
}

/* F⁻¹ M F of 16 rows z (W, 2, 16), in place. */
static void convolve(const Plan *a, float *z) {
  const float *w[32], *roots[32];
  int n[32];
  w[0] = a->twiddles, roots[0] = a->roots, n[0] = a->W;
  for (int i = 1; i < a->n; i++) {
    n[i] = n[i - 1] / a->factors[i - 1];
    w[i] = w[i - 1] + 2L * n[i] * (a->factors[i - 1] - 1);
    roots[i] = roots[i - 1] + 2L * a->factors[i - 1];
  }
  int last = a->n - 1;
  for (int i = 0; i < last; i++) forward(z, a->W, n[i], a->factors[i], w[i], roots[i]);
  turn(z, a->W, a->factors[last], a->mask, roots[last]);
  for (int i = last - 1; i >= 0; i--) backward(z, a->W, n[i], a->factors[i], w[i], roots[i]);
}

#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
/* 16 vectors as a matrix, transposed. */
INLINE void transpose(V *t) {
  V u[B];
  for (int i = 0; i < B; i += 2) {
    u[i] = MIX(t[i], t[i + 1], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
    u[i + 1] = MIX(t[i], t[i + 1], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
  }
  for (int i = 0; i < B; i += 4)
    for (int j = i; j < i + 2; j++) {
      t[j] = MIX(u[j], u[j + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
      t[j + 2] = MIX(u[j], u[j + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
  for (int i = 0; i < B; i += 8)
    for (int j = i; j < i + 4; j++) {
      u[j] = MIX(t[j], t[j + 4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
      u[j + 4] = MIX(t[j], t[j + 4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    }
  for (int j = 0; j < 8; j++) {
    t[j] = MIX(u[j], u[j + 8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    t[j + 8] = MIX(u[j], u[j + 8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
}

/* Up to 16 rows of complex x (·, W), one to a lane: z (W, 2, 16). Lanes without a row are 0. */
static void into_lanes(const float *x, int rows, int W, float *z) {
  int w = 0;
  if (rows == B)
    for (; w + 8 <= W; w += 8) {
      V t[B];
      for (int i = 0; i < B; i++) t[i] = load(x + 2L * W * i + 2 * w);
      transpose(t);
      for (int i = 0; i < B; i++) store(z + (2L * w + i) * B, t[i]);
    }
  for (; w < W; w++)
    for (int i = 0; i < B; i++) {
      z[2L * w * B + i] = i < rows ? x[2L * W * i + 2 * w] : 0;
      z[(2L * w + 1) * B + i] = i < rows ? x[2L * W * i + 2 * w + 1] : 0;
    }
}

static void out_of_lanes(const float *z, int rows, int W, float *x) {
  int w = 0;
  if (rows == B)
    for (; w + 8 <= W; w += 8) {
      V t[B];
      for (int i = 0; i < B; i++) t[i] = load(z + (2L * w + i) * B);
      transpose(t);
      for (int i = 0; i < B; i++) store(x + 2L * W * i + 2 * w, t[i]);
    }
  for (; w < W; w++)
    for (int i = 0; i < rows; i++) {
      x[2L * W * i + 2 * w] = z[2L * w * B + i];
      x[2L * W * i + 2 * w + 1] = z[(2L * w + 1) * B + i];
    }
}

/* Sensitivities s (J, Q, H, W) in the order of `coil_normal`: (⌈H/16⌉, Q, J, W, 2, 16). */
void coil_lanes(const float *s, float *lanes, int J, int Q, int H, int W) {
  for (int h = 0; h < H; h += B)
    for (int q = 0; q < Q; q++)
      for (int j = 0; j < J; j++, lanes += 2L * B * W)
        into_lanes(s + (((long)j * Q + q) * H + h) * 2 * W, H - h < B ? H - h : B, W, lanes);
}

/* Σ_j s_j m_j of 16 rows. */
static void seen(const float *s, const float *m, float *z, int J, int W) {
  for (long i = 0; i < 2L * B * W; i += 2 * B) {
    V x = {0}, y = {0};
    for (int j = 0; j < J; j++) {
      long at = j * 2L * B * W + i;
      V a = load(s + at), b = load(s + at + B), c = load(m + at), d = load(m + at + B);
      x += a * c - b * d, y += a * d + b * c;
    }
    store(z + i, x), store(z + i + B, y);
  }
}

/* sum_j + s̄_j z. */
static void join(const float *s, const float *z, float *sum, int J, int W) {
  for (long i = 0; i < J * 2L * B * W; i += 2 * B) {
    long at = i % (2L * B * W);
    V a = load(s + i), b = load(s + i + B), c = load(z + at), d = load(z + at + B);
    store(sum + i, load(sum + i) + (a * c + b * d)), store(sum + i + B, load(sum + i + B) + (a * d - b * c));
  }
}

/* A*A m = Σ_q s̄_q F⁻¹ M F Σ_j s_jq m_j; m and out complex (J, H, W). scratch: (2 J + 1) 32 W. */
void coil_normal(const float *m, const float *lanes, float *out, int J, int Q, int H, int W, const int *factors, int n,
                 const float *twiddles, const float *roots, const float *mask, float *scratch) {
  Plan plan = {W, n, factors, twiddles, roots, mask};
  long one = 2L * B * W;
  float *sum = scratch + J * one, *z = sum + J * one;
  for (int h = 0; h < H; h += B) {
    int rows = H - h < B ? H - h : B;
    memset(sum, 0, J * one * sizeof(float));
    for (int j = 0; j < J; j++) into_lanes(m + ((long)j * H + h) * 2 * W, rows, W, scratch + j * one);
    for (int q = 0; q < Q; q++, lanes += J * one) {
      seen(lanes, scratch, z, J, W);
      convolve(&plan, z);
      join(lanes, z, sum, J, W);
    }
    for (int j = 0; j < J; j++) out_of_lanes(sum + j * one, rows, W, out + ((long)j * H + h) * 2 * W);
  }
}

/* Re⟨a, b⟩ of n floats, in blocks whose sums are added as doubles. */
static double dot(const float *a, const float *b, long n) {
  double total = 0;
  for (long first = 0; first < n; first += 4096) {
    long last = first + 4096 < n ? first + 4096 : n, i = first;
    V sum = {0};
    float rest = 0;
    for (; i + B <= last; i += B) sum += load(a + i) * load(b + i);
    for (; i < last; i++) rest += a[i] * b[i];
    for (int k = 0; k < B; k++) rest += sum[k];
    total += rest;
  }
  return total;
}

/* x + c y into out, which may be either. */
static void add(const float *x, double c, const float *y, float *out, long n) {
  for (long i = 0; i < n; i++) out[i] = x[i] + (float)c * y[i];
}

/* Towards (Id + hA*A)⁻¹(v + h b) by conjugate gradients from x, of which A*A x is in Nx; both in place.
   Images complex (J, H, W). scratch: 3 · 2 J H W + (2 J + 1) 32 W. */
void coil_prox(const float *v, const float *b, const float *lanes, float *x, float *Nx, int J, int Q, int H, int W,
               const int *factors, int n, const float *twiddles, const float *roots, const float *mask, float h, int steps,
               float *scratch) {
  long all = 2L * J * H * W;
  float *r = scratch, *p = r + all, *Np = p + all, *rest = Np + all;
  for (long i = 0; i < all; i++) p[i] = r[i] = v[i] + h * b[i] - x[i] - h * Nx[i];
  double rr = dot(r, r, all);
  for (int s = 0; s < steps && rr != 0; s++) {
    coil_normal(p, lanes, Np, J, Q, H, W, factors, n, twiddles, roots, mask, rest);
    double step = rr / (dot(p, p, all) + h * dot(p, Np, all)), before = rr;
    add(x, step, p, x, all);
    add(Nx, step, Np, Nx, all);
    for (long i = 0; i < all; i++) r[i] -= (float)step * (p[i] + h * Np[i]);
    rr = dot(r, r, all);
    add(r, rr / before, p, p, all);
  }
}

/* F⁻¹ M F x of complex rows (·, W). scratch: 32 W. */
void row_project(const float *x, float *out, int rows, int W, const int *factors, int n, const float *twiddles,
                 const float *roots, const float *mask, float *scratch) {
  Plan plan = {W, n, factors, twiddles, roots, mask};
  for (int h = 0; h < rows; h += B) {
    int some = rows - h < B ? rows - h : B;
    into_lanes(x + 2L * h * W, some, W, scratch);
    convolve(&plan, scratch);
    out_of_lanes(scratch, some, W, out + 2L * h * W);
  }
}

/* x + c (b − F⁻¹ M F x) of complex rows (·, W). scratch: 32 W. */
void row_prox(const float *x, const float *b, float *out, int rows, int W, const int *factors, int n, const float *twiddles,
              const float *roots, const float *mask, float c, float *scratch) {
  for (int h = 0; h < rows; h += B) {
    int some = rows - h < B ? rows - h : B;
    long at = 2L * h * W;
    row_project(x + at, out + at, some, W, factors, n, twiddles, roots, mask, scratch);
    for (long i = at; i < at + 2L * some * W; i++) out[i] = x[i] + c * (b[i] - out[i]);
  }
}
