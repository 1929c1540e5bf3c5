// Scans and results: lists, opening by path or by dropping, running, cancelling.
let scanKey = "", scan = null;
const jobs = new Map();

const ago = (seconds) => {
  const s = Date.now() / 1000 - seconds;
  if (s < 90) return "just now";
  if (s < 5400) return `${Math.round(s / 60)} min ago`;
  if (s < 129600) return `${Math.round(s / 3600)} h ago`;
  return new Date(1000 * seconds).toISOString().slice(0, 10);
};

async function listFiles() {
  const { scans, results } = await getJson("files");
  element("scans-count").textContent = String(scans.length);
  element("scans").replaceChildren(...scans.map((one) => fileItem(one, `${size(one.bytes)}, ${ago(one.time)}`)));
  element("paths").replaceChildren(...[...scans, ...results].filter((one) => one.kept).slice(0, 200)
    .map((one) => Object.assign(make("option"), { value: one.name })));
  element("results").replaceChildren(...results.map(resultItem));
  element("no-results").hidden = results.length + jobs.size > 0;
}

function fileItem(one, about) {
  const line = make("li"), pick = button("", guarded(() => openKey(one.key)), "pick");
  pick.append(make("b", "", one.name), make("small", "", `${about}${one.kept ? "" : ", dropped"}`));
  pick.dataset.key = one.key;
  pick.title = one.name;
  pick.setAttribute("aria-current", String([scanKey, keyA, keyB].includes(one.key)));
  line.append(pick);
  return line;
}

function resultItem(one) {
  const drawn = one.samples ? `, ${one.samples} samples` : "";
  const line = fileItem(one, `${one.method || "method unknown"}${drawn}, ${ago(one.time)}`);
  const compare = button("Compare", guarded(() => view2(one.key)), "small");
  compare.setAttribute("aria-label", `Compare with ${one.name}`);
  line.append(compare);
  if (!one.kept) line.append(button("Keep", guarded(() => keepFile(one.key)), "small"));
  return line;
}

async function openKey(key) {
  await opened(await postJson("open", { key }));
}

async function opened(found) {
  if (found.result) return view1(found.key).then(listFiles);
  [scanKey, scan] = [found.key, found];
  showScan(found);
  say(`opened ${found.name}`);
  return listFiles();
}

function showScan({ name, inspection, kept }) {
  element("scan").hidden = false;
  element("scan-name").textContent = name;
  element("scan-said").replaceChildren(...inspection.warnings.map((text) => make("p", "warned", text)),
    ...inspection.notes.map((text) => make("p", "noted", text)));
  const [h, w] = inspection.shape, isData = inspection.kind === "k-space";
  const sampled = isData && `${inspection.acquired_lines} of ${inspection.points ? h * w : w}, R = ${inspection.acceleration.toFixed(2)}`;
  const rows = { Format: inspection.format, Slices: inspection.slices, ...(isData ? { Coils: inspection.coils } : {}),
    Grid: `${h} × ${w}`, ...(inspection.recon_shape ? { Image: inspection.recon_shape.join(" × ") } : {}),
    ...(isData ? { [inspection.points ? "Points" : "Lines"]: sampled, Truth: inspection.has_truth ? "in the file" : "none" } : {}),
    Geometry: inspection.has_affine ? "known" : "unknown", ...inspection.facts };
  element("scan-facts").replaceChildren(...Object.entries(rows).flatMap(([key, value]) => fact(key, String(value))));
  element("scan-drop").hidden = kept;
  element("run-form").hidden = !isData;
  const full = isData && inspection.acceleration < 1.001;
  for (const id of ["acceleration-choice", "mask-choice"]) element(id).hidden = !full;
  if (!isData) element("scan-said").append(make("p", "noted", "Magnitude images: bayesmri simulate makes k-space of them."));
}

const numberOf = (id) => (element(id).value === "" ? null : Number(element(id).value));

async function run(event) {
  event.preventDefault();
  const chosenModel = element("model").value, method = chosenModel.startsWith("method:");
  const options = {
    ...(method ? { method: chosenModel.slice(7) } : { model: chosenModel }),
    samples: method || element("fast").checked ? 0 : numberOf("samples") ?? 0, seed: numberOf("seed") ?? 0,
    fast: !method && element("fast").checked, check: element("check").checked, single_coil: element("single-coil").checked,
    keep_samples: !method && element("keep-samples").checked && (element("fast").checked || numberOf("samples") > 0),
    visibility: element("template").value.split(/[\s,]+/).filter(Boolean),
  };
  const full = !element("acceleration-choice").hidden;
  const sampling = full ? { acceleration: numberOf("acceleration"), mask: element("mask").value, seed: options.seed } : null;
  takeJob(await postJson("run", { key: scanKey, options, sampling }));
}

/** What the server tells of a job, whenever it changes. */
function takeJob(job) {
  const before = jobs.get(job.id)?.state;
  jobs.set(job.id, job);
  showJobs();
  if (job.state === "done" && before && before !== "done") {
    say(`done: ${job.label}`);
    listFiles().then(() => view1(job.result)).then(listFiles).catch(trouble);
  }
  if (job.state !== before && ["failed", "cancelled"].includes(job.state)) say(`${job.state}: ${job.label}`);
}

function showJobs() {
  const live = [...jobs.values()].filter((job) => job.state !== "done").reverse().slice(0, 6);
  element("jobs").replaceChildren(...live.map(jobItem));
}

function jobItem(job) {
  const line = make("li", "job"), text = make("div"), running = job.state === "running";
  line.dataset.state = job.state;
  text.append(make("b", "", job.label), " ", make("small", "", job.scan));
  line.append(text);
  if (running || job.state === "waiting") line.append(button("Cancel", guarded(() => postJson("cancel", { id: job.id }).then(takeJob)), "small"));
  else line.append(button("Clear", () => { jobs.delete(job.id); showJobs(); }, "small"));
  if (running) {
    const bar = make("progress");
    bar.setAttribute("aria-label", `Progress of ${job.label}`);
    if (job.total) Object.assign(bar, { max: job.total, value: job.done });
    const left = job.done ? `, about ${Math.ceil((job.elapsed / job.done) * (job.total - job.done))} s left` : "";
    text.append(bar, make("small", "", job.total ? `${job.done} of ${job.total}${left}` : "reading"));
  } else text.append(make("div", job.state === "failed" ? "bad" : "soft", job.message || job.state));
  return line;
}

/** Files that were dropped together belong together: both halves of a pair. */
async function dropFiles(list) {
  const given = [...list].sort((a, b) => a.name.endsWith(".hdr") - b.name.endsWith(".hdr"));
  if (!given.length) return;
  let into = "";
  element("upload").hidden = false;
  try {
    for (const file of given) {
      const onProgress = (share) => {
        element("upload-bar").value = share;
        element("upload-name").textContent = `${file.name}, ${Math.round(100 * share)} %`;
      };
      const told = await upload(file, { name: file.name, ...(into ? { into } : {}) }, onProgress);
      into ||= told.key;
    }
    element("upload-name").textContent = "reading";
    await openKey(into);
  } finally {
    element("upload").hidden = true;
  }
}

async function keepFile(key) {
  const told = await postJson("keep", { key });
  await listFiles();
  say(`kept as ${told.key}`);
  return told.key;
}

function connectFiles() {
  element("open-form").onsubmit = guarded(async (event) => {
    event.preventDefault();
    await opened(await postJson("open", { path: element("path").value }));
  });
  element("run-form").onsubmit = guarded(run);
  element("file").onchange = guarded(async (event) => { await dropFiles(event.target.files); event.target.value = ""; });
  element("scan-keep").onclick = guarded(async () => openKey(await keepFile(scanKey)));
  element("scan-forget").onclick = guarded(async () => {
    await postJson("forget", { key: scanKey });
    scanKey = "";
    element("scan").hidden = true;
    await listFiles();
  });
  for (const kind of ["dragenter", "dragover"])
    document.addEventListener(kind, (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
  document.addEventListener("drop", guarded(async (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    await dropFiles(event.dataTransfer.files);
  }));
}
