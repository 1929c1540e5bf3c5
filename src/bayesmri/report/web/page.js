// Controls, keys and gestures: each changes `view` and asks for the tiles to be painted.
const element = (id) => document.getElementById(id);
const tiles = [];
let planes = null, painting = false, repaint = false, timer = 0;

/** All changes of one frame are drawn together; repaint: colours changed too, not only zoom or cursor. */
function draw(colours = true) {
  repaint ||= colours;
  if (painting) return;
  painting = true;
  requestAnimationFrame(() => {
    painting = false;
    for (const tile of tiles) repaint ? tile.paint(planes) : tile.blit();
    repaint = false;
    document.body.dataset.shown = `${planes.slice}/${view.sample}`;
  });
}

async function show(slice) {
  view.slice = Math.max(0, Math.min(report.slices.length - 1, slice));
  element("slice").value = view.slice;
  const total = report.total_slices;
  element("slice-name").textContent = `${report.slices[view.slice] + 1} of ${total}`;
  element("slice").setAttribute("aria-valuetext", `slice ${report.slices[view.slice] + 1} of ${total}`);
  for (const row of document.querySelectorAll("tr[data-slice]"))
    row.classList.toggle("current", Number(row.dataset.slice) === report.slices[view.slice]);
  const wanted = view.slice, found = await slicePlanes(wanted);
  if (report.samples?.data[wanted] && !hidden("samples")) found.images = await sampleImages(wanted, found);
  if (wanted !== view.slice) return; // the slider went on meanwhile
  planes = Object.assign(found, { slice: wanted });
  draw();
}

const hidden = (name) => tiles.find((tile) => tile.spec.name === name)?.figure.hidden ?? true;

function zoomTo(zoom, place = null) {
  const before = view.zoom;
  view.zoom = Math.max(1, Math.min(16, zoom));
  if (place) { // what is under the cursor stays there
    view.row = place.row + ((view.row - place.row) * before) / view.zoom;
    view.column = place.column + ((view.column - place.column) * before) / view.zoom;
  }
  centre(view.row, view.column);
  element("zoom-name").textContent = `${Math.round(100 * view.zoom)} %`;
  document.body.classList.toggle("zoomed", view.zoom > 1);
}

/** Inside the image: no black borders. */
function centre(row, column) {
  const half = 0.5 / view.zoom;
  view.row = Math.max(half, Math.min(1 - half, row));
  view.column = Math.max(half, Math.min(1 - half, column));
  draw(false);
}

function setGrey(window, level) {
  view.window = Math.max(2, Math.min(200, window));
  view.level = Math.max(0, Math.min(150, level));
  element("window").value = view.window;
  element("level").value = view.level;
  element("window-name").textContent = `${Math.round(view.window)} %`;
  element("level-name").textContent = `${Math.round(view.level)} %`;
  draw();
}

function setOverlay() {
  view.overlay = element("overlay").value;
  view.opacity = Number(element("opacity").value);
  element("opacity-name").textContent = `${view.opacity} %`;
  const tile = tiles.find((one) => one.spec.name === "overlay"), over = MAPS[view.overlay];
  if (tile) tile.about.textContent = over ? `${over.title} over the ${report.layers.mean.title.toLowerCase()}` : "none";
  draw();
}

function setSample(i) {
  view.sample = i % report.samples.count;
  element("sample").value = view.sample;
  element("sample-name").textContent = `${view.sample + 1} of ${report.samples.count}`;
  draw();
}

function play(on) {
  if (!report.samples) return;
  view.playing = on;
  element("play").textContent = on ? "Pause" : "Play";
  element("play").setAttribute("aria-pressed", String(on));
  clearInterval(timer);
  if (on) timer = setInterval(() => setSample(view.sample + 1), 1000 / Number(element("speed").value));
}

function resetView() {
  zoomTo(1);
  setGrey(100, 50);
}

function control(parts) { // nodes and texts: `append` makes no markup of a string
  const label = make("label");
  label.append(...parts);
  return label;
}

const range = (id, min, max, value) =>
  Object.assign(make("input"), { type: "range", id, min, max, value });

function makePlayer(tile) {
  const line = make("div", "player"), button = make("button", "", "Play");
  Object.assign(button, { type: "button", id: "play" });
  button.setAttribute("aria-pressed", "false");
  const speed = range("speed", 1, 12, 3), sample = range("sample", 0, report.samples.count - 1, 0);
  const name = Object.assign(make("output"), { id: "sample-name" });
  const difference = Object.assign(make("input"), { type: "checkbox", id: "difference" });
  line.append(button, control(["Speed", speed]), control(["Sample", sample, name]), control([difference, "minus mean"]));
  tile.caption.append(line);
  button.onclick = () => play(!view.playing);
  speed.oninput = () => play(view.playing);
  sample.oninput = () => { play(false); setSample(Number(sample.value)); };
  difference.onchange = () => { view.difference = difference.checked; draw(); };
}

function makeChip(tile) {
  const box = Object.assign(make("input"), { type: "checkbox", checked: !tile.spec.waits });
  element("chips").append(control([box, ` ${tile.spec.title}`]));
  box.onchange = () => {
    tile.figure.hidden = !box.checked;
    if (tile.spec.name === "samples" && !box.checked) play(false);
    show(view.slice);
  };
}

function gestures(tile) {
  let from = null;
  const { canvas } = tile;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button === 0) from = { x: event.clientX, y: event.clientY, ...view };
    if (from) canvas.setPointerCapture(event.pointerId);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { from = null; });
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const dx = from ? (event.clientX - from.x) / box.width : 0, dy = from ? (event.clientY - from.y) / box.height : 0;
    if (from && event.shiftKey) setGrey(from.window + 150 * dx, from.level - 150 * dy);
    else if (from && view.zoom > 1) centre(from.row - dy / view.zoom, from.column - dx / view.zoom);
  });
  canvas.addEventListener("dblclick", () => zoomTo(1));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // the page scrolls as everywhere
    event.preventDefault();
    zoomTo(view.zoom * Math.exp(-event.deltaY / 300), tile.place(event));
  }, { passive: false });
}

function pointing(tile) {
  tile.canvas.addEventListener("pointermove", (event) => point(tile.place(event), tile));
  tile.canvas.addEventListener("pointerleave", () => point(null, tile));
}

const HINT = element("where").textContent;

function point(place, tile) {
  view.cursor = place;
  const at = tile.at();
  if (tile.spec.group === "image") element("where").textContent = at ? `Row ${at.row + 1}, column ${at.column + 1}` : HINT;
  draw(false);
}

function keys(event) {
  const typing = event.target.matches("input, select, textarea");
  const onImage = event.target.matches("canvas.picture");
  const step = { ArrowLeft: -1, ArrowRight: 1, ...(onImage ? { ArrowUp: -1, ArrowDown: 1 } : {}) }[event.key];
  if (typing || event.altKey || event.ctrlKey || event.metaKey) return;
  if (step) show(view.slice + step);
  else if (event.key === "+" || event.key === "=") zoomTo(view.zoom * 1.5);
  else if (event.key === "-") zoomTo(view.zoom / 1.5);
  else if (event.key === "0") resetView();
  else if (event.key === " " && report.samples && !event.target.matches("button, summary, a")) play(!view.playing);
  else return;
  event.preventDefault();
}

function connect() {
  element("slice").max = report.slices.length - 1;
  for (const id of ["slice", "previous", "next"]) element(id).disabled = report.slices.length === 1;
  element("slice").oninput = (event) => show(Number(event.target.value));
  element("previous").onclick = () => show(view.slice - 1);
  element("next").onclick = () => show(view.slice + 1);
  element("larger").onclick = () => zoomTo(view.zoom * 1.5);
  element("smaller").onclick = () => zoomTo(view.zoom / 1.5);
  element("reset").onclick = resetView;
  for (const id of ["window", "level"])
    element(id).oninput = () => setGrey(Number(element("window").value), Number(element("level").value));
  for (const id of ["overlay", "opacity"]) element(id).oninput = setOverlay;
  element("common").onchange = (event) => { view.common = event.target.checked; draw(); };
  for (const row of document.querySelectorAll("button[data-slice]"))
    row.onclick = () => show(report.slices.indexOf(Number(row.dataset.slice)));
  document.addEventListener("keydown", keys);
}

function build() {
  for (const spec of imageTiles()) tiles.push(new Tile(spec, element("tiles")));
  tiles.forEach(makeChip);
  for (const spec of kspaceTiles()) tiles.push(new Tile(spec, element("kspace-tiles")));
  tiles.forEach((tile) => { pointing(tile); if (tile.spec.group === "image") gestures(tile); });
  const maps = Object.entries(MAPS).filter(([, layer]) => layer.top);
  for (const [name, layer] of maps) element("overlay").append(Object.assign(make("option", "", layer.title), { value: name }));
  element("overlay").append(Object.assign(make("option", "", "none"), { value: "" }));
  for (const id of ["overlay-choice", "opacity-choice"]) element(id).hidden = !maps.length;
  element("common-choice").hidden = maps.length < 2;
  if (report.samples) {
    makePlayer(tiles.find((tile) => tile.spec.name === "samples"));
    element("sample-name").textContent = `1 of ${report.samples.count}`;
  }
}

async function start() {
  if (!("DecompressionStream" in window)) throw new Error("this browser is too old; any of 2023 or later will do");
  build();
  connect();
  const middle = report.slices.indexOf(Math.floor(report.total_slices / 2));
  await show(Math.max(0, middle));
  setGrey(100, 50);
  setOverlay();
  new ResizeObserver(() => draw(false)).observe(element("tiles"));
  document.body.dataset.ready = "true";
}

start().catch((error) => {
  element("trouble").textContent = `The images cannot be shown: ${error.message}.`;
  element("trouble").hidden = false;
});
