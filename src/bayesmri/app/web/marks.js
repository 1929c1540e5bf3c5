// What is drawn over an image: orientation letters, a scale bar, slice and window, rulers, regions, planted places.
const NICE = [1, 2, 5, 10, 20, 50, 100, 200, 500];
const measures = []; // {kind: ruler | region, slice, a, b}: ends, or corners, as {row, column} in pixels
let sketch = null; // the one that is being drawn

const spacing = (study) => study.voxel ?? [study.pixel_aspect, 1, 1];
const unitOf = (study) => (study.voxel ? "mm" : "px");

function write(context, text, x, y, px, align = "center", baseline = "middle") {
  Object.assign(context, { font: `600 ${px}px system-ui, sans-serif`, textAlign: align, textBaseline: baseline });
  Object.assign(context, { lineWidth: px / 4, lineJoin: "round", strokeStyle: "rgba(0,0,0,.75)", fillStyle: "#e9f2fa" });
  context.strokeText(text, x, y);
  context.fillText(text, x, y);
}

/** For every image tile; k-space has no body. */
function marks(context, tile, part) {
  const { canvas, study } = tile, density = canvas.width / Math.max(1, canvas.clientWidth);
  const px = 12 * density, edge = 11 * density;
  if (study.letters) {
    write(context, study.letters.top, canvas.width / 2, edge, px);
    write(context, study.letters.bottom, canvas.width / 2, canvas.height - edge, px);
    write(context, study.letters.left, edge, canvas.height / 2, px);
    write(context, study.letters.right, canvas.width - edge, canvas.height / 2, px);
  }
  write(context, `${study.slices[view.slice] + 1}/${study.total_slices}`, 7 * density, 5 * density, px, "left", "top");
  write(context, `W ${Math.round(view.window)} L ${Math.round(view.level)} %`, 7 * density, canvas.height - 5 * density,
    0.92 * px, "left", "bottom");
  scaleBar(context, tile, part, density);
  for (const one of [...measures, ...(sketch ? [sketch] : [])])
    if (one.slice === view.slice) (one.kind === "ruler" ? drawRuler : drawRegion)(context, tile, one, density);
  drawPlaces(context, tile, density);
}

function scaleBar(context, { canvas, study }, [, , width], density) {
  const perUnit = canvas.width / (width * spacing(study)[1]); // canvas pixels per mm
  const length = NICE.findLast((one) => one * perUnit <= 0.3 * canvas.width);
  if (!length) return;
  const right = canvas.width - 8 * density, y = canvas.height - 8 * density, left = right - length * perUnit;
  for (const [style, thick] of [["rgba(0,0,0,.75)", 4], ["#e9f2fa", 1.6]]) {
    context.beginPath();
    Object.assign(context, { strokeStyle: style, lineWidth: thick * density });
    context.moveTo(left, y - 4 * density);
    context.lineTo(left, y);
    context.lineTo(right, y);
    context.lineTo(right, y - 4 * density);
    context.stroke();
  }
  write(context, `${length} ${unitOf(study)}`, (left + right) / 2, y - 4 * density, 11 * density, "center", "bottom");
}

function stroke(context, density, draw, colour = "#ffd76a") {
  for (const [style, thick] of [["rgba(0,0,0,.7)", 3.4], [colour, 1.6]]) {
    Object.assign(context, { strokeStyle: style, lineWidth: thick * density });
    context.beginPath();
    draw();
    context.stroke();
  }
}

function drawRuler(context, tile, { a, b }, density) {
  const [x1, y1] = tile.spot(a.row + 0.5, a.column + 0.5), [x2, y2] = tile.spot(b.row + 0.5, b.column + 0.5);
  const reach = Math.hypot(x2 - x1, y2 - y1) || 1, nx = ((y2 - y1) / reach) * 5 * density, ny = ((x1 - x2) / reach) * 5 * density;
  stroke(context, density, () => {
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    for (const [x, y] of [[x1, y1], [x2, y2]]) { context.moveTo(x - nx, y - ny); context.lineTo(x + nx, y + ny); }
  });
  write(context, lengthText(tile.study, { a, b }), x2 + 6 * density, y2 - 8 * density, 11 * density, "left");
}

function drawRegion(context, tile, { a, b }, density) {
  const [x1, y1] = tile.spot(Math.min(a.row, b.row), Math.min(a.column, b.column));
  const [x2, y2] = tile.spot(Math.max(a.row, b.row) + 1, Math.max(a.column, b.column) + 1);
  stroke(context, density, () => context.ellipse((x1 + x2) / 2, (y1 + y2) / 2, (x2 - x1) / 2, (y2 - y1) / 2, 0, 0, 7));
  const plane = tile.spec.plane?.(tile.study.shown);
  if (!plane) return;
  const found = regionOf(tile.study, { a, b }, plane);
  write(context, `${digits(found.mean)} ± ${digits(found.sd)}`, (x1 + x2) / 2, y2 + 9 * density, 11 * density);
}

function lengthText(study, { a, b }) {
  const [h, w] = spacing(study);
  return `${digits(Math.hypot((a.row - b.row) * h, (a.column - b.column) * w))} ${unitOf(study)}`;
}

/** Pixels whose middles lie in the ellipse between two corners: count, area, mean, standard deviation, range. */
function regionOf(study, { a, b }, plane) {
  const top = Math.min(a.row, b.row), left = Math.min(a.column, b.column);
  const height = Math.abs(a.row - b.row) + 1, width = Math.abs(a.column - b.column) + 1;
  let n = 0, sum = 0, squares = 0, low = Infinity, high = -Infinity;
  for (let r = 0; r < height; r++)
    for (let c = 0; c < width; c++) {
      const inside = ((r + 0.5) / height - 0.5) ** 2 + ((c + 0.5) / width - 0.5) ** 2 <= 0.25;
      const row = top + r, column = left + c;
      if (!inside || row < 0 || column < 0 || row >= study.height || column >= study.width) continue;
      const value = plane[row * study.width + column];
      n++; sum += value; squares += value * value;
      low = Math.min(low, value); high = Math.max(high, value);
    }
  const mean = sum / n, [h, w] = spacing(study);
  return { n, area: n * h * w, mean, sd: Math.sqrt(Math.max(0, squares / n - mean * mean)), low, high };
}

function listMeasures() {
  const [study] = studies;
  element("no-measures").hidden = measures.length > 0;
  element("measures").replaceChildren(...measures.map((one, i) => {
    const line = make("li"), text = make("button", "pick");
    text.append(make("b", "", one.kind === "ruler" ? `Ruler ${lengthText(study, one)}` : "Region"), ...measureLines(one));
    Object.assign(text, { type: "button", onclick: () => show(one.slice) });
    const remove = button("Remove", () => { measures.splice(i, 1); listMeasures(); draw(false); }, "small");
    line.append(text, remove);
    return line;
  }));
}

function measureLines(one) {
  const where = make("small", "", `slice ${one.slice + 1}`);
  if (one.kind === "ruler") return [where];
  const lines = studies.map((study, i) => {
    const plane = one.slice === shownSlice ? study.shown?.mean : null;
    if (plane) one.found = { ...one.found, [i]: regionOf(study, one, plane) };
    const found = one.found?.[i];
    if (!found) return make("small", "", "");
    const name = studies.length > 1 ? `${"AB"[i]}: ` : "";
    return make("small", "", `${name}${digits(found.mean)} ± ${digits(found.sd)}, ${digits(found.low)} to ${digits(found.high)}`);
  });
  const area = one.found?.[0] ? make("small", "", `${one.found[0].n} pixels, ${digits(one.found[0].area)} ${unitOf(studies[0])}²`) : "";
  return [where, ...lines, area];
}
