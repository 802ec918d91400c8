// run.js: runs a chapter's program in the page, at <div data-program="04_name" data-flags="--devices 2" data-note="..">; and
// draws the figures to move. The program is WebAssembly (.make/wasm.mk), its system is wasi.js. What it needs lies in
// scripts beside the page that call haveFile(), as a page that was opened as a file may load no other files. (After book.js.)
"use strict";

// ---- programs -----------------------------------------------------------------------------------

const files = {};
// `text` has 15 bits in each character, from 256 on (pack.py); they are a file of `length` bytes, gzipped.
async function haveFile(name, length, text) {
    const packed = new Uint8Array(length);
    for (let i = 0, at = 0, bits = 0, count = 0; at < length; i++) {
        bits = bits << 15 | text.charCodeAt(i) - 256;
        for (count += 15; count >= 8 && at < length; bits &= (1 << count) - 1) packed[at++] = bits >> (count -= 8);
    }
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    files[name] = new Uint8Array(await new Response(stream).arrayBuffer());
}
const loaded = new Map();
async function loadFiles(script, ...names) {
    if (!loaded.has(script)) loaded.set(script, load(script));
    await loaded.get(script);
    while (!names.every((name) => files[name])) await new Promise((done) => setTimeout(done, 10)); // until they are unpacked
}
const IMAGES = ["train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"];
const loadImages = () => loadFiles("images.js", ...IMAGES.map((name) => `images/${name}-ubyte`));
const images = () => Object.fromEntries(Object.entries(files).filter(([name]) => name.startsWith("images/")));

// A worker that runs a program as often as it is sent {args, files}; each answer of wasi.js goes to told().
async function workerOf(name, told) {
    await loadFiles("run-" + name.slice(0, 2) + ".js", name);
    const module = await WebAssembly.compile(files[name]);
    const source = new Blob([wasiWorker + "; wasiWorker(self);"], { type: "text/javascript" });
    const address = URL.createObjectURL(source), worker = new Worker(address);
    URL.revokeObjectURL(address);
    worker.onmessage = ({ data }) => told(data);
    return {
        run: (flags, inputs) => worker.postMessage({ module, args: [name, ...flags], files: inputs }),
        stop: () => worker.terminate(),
    };
}

// ---- charts -------------------------------------------------------------------------------------

// `curves`: [name, [[x, y], ..]], ..; marks: [number, text], .. of an axis, which ends at the last of them, or above before what
// is needed; `scale`: the function that makes both axes even.
function drawChart(label, scale, xMarks, allMarks, curves) {
    const values = curves.flatMap(([, points]) => points.map(([, value]) => value));
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const yMarks = allMarks.filter(([value], i) => (!allMarks[i + 1] || allMarks[i + 1][0] > low) && (i === 0 || allMarks[i - 1][0] < high));
    const place = (marks, from, to) => {
        const [first, last] = [marks[0][0], marks[marks.length - 1][0]].map(scale);
        return (value) => from + (to - from) * (scale(value) - first) / (last - first);
    };
    const x = place(xMarks, 50, 380), y = place(yMarks, 240, 26), svg = [`<text x="50" y="10">${label}</text>`];
    for (const [value, name] of yMarks)
        svg.push(`<path d="M50 ${y(value)}H380" class="grid"/><text x="45" y="${y(value) + 4}" text-anchor="end">${name}</text>`);
    for (const [value, name] of xMarks) svg.push(`<text x="${x(value)}" y="256" text-anchor="middle">${name}</text>`);
    curves.forEach(([, points], i) => svg.push(`<polyline class="curve-${i}" points="${points.map(([a, b]) => x(a) + "," + y(b)).join(" ")}"/>`));
    const ends = curves.map(([name, points], i) => ({ name, i, at: y(points[points.length - 1][1]) })).sort((a, b) => a.at - b.at);
    ends.forEach((end, n) => { end.at = Math.max(end.at, n ? ends[n - 1].at + 11 : 0); }); // names that do not touch
    for (const { name, i, at } of ends) svg.push(`<text class="curve-${i}" x="384" y="${at + 4}">${name}</text>`);
    return `<svg viewBox="0 0 500 262" role="img" aria-label="${label}">${svg.join("")}</svg>`;
}
const rowsOf = (csv) => csv.trim().split("\n").slice(1).map((line) => line.split(","));
const devices = (k) => k === "1" ? "1 device" : k + " devices";

// Accuracy over epochs, of a file "devices,epoch,train_loss,test_acc,seconds" as far as it is written.
function drawAccuracy(csv) {
    const curves = new Map();
    for (const [k, epoch, , accuracy] of rowsOf(csv))
        curves.set(devices(k), [...curves.get(devices(k)) || [], [Number(epoch), Number(accuracy)]]);
    const last = Math.max(2, ...[...curves.values()].flat().map(([epoch]) => epoch));
    return drawChart("accuracy on test images, after each epoch", (value) => value,
        [[1, "epoch 1"], [last, last]], [[0, "0"], [0.5, "0.5"], [1, "1"]], [...curves]);
}

// ---- Run ----------------------------------------------------------------------------------------

let stopRunning = null;

// The form: the command line, Run and Stop, the curves and the files.
function makeForm({ program, flags, note }) {
    const form = element("form", "", "in-browser"), line = element("textarea", ""), label = element("label", program + " ");
    const made = { form, line, button: element("button", "Run"), doing: element("span", "", "doing"),
        curves: element("figure", "", "curves"), printed: element("pre", "", "printed"), written: element("p", ""), said: "" };
    line.value = flags;
    line.spellcheck = false;
    line.rows = 1 + Math.floor(flags.length / 45);
    line.setAttribute("aria-label", "Flags of the program");
    line.addEventListener("keydown", (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        form.requestSubmit();
    });
    made.printed.setAttribute("aria-live", "polite");
    label.append(line);
    form.append(element("p", "Run the C program in this tab. " + note), label, made.button, made.doing, made.curves, made.printed, made.written);
    made.curves.hidden = made.printed.hidden = true;
    return made;
}

function linkTo(name, bytes) {
    const link = element("a", name.replace(/.*\//, ""));
    link.href = URL.createObjectURL(new Blob([bytes]));
    link.download = link.textContent;
    return link;
}

// Standard error: lines, and between them how far a training is, "\r\x1b[Kepoch 1/20, loss 2.303 [=>  ]   4%  0:12 left"
// (progress.c).
function showError(made, text) {
    const lines = (made.said + text).split("\n").map((line) => line.replace(/^[^]*\r\x1b\[K/, ""));
    made.said = lines.pop();
    if (lines.length) made.printed.append(element("span", lines.join("\n") + "\n", "error"));
    const bar = made.said.match(/^(.*) \[.*\] .* (\d+):(\d+) left$/);
    made.doing.textContent = bar ? `${bar[1]}: about ${60 * bar[2] + Number(bar[3])} s left` : "";
}

function showMessage(shown, { text, error, name, contents, status, files: made }) {
    const { form, curves, printed, written } = shown;
    if (text && error) showError(shown, text);
    else if (text) printed.append(text);
    printed.hidden = !printed.textContent.trim();
    if (contents && contents.startsWith("devices,epoch,") && contents.trim().includes("\n")) {
        curves.hidden = false;
        curves.innerHTML = drawAccuracy(contents);
    }
    if (status === undefined) return;
    shown.doing.textContent = shown.said = "";
    form.dataset.ended = status;
    written.replaceChildren(...Object.entries(made).flatMap(([path, bytes], i) => [i ? ", " : "Files from this tab: ", linkTo(path, bytes)]));
}

async function runFrom(made, { program }) {
    made.printed.replaceChildren();
    made.written.replaceChildren();
    made.curves.hidden = true;
    delete made.form.dataset.ended;
    made.button.textContent = "Stop";
    let worker = null, isOver = false;
    function end(message) {
        if (isOver) return;
        isOver = true;
        if (worker) worker.stop();
        made.button.textContent = "Run";
        stopRunning = null;
        showMessage(made, { files: {}, ...message });
    }
    stopRunning = () => end({ text: "\r\x1b[Kstopped\n", error: true, status: "stopped" });
    try {
        if (parseInt(program, 10) > 2) await loadImages();
        worker = await workerOf(program, (message) => "status" in message ? end(message) : isOver || showMessage(made, message));
        if (isOver) worker.stop(); // while it was being loaded
        else worker.run(made.line.value.split(/\s+/).filter(Boolean), { "images/none": new Uint8Array(0), ...images() });
    } catch (error) {
        end({ text: "It cannot run here: " + error.message + "\n", error: true, status: 1 });
    }
}

for (const place of document.querySelectorAll("[data-program]")) {
    const made = makeForm(place.dataset);
    place.append(made.form);
    made.form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (stopRunning) stopRunning();
        else runFrom(made, place.dataset);
    });
}

// ---- figures to move: each place of the sliders is a call of the chapter's program --------------

const SECONDS = [[1e-5, "10 µs"], [1e-4, "0.1 ms"], [1e-3, "1 ms"], [1e-2, "10 ms"], [0.1, "0.1 s"], [1, "1 s"], [10, "10 s"]];
const upTo = (last, first) => [...Array(last - first + 1).keys()].map((i) => i + first);
const LAUNCH = { name: "launch", label: "one launch", values: [0.2, 0.5, 1, 2.2, 4, 8, 16, 32], at: 2.2, unit: " µs" };
const LINK = { name: "link", label: "each link", values: [1, 2, 4, 8, 16, 32, 64, 128, 274, 450], at: 274, unit: " GB/s" };

// Where curve b begins to be below curve a, between two of their points; NaN if it never does.
function crossing(a, b) {
    const behind = ([, one], [, other]) => Math.log(other / one), i = b.findIndex((point, n) => point[1] < a[n][1]);
    if (i <= 0) return i < 0 ? NaN : b[0][0];
    const [before, after] = [behind(a[i - 1], b[i - 1]), behind(a[i], b[i])];
    return b[i - 1][0] * (b[i][0] / b[i - 1][0]) ** (before / (before - after));
}

const COLORS = ["#0072b2", "#d55e00", "#009e73", "#8a3f8f", "#e69f00"]; // as in style.gp
const GPUS = { 200: 12, 240: 16, 280: 24, 320: 32, 380: 40, 440: 80, 500: 96, 560: 141 }; // GB, where ResNet-18 has MB

// From what size on the ring is faster than the star, and what is fastest of all.
function showWays(csv) {
    const rows = rowsOf(csv), ways = new Map(rows.map(([, , way]) => [way, []]));
    for (const [, , way, , bytes, seconds] of rows) ways.get(way).push([Number(bytes), Number(seconds)]);
    const digits = (value) => value < 9.95 ? Number(value.toFixed(1)) : Math.round(value);
    const size = (bytes) => bytes < 1048576 ? digits(bytes / 1024) + " KiB" : digits(bytes / 1048576) + " MiB";
    const fastest = (i) => [...ways].reduce((best, way) => way[1][i][1] < best[1][i][1] ? way : best)[0], list = [];
    ways.get("ring").forEach(([bytes], i) => {
        if (i === 0 || fastest(i) !== fastest(i - 1)) list.push([fastest(i), bytes]);
    });
    const at = crossing(ways.get("star in pieces"), ways.get("ring"));
    return [drawChart("time of an allreduce, over the bytes of the vector", Math.log,
        [[1024, "1 KiB"], [32768, "32 KiB"], [1048576, "1 MiB"], [67108864, "64 MiB"]], SECONDS, [...ways]),
    (isNaN(at) ? "Here the star in pieces beats the ring at every size. " : `The ring beats the star in pieces from about ${size(at)} on. `) +
    "Fastest of all: " + list.map(([way, bytes], i) => way + (i ? " by " + size(bytes) : " for small vectors")).join(", ") + "."];
}

// A row of the minibatch as a bar with the number of its device, as high as the row counts in the average of averages; the
// line is where it should be, 1/n.
function showShards(printed) {
    const sizes = printed.match(/shards\n +\d+ +\d+ +(.*)\n/)[1].trim().split(" ").map(Number), n = sizes.reduce((a, b) => a + b);
    const [sum, average] = printed.match(/averages\n +\d+ +\d+ +(\S+) +(\S+)\n/).slice(1).map(Number);
    const squares = sizes.flatMap((size, device) => Array(size).fill(device)).map((device, row) => {
        const x = 10 + 19 * (row % 24), y = 54 + 60 * Math.floor(row / 24), high = 25 * n / (sizes.length * sizes[device]);
        return `<rect x="${x}" y="${y - high}" width="16" height="${high}" fill="hsl(${45 * device} 55% 40%)"/>` +
            `<text x="${x + 8}" y="${y - 4}" text-anchor="middle" fill="#fff">${device}</text>` +
            `<path d="M${x - 2} ${y - 25}h20" stroke="currentColor"/>`;
    });
    const how = isNaN(average) ? "is no number (a device without rows computes 0/0)" :
        average < 1e-5 ? "is right, too: all shards are equal" : `is off by up to ${(100 * average).toPrecision(2)} % of the largest number in the gradient`;
    return [`<svg viewBox="0 0 480 ${60 * Math.ceil(n / 24) - 2}" role="img" aria-label="How much each row counts">${squares.join("")}</svg>`,
        `Shards of ${sizes.join(", ")} rows. A bar is as high as its row counts in the average of averages; it should reach the line. ` +
        `The sum divided by n is ${sum < 1e-5 ? "right" : "off by " + sum}; the average of averages ${how}.`];
}

function showEpochs(csv) {
    const rows = rowsOf(csv), column = (way, at) => rows.filter((row) => row[1] === way).map((row) => [Number(row[2]), Number(row[at])]);
    const program = column("program", 3), graph = column("graph", 3), times = (epochs) => (epochs[3][1] / epochs[0][1]).toPrecision(2);
    const best = (epochs) => epochs.reduce((least, one) => one[1] < least[1] ? one : least)[0];
    return [drawChart("time of an epoch, over devices", Math.log, [[1, "1 device"], [2, "2"], [4, "4"], [8, "8"], [16, "16"]],
        [[0.01, "10 ms"], [0.1, "0.1 s"], [1, "1 s"], [10, "10 s"]],
        [["one by one", program], ["as a CUDA graph", graph], ["its launches alone", column("program", 5)]]),
    `An epoch on eight devices takes ${times(program)} times as long as on one if the host launches one by one, ${times(graph)} times ` +
    `with a CUDA graph. Fastest: ${devices(String(best(program)))} one by one, ${best(graph)} with a graph.`];
}

// A bar for each way to split the step, and the bubble of the pipeline, if the network can be cut into k stages.
function showPipeline(csv) {
    const rows = rowsOf(csv), [network, , , pieces] = rows[0], pipeline = rows.find(([, way]) => way === "across layers");
    const steps = rows.map(([, way, , , seconds]) => [way, 1e3 * Number(seconds)]), longest = Math.max(...steps.map(([, ms]) => ms || 0));
    const bars = steps.map(([way, ms], i) => `<text x="105" y="${25 + 20 * i}" text-anchor="end">${way}</text>` + (isNaN(ms) ? "" :
        `<path fill="hsl(205 55% 45%)" d="M110 ${14 + 20 * i}h${300 * ms / longest}v14H110z"/><text x="${115 + 300 * ms / longest}" y="${25 + 20 * i}">${ms.toPrecision(3)} ms</text>`));
    const [, , k, , seconds, idle, formula] = pipeline, percent = (share) => (100 * share).toFixed(1) + "\u00a0%";
    return [`<svg viewBox="0 0 500 96" role="img" aria-label="How long a step takes">${bars.join("")}</svg>`,
        `For equal stages, (k-1)/(m+k-1) = ${k - 1}/${Math.round((k - 1) / formula)} = ${percent(formula)} of the time is bubble. ` +
        (Number(seconds) ? `The devices of this pipeline are idle for ${percent(idle)}.` : `But ${network} can be cut into ${pieces} stages at most: there is no pipeline of it on ${k} devices.`)];
}

// A bar for a step with these buckets, with one bucket, and without an exchange.
function showOverlap(csv) {
    const [network, , buckets, ...numbers] = rowsOf(csv)[0], [step, one, none, exchange, hidden] = numbers.map(Number);
    const names = [buckets + (buckets === "1" ? " bucket" : " buckets"), "1 bucket", "no exchange"], longest = Math.max(step, one, none);
    const bars = [step, one, none].map((seconds, i) => `<text x="105" y="${25 + 20 * i}" text-anchor="end">${names[i]}</text>` +
        `<path fill="hsl(205 55% 45%)" d="M110 ${14 + 20 * i}h${300 * seconds / longest}v14H110z"/>` +
        `<text x="${115 + 300 * seconds / longest}" y="${25 + 20 * i}">${(1e3 * seconds).toPrecision(3)} ms</text>`);
    const percent = (share) => (100 * share).toFixed(0) + "\u00a0%", change = step / one - 1;
    return [`<svg viewBox="0 0 500 76" role="img" aria-label="How long a step takes">${bars.join("")}</svg>`,
        `The exchange of ${network}'s gradients takes ${(1e3 * exchange).toPrecision(3)} ms, of which ${percent(hidden)} are under backward. ` +
        (buckets === "1" ? "" : Math.abs(change) < 0.005 ? "The step is as long as with one bucket." :
            `The step is ${percent(Math.abs(change))} ${change < 0 ? "shorter" : "longer"} than with one bucket.`)];
}

// A bar for the chosen discipline, between those of synchronous and asynchronous training, and how stale its pushes are.
function showWaiting(csv) {
    const [chosen, ...others] = rowsOf(csv), [way, dropped, mean, most, seconds] = chosen, [sync, async] = others.map((row) => Number(row[4]));
    const shown = others.some(([name]) => name === way) ? others : [others[0], chosen, others[1]], longest = Math.max(...shown.map((row) => row[4]));
    const bars = shown.map(([name, , , , time], i) => `<text x="105" y="${25 + 20 * i}" text-anchor="end">${name}</text>` +
        `<path fill="hsl(${name === way ? 25 : 205} 55% 45%)" d="M110 ${14 + 20 * i}h${300 * time / longest}v14H110z"/>` +
        `<text x="${115 + 300 * time / longest}" y="${25 + 20 * i}">${(1e3 * time).toPrecision(3)} ms</text>`);
    const stale = Number(most) ? `A push has missed ${Number(mean).toFixed(2)} others on average, at most ${most}.` : "No push is stale.";
    return [`<svg viewBox="0 0 500 76" role="img" aria-label="Modelled time until the same number of images">${bars.join("")}</svg>`,
        `The same number of images takes ${(seconds / async).toFixed(2)} times as long as with asynchronous training, and ` +
        `${(seconds / sync).toFixed(2)} times as long as with synchronous training. ${stale}` +
        (Number(dropped) ? ` ${Math.round(dropped)} pushes are dropped.` : "")];
}

// A bar for each device, cut into what it holds, with the limit as a line; and how long a step is in each stage.
function showMemory(csv, { network, k, stage, recomputation, limit }) {
    const rows = rowsOf(csv), row = rows.find((one) => one[4] === stage), counted = network === "resnet-18";
    const parts = ["parameters", "gradients", "moments", "temporary", "activations"];
    const [unit, each, most] = counted ? ["MB", 1e6, limit] : ["GB", 1e9, GPUS[limit]], all = row[10] / each, fits = all <= most ? "fits" : "does not fit";
    const scale = 190 / Math.max(counted ? 600 : 0, 1.08 * most, ...rows.map((one) => one[10] / each)), line = 210 - scale * most;
    const svg = [`<text x="0" y="10">${unit} on each device</text>`];
    for (let i = 0, wide = 256 / k; i < k; i++)
        parts.reduce((y, name, part) => {
            const high = scale * row[5 + part] / each;
            svg.push(`<path fill="${COLORS[part]}" d="M${34 + wide * (i + 0.1)} ${y}h${0.8 * wide}v${-high}h${-0.8 * wide}z"/>`);
            return y - high;
        }, 210);
    parts.forEach((name, part) => svg.push(`<path fill="${COLORS[part]}" d="M${34 + 92 * part} 234h9v-9h-9z"/><text x="${47 + 92 * part}" y="233">${name}</text>`));
    for (const [value, y] of [[0, 210], [most, line]]) svg.push(`<text x="30" y="${y + 4}" text-anchor="end">${value}</text>`);
    svg.push(`<path d="M34 ${line}H290" stroke="currentColor" stroke-dasharray="6 4"/><text x="294" y="${line + 4}">${fits}</text>`);
    if (counted) svg.push('<text x="370" y="10">a step, modelled</text>');
    const steps = counted ? rows.map((one) => 1e3 * one[11]) : [], longest = Math.max(...steps), ms = (time) => time.toPrecision(3) + " ms";
    steps.forEach((time, i) => svg.push(`<text x="370" y="${45 + 40 * i}">${rows[i][4]}</text><text x="500" y="${45 + 40 * i}" text-anchor="end">${ms(time)}</text>` +
        `<path fill="hsl(${rows[i] === row ? 25 : 205} 55% 45%)" d="M370 ${50 + 40 * i}h${130 * time / longest}v12H370z"/>`));
    const needs = (k === 1 ? "one device" : `each of ${k} devices`) + ` needs ${Number(all.toPrecision(3))} ${unit}, which ${fits} in ${most} ${unit}. `;
    return [`<svg viewBox="0 0 500 238" role="img" aria-label="Memory of each device, and how long a step takes">${svg.join("")}</svg>`,
        `${stage}${recomputation === "on" ? " with recomputation" : ""}: ${needs}` + (!counted ?
            `This is arithmetic for a transformer of ${parseInt(network)} billion parameters in float32, with one sequence of 2,048 tokens on each device, and without a time.` :
            `A step takes ${ms(1e3 * row[11])}` + (row === rows[0] ? "." : `, ${(row[11] / rows[0][11]).toFixed(2)} times as long as with DDP.`))];
}

// A bar for a step on one device, and for each way to split it; and what a device sends.
function showCosts(csv, { width, n }) {
    const rows = rowsOf(csv), steps = rows.map(([way, , seconds]) => [way, 1e3 * seconds]), longest = Math.max(...steps.map(([, ms]) => ms));
    const fastest = steps.reduce((best, step) => step[1] < best[1] ? step : best)[0];
    const bars = steps.map(([way, ms], i) => `<text x="105" y="${25 + 20 * i}" text-anchor="end">${way}</text>` +
        `<path fill="hsl(${way === fastest ? 25 : 205} 55% 45%)" d="M110 ${14 + 20 * i}h${300 * ms / longest}v14H110z"/>` +
        `<text x="${115 + 300 * ms / longest}" y="${25 + 20 * i}">${ms.toPrecision(3)} ms</text>`);
    const [, images, layers] = rows.map(([, bytes]) => Number(bytes)), mb = (bytes) => Number((bytes / 1e6).toPrecision(3)) + " MB";
    return [`<svg viewBox="0 0 500 76" role="img" aria-label="How long a step takes">${bars.join("")}</svg>`,
        `In a step, a device sends ${mb(images)} if the images are split, and ${mb(layers)} if the layers are. That is ` +
        `${(layers / images).toPrecision(2)} times as much; b T / (3 D) is ${n} · 16 / (3 · ${width}) = ${(16 * n / (3 * width)).toPrecision(2)}. ` +
        (fastest === "one device" ? "One device alone is the fastest." : `Splitting the ${fastest.split(" ")[0]} is the fastest.`)];
}

// Behind the picture whose name ends with `still`. `change`: lines of the file of `machine` (dgx-a100 if there is none) that
// become others. show() makes the figure and a sentence of the file `csv`, or of what the program prints, and of where the sliders are. `on`: what is
// modelled, if not the usual machine.
const FIGURES = [{
    program: "01_splitting_strategies", still: "/01_splitting_strategies_bubble.png", show: showPipeline,
    csv: "plots/01_splitting_strategies_pipeline.csv", timeline: "plots/01_splitting_strategies_pipeline.svg",
    sliders: [{ name: "network", label: "network", values: ["lenet", "alexnet", "resnet-18", "equal"], at: "alexnet", unit: "" },
        { name: "k", label: "devices", values: upTo(16, 2), at: 4, unit: "" },
        { name: "m", label: "microbatches", values: upTo(32, 1), at: 8, unit: "" }],
    change: () => ({ devices: 16, memory: "2.6 GB" }), // for which WebAssembly has addresses
    flags: ({ network, k, m }) => ["--backend", "model", "--pipeline", network, "--devices", k, "--microbatches", m],
}, {
    program: "02_get_params_and_allreduce", still: "/02_get_params_and_allreduce.png", show: showWays, csv: "figure.csv",
    sliders: [{ name: "k", label: "devices", values: upTo(16, 2), at: 4, unit: "" }, LINK, LAUNCH],
    change: ({ link, launch }) => ({ devices: 16, launch: launch + " us", link: `switch ${link} GB/s 3.3 us` }),
    flags: ({ k }) => ["--curves", "--backend", "model", "--devices", k, "--csv", "figure.csv"],
}, {
    program: "03_split_batch", still: "/03_split_batch.png", show: showShards, images: true,
    sliders: [{ name: "n", label: "rows", values: upTo(96, 1), at: 96, unit: "" }, { name: "k", label: "devices", values: upTo(8, 1), at: 7, unit: "" }],
    change: () => ({}),
    flags: ({ n, k }) => ["--rows", n, "--devices", k],
}, {
    program: "04_lenet_multi_gpu", still: "/04_lenet_multi_gpu_modelled.png", show: showEpochs,
    csv: "plots/04_lenet_multi_gpu_modelled.csv", timeline: "plots/04_lenet_multi_gpu_step.svg",
    sliders: [LAUNCH, LINK,
        { name: "k", label: "devices in the timeline", values: upTo(16, 1), at: 8, unit: "" }],
    change: ({ launch, link }) => ({ devices: 16, launch: launch + " us", link: `switch ${link} GB/s 3.3 us` }),
    flags: ({ k }) => ["--curves", "--backend", "model", "--devices", k],
}, {
    program: "06_data_parallel_and_ddp", still: "/06_data_parallel_and_ddp_buckets.png", show: showOverlap, machine: "rtx4090-pcie",
    csv: "plots/06_data_parallel_and_ddp_overlap.csv", timeline: "plots/06_data_parallel_and_ddp_overlap.svg",
    sliders: [{ name: "network", label: "network", values: ["lenet", "resnet-18"], at: "lenet", unit: "" },
        { name: "bucket", label: "bucket", values: [4, 16, 64, 256, 1024, 4096, 10240, 25600, 65536], at: 256, unit: " KiB" },
        { name: "link", label: "each link", values: [1, 2, 4, 8, 12, 19.5, 32, 64, 128, 274], at: 19.5, unit: " GB/s" },
        { name: "k", label: "devices", values: upTo(16, 2), at: 4, unit: "" }],
    change: ({ link }) => ({ devices: 16, link: `switch ${link} GB/s 12.4 us` }), // as from one card to another by way of the host
    flags: ({ network, bucket, k }) => ["--backend", "model", "--overlap", network, "--bucket", bucket, "--devices", k],
}, {
    program: "07_parameter_servers", still: "/07_parameter_servers_bounds.png", show: showWaiting, on: "one GPU of a dgx-a100 for each worker",
    csv: "plots/07_parameter_servers_schedule.csv", timeline: "plots/07_parameter_servers_schedule.svg",
    sliders: [{ name: "slow", label: "one worker is slower by", values: [1, 1.5, 2, 3, 4, 6, 8, 12, 16], at: 4, unit: " times" },
        { name: "W", label: "workers", values: upTo(16, 2), at: 4, unit: "" },
        { name: "way", label: "discipline", values: ["synchronous", "SSP", "asynchronous", "backup"], at: "SSP", unit: "" },
        { name: "bound", label: "bound, or backup workers", values: [1, 2, 3, 4, 6, 8, 12, 15], at: 3, unit: "" }],
    change: () => ({}),
    flags: ({ slow, W, way, bound }) => ["--backend", "model", "--schedule", "--workers", W, "--slow", `${W - 1}=${slow}`,
        ...(way === "backup" ? ["--backup", Math.min(bound, W - 1)] : ["--staleness", { synchronous: 0, SSP: bound, asynchronous: "inf" }[way]])],
}, {
    program: "09_what_each_device_keeps", still: "/09_what_each_device_keeps_memory.png", show: showMemory, on: "A100s, with 64 images on each",
    csv: "plots/09_what_each_device_keeps_memory.csv",
    sliders: [{ name: "network", label: "network", values: ["resnet-18", "1b", "3b", "7b", "13b", "30b"], at: "resnet-18",
        text: (network) => network === "resnet-18" ? "ResNet-18" : parseInt(network) + " billion" },
        { name: "k", label: "devices", values: upTo(16, 1), at: 8, unit: "" },
        { name: "stage", label: "stage", values: ["DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"], at: "ZeRO-3", unit: "" },
        { name: "recomputation", label: "recomputation", values: ["off", "on"], at: "off", unit: "" },
        { name: "limit", label: "memory of a device", values: Object.keys(GPUS).map(Number), at: 440,
            text: (limit, { network }) => network === "resnet-18" ? limit + " MB" : GPUS[limit] + " GB" },
        { name: "link", label: "link", values: ["NVLink", "Ethernet"], at: "NVLink", unit: "" }],
    change: ({ link }) => ({ devices: 16, link: link === "NVLink" ? "switch 274 GB/s 3.3 us" : "switch 9.41 Gb/s 32.2 us" }), // cluster-10gbe's
    flags: ({ network, k, recomputation }) => ["--backend", "model", "--memory-of", network, "--devices", k, "--batch-size", 64 * k,
        ...(recomputation === "on" ? ["--recompute"] : [])],
}, {
    program: "10_a_transformer", still: "/10_a_transformer_block.png", show: showCosts, on: "A100s",
    csv: "plots/10_a_transformer_costs.csv",
    sliders: [{ name: "width", label: "width", values: [64, 128, 256, 512, 1024], at: 1024, unit: "" }, // more has no addresses here
        { name: "n", label: "images", values: [8, 16, 32, 64, 128], at: 64, unit: "" },
        { name: "k", label: "devices", values: [2, 4, 8], at: 4, unit: "" },
        { name: "link", label: "link", values: ["NVLink", "PCIe", "Ethernet"], at: "NVLink", unit: "" }],
    change: ({ link }) => ({ // as in dgx-a100; from one rtx4090-pcie card to another by way of the host; as in cluster-10gbe
        link: { NVLink: "switch 274 GB/s 3.3 us", PCIe: "switch 19.5 GB/s 12.4 us", Ethernet: "switch 9.41 Gb/s 32.2 us" }[link] }),
    flags: ({ width, n, k }) => ["--backend", "model", "--costs", "--width", width, "--batch-size", n, "--devices", k],
}];

function makeSlider({ name, label, values, at, unit, text: textOf = (value) => value + unit }, given) {
    const text = element("label", label + " "), input = element("input", ""), output = element("output", "");
    Object.assign(input, { type: "range", min: 0, max: values.length - 1, name });
    input.choose = (text) => { input.value = values.indexOf(values.find((value) => String(value) === text) ?? at); };
    input.choose(given.get(name));
    input.chosen = () => values[input.value];
    input.show = (all) => {
        output.textContent = textOf(input.chosen(), all);
        input.setAttribute("aria-valuetext", output.textContent);
    };
    text.append(input, output);
    return [text, input];
}

// Calls show(files, printed) with what the program made of the values asked for last; those in between may be left out.
function makeComputer({ program, images: needsImages, machine: base = "dgx-a100", change, flags }, show) {
    let machine = null, starting = null, worker = null, wanted = null, asked = null, printed = "";
    function next() {
        if (asked || !wanted) return;
        [asked, wanted, printed] = [wanted, null, ""];
        if (!machine) return worker.run(["--machine", "print:" + base], {});
        const own = Object.entries(change(asked)).reduce((text, [field, value]) =>
            text.replace(new RegExp(`^${field} .*`, "m"), field + " " + value), machine);
        worker.run(["--machine", "./this.machine", ...flags(asked).map(String)],
            { "this.machine": new TextEncoder().encode(own), "images/none": new Uint8Array(0), ...(needsImages ? images() : {}) });
    }
    function told({ text, status, files: made }) {
        if (text) printed += text;
        if (status === undefined) return;
        if (machine) show(asked, status === 0 ? made : null, printed);
        else [machine, wanted] = [printed, wanted || asked];
        asked = null;
        next();
    }
    return async (values) => {
        wanted = values;
        if (needsImages) await loadImages();
        starting = starting || workerOf(program, told); // once, however soon one moves again
        worker = await starting;
        next();
    };
}

function makeFigure(figure, still) {
    const { program, sliders, csv, timeline, show, on = `a ${figure.machine || "dgx-a100"} with 16 devices on one switch` } = figure, id = "move-" + program.slice(0, 2);
    const settings = () => location.hash.split("?")[0] === "#" + id && new URLSearchParams(location.hash.split("?")[1]);
    const given = settings() || new URLSearchParams();
    const place = element("div", "", "in-browser"), controls = element("div", "", "sliders"), step = element("div", "", "zoom");
    const chart = element("figure", "", "curves"), said = element("p", ""), made = sliders.map((slider) => makeSlider(slider, given));
    const inputs = made.map(([, input]) => input), values = () => Object.fromEntries(inputs.map((input) => [input.name, input.chosen()]));
    const showValues = () => inputs.forEach((input) => input.show(values()));
    controls.append(...made.map(([label]) => label));
    showValues(); // before anything was computed
    place.id = id;
    said.setAttribute("aria-live", "polite");
    place.append(element("p", csv ? `Move it: modelled in this tab, on ${on}.` :
        "Move it: computed in this tab, of real images."), controls, chart, said, ...(timeline ? [step] : []));
    place.classList.toggle("later", still.classList.contains("later")); // as long as the reader is asked to predict
    still.after(place);

    const textOf = (bytes) => new TextDecoder().decode(bytes);
    const compute = makeComputer(figure, (asked, result, printed) => {
        if (result) [chart.innerHTML, said.textContent] = show(csv ? textOf(result[csv]) : printed, asked);
        else said.textContent = "It cannot be computed: " + printed;
        if (result && timeline) showZoomable(step, textOf(result[timeline]));
        place.dataset.shown = Object.values(asked).join();
    });
    function moved() {
        showValues();
        compute(values());
    }
    for (const input of inputs) {
        input.addEventListener("input", moved);
        input.addEventListener("change", () => history.replaceState(null, "", `#${id}?${new URLSearchParams(values())}`));
    }
    new IntersectionObserver((seen, observer) => {
        if (!seen.some(({ isIntersecting }) => isIntersecting)) return;
        observer.disconnect();
        moved();
    }, { rootMargin: "400px" }).observe(place);
    addEventListener("hashchange", () => {
        if (!settings()) return;
        for (const input of inputs) input.choose(settings().get(input.name));
        moved();
    });
    if (settings()) showTarget(place);
}
for (const figure of FIGURES)
    for (const image of document.querySelectorAll(`figure img[src$="${figure.still}"]`)) makeFigure(figure, image.closest("figure"));
