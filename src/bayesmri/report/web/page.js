// The report: everything stands in the page itself.
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

function keys(event) {
  const typing = event.target.matches("input, select, textarea");
  const onImage = event.target.matches("canvas.picture");
  const step = { ArrowLeft: -1, ArrowRight: 1, ...(onImage ? { ArrowUp: -1, ArrowDown: 1 } : {}) }[event.key];
  if (typing || event.altKey || event.ctrlKey || event.metaKey) return;
  if (step) show(view.slice + step);
  else if (event.key === "+" || event.key === "=") zoomTo(view.zoom * 1.5);
  else if (event.key === "-") zoomTo(view.zoom / 1.5);
  else if (event.key === "0") resetView();
  else if (event.key === " " && studies[0].samples && !event.target.matches("button, summary, a")) play(!view.playing);
  else return;
  event.preventDefault();
}

function build(study) {
  studies.push(study);
  for (const spec of imageTiles(study)) tiles.push(new Tile(spec, element("tiles")));
  tiles.forEach(makeChip);
  for (const spec of kspaceTiles(study)) tiles.push(new Tile(spec, element("kspace-tiles")));
  tiles.forEach((tile) => { pointing(tile); if (tile.spec.group === "image") gestures(tile); });
  fitControls(study);
  if (study.samples) makePlayer(tiles.find((tile) => tile.spec.name === "samples"));
  for (const row of document.querySelectorAll("button[data-slice]"))
    row.onclick = () => show(study.slices.indexOf(Number(row.dataset.slice)));
}

async function start() {
  if (!("DecompressionStream" in window)) throw new Error("this browser is too old; any of 2023 or later will do");
  const study = carried(JSON.parse(element("report").textContent));
  build(study);
  connect();
  const middle = study.slices.indexOf(Math.floor(study.total_slices / 2));
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
