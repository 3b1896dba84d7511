// The live page: a photo in; captions, regions and the words of a sentence out. Speaks TF Serving's REST API only.
"use strict";

const $ = (id) => document.getElementById(id);
const state = { photo: null, regions: null, aligned: null, beta: null, asked: 0, sentenceAsked: 0, stream: null };

// ---------------------------------------------------------------- the server

function address() {
  const typed = $("server").value.trim().replace(/\/+$/, "");
  return typed || (location.protocol.startsWith("http") ? location.href.replace(/[^/]*([?#].*)?$/, "").replace(/\/$/, "") : "http://127.0.0.1:8501");
}

async function predict(signature, inputs) {
  const model = $("model").value.trim() || "imagesent";
  const key = $("key").value.trim();
  let response;
  try {
    response = await fetch(`${address()}/v1/models/${encodeURIComponent(model)}:predict`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) },
      body: JSON.stringify({ signature_name: signature, inputs }),
    });
  } catch {
    throw new Error(`No answer from ${address()}. Is the server running there (imagesent serve), and may this page call it (CORS)?`);
  }
  let answer = null;
  try { answer = await response.json(); } catch { /* not JSON: some other server */ }
  if (answer && /signature/i.test(answer.error || "")) throw new Error(`The model “${model}” does not answer “${signature}”. Export it anew: imagesent export.`);
  if (response.status === 401) throw new Error("The server wants its key. There is a field for it under Server, at the end of the page.");
  if (response.status === 404) throw new Error(`The server at ${address()} has no model called “${model}”. Its name is under Server, at the end of the page.`);
  if (response.status === 413) throw new Error("The photo is too large for the server. Try a smaller one.");
  if (response.status === 503 || response.status === 504) throw new Error("The server is busy. Try again in a moment.");
  if (!response.ok) throw new Error(`The server refused: ${(answer && answer.error) || `status ${response.status}`}`);
  if (!answer || !answer.outputs) throw new Error(`What answers at ${address()} is not TF Serving's REST API.`);
  return answer.outputs;
}

function checkStatus(outputs) {
  const status = outputs.status && outputs.status[0];
  if (status && status !== "ok") throw new Error(`The server could not read this photo: ${status}`);
}

// ---------------------------------------------------------------- the photo

async function openPhoto(blob, name) {
  hideError();
  stopCamera();
  if (blob.type && !blob.type.startsWith("image/")) return showError(`${name} is not a picture. ${FORMATS}`);
  const turn = ++state.asked;
  clear();
  const image = $("photo");
  if (image.src) URL.revokeObjectURL(image.src);
  image.src = URL.createObjectURL(blob);
  try { await image.decode(); } catch { return showError(`${name} cannot be shown as a picture. ${FORMATS}`); }
  const bytes = await base64((await served(blob)) ? blob : await redrawn(image));
  if (turn !== state.asked) return;
  image.classList.remove("hidden");
  $("invitation").classList.add("hidden");
  $("stage").classList.remove("empty");
  $("stage").style.setProperty("--shape", image.naturalWidth / image.naturalHeight);
  state.photo = bytes;
  const image_bytes = [{ b64: bytes }];
  try {
    await busy("Writing captions …", async () => {
      const outputs = await predict("serving_default", { image_bytes });
      if (turn !== state.asked) return;
      checkStatus(outputs);
      showCaptions(outputs.captions[0], outputs.log_probs[0]);
    });
    if (turn !== state.asked) return;
    await busy("Looking at the regions …", async () => {
      const outputs = await predict("describe", { image_bytes });
      if (turn === state.asked) showRegions(outputs);
    });
    if (turn === state.asked && $("sentence").value.trim()) await ask();
  } catch (error) {
    if (turn === state.asked) showError(error.message);
  }
}

const FORMATS = "JPEG, PNG and WebP photos work in every browser; HEIC in Safari, and on the command line (imagesent caption).";

// Takes the photo before and all that was said of it off the page.
function clear() {
  Object.assign(state, { photo: null, regions: null, aligned: null });
  $("photo").classList.add("hidden");
  $("invitation").classList.remove("hidden");
  $("stage").classList.add("empty");
  showBoxes($("stage"), []);
  drawing(false);
  for (const list of ["captions", "regions", "words"]) $(list).replaceChildren();
  for (const id of ["sliders", "show"]) $(id).classList.add("hidden");
  for (const id of ["captions-hint", "regions-hint"]) $(id).classList.remove("hidden");
}

// Whether every server reads this format: JPEG, PNG, GIF or BMP. The others (WebP, AVIF, HEIC) are drawn anew.
async function served(blob) {
  const [a, b] = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
  return [0xffd8, 0x8950, 0x4749, 0x424d].includes(256 * a + b);
}

function redrawn(image) {
  const canvas = $("canvas");
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const pen = canvas.getContext("2d");
  pen.fillStyle = "white"; // transparency lies over white, as on the server
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.95));
}

function base64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

function showCaptions(captions, logProbs) {
  $("captions-hint").classList.add("hidden");
  $("captions").replaceChildren(
    ...captions.map((caption, i) => ({ caption, logProb: logProbs[i] })).filter(({ caption }) => caption).map(({ caption, logProb }) =>
      element(
        "li", {},
        element("span", { class: "text" }, caption),
        element("span", { class: "soft number", title: "log probability" }, logProb.toFixed(2)),
        element("button", { type: "button", "aria-label": `Match “${caption}” with the photo`, onclick: () => { $("sentence").value = caption; ask(); } }, "match"),
      ),
    ),
  );
  say(`Caption: ${captions[0]}`);
}

function showRegions(outputs) {
  const number = outputs.number_of_regions ? outputs.number_of_regions[0] : outputs.boxes[0].length;
  state.regions = outputs.boxes[0].slice(0, number).map((box, i) => ({
    box, caption: outputs.captions[0][i], logProb: outputs.log_probs[0][i], score: outputs.box_scores[0][i], number: i,
  }));
  $("regions-hint").classList.add("hidden");
  listRegions();
  $("show").classList.remove("hidden");
  choose("regions");
}

function listRegions() {
  $("regions").replaceChildren(
    ...state.regions.map((region) => {
      const item = element(
        "li", { class: "region", tabindex: "-1" },
        element("span", { class: `swatch ${colourClass(region.number)}` }, nameOf(region)),
        element("span", { class: "text" }, region.caption),
        element("span", { class: "soft number", title: "log probability" }, region.logProb.toFixed(2)),
      );
      for (const event of ["mouseenter", "focus"]) item.addEventListener(event, () => choose("regions"));
      return lights(document.body, item, region.number);
    }),
  );
  walkable($("regions"), ".region");
}

const nameOf = (region) => (region.mine ? "yours" : region.number === 0 ? "all" : String(region.number));

// ---------------------------------------------------------------- a box of one's own

function drawing(on) {
  $("draw").setAttribute("aria-pressed", String(on));
  $("stage").classList.toggle("drawing", on);
}

function followPointer() {
  const stage = $("stage");
  let start = null;
  const place = (event) => {
    const frame = $("photo").getBoundingClientRect();
    const share = (value, from, length) => Math.min(1, Math.max(0, (value - from) / length));
    return [share(event.clientX, frame.left, frame.width), share(event.clientY, frame.top, frame.height)];
  };
  const box = (event) => {
    const [[a, b], [c, d]] = [start, place(event)];
    return [Math.min(a, c), Math.min(b, d), Math.max(a, c), Math.max(b, d)];
  };
  stage.addEventListener("pointerdown", (event) => {
    if (!stage.classList.contains("drawing") || event.button) return;
    event.preventDefault();
    stage.setPointerCapture(event.pointerId);
    start = place(event);
  });
  stage.addEventListener("pointermove", (event) => {
    if (start) showBoxes(stage, [{ box: box(event), colour: 0, label: "", key: "mine" }]);
  });
  stage.addEventListener("pointercancel", () => { start = null; draw(); });
  stage.addEventListener("pointerup", (event) => {
    if (!start) return;
    const drawn = box(event);
    start = null;
    drawing(false);
    if (drawn[2] - drawn[0] < 0.01 || drawn[3] - drawn[1] < 0.01) return draw();
    askBox(drawn);
  });
}

async function askBox(box) {
  hideError();
  const photo = state.photo;
  try {
    await busy("Looking at your box …", async () => {
      const outputs = await predict("describe_box", { image_bytes: [{ b64: photo }], box: [box] });
      if (photo !== state.photo) return;
      checkStatus(outputs);
      const caption = outputs.captions[0];
      state.regions.push({ box, caption, logProb: outputs.log_probs[0], score: 1, number: state.regions.length, mine: true });
      listRegions();
      $("regions").lastElementChild.scrollIntoView({ block: "nearest" });
      say(`Your box: ${caption}`);
    });
  } catch (error) {
    if (photo === state.photo) showError(error.message);
  }
  document.querySelector("input[name=show][value=regions]").checked = true;
  draw();
}

// ---------------------------------------------------------------- the sentence

async function ask() {
  const sentence = $("sentence").value.trim();
  if (!sentence) return;
  if (!state.photo) return showError("First choose a photo; then the sentence can be matched with it.");
  hideError();
  const turn = ++state.sentenceAsked;
  const photo = state.photo;
  try {
    await busy("Matching words and regions …", async () => {
      const outputs = await predict("align", { image_bytes: [{ b64: photo }], sentences: [sentence] });
      if (turn !== state.sentenceAsked || photo !== state.photo) return;
      checkStatus(outputs);
      showAligned(outputs);
    });
  } catch (error) {
    if (turn === state.sentenceAsked) showError(error.message);
  }
}

function showAligned(outputs) {
  const words = outputs.words[0];
  const typed = words.map((_, t) => t).filter((t) => words[t] !== "");
  state.aligned = {
    words: typed.map((t) => words[t]),
    similarity: typed.map((t) => outputs.similarity[0][t]),
    wordMask: typed.map((t) => outputs.word_mask[0][t] && outputs.phrase_regions[0][t] >= 0),
    regionMask: outputs.region_mask[0],
    boxes: outputs.boxes[0],
    served: typed.map((t) => outputs.phrase_regions[0][t]),
  };
  $("score").textContent = outputs.score[0].toFixed(2);
  $("sliders").classList.remove("hidden");
  $("show").classList.remove("hidden");
  choose("sentence");
}

// The slider's 0..100 is squared, for fine steps where phrases begin to grow; its end binds all words together.
function betaOfSlider() {
  const { similarity, wordMask, regionMask } = state.aligned;
  const values = similarity.flatMap((row, t) => (wordMask[t] ? row.filter((_, r) => regionMask[r]) : []));
  const spread = values.length ? Math.max(...values) - Math.min(...values) : 1;
  return ($("beta").value / 100) ** 2 * spread;
}

function drawSentence() {
  const aligned = state.aligned;
  if (!aligned) return;
  const regions = state.beta === null
    ? aligned.served
    : decodePhrases(aligned.similarity, aligned.wordMask, aligned.regionMask, state.beta);
  const scores = regions.map((region, t) => (region < 0 ? 0 : aligned.similarity[t][region]));
  const highest = Math.max(0, ...scores);
  const threshold = $("threshold").value === "0" ? -Infinity : ($("threshold").value / 100) * highest;
  const colours = sentenceColours(regions);
  showSentence(document.body, $("words"), aligned.words, regions, scores, threshold, colours);
  const known = regions.filter((region) => region >= 0);
  const phrases = known.filter((region, t) => t === 0 || known[t - 1] !== region).length;
  $("beta-value").textContent = state.beta === null ? "as exported" : state.beta.toFixed(2);
  $("threshold-value").textContent = threshold === -Infinity ? "nothing" : threshold.toFixed(2);
  $("phrases-number").textContent = `${phrases} ${phrases === 1 ? "phrase" : "phrases"}, ${colours.size} ${colours.size === 1 ? "region" : "regions"}`;
  $("exported").classList.toggle("hidden", state.beta === null);
  if (shown() === "sentence") {
    showBoxes($("stage"), sentenceBoxes(aligned.words, regions, scores, threshold, aligned.boxes, colours));
  }
  if (!known.length) showError("None of these words is in the model's vocabulary. Try plainer ones.");
}

// ---------------------------------------------------------------- what lies on the photo

const shown = () => document.querySelector("input[name=show]:checked").value;

function choose(what) {
  const radio = document.querySelector(`input[name=show][value=${what}]`);
  if (radio.checked && what === "regions" && $("stage").querySelector(".box")) return;
  radio.checked = true;
  draw();
}

function draw() {
  const what = shown();
  if (what === "none") showBoxes($("stage"), []);
  else if (what === "regions" && state.regions) {
    showBoxes($("stage"), state.regions.slice(1).map((region) => ({ box: region.box, colour: region.number, label: nameOf(region), key: region.number })));
  } else if (what === "regions") showBoxes($("stage"), []);
  drawSentence();
}

// ---------------------------------------------------------------- the camera

async function startCamera() {
  hideError();
  try {
    state.stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    return showError(
      error.name === "NotAllowedError" ? "The camera was not allowed. Allow it in the browser, or choose a file."
        : `There is no camera to use here (${error.message || error}). Choose a file instead.`,
    );
  }
  const video = $("video");
  video.srcObject = state.stream;
  await video.play();
  clear();
  state.asked++; // an answer still under way is no longer wanted
  $("invitation").classList.add("hidden");
  $("stage").classList.remove("empty");
  $("stage").style.setProperty("--shape", video.videoWidth / video.videoHeight);
  for (const id of ["video", "shoot"]) $(id).classList.remove("hidden");
}

function stopCamera() {
  if (!state.stream) return;
  state.stream.getTracks().forEach((track) => track.stop());
  state.stream = null;
  for (const id of ["video", "shoot"]) $(id).classList.add("hidden");
  if (!state.photo) clear();
}

function takePicture() {
  const [video, canvas] = [$("video"), $("canvas")];
  canvas.width = video.videoWidth;
  canvas.height = video.videoHeight;
  canvas.getContext("2d").drawImage(video, 0, 0);
  canvas.toBlob((blob) => openPhoto(blob, "The picture"), "image/jpeg", 0.92);
}

// ---------------------------------------------------------------- words to the user

function showError(text) {
  $("error").textContent = text;
  $("error").classList.remove("hidden");
}

function hideError() { $("error").classList.add("hidden"); }

function say(text) { $("status").textContent = text; }

async function busy(text, work) {
  $("busy-text").textContent = text;
  $("busy").classList.remove("hidden");
  say(text);
  try { await work(); } finally { $("busy").classList.add("hidden"); }
}

// ---------------------------------------------------------------- what the user does

function begin() {
  const query = new URLSearchParams(location.search);
  $("server").value = query.get("server") || "";
  $("server").placeholder = address();
  $("model").value = query.get("model") || "imagesent";
  themeButton($("theme"));
  $("file").addEventListener("change", (event) => {
    const [file] = event.target.files;
    if (file) openPhoto(file, file.name);
    event.target.value = "";
  });
  $("camera").addEventListener("click", startCamera);
  $("shoot").addEventListener("click", takePicture);
  $("draw").addEventListener("click", () => drawing(!$("stage").classList.contains("drawing")));
  followPointer();
  $("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  let waiting;
  $("sentence").addEventListener("input", () => {
    clearTimeout(waiting);
    if (state.photo) waiting = setTimeout(ask, 500);
  });
  $("beta").addEventListener("input", () => { state.beta = betaOfSlider(); choose("sentence"); });
  $("exported").addEventListener("click", () => { state.beta = null; $("beta").value = 0; choose("sentence"); });
  $("threshold").addEventListener("input", () => choose("sentence"));
  document.querySelectorAll("input[name=show]").forEach((radio) => radio.addEventListener("change", draw));
  const stage = $("stage");
  const holds = (event) => [...(event.dataTransfer ? event.dataTransfer.types : [])].includes("Files");
  document.addEventListener("dragover", (event) => { if (holds(event)) { event.preventDefault(); stage.classList.add("dragging"); } });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) stage.classList.remove("dragging"); });
  document.addEventListener("drop", (event) => {
    stage.classList.remove("dragging");
    if (!holds(event)) return;
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    if (file) openPhoto(file, file.name);
  });
  document.addEventListener("paste", (event) => {
    const file = [...event.clipboardData.files].find((item) => item.type.startsWith("image/"));
    if (file) openPhoto(file, "The pasted picture");
    else if (event.target !== $("sentence") && !event.clipboardData.getData("text")) showError("There is no picture in the clipboard.");
  });
}

begin();
