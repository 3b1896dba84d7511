// The live page without a server: the exported ONNX files run in the browser. `answer` is the twin of the Python class
// ExportedModel, and takes the place of the live page's `predict`.
"use strict";

const MOST_TYPED_WORDS = 40;
const SHARED = ["image_encoder", "detector", "region_encoder", "sentence_encoder"]; // what they give, others take
const local = { about: null, sessions: {}, vocabularies: {}, photo: null, loaded: {} };

// ---------------------------------------------------------------- pixels

// The rows of the old picture that count in each new one, and their weights; every step rounded to float32, as in
// keras_imagesent/regions/squash.py and TensorFlow.
function resizeWeights(length, size) {
  const f = Math.fround;
  const step = f(1 / f(size / length));
  const width = Math.max(step, 1);
  return Array.from({ length: size }, (_, i) => {
    const center = f((i + 0.5) * step);
    const first = Math.min(Math.max(Math.ceil(f(f(center - width) - 0.5)), 0), length - 1);
    const last = Math.min(Math.max(Math.floor(f(f(center + width) - 0.5)), 0), length - 1);
    const weights = [];
    let total = 0;
    for (let row = first; row <= last; row++) {
      const weight = Math.max(0, f(1 - Math.abs(f(f(row + 0.5 - center) * f(1 / width)))));
      weights.push(weight);
      total = f(total + weight);
    }
    return { first, weights: weights.map((weight) => f(weight * f(1 / total))) };
  });
}

// RGBA (height, width) -> float32 (size, size, 3) of whole numbers.
function squash(rgba, width, height, size) {
  const rows = new Float32Array(size * width * 3);
  resizeWeights(height, size).forEach(({ first, weights }, y) => {
    const row = rows.subarray(y * width * 3, (y + 1) * width * 3);
    weights.forEach((weight, tap) => {
      let from = (first + tap) * width * 4;
      for (let i = 0; i < row.length; from += 4) {
        row[i] += Math.fround(weight * rgba[from]); i++;
        row[i] += Math.fround(weight * rgba[from + 1]); i++;
        row[i] += Math.fround(weight * rgba[from + 2]); i++;
      }
    });
  });
  const square = new Float32Array(size * size * 3);
  resizeWeights(width, size).forEach(({ first, weights }, x) => {
    for (let y = 0; y < size; y++) {
      const to = (y * size + x) * 3;
      weights.forEach((weight, tap) => {
        const from = (y * width + first + tap) * 3;
        for (let color = 0; color < 3; color++) square[to + color] += Math.fround(weight * rows[from + color]);
      });
    }
  });
  return square.map((value) => { // to the nearest, halves to the even one
    const clipped = Math.min(Math.max(value, 0), 255), down = Math.floor(clipped), rest = clipped - down;
    return rest > 0.5 || (rest === 0.5 && down % 2) ? down + 1 : down;
  });
}

async function readPixels(blob, size) {
  const bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none" }); // upright, as EXIF says
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "white";
  context.fillRect(0, 0, bitmap.width, bitmap.height);
  context.drawImage(bitmap, 0, 0);
  return squash(context.getImageData(0, 0, bitmap.width, bitmap.height).data, bitmap.width, bitmap.height, size);
}

// ---------------------------------------------------------------- words

// The words as typed, and as the vocabulary knows them; the twin of data/tokenizer.py.
function typedWords(text) {
  const { blanks, unseen } = local.about.tokenizer;
  return text.split(new RegExp(`[${blanks}]+`, "u")).map((typed) => {
    let word = typed.replace(new RegExp(`[${unseen}]`, "gu"), "");
    for (let before = null; before !== word;) {
      before = word;
      word = word.toLowerCase().replace(/ß/g, "ss").replace(/ς/g, "σ").normalize("NFKC");
    }
    return [typed, word.replace(/[^\p{L}\p{M}\p{N}]/gu, "")];
  }).filter(([, word]) => word);
}

async function vocabulary(piece) {
  const name = fileOf(piece).vocabulary;
  if (!local.vocabularies[name]) {
    const { words } = JSON.parse(new TextDecoder().decode(await download(name)));
    local.vocabularies[name] = { words, ids: new Map(words.map((word, i) => [word, i + 1])) };
  }
  return local.vocabularies[name];
}

const sentenceOf = ({ words }, ids) => ids.slice(0, ids.includes(0) ? ids.indexOf(0) : undefined).map((id) => words[id - 1]).join(" ");

// ---------------------------------------------------------------- files and networks

const fileOf = (piece) => local.about.files.find((file) => file.piece === piece);

function showProgress() {
  const wanted = local.about.files.filter((file) => file.file in local.loaded);
  const total = wanted.reduce((sum, file) => sum + file.bytes, 0);
  const done = wanted.reduce((sum, file) => sum + local.loaded[file.file], 0);
  const bar = $("loading");
  bar.classList.toggle("hidden", done >= total);
  bar.querySelector("progress").value = total ? done / total : 0;
  bar.querySelector("span").textContent = `Loading the model: ${(done / 1e6).toFixed(1)} of ${(total / 1e6).toFixed(1)} MB`;
}

async function download(name) {
  local.loaded[name] = 0;
  const response = await fetch(name);
  if (!response.ok) throw new Error(`${name} is missing beside this page (status ${response.status}). Export the folder again.`);
  const parts = [];
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    local.loaded[name] += value.length;
    showProgress();
  }
  const content = new Uint8Array(await new Blob(parts).arrayBuffer());
  local.loaded[name] = content.length;
  showProgress();
  return content;
}

function session(piece) {
  const options = { executionProviders: ["wasm"], extra: { session: { disable_quant_qdq: "1" } } }; // as in runtime/network.py
  local.sessions[piece] ??= download(fileOf(piece).file).then((content) => ort.InferenceSession.create(content, options));
  return local.sessions[piece];
}

async function value(name, values) {
  if (!(name in values)) {
    const maker = SHARED.find((piece) => fileOf(piece) && name in fileOf(piece).outputs);
    Object.assign(values, await runPiece(maker, values));
  }
  return values[name];
}

async function runPiece(piece, values) {
  const feeds = {};
  for (const name of Object.keys(fileOf(piece).inputs)) {
    const { type, data, dims } = await value(name, values);
    feeds[name] = new ort.Tensor(type, data.slice(), dims); // a copy, since the worker takes it away
  }
  return (await session(piece)).run(feeds);
}

// A tensor (1, ...) as nested arrays, as in JSON.
function nested(tensor) {
  const data = tensor.type === "bool" ? Array.from(tensor.data, Boolean) : Array.from(tensor.data, Number);
  return tensor.dims.slice(1).reduceRight((flat, size) => Array.from({ length: flat.length / size }, (_, i) => flat.slice(i * size, (i + 1) * size)), data);
}

// ---------------------------------------------------------------- the answers

const answers = {
  async serving_default(values) {
    const said = await runPiece("captioner", values);
    const words = await vocabulary("captioner");
    return { captions: [nested(said.token_ids)[0].map((ids) => sentenceOf(words, ids))], log_probs: nested(said.log_probs) };
  },

  async describe(values) {
    const said = await runPiece("region_captioner", values);
    const words = await vocabulary("region_captioner");
    const mask = nested(await value("region_mask", values))[0];
    const number = mask.filter(Boolean).length;
    return {
      boxes: nested(await value("boxes", values)),
      box_scores: nested(await value("box_scores", values)),
      captions: [nested(said.token_ids)[0].map((ids, r) => (mask[r] ? sentenceOf(words, ids) : ""))],
      log_probs: nested(said.log_probs),
      number_of_regions: [number],
    };
  },

  async describe_box(values, { box }) {
    const known = await value("boxes", values);
    const mine = new Float32Array(known.data.length);
    mine.set([0, 0, 1, 1, ...box[0]]); // the whole frame first, as in every answer
    const given = { ...values, boxes: new ort.Tensor("float32", mine, known.dims) };
    delete given.region_features;
    const classes = fileOf("region_captioner").inputs.class_scores; // no detector has named what is in the box
    if (classes) given.class_scores = new ort.Tensor("float32", new Float32Array(classes.shape[1] * classes.shape[2]), [1, ...classes.shape.slice(1)]);
    const said = await runPiece("region_captioner", given);
    const words = await vocabulary("region_captioner");
    return { captions: [sentenceOf(words, nested(said.token_ids)[0][1])], log_probs: [nested(said.log_probs)[0][1]] };
  },

  async align(values, { sentences }) {
    const { ids } = await vocabulary("sentence_encoder");
    const most = fileOf("sentence_encoder").inputs.token_ids.shape[1];
    const tokens = new Int32Array(most), words = Array(MOST_TYPED_WORDS).fill(""), places = Array(MOST_TYPED_WORDS).fill(-1);
    let known = 0;
    typedWords(sentences[0]).forEach(([typed, word], slot) => {
      if (slot < MOST_TYPED_WORDS) words[slot] = typed;
      if (!ids.has(word) || known >= most) return;
      tokens[known] = ids.get(word);
      if (slot < MOST_TYPED_WORDS) places[slot] = known;
      known++;
    });
    for (const name of ["regions", "region_mask"]) await value(name, values);
    const given = { ...values, token_ids: new ort.Tensor("int32", tokens, [1, most]) };
    const found = await runPiece("alignment", given);
    const similarity = nested(found.similarity)[0], regions = nested(found.phrase_regions)[0];
    return {
      words: [words],
      word_mask: [places.map((place) => place >= 0)],
      boxes: nested(values.boxes),
      box_scores: nested(values.box_scores),
      region_mask: nested(values.region_mask),
      similarity: [places.map((place) => (place < 0 ? similarity[0].map(() => 0) : similarity[place]))],
      phrase_regions: [places.map((place) => (place < 0 ? -1 : regions[place]))],
      score: Array.from(found.score.data),
    };
  },
};

async function start() {
  const response = await fetch("model.json");
  if (!response.ok) throw new Error("model.json is missing beside this page. Export the folder again.");
  local.about = await response.json();
  ort.env.wasm.wasmPaths = new URL("./", location.href).href;
  ort.env.wasm.numThreads = self.crossOriginIsolated ? Math.min(navigator.hardwareConcurrency || 1, 8) : 1;
  ort.env.wasm.proxy = true; // the networks run beside the page, which stays awake
  for (const piece of local.about.answers.caption) session(piece); // while the person looks for a photo
}
local.started = start();
local.started.catch((error) => showError(error.message));

// What the live page calls instead of a server.
predict = async function answer(signature, inputs) {
  await local.started;
  const encoded = inputs.image_bytes[0].b64;
  if (!local.photo || local.photo.encoded !== encoded) {
    const size = local.about.preprocessing.image_size;
    const blob = await (await fetch(`data:application/octet-stream;base64,${encoded}`)).blob();
    const pixels = await readPixels(blob, size);
    local.photo = { encoded, values: { pixels: new ort.Tensor("float32", pixels, [1, size, size, 3]) } };
  }
  return { ...(await answers[signature](local.photo.values, inputs)), status: ["ok"] };
};

// ---------------------------------------------------------------- the page

document.querySelector("details").remove(); // there is no server to name
document.querySelector("header.top").after(element(
  "div", { id: "loading", class: "row", role: "status" },
  element("progress", { max: "1", value: "0", "aria-label": "Loading the model" }), element("span", { class: "soft" }, "Loading the model …"),
));
document.querySelector("header.top .soft").append(". Nothing leaves this device.");
$("exported").textContent = "as the model decodes it";
if ("serviceWorker" in navigator && location.protocol.startsWith("http")) {
  navigator.serviceWorker.register("offline.js").catch(() => { /* the page works without, but not offline */ });
}
