// Ask the image: plant or erase at a place, and see what the scan would have shown; maps of what would be seen.
const answers = []; // {kind, slice, at, r, contrast, facts, after, change}, the newest first
const seen = new Map(); // maps of visibility, by slice and template
let asking = null, readied = "";

const radius = () => Number(element("radius").value);
const contrast = () => Number(element("contrast").value) / 100;
const templateText = () => `lesion:${digits(Math.max(1, radius()))}:${digits(contrast() || 0.05)}`;
const isAsked = () => answers.find((one) => one.slice === view.slice);

function askControls() {
  const [study] = studies;
  const mm = study?.voxel ? ` = ${digits(radius() * study.voxel[1])} mm` : "";
  element("radius-name").textContent = `${digits(radius())} px${mm}`;
  element("contrast-name").textContent = `${contrast() > 0 ? "+" : ""}${Math.round(100 * contrast())} %`;
  if (studies.length) draw(false);
}

/** The slice is reconstructed in advance, so that the answer to a click comes soon. */
async function getReady() {
  const wanted = `${keyA}/${view.slice}`;
  if (studies.length !== 1 || readied === wanted) return;
  readied = wanted;
  try {
    await postJson("ask/ready", { key: keyA, slice: view.slice });
    if (element("see").checked) await see();
  } catch (error) {
    readied = "";
    if (studies.length === 1) showAnswers(error.message);
  }
}

async function askAt(at, kind) {
  if (asking) return;
  if (studies.length > 1) return trouble(new Error("two results are compared; view one of them to ask it"));
  const asked = { kind, at, r: radius(), contrast: kind === "plant" ? contrast() || 0.05 : null, slice: view.slice };
  const began = performance.now(), key = keyA, [study] = studies;
  asking = asked;
  showAnswers();
  draw(false);
  try {
    const told = await postJson("ask/whatif",
      { key, x: at.column, y: at.row, r: asked.r, contrast: asked.contrast, slice: asked.slice });
    const [after, change] = await Promise.all([told.images.after, told.images.change].map(unpackImage));
    if (study !== studies[0]) return undefined;
    answers.unshift({ ...asked, facts: told, after, change, took: (performance.now() - began) / 1000 });
    answers.splice(8);
    rebuild();
    say(told.verdict);
  } catch (error) {
    asking = null;
    showAnswers(error.message);
    return draw(false);
  }
  asking = null;
  showAnswers();
  return draw();
}

function clearAnswers() {
  answers.splice(0);
  seen.clear();
  asking = null;
  readied = "";
  showAnswers();
}

/** Tiles of the newest answer: the image after the change, and what changed. */
function answerTiles(study) {
  if (!answers.length) return [];
  const black = (out) => out.fill(0);
  const top = study.white / 4, verb = answers[0].kind === "plant" ? "planted" : "erased";
  return [{
    study, name: "whatif_after", title: "What if", about: `${verb}, scanned and reconstructed again`, group: "image",
    scale: () => greyScale(study), always: true, plane: () => isAsked()?.after,
    read: (_, i) => (isAsked() ? digits(isAsked().after[i]) : ""),
    paint: (_, out) => (isAsked() ? paintGrey(isAsked().after, greyRange(study.white), out) : black(out)),
  }, {
    study, name: "whatif_change", title: "What changed", about: "after − before", group: "image", always: true,
    scale: () => ({ lut: study.luts.change, low: digits(-top), high: digits(top) }), plane: () => isAsked()?.change,
    read: (_, i) => (isAsked() ? digits(isAsked().change[i]) : ""),
    paint: (_, out) => (isAsked() ? paintMap(isAsked().change, study.luts.change, [-top, top], out) : black(out)),
  }];
}

function answerCard(one) {
  const card = make("div", "answer"), { facts } = one;
  const what = one.kind === "plant" ? `Planted ${Math.round(100 * one.contrast)} %` : "Erased";
  card.append(make("p", "", `${what}, ${digits(one.r)} px at row ${one.at.row + 1}, column ${one.at.column + 1}, slice ${one.slice + 1}`));
  card.append(make("p", "", `It ${facts.verdict}.`));
  const line = make("div", "share"), meter = Object.assign(make("meter"), { min: 0, max: 1, value: facts.carried });
  meter.setAttribute("aria-label", "share of the contrast that is carried");
  line.append("carried", meter, `${Math.round(100 * facts.carried)} %`);
  const noise = facts.noise_units === null ? "" : `, ${digits(facts.noise_units)} times the noise`;
  card.append(line, make("p", "soft", `Measured lines hold ${Math.round(100 * facts.kept)} % of its energy${noise}. ${digits(one.took)} s.`));
  return card;
}

function showAnswers(refused = "") {
  const waits = asking ? [make("div", "answer waits", "Simulating the scan and reconstructing it again …")] : [];
  const told = refused ? [make("p", "warned", refused)] : [];
  element("answers").replaceChildren(...waits, ...told, ...answers.slice(0, 3).map(answerCard));
  document.body.dataset.asking = String(Boolean(asking));
}

/** Rings where something was, or would be, planted or erased. */
function drawPlaces(context, tile, density) {
  if (studies.length > 1) return;
  const { study } = tile, ring = (at, r, colour) => {
    const [x, y] = tile.spot(at.row + 0.5, at.column + 0.5), [x2] = tile.spot(at.row, at.column + 0.5 + r);
    stroke(context, density, () => context.ellipse(x, y, x2 - x, (x2 - x) * study.pixel_aspect, 0, 0, 7), colour);
  };
  const placed = isAsked();
  if (placed) ring(placed.at, 1.6 * placed.r + 3, "#ff9d7a");
  if (asking?.slice === view.slice) ring(asking.at, 1.6 * asking.r + 3, "#ffd76a");
  const at = asks(tool) ? tile.at() : null, last = asking ?? placed;
  if (at && !(last && Math.hypot(at.row - last.at.row, at.column - last.at.column) < 1)) ring(at, radius(), "#7fd8ff");
}

async function see() {
  const [study] = studies, template = templateText(), slice = view.slice, name = `${slice}/${template}`;
  if (!element("see").checked || studies.length !== 1 || seen.has(name)) return;
  try {
    const told = await postJson("ask/visibility", { key: keyA, slice, template });
    if (study !== studies[0]) return;
    seen.set(name, await unpackImage(told.mean));
    overlaySeen(study);
    probe();
  } catch (error) {
    element("see").checked = false;
    showAnswers(error.message);
  }
}

/** The map of the present radius and contrast, as an overlay that can be chosen. */
function overlaySeen(study) {
  study.maps.asked = { title: `Seen of ${templateText()}`, about: "", lut: "cividis", top: 100, unit: "%" };
  const choice = element("overlay");
  if (![...choice.options].some((one) => one.value === "asked"))
    choice.append(Object.assign(make("option", "", "What would be seen"), { value: "asked" }));
  for (const id of ["overlay-choice", "opacity-choice"]) element(id).hidden = false;
  placeSeen();
  choice.value = "asked";
  if (!tiles.some((tile) => tile.spec.name === "overlay")) rebuild();
  setOverlay();
}

/** On slices that were not asked about, nothing is known: the overlay is empty there. */
function placeSeen() {
  const [study] = studies;
  if (study.maps.asked && study.shown)
    study.shown.asked = seen.get(`${shownSlice}/${templateText()}`) ?? new Float32Array(study.height * study.width);
}

const askedRows = (i) => {
  const map = seen.get(`${view.slice}/${templateText()}`);
  return map && element("see").checked ? [fact(`Seen of ${templateText()}`, `${Math.round(map[i])} %`)] : [];
};

let later = 0;
function seeSoon() {
  askControls();
  if (studies[0]?.maps.asked) { placeSeen(); draw(); }
  clearTimeout(later);
  later = setTimeout(() => { if (element("see").checked) see(); }, 400);
}
