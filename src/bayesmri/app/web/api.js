// What the page asks of its server; addresses are relative to that of the page, which holds the token.
async function heard(response) {
  const told = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (!response.ok) throw new Error(told.error ?? `the server answered ${response.status}`);
  return told;
}

const query = (params) => new URLSearchParams(params).toString();
const getJson = async (path, params = {}) => heard(await fetch(`api/${path}?${query(params)}`));
const postJson = async (path, body) =>
  heard(await fetch(`api/${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }));

/** fetch cannot tell how far an upload is. */
function upload(file, params, onProgress) {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open("POST", `api/drop?${query(params)}`);
    request.responseType = "json";
    request.upload.onprogress = (event) => onProgress(event.loaded / Math.max(1, file.size));
    request.onload = () => (request.status < 300 ? done(request.response)
      : failed(new Error(request.response?.error ?? `the server answered ${request.status}`)));
    request.onerror = () => failed(new Error(`${file.name} could not be sent; is bayesmri app still running?`));
    request.send(file);
  });
}

/** What went wrong, above everything, until it is put away. */
function trouble(error) {
  const text = make("span", "", error.message ?? String(error)), close = make("button", "small", "Dismiss");
  close.type = "button";
  close.onclick = () => { element("trouble").hidden = true; };
  element("trouble").replaceChildren(text, close);
  element("trouble").hidden = false;
}

/** For screen readers, and for tests. */
const say = (text) => { element("status").textContent = text; };

const guarded = (work) => async (...given) => {
  try {
    return await work(...given);
  } catch (error) {
    return trouble(error);
  }
};

const button = (text, onclick, className = "") => {
  const made = Object.assign(make("button", className, text), { type: "button", onclick });
  return made;
};

function size(bytes) {
  const units = ["B", "kB", "MB", "GB"];
  let value = bytes, i = 0;
  while (value >= 1000 && i < 3) { value /= 1000; i++; }
  return `${digits(value)} ${units[i]}`;
}
