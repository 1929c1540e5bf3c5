// What is looked at, and the controls that every viewer has: each changes `view` and asks for the tiles to be painted.
const element = (id) => document.getElementById(id);
const tiles = [], studies = []; // several studies share slice, cursor, zoom and window; controls speak of the first
let painting = false, repaint = false, timer = 0, shownSlice = 0;
const beforeDraw = []; // called when a slice is there, before it is drawn
let ahead = 0; // slices on both sides that are unpacked before they are asked for

/** All changes of one frame are drawn together; repaint: colours changed too, not only zoom or cursor. */
function draw(colours = true) {
  repaint ||= colours;
  if (painting) return;
  painting = true;
  requestAnimationFrame(() => {
    painting = false;
    for (const tile of tiles) repaint ? tile.paint() : tile.blit();
    repaint = false;
    document.body.dataset.shown = `${shownSlice}/${view.sample}`;
  });
}

async function show(slice) {
  const [study] = studies;
  view.slice = Math.max(0, Math.min(study.slices.length - 1, slice));
  element("slice").value = view.slice;
  const number = study.slices[view.slice] + 1, total = study.total_slices;
  element("slice-name").textContent = `${number} of ${total}`;
  element("slice").setAttribute("aria-valuetext", `slice ${number} of ${total}`);
  for (const row of document.querySelectorAll("tr[data-slice]"))
    row.classList.toggle("current", Number(row.dataset.slice) === number - 1);
  const wanted = view.slice, found = await Promise.all(studies.map((one) => planesAt(one, wanted)));
  if (wanted !== view.slice || study !== studies[0]) return; // the slider went on meanwhile
  studies.forEach((one, i) => { one.shown = found[i]; });
  shownSlice = wanted;
  for (const one of beforeDraw) one();
  draw();
  if (ahead) setTimeout(() => lookAhead(wanted), 30);
}

/** The planes of a study at that slice, or at its last where it has fewer, with samples where they are shown. */
async function planesAt(study, slice) {
  const s = Math.min(slice, study.slices.length - 1), planes = await study.planes(s);
  if (study.samples && !hidden("samples")) planes.images = await study.sampleImages(s, planes);
  return planes;
}

function lookAhead(slice) {
  if (slice !== view.slice) return;
  for (const study of studies)
    for (let d = 1; d <= ahead; d++)
      for (const s of [slice + d, slice - d]) if (study.slices[s] !== undefined) study.planes(s).catch(() => {});
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
  for (const { spec, study, about } of tiles) {
    const over = study.maps[view.overlay];
    if (spec.name === "overlay")
      about.textContent = over ? `${over.title} over the ${study.layers.mean.title.toLowerCase()}` : "none";
  }
  draw();
}

function setSample(i) {
  const { count } = studies[0].samples;
  view.sample = i % count;
  element("sample").value = view.sample;
  element("sample-name").textContent = `${view.sample + 1} of ${count}`;
  draw();
}

function play(on) {
  if (!studies[0]?.samples || !element("play")) return;
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
  const speed = range("speed", 1, 12, 3), sample = range("sample", 0, tile.study.samples.count - 1, 0);
  const name = Object.assign(make("output", "", `1 of ${tile.study.samples.count}`), { id: "sample-name" });
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

/** Bars and buttons, once. */
function connect() {
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
  document.addEventListener("keydown", keys);
}

/** Sliders and choices for a study: as many slices as it has, and the maps that may lie over it. */
function fitControls(study) {
  element("slice").max = study.slices.length - 1;
  for (const id of ["slice", "previous", "next"]) element(id).disabled = study.slices.length === 1;
  const maps = Object.entries(study.maps).filter(([, layer]) => layer.top);
  const options = maps.map(([name, layer]) => Object.assign(make("option", "", layer.title), { value: name }));
  element("overlay").replaceChildren(...options, Object.assign(make("option", "", "none"), { value: "" }));
  for (const id of ["overlay-choice", "opacity-choice"]) element(id).hidden = !maps.length;
  element("common-choice").hidden = maps.length < 2;
}
