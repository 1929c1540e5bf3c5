// The application: begins, listens to what runs, and offers what can be taken away.
let about = null;

function fillModels({ models, methods }) {
  const group = (label, options) => {
    const made = Object.assign(make("optgroup"), { label });
    made.append(...options.map(([value, text]) => Object.assign(make("option", "", text), { value })));
    return made;
  };
  const told = ({ name, accelerations }) => [name, accelerations.length ? `${name} (R = ${accelerations.join(", ")})` : name];
  element("model").replaceChildren(Object.assign(make("option", "", "auto"), { value: "auto" }),
    group("Models", models.map(told)), group("Methods without a model", methods.map((name) => [`method:${name}`, name])));
  element("model").onchange = () => {
    const method = element("model").value.startsWith("method:");
    for (const id of ["samples", "fast", "keep-samples"]) element(id).disabled = method;
  };
}

function listen() {
  const events = new EventSource("api/events");
  events.addEventListener("job", (event) => takeJob(JSON.parse(event.data)));
  events.onerror = () => { document.body.dataset.lost = "true"; };
  events.onopen = () => { delete document.body.dataset.lost; };
}

function makeDownloads() {
  const link = (text, kind) => {
    const made = make("a", "", text);
    made.href = `api/download/${kind}?${query({ key: keyA })}`;
    made.setAttribute("download", "");
    return made;
  };
  element("downloads").replaceChildren(link("HDF5", "h5"), ...about.downloads.map(([text, kind]) => link(text, kind)),
    button("PNG of this view", savePicture));
}

/** All tiles that are shown, beside each other, with their names. */
function savePicture() {
  const shown = tiles.filter((tile) => !tile.figure.hidden && tile.canvas.clientWidth), gap = 12, head = 30;
  const sheet = make("canvas"), height = Math.max(...shown.map((tile) => tile.canvas.height));
  sheet.width = shown.reduce((sum, tile) => sum + tile.canvas.width + gap, gap);
  sheet.height = height + head + gap;
  const context = sheet.getContext("2d");
  context.fillRect(0, 0, sheet.width, sheet.height);
  let x = gap;
  for (const tile of shown) {
    write(context, tile.spec.title, x + tile.canvas.width / 2, head / 2, 15);
    context.drawImage(tile.canvas, x, head);
    x += tile.canvas.width + gap;
  }
  sheet.toBlob((blob) => {
    const made = Object.assign(make("a"), { href: URL.createObjectURL(blob) });
    made.download = `${studies[0].name.replace(/\.h5$/, "")}-slice${view.slice + 1}.png`;
    made.click();
    setTimeout(() => URL.revokeObjectURL(made.href), 10000);
  });
}

function sliceShown() {
  placeSeen();
  listMeasures();
  probe();
  if (asks(tool)) getReady();
  else if (element("see").checked) see();
}

async function begin() {
  if (!("DecompressionStream" in window)) throw new Error("this browser is too old; any of 2023 or later will do");
  ahead = 4;
  makeTools();
  connect();
  connectFiles();
  element("wide").onclick = onlyImages;
  element("help-button").onclick = () => element("help").showModal();
  for (const id of ["radius", "contrast"]) element(id).oninput = seeSoon;
  element("see").onchange = () => (element("see").checked ? see() : probe());
  document.addEventListener("pointermove", (event) => { if (event.target.matches("canvas.picture")) probe(); });
  new ResizeObserver(() => { if (studies.length) draw(false); }).observe(element("tiles"));
  askControls();
  beforeDraw.push(sliceShown);
  about = await getJson("about");
  fillModels(about);
  element("folders").textContent = `Files from ${about.folders.join(", ")}; nothing else is read. All of it stays on this machine.`;
  listen();
  await listFiles();
  performance.mark("ready");
  document.body.dataset.ready = "true";
  const key = decodeURIComponent(location.hash.slice(1));
  if (key) await openKey(key).catch(() => { location.hash = ""; });
}

window.addEventListener("unhandledrejection", (event) => trouble(event.reason));
begin().catch(trouble);
