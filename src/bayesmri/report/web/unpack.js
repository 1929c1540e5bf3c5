// What the page carries, unpacked slice by slice: report/pack.py says how it was packed.
const report = JSON.parse(document.getElementById("report").textContent);
const [HEIGHT, WIDTH] = report.shape;

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

/** |mean - truth| where the truth is known, else 0. */
function errorOf(mean, truth) {
  const [top, bottom, left, right] = report.truth_window;
  return mean.map((value, i) => {
    const row = Math.floor(i / WIDTH), column = i % WIDTH;
    const known = row >= top && row < bottom && column >= left && column < right;
    return known ? Math.abs(value - truth[i]) : 0;
  });
}

const KEPT = 6; // slices that stay unpacked
const unpacked = new Map();

/** All planes of a slice, by name: images as Float32Array, k-space as decades; samples are unpacked when asked for. */
function slicePlanes(s) {
  if (!unpacked.has(s)) {
    unpacked.set(s, unpackSlice(s));
    if (unpacked.size > KEPT) unpacked.delete(unpacked.keys().next().value);
  }
  return unpacked.get(s);
}

async function unpackSlice(s) {
  const planes = { samples: null };
  const load = async (name, promise) => { planes[name] = await promise; };
  await Promise.all([
    ...Object.entries(report.layers).map(([name, layer]) => load(name, unpackImage(layer.data[s]))),
    ...Object.entries(report.kspace.panels).map(([name, panel]) => load("kspace_" + name, unpackBytes(panel.data[s]))),
  ]);
  if (planes.truth) planes.error = errorOf(planes.mean, planes.truth);
  return planes;
}

/** Every sample of a slice, once. */
function sampleImages(s, planes) {
  planes.samples ??= Promise.all(report.samples.data[s].map((packed) => unpackSample(packed, planes.mean)));
  return planes.samples;
}
