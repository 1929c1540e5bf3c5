// Planes as colours, and a tile: a canvas with its name, the value under the cursor and a scale.
const view = {
  slice: 0, sample: 0, playing: false, difference: false, // what is shown
  window: 100, level: 50, overlay: "", opacity: 70, common: false, inverted: false, // how; window and level in percent of white
  zoom: 1, row: 0.5, column: 0.5, cursor: null, cross: true, // from where; the centre as a share of the image
};

const digits = (value) => String(Number(value.toPrecision(3)));

/** white: what 100 % is. */
function greyRange(white) {
  const unit = white / 100;
  const ends = [(view.level - view.window / 2) * unit, (view.level + view.window / 2) * unit];
  return view.inverted ? ends.reverse() : ends;
}

function paintGrey(plane, [low, high], out) {
  const gain = 255 / (high - low || Number.MIN_VALUE); // below 0 where black and white are exchanged
  for (let i = 0; i < plane.length; i++) {
    const grey = (plane[i] - low) * gain; // a Uint8ClampedArray rounds and clips
    out[4 * i] = out[4 * i + 1] = out[4 * i + 2] = grey;
    out[4 * i + 3] = 255;
  }
}

const colourIndex = (value, low, high) =>
  3 * Math.max(0, Math.min(255, Math.round((255 * (value - low)) / Math.max(high - low, Number.MIN_VALUE))));

function paintMap(plane, lut, [low, high], out) {
  for (let i = 0; i < plane.length; i++) {
    const c = colourIndex(plane[i], low, high);
    out[4 * i] = lut[c];
    out[4 * i + 1] = lut[c + 1];
    out[4 * i + 2] = lut[c + 2];
    out[4 * i + 3] = 255;
  }
}

/** Colour over grey; it covers more where the map is larger: alpha = opacity * min(1, value / top). */
function paintOver(plane, lut, top, opacity, out) {
  for (let i = 0; i < plane.length; i++) {
    const alpha = opacity * Math.max(0, Math.min(1, plane[i] / top));
    const c = colourIndex(plane[i], 0, top);
    for (let k = 0; k < 3; k++) out[4 * i + k] = (1 - alpha) * out[4 * i + k] + alpha * lut[c + k];
  }
}

const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};

/**
 * spec: name, title, about, group (tiles of one group share the cursor), paint(planes, out) into RGBA bytes,
 * read(planes, i) -> text of a pixel, scale() -> {lut, low, high}, both labels; shape, aspect where not the image's;
 * waits: hidden until its chip is chosen. study: whose planes it paints.
 * marks(context, tile, part): what is drawn over the pixels, in those of the canvas.
 * Names come from the file: they are only ever set as text.
 */
class Tile {
  constructor(spec, parent) {
    this.spec = spec;
    this.study = spec.study;
    [this.height, this.width] = spec.shape ?? this.study.shape;
    this.figure = make("figure");
    this.figure.hidden = Boolean(spec.waits);
    this.canvas = make("canvas", "picture");
    this.canvas.dataset.tile = spec.name;
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", spec.title);
    this.canvas.style.aspectRatio = String(this.width / (this.height * (spec.aspect ?? this.study.pixel_aspect)));
    this.source = make("canvas");
    this.source.width = this.width;
    this.source.height = this.height;
    this.pixels = new ImageData(this.width, this.height);
    const caption = make("figcaption"), name = make("div", "name");
    this.read = make("output");
    this.about = make("div", "about", spec.about);
    name.append(make("strong", "", spec.title), this.read);
    caption.append(name, this.about);
    if (spec.scale) caption.append(this.makeScale());
    this.caption = caption;
    this.figure.append(this.canvas, caption);
    parent.append(this.figure);
  }

  makeScale() {
    const line = make("div", "scale");
    this.ramp = make("canvas");
    this.ramp.width = 256;
    this.ramp.height = 1;
    this.ramp.setAttribute("aria-hidden", "true");
    this.low = make("span");
    this.high = make("span");
    line.append(this.low, this.ramp, this.high);
    return line;
  }

  paint() {
    const planes = this.study.shown;
    if (this.figure.hidden || !planes) return;
    this.planes = planes;
    this.spec.paint(planes, this.pixels.data);
    this.source.getContext("2d").putImageData(this.pixels, 0, 0);
    this.canvas.setAttribute("aria-label", `${this.spec.title}, ${sliceName(this.study)}`);
    if (this.spec.scale) this.paintScale(this.spec.scale());
    this.blit();
  }

  paintScale({ lut, low, high }) {
    const ramp = new ImageData(256, 1);
    const values = Float32Array.from({ length: 256 }, (_, i) => i);
    if (lut) paintMap(values, lut, [0, 255], ramp.data);
    else paintGrey(values, [0, 255], ramp.data);
    this.ramp.getContext("2d").putImageData(ramp, 0, 0);
    this.low.textContent = low;
    this.high.textContent = high;
  }

  /** The visible part of the source, in [left, top, width, height] of its pixels; only images zoom. */
  part() {
    if (this.spec.group !== "image") return [0, 0, this.width, this.height];
    const w = this.width / view.zoom, h = this.height / view.zoom;
    return [view.column * this.width - w / 2, view.row * this.height - h / 2, w, h];
  }

  blit() {
    const box = this.canvas.getBoundingClientRect();
    if (!box.width) return;
    const density = Math.min(window.devicePixelRatio || 1, 3);
    const w = Math.round(box.width * density), h = Math.round(box.height * density);
    if (this.canvas.width !== w || this.canvas.height !== h) Object.assign(this.canvas, { width: w, height: h });
    const context = this.canvas.getContext("2d");
    const part = this.part();
    context.imageSmoothingEnabled = w / part[2] < 4; // from there on a reader wants to see the pixels themselves
    context.imageSmoothingQuality = "high";
    context.drawImage(this.source, ...part, 0, 0, w, h);
    this.spec.marks?.(context, this, part);
    this.mark(context, part, w, h);
  }

  /** A place of the image, in pixels, on the canvas. */
  spot(row, column, [left, top, width, height] = this.part()) {
    return [((column - left) / width) * this.canvas.width, ((row - top) / height) * this.canvas.height];
  }

  mark(context, [left, top, width, height], w, h) {
    const at = this.at();
    this.read.textContent = at && this.planes ? this.spec.read?.(this.planes, at.row * this.width + at.column) ?? "" : "";
    if (!at || !view.cross) return;
    const x = ((at.column + 0.5 - left) / width) * w, y = ((at.row + 0.5 - top) / height) * h, r = w / 40;
    context.lineWidth = Math.max(1, w / 400);
    context.strokeStyle = "#4fd2ff";
    context.beginPath();
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      context.moveTo(x + (dx * r) / 3, y + (dy * r) / 3);
      context.lineTo(x + dx * r, y + dy * r);
    }
    context.stroke();
  }

  /** The pixel under the cursor, which is shared by all tiles of one group. */
  at() {
    if (!view.cursor || view.cursor.group !== this.spec.group) return null;
    return { row: Math.floor(view.cursor.row * this.height), column: Math.floor(view.cursor.column * this.width) };
  }

  /** From an event to the place in the image, as shares of height and width; null outside. */
  place(event) {
    const box = this.canvas.getBoundingClientRect();
    const [left, top, width, height] = this.part();
    const column = (left + ((event.clientX - box.left) / box.width) * width) / this.width;
    const row = (top + ((event.clientY - box.top) / box.height) * height) / this.height;
    return column >= 0 && column < 1 && row >= 0 && row < 1 ? { row, column, group: this.spec.group } : null;
  }
}
