// Hands and keys: what dragging does is a tool's business; the wheel goes through slices, the right button windows.
const TOOLS = {
  window: ["Window", "w", "drag: sideways the window, up and down the level"],
  pan: ["Pan", "p", "drag moves a zoomed image"],
  zoom: ["Zoom", "z", "drag up and down"],
  ruler: ["Ruler", "m", "drag from end to end"],
  region: ["Region", "o", "drag an ellipse: mean, deviation, range, area"],
  plant: ["Plant", "l", "click: what if a lesion were there?"],
  erase: ["Erase", "x", "click: what if this were not there?"],
};
const PRESETS = { 1: [100, 50], 2: [60, 30], 3: [40, 20], 4: [150, 75] };
const KEYS = [
  ["Wheel, ↑ ↓, PgUp PgDn", "slice; Home and End for the first and last"],
  ["W P Z M O", "window, pan, zoom, ruler (measure), region"],
  ["L X", "plant a lesion, erase a structure; then click, or Enter at the cursor"],
  ["Right drag", "window and level with any tool"],
  ["Middle drag, Shift drag", "move; Ctrl wheel, + and − zoom; F or 0 fits"],
  ["Double click, Enter", "one image alone, and back"],
  ["B", "only the images, and back"],
  ["I", "black and white exchanged"],
  ["V", "overlay on and off"],
  ["1 2 3 4", "windows: whole, narrower, narrowest, wide"],
  ["Space", "samples play; with two results: B in the place of A while it is held"],
  ["Shift arrows", "move the cursor by a pixel"],
  ["Delete, Esc", "remove the last measurement; leave the tool"],
];
let tool = "window";

function makeTools() {
  element("tools").replaceChildren(...Object.entries(TOOLS).map(([name, [title, key, about]]) => {
    const made = button(title, () => take(name));
    Object.assign(made, { title: `${about} (${key.toUpperCase()})` });
    made.dataset.tool = name;
    made.setAttribute("aria-keyshortcuts", key);
    return made;
  }));
  element("keys").replaceChildren(...KEYS.map(([keys, about]) => {
    const row = make("tr"), first = make("td");
    first.append(make("kbd", "", keys));
    row.append(first, make("td", "", about));
    return row;
  }));
  take("window");
}

function take(name) {
  tool = name;
  for (const one of element("tools").children) one.setAttribute("aria-pressed", String(one.dataset.tool === name));
  document.body.classList.toggle("drawing", name !== "window");
  view.cross = !asks(name); // a ring shows where, and how large
  say(TOOLS[name][2]);
  if (asks(name)) getReady();
}

const asks = (name) => name === "plant" || name === "erase";

/** The pixel of a tile under an event, {row, column}; null outside. */
function pixel(tile, event) {
  const place = tile.place(event);
  return place && { row: Math.floor(place.row * tile.height), column: Math.floor(place.column * tile.width) };
}

/** What a drag does from where it began: window, pan, zoom, or a measurement. */
function dragging(tile, from, event) {
  const box = tile.canvas.getBoundingClientRect();
  const dx = (event.clientX - from.x) / box.width, dy = (event.clientY - from.y) / box.height;
  if (from.does === "window") setGrey(from.window + 150 * dx, from.level - 150 * dy);
  else if (from.does === "pan") centre(from.row - dy / view.zoom, from.column - dx / view.zoom);
  else if (from.does === "zoom") zoomTo(from.zoom * Math.exp(-3 * dy));
  else if (sketch) { sketch.b = pixel(tile, event) ?? sketch.b; draw(false); }
}

const doing = (event) =>
  event.button === 2 ? "window" : event.button === 1 || event.shiftKey ? "pan" : tool;

function gestures(tile) {
  const { canvas } = tile;
  let from = null;
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("pointerdown", (event) => {
    const does = doing(event), at = pixel(tile, event);
    if (!at) return;
    if (event.button === 1) event.preventDefault();
    from = { does, x: event.clientX, y: event.clientY, ...view, at };
    if (does === "ruler" || does === "region") sketch = { kind: does, slice: view.slice, a: at, b: at };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => { if (from) dragging(tile, from, event); });
  canvas.addEventListener("pointercancel", () => { from = sketch = null; });
  canvas.addEventListener("pointerup", (event) => {
    const began = from;
    from = null;
    const moved = began && Math.hypot(event.clientX - began.x, event.clientY - began.y) > 3;
    if (sketch) finish(moved);
    else if (began && !moved && asks(began.does) && tile.study === studies[0]) askAt(began.at, began.does);
  });
  canvas.addEventListener("dblclick", () => alone(tile));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.ctrlKey) zoomTo(view.zoom * Math.exp(-event.deltaY / 300), tile.place(event));
    else if (event.deltaY) show(view.slice + Math.sign(event.deltaY));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const at = tile.at();
    if (at && asks(tool)) askAt(at, tool);
    else alone(tile);
  });
}

function finish(moved) {
  if (moved) measures.push(sketch);
  sketch = null;
  listMeasures();
  draw(false);
}

/** One tile on the whole place, and back. */
function alone(tile) {
  const one = element("tiles").classList.toggle("one", !tile.figure.classList.contains("big"));
  for (const other of tiles) other.figure.classList.toggle("big", one && other === tile);
  draw();
}

function moveCursor(rows, columns) {
  const [study] = studies, at = view.cursor ?? { row: 0.5, column: 0.5, group: "image" };
  const step = (value, by, n) => (Math.max(0, Math.min(n - 1, Math.floor(value * n) + by)) + 0.5) / n;
  view.cursor = { row: step(at.row, rows, study.height), column: step(at.column, columns, study.width), group: "image" };
  probe();
  draw(false);
}

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function sliceKey(key) {
  const last = studies[0].slices.length - 1;
  return { ArrowUp: view.slice - 1, ArrowLeft: view.slice - 1, PageUp: view.slice - 1, ArrowDown: view.slice + 1,
    ArrowRight: view.slice + 1, PageDown: view.slice + 1, Home: 0, End: last }[key];
}

function keys(event) {
  if (event.target.matches("input:not([type=range], [type=checkbox]), select, textarea, dialog *")) return;
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "?") return element("help").showModal();
  if (!studies.length || (event.target.matches("input[type=range]") && sliceKey(event.key) !== undefined)) return;
  if (!keyDone(event, event.key.length === 1 ? event.key.toLowerCase() : event.key)) return;
  event.preventDefault();
}

/** Whether the key meant something. */
function keyDone(event, key) {
  const named = Object.keys(TOOLS).find((name) => TOOLS[name][1] === key);
  if (event.shiftKey && ARROWS[key]) moveCursor(...ARROWS[key]);
  else if (sliceKey(key) !== undefined) show(sliceKey(key));
  else if (named) take(named);
  else if (PRESETS[key]) setGrey(...PRESETS[key]);
  else if (key === "+" || key === "=") zoomTo(view.zoom * 1.5);
  else if (key === "-") zoomTo(view.zoom / 1.5);
  else if (key === "0" || key === "f") resetView();
  else if (key === "i") { view.inverted = !view.inverted; draw(); }
  else if (key === "b") onlyImages();
  else if (key === "v") toggleOverlay();
  else if (key === "Escape") take("window");
  else if (key === "Delete" || key === "Backspace") { measures.pop(); listMeasures(); draw(false); }
  else if (key === " " && !event.target.matches("button, summary, a, input")) held(true);
  else return false;
  return true;
}

function onlyImages() {
  element("wide").setAttribute("aria-pressed", String(document.body.classList.toggle("wide")));
}

function toggleOverlay() {
  const choice = element("overlay"), off = choice.value === "";
  if (!off) toggleOverlay.last = choice.value;
  choice.value = off ? toggleOverlay.last ?? choice.options[0]?.value ?? "" : "";
  setOverlay();
}

/** Space: with two results B stands in the place of A; else samples play. */
function held(on) {
  if (studies.length < 2) return on && play(!view.playing);
  flickered = on;
  draw();
  return undefined;
}

document.addEventListener("keyup", (event) => { if (event.key === " " && studies.length > 1) held(false); });
