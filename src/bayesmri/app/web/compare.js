// One result, or two side by side: which tiles there are, and what is under the cursor.
const FIRST = new Set(["mean", "overlay"]); // shown unless the user chose otherwise
let chosen = null; // names of tiles the user wants to see
let flickered = false; // B in the place of A
let keyA = "", keyB = "";

async function fetched(key) {
  const data = await getJson("study", { key });
  return new Study(data, (slice) => getJson("slice", { key, slice }), (slice) => getJson("samples", { key, slice }));
}

async function view1(key) {
  say("opening");
  const study = await fetched(key);
  [keyA, keyB] = [key, ""];
  clearAnswers();
  await setStudies([study]);
  location.hash = key;
  say(`opened ${study.name}`);
  postJson("ask/warm", { key, slice: view.slice }).catch(() => {}); // what is asked later is answered sooner
}

async function view2(key) {
  if (!studies.length) return view1(key);
  const other = await fetched(key);
  keyB = key;
  clearAnswers();
  await setStudies([studies[0], other]);
  return say(`comparing with ${other.name}`);
}

const sameGrid = (a, b) => a.height === b.height && a.width === b.width;

/** Both in the units of A where they are of one kind; what differs tenfold is not. */
function linkWhites(a, b) {
  b.own ??= b.white;
  const ratio = b.own / a.white;
  b.white = ratio > 0.5 && ratio < 2 ? a.white : b.own;
}

function differenceTile(a, b) {
  const top = a.white / 4;
  const plane = () => a.shown && b.shown && a.shown.mean.map((value, i) => value - b.shown.mean[i]);
  return {
    study: a, name: "a_minus_b", title: "A − B", about: "red: A is brighter, blue: B", group: "image", plane,
    scale: () => ({ lut: a.luts.change, low: digits(-top), high: digits(top) }),
    read: (planes, i) => digits(a.shown.mean[i] - b.shown.mean[i]),
    paint: (planes, out) => paintMap(plane(), a.luts.change, [-top, top], out),
  };
}

function firstTile(a, b) {
  const spec = { ...greyTile(a, "mean"), title: `A: ${a.method || a.name}`, about: a.name };
  const planes = () => (flickered ? b : a).shown;
  return { ...spec, plane: () => planes().mean, paint: (_, out) => paintGrey(planes().mean, greyRange(a.white), out) };
}

function specs() {
  const [a, b] = studies;
  if (!b) return singleSpecs(a).map((spec) => ({ ...spec, ...planeOf(spec) }));
  const second = { ...greyTile(b, "mean"), name: "b_mean", title: `B: ${b.method || b.name}`, about: b.name };
  const map = ["error_std", "std", "bound"].find((name) => a.layers[name] && b.layers[name]);
  const maps = map ? [{ ...mapTile(a, map), title: `A: ${a.maps[map].title}` },
    { ...mapTile(b, map), name: `b_${map}`, title: `B: ${b.maps[map].title}`, waits: true }] : [];
  const firsts = [sameGrid(a, b) ? firstTile(a, b) : greyTile(a, "mean"), { ...second, plane: (p) => p?.mean }];
  return [...firsts, ...(sameGrid(a, b) ? [differenceTile(a, b)] : []), ...maps.map((one) => ({ ...one, waits: true }))];
}

/** The image first, then what was asked, then maps and k-space. */
function singleSpecs(study) {
  const images = imageTiles(study), first = images.findIndex((spec) => spec.name === "mean");
  const kspace = kspaceTiles(study).map((spec) => ({ ...spec, title: spec.name === "mask" ? "Mask" : `K-space: ${spec.title.toLowerCase()}` }));
  return [images[first], ...answerTiles(study), ...images.filter((_, i) => i !== first), ...kspace];
}

const planeOf = (spec) => (spec.group === "image" ? { plane: spec.plane ?? ((planes) => planes?.[spec.name]) } : {});

async function setStudies(found) {
  play(false);
  const former = studies[0];
  studies.splice(0, studies.length, ...found);
  if (found[1]) linkWhites(found[0], found[1]);
  else found[0].white = found[0].own ?? found[0].white;
  if (former !== found[0]) measures.splice(0);
  for (const id of ["bar", "right"]) element(id).hidden = false;
  element("welcome").hidden = true;
  fitControls(found[0]);
  const same = former && former.slices.length === found[0].slices.length;
  await Promise.all(found.map((one) => one.planes(Math.min(view.slice, one.slices.length - 1)).catch(() => {})));
  rebuild();
  await show(same ? view.slice : Math.floor(found[0].slices.length / 2));
  setGrey(view.window, view.level);
  setOverlay();
  told();
  listMeasures();
  probe();
  tiles[0].canvas.focus({ preventScroll: true }); // keys speak of the images from here on
}

/** All tiles anew, those the user chose shown. */
function rebuild() {
  const box = element("tiles");
  box.classList.remove("one");
  box.replaceChildren();
  element("chips").replaceChildren(element("chips").firstElementChild);
  tiles.splice(0);
  const compared = studies.length > 1;
  for (const spec of specs()) {
    const wanted = compared ? !spec.waits : spec.always || (chosen ? chosen.has(spec.name) : FIRST.has(spec.name));
    tiles.push(new Tile({ ...spec, waits: !wanted, marks: spec.group === "image" ? marks : undefined }, box));
  }
  tiles.forEach(makeChip);
  tiles.forEach((tile) => { pointing(tile); if (tile.spec.group === "image") gestures(tile); });
  if (studies[0].samples && !compared) makePlayer(tiles.find((tile) => tile.spec.name === "samples"));
  for (const chip of element("chips").querySelectorAll("input"))
    chip.addEventListener("change", () => {
      chosen = new Set(tiles.filter((tile) => !tile.figure.hidden).map((tile) => tile.spec.name));
    });
  setOverlay();
}

function told() {
  const [a, b] = studies;
  element("title").textContent = b ? `${a.name}  ·  compared with  ·  ${b.name}` : a.name;
  document.title = `${a.name} · bayesmri`;
  const warned = studies.flatMap((study, i) => study.warnings.map((text) => `${b ? `${"AB"[i]}: ` : ""}${text}`));
  const unfit = b && !sameGrid(a, b) ? [`A has ${a.height} × ${a.width} pixels and B ${b.height} × ${b.width}: no difference is shown`] : [];
  const scaled = b && b.white !== a.white ? ["A and B have units that differ: each has its own window, and the difference means little"] : [];
  element("said").replaceChildren(...warned.map((text) => make("p", "warned", text)),
    ...[...unfit, ...scaled].map((text) => make("p", "noted", text)));
  const lines = studies.flatMap((study, i) => [...(b ? [`${"AB"[i]}: ${study.name}`] : []), ...study.summary, ...study.notes]);
  element("about").replaceChildren(...lines.map((text) => make("li", "", text)));
  for (const one of document.querySelectorAll("#results .pick"))
    one.setAttribute("aria-current", String([keyA, keyB].includes(one.dataset.key)));
  makeDownloads();
}

const fact = (name, value) => [make("dt", "", name), make("dd", "", value)];

/** Value and intervals under the cursor, of every study. */
function probe() {
  const at = tiles.find((tile) => tile.spec.group === "image")?.at();
  if (!at || !studies[0].shown) return element("probe").replaceChildren(make("dt", "soft", "Point at an image."));
  const rows = [fact("Row, column", `${at.row + 1}, ${at.column + 1}`)];
  const values = studies.map((study) => {
    const inside = at.row < study.height && at.column < study.width;
    return inside ? rowsOf(study, at.row * study.width + at.column, rows) : NaN;
  });
  if (studies.length > 1 && sameGrid(...studies)) rows.push(fact("A − B", digits(values[0] - values[1])));
  return element("probe").replaceChildren(...rows.flat());
}

function rowsOf(study, i, rows) {
  const planes = study.shown, name = studies.length > 1 ? `${"AB"[studies.indexOf(study)]} ` : "";
  const value = planes.mean[i];
  rows.push(fact(`${name}Value`, digits(value)));
  if (planes.std) rows.push(fact("± standard deviation", digits(planes.std[i])));
  if (planes.error_std) rows.push(fact("± typical error", digits(planes.error_std[i])));
  if (planes.bound) {
    const level = study.level ? `${digits(100 * study.level)} % interval` : "Interval";
    rows.push(fact(level, `${digits(Math.max(0, value - planes.bound[i]))} to ${digits(value + planes.bound[i])}`));
  }
  if (planes.truth) rows.push(fact("Truth", digits(planes.truth[i])));
  for (const layer of Object.keys(study.layers).filter((one) => one.startsWith("visibility/")))
    rows.push(fact(`Seen of ${layer.slice(11)}`, `${Math.round(planes[layer][i])} %`));
  if (study === studies[0]) rows.push(...askedRows(i));
  return value;
}
