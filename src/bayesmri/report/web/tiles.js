// Which tiles there are: images and maps of the file, the overlay, the samples, k-space.
const sliceName = (study) => `slice ${study.slices[view.slice] + 1}`;
const minus = (value) => value.toFixed(1).replace("-", "−").replace("−0.0", "0.0");
const percent = (study, value) => `${digits((100 * value) / study.white)} %`;

function mapTop(study, name) {
  const { maps } = study;
  const tops = Object.values(maps).flatMap((layer) => (layer.top && !layer.unit ? [layer.top] : []));
  return view.common && !maps[name].unit ? Math.max(...tops) : maps[name].top; // percents keep their own range
}

const mapScale = (study, name) => {
  const top = mapTop(study, name);
  const { lut, unit } = study.maps[name];
  const high = unit ? `${digits(top)} ${unit}` : `${digits(top)} (${percent(study, top)} of white)`;
  return { lut: study.luts[lut], low: "0", high };
};

const greyScale = (study) => {
  const [low, high] = greyRange(study.white);
  return { low: digits(low), high: digits(high) };
};

function greyTile(study, name) {
  const { title, about } = study.layers[name];
  return {
    study, name, title, about, group: "image", scale: () => greyScale(study),
    read: (planes, i) => digits(planes[name][i]),
    paint: (planes, out) => paintGrey(planes[name], greyRange(study.white), out),
  };
}

function mapTile(study, name) {
  const { title, about, lut } = study.maps[name];
  return {
    study, name, title, about, group: "image", scale: () => mapScale(study, name),
    read: (planes, i) => digits(planes[name][i]),
    paint: (planes, out) => paintMap(planes[name], study.luts[lut], [0, mapTop(study, name)], out),
  };
}

function overlayTile(study) {
  const over = () => study.maps[view.overlay];
  return {
    study, name: "overlay", title: "Overlay", about: "", group: "image",
    scale: () => (over() ? mapScale(study, view.overlay) : greyScale(study)),
    read: (planes, i) => (over() ? digits(planes[view.overlay][i]) : digits(planes.mean[i])),
    paint: (planes, out) => {
      paintGrey(planes.mean, greyRange(study.white), out);
      if (!over()) return;
      paintOver(planes[view.overlay], study.luts[over().lut], mapTop(study, view.overlay), view.opacity / 100, out);
    },
  };
}

/** One sample, or what it differs from the mean by. */
function samplesTile(study) {
  const { about, top } = study.samples;
  const shown = (planes) => planes.images?.[view.sample];
  return {
    study, name: "samples", title: "Samples", about, group: "image",
    scale: () => (view.difference ? { lut: study.luts.difference, low: digits(-top), high: digits(top) } : greyScale(study)),
    read: (planes, i) => {
      const sample = shown(planes);
      return sample ? digits(view.difference ? sample[i] - planes.mean[i] : sample[i]) : "";
    },
    paint: (planes, out) => {
      const sample = shown(planes);
      if (!sample) return paintGrey(planes.mean, [Infinity, Infinity], out); // black: this slice has none
      if (!view.difference) paintGrey(sample, greyRange(study.white), out);
      else paintMap(sample.map((value, i) => value - planes.mean[i]), study.luts.difference, [-top, top], out);
    },
  };
}

const kspaceTile = (study, name, { title, about, range, lut }) => ({
  study, name: "kspace_" + name, title, about, group: "kspace", shape: study.kspace.shape, aspect: 1,
  scale: () => ({ lut: study.luts[lut], low: `log₁₀: ${minus(range[0])}`, high: minus(range[1]) }),
  read: (planes, i) => minus(planes["kspace_" + name][i]),
  paint: (planes, out) => {
    const plane = planes["kspace_" + name];
    if (study.luts[lut]) paintMap(plane, study.luts[lut], range, out);
    else paintGrey(plane, range, out);
  },
});

/** A mask of lines is one row for all; of points it has every row. */
function maskTile(study) {
  const { mask, mask_width, mask_about } = study.kspace;
  const height = mask.length > mask_width ? mask.length / mask_width : study.kspace.shape[0];
  const cells = Array.from(mask, Number);
  const plane = Float32Array.from({ length: height * mask_width }, (_, i) => cells[i % mask.length]);
  return {
    study, name: "mask", title: "Mask", about: mask_about, group: "mask", shape: [height, mask_width], aspect: 1,
    read: (_, i) => (cells[i % mask.length] ? "acquired" : "missing"),
    paint: (_, out) => paintGrey(plane, [0, 1], out),
  };
}

/** Greys first, then what is uncertain or wrong; the deterministic image, nearly the mean, waits to be asked for. */
function imageTiles(study) {
  const { layers, error, samples } = study;
  const greys = ["truth", "zero_filled", "mean"].filter((name) => layers[name]);
  const seen = Object.keys(layers).filter((name) => name.startsWith("visibility/"));
  const maps = [...seen, "bound", "error_std", "std"].filter((name) => layers[name]);
  return [
    ...greys.map((name) => greyTile(study, name)),
    ...(maps.length || error ? [overlayTile(study)] : []),
    ...maps.map((name) => mapTile(study, name)),
    ...(error ? [mapTile(study, "error")] : []),
    ...(samples ? [samplesTile(study)] : []),
    ...(layers.deterministic ? [{ ...greyTile(study, "deterministic"), waits: true }] : []),
  ];
}

function kspaceTiles(study) {
  const panels = Object.entries(study.kspace.panels).map(([name, panel]) => kspaceTile(study, name, panel));
  return [...(study.kspace.mask ? [maskTile(study)] : []), ...panels];
}
