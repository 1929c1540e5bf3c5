// Which tiles there are: images and maps of the file, the overlay, the samples, k-space.
const MAPS = { ...report.layers, ...(report.error ? { error: report.error } : {}) };

const sliceName = () => `slice ${report.slices[view.slice] + 1}`;
const minus = (value) => value.toFixed(1).replace("-", "−").replace("−0.0", "0.0");
const percent = (value) => `${digits((100 * value) / report.white)} %`;

function mapTop(name) {
  const tops = Object.values(MAPS).flatMap((layer) => (layer.top && !layer.unit ? [layer.top] : []));
  return view.common && !MAPS[name].unit ? Math.max(...tops) : MAPS[name].top; // percents keep their own range
}

const mapScale = (name) => {
  const top = mapTop(name);
  const { lut, unit } = MAPS[name];
  return { lut: LUTS[lut], low: "0", high: unit ? `${digits(top)} ${unit}` : `${digits(top)} (${percent(top)} of white)` };
};

const greyScale = () => {
  const [low, high] = greyRange();
  return { low: digits(low), high: digits(high) };
};

function greyTile(name, { title, about }) {
  return {
    name, title, about, group: "image", scale: greyScale, read: (planes, i) => digits(planes[name][i]),
    paint: (planes, out) => paintGrey(planes[name], greyRange(), out),
  };
}

function mapTile(name, { title, about }) {
  return {
    name, title, about, group: "image", scale: () => mapScale(name), read: (planes, i) => digits(planes[name][i]),
    paint: (planes, out) => paintMap(planes[name], LUTS[MAPS[name].lut], [0, mapTop(name)], out),
  };
}

function overlayTile() {
  const over = () => MAPS[view.overlay];
  return {
    name: "overlay", title: "Overlay", about: "", group: "image",
    scale: () => (over() ? mapScale(view.overlay) : greyScale()),
    read: (planes, i) => (over() ? digits(planes[view.overlay][i]) : digits(planes.mean[i])),
    paint: (planes, out) => {
      paintGrey(planes.mean, greyRange(), out);
      if (over()) paintOver(planes[view.overlay], LUTS[over().lut], mapTop(view.overlay), view.opacity / 100, out);
    },
  };
}

/** One sample, or what it differs from the mean by. */
function samplesTile({ about, top }) {
  const shown = (planes) => planes.images?.[view.sample];
  return {
    name: "samples", title: "Samples", about, group: "image",
    scale: () => (view.difference ? { lut: LUTS.difference, low: digits(-top), high: digits(top) } : greyScale()),
    read: (planes, i) => {
      const sample = shown(planes);
      return sample ? digits(view.difference ? sample[i] - planes.mean[i] : sample[i]) : "";
    },
    paint: (planes, out) => {
      const sample = shown(planes);
      if (!sample) return paintGrey(planes.mean, [Infinity, Infinity], out); // black: this slice has none
      if (!view.difference) paintGrey(sample, greyRange(), out);
      else paintMap(sample.map((value, i) => value - planes.mean[i]), LUTS.difference, [-top, top], out);
    },
  };
}

const kspaceTile = (name, { title, about, range, lut }) => ({
  name: "kspace_" + name, title, about, group: "kspace", shape: report.kspace.shape, aspect: 1,
  scale: () => ({ lut: LUTS[lut], low: `log₁₀: ${minus(range[0])}`, high: minus(range[1]) }),
  read: (planes, i) => minus(planes["kspace_" + name][i]),
  paint: (planes, out) => {
    const plane = planes["kspace_" + name];
    if (LUTS[lut]) paintMap(plane, LUTS[lut], range, out);
    else paintGrey(plane, range, out);
  },
});

/** A mask of lines is one row for all; of points it has every row. */
function maskTile({ mask, mask_width, mask_about }) {
  const height = mask.length > mask_width ? mask.length / mask_width : report.kspace.shape[0];
  const cells = Array.from(mask, Number);
  const plane = Float32Array.from({ length: height * mask_width }, (_, i) => cells[i % mask.length]);
  return {
    name: "mask", title: "Mask", about: mask_about, group: "mask", shape: [height, mask_width], aspect: 1,
    read: (_, i) => (cells[i % mask.length] ? "acquired" : "missing"),
    paint: (_, out) => paintGrey(plane, [0, 1], out),
  };
}

/** Greys first, then what is uncertain or wrong; the deterministic image, nearly the mean, waits to be asked for. */
function imageTiles() {
  const { layers, error, samples } = report;
  const greys = ["truth", "zero_filled", "mean"].filter((name) => layers[name]);
  const seen = Object.keys(layers).filter((name) => name.startsWith("visibility/"));
  const maps = [...seen, "bound", "error_std", "std"].filter((name) => layers[name]);
  return [
    ...greys.map((name) => greyTile(name, layers[name])),
    ...(maps.length || error ? [overlayTile()] : []),
    ...maps.map((name) => mapTile(name, layers[name])),
    ...(error ? [mapTile("error", error)] : []),
    ...(samples ? [samplesTile(samples)] : []),
    ...(layers.deterministic ? [{ ...greyTile("deterministic", layers.deterministic), waits: true }] : []),
  ];
}

function kspaceTiles() {
  const { kspace } = report;
  const panels = Object.entries(kspace.panels).map(([name, panel]) => kspaceTile(name, panel));
  return [...(kspace.mask ? [maskTile(kspace)] : []), ...panels];
}
