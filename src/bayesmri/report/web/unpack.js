// What was packed, unpacked slice by slice: report/pack.py says how.
function bytes(text) {
  const plain = atob(text);
  const out = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; i++) out[i] = plain.charCodeAt(i);
  return out;
}

async function inflate(text) {
  const stream = new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** value = low + step * q; q from zigzag differences, high bytes first. */
async function unpackImage(packed) {
  const data = await inflate(packed.z);
  const n = data.length / 2;
  const out = new Float32Array(n);
  for (let i = 0, q = 0; i < n; i++) {
    const zigzag = (data[i] << 8) | data[n + i];
    q += zigzag & 1 ? -((zigzag + 1) >> 1) : zigzag >> 1;
    out[i] = packed.low + packed.step * q;
  }
  return out;
}

/** The mean plus a signed difference of 8 bits. */
async function unpackSample(packed, mean) {
  const change = new Int8Array((await inflate(packed.z)).buffer);
  return mean.map((value, i) => value + packed.step * change[i]);
}

async function unpackBytes(packed) {
  return Float32Array.from(await inflate(packed.z), (q) => packed.low + packed.step * q);
}

const KEPT = 12; // slices that stay unpacked

/**
 * A reconstruction as it is looked at: all that the page's data says of it, and its planes by slice.
 * load(s) -> {layers, panels}, loadSamples(s) -> list or null: packed, or promises of it.
 */
class Study {
  constructor(data, load, loadSamples) {
    Object.assign(this, data, { load, loadSamples, unpacked: new Map() });
    [this.height, this.width] = data.shape;
    this.maps = { ...data.layers, ...(data.error ? { error: data.error } : {}) };
    this.luts = Object.fromEntries(Object.entries(data.luts).map(([name, text]) => [name, bytes(text)]));
  }

  /** All planes of a slice, by name: images as Float32Array, k-space as decades; samples are unpacked when asked for. */
  planes(s) {
    if (!this.unpacked.has(s)) {
      const found = this.unpack(s);
      this.unpacked.set(s, found);
      found.catch(() => this.unpacked.delete(s)); // asked for again, it may be there
      if (this.unpacked.size > KEPT) this.unpacked.delete(this.unpacked.keys().next().value);
    }
    return this.unpacked.get(s);
  }

  async unpack(s) {
    const planes = { samples: null }, packed = await this.load(s);
    const put = async (name, promise) => { planes[name] = await promise; };
    await Promise.all([
      ...Object.entries(packed.layers).map(([name, layer]) => put(name, unpackImage(layer))),
      ...Object.entries(packed.panels).map(([name, panel]) => put("kspace_" + name, unpackBytes(panel))),
    ]);
    if (planes.truth) planes.error = this.errorOf(planes.mean, planes.truth);
    return planes;
  }

  /** |mean - truth| where the truth is known, else 0. */
  errorOf(mean, truth) {
    const [top, bottom, left, right] = this.truth_window;
    return mean.map((value, i) => {
      const row = Math.floor(i / this.width), column = i % this.width;
      const known = row >= top && row < bottom && column >= left && column < right;
      return known ? Math.abs(value - truth[i]) : 0;
    });
  }

  /** Every sample of a slice, once; null where it has none. */
  sampleImages(s, planes) {
    planes.samples ??= Promise.resolve(this.loadSamples(s)).then(
      (packed) => packed && Promise.all(packed.map((one) => unpackSample(one, planes.mean))));
    return planes.samples;
  }
}

/** A study whose data all stands in the page. */
function carried(data) {
  const at = (parts, s) => Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, part.data[s]]));
  const load = (s) => ({ layers: at(data.layers, s), panels: at(data.kspace.panels, s) });
  return new Study(data, load, (s) => data.samples?.data[s] ?? null);
}
