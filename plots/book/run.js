// run.js: runs a chapter's program in the page: <div class="in-browser" data-program="04_name" data-flags="--devices 2">. The
// program is WebAssembly (.make/wasm.mk), its system is wasi.js. What it needs lies in scripts beside the page that call
// haveFile(), as a page that was opened as a file may load no other files. (After book.js.)
"use strict";

const files = {};
async function haveFile(name, base64) { // gzipped
    const packed = new Blob([Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))]);
    files[name] = new Uint8Array(await new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}
const loaded = new Map();
async function loadFiles(script, name) {
    if (!loaded.has(script)) loaded.set(script, load(script));
    await loaded.get(script);
    while (!files[name]) await new Promise((done) => setTimeout(done, 10)); // until it is unpacked
}

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

// Runs a program once; returns a function that stops it.
async function startProgram(name, flags, told) {
    const images = {};
    if (name[1] > "2") await loadFiles("images.js", "images/t10k-labels-idx1-ubyte");
    for (const file of Object.keys(files)) if (file.startsWith("images/")) images[file] = files[file];
    const worker = await workerOf(name, (message) => {
        if ("status" in message) worker.stop();
        told(message);
    });
    worker.run(flags, images);
    return worker.stop;
}

// The curves of a file "devices,epoch,train_loss,test_acc,seconds" so far: accuracy over epochs.
function drawCurves(text) {
    const rows = text.trim().split("\n").slice(1).map((line) => line.split(",").map(Number));
    const most = Math.max(2, ...rows.map((row) => row[1])), svg = [];
    const x = (epoch) => 40 + 340 * epoch / most, y = (accuracy) => 160 - 150 * accuracy;
    for (const accuracy of [0, 0.5, 1])
        svg.push(`<path d="M40 ${y(accuracy)}H380" class="grid"/><text x="34" y="${y(accuracy) + 4}" text-anchor="end">${accuracy}</text>`);
    [...new Set(rows.map((row) => row[0]))].forEach((k, i) => {
        const points = rows.filter((row) => row[0] === k).map((row) => x(row[1]) + "," + y(row[3]));
        svg.push(`<polyline points="${points.join(" ")}" class="curve-${i}"/>` +
            `<text x="${50 + 110 * i}" y="180" class="curve-${i}">${k} device${k > 1 ? "s" : ""}</text>`);
    });
    return `<svg viewBox="0 0 390 190" role="img" aria-label="Accuracy on test images after each epoch">${svg.join("")}</svg>`;
}

function makeRunnable(place) {
    const { program, flags } = place.dataset;
    const form = element("form", ""), line = element("input", ""), button = element("button", "Run");
    const printed = element("pre", "", "printed"), curves = element("figure", "", "curves"), written = element("p", "");
    const label = element("label", program + " ");
    line.value = flags;
    line.spellcheck = false;
    line.setAttribute("aria-label", "Flags of the program");
    label.append(line);
    form.append(label, button);
    place.append(element("p", "Run it here, in this tab:"), form, curves, printed, written);
    printed.hidden = curves.hidden = true;
    printed.setAttribute("aria-live", "polite");
    let stop = null;

    function end(how) {
        stop = null;
        button.textContent = "Run";
        place.dataset.ended = how;
    }
    function told(message) {
        if (message.text) printed.append(element("span", message.text, message.error ? "error" : ""));
        if (message.name && message.name.endsWith(program + ".csv") && message.contents.startsWith("devices,epoch,")) {
            curves.hidden = false;
            curves.innerHTML = drawCurves(message.contents);
        }
        if (!("status" in message)) return;
        for (const [name, bytes] of Object.entries(message.files)) {
            const link = element("a", name.replace(/.*\//, ""));
            link.href = URL.createObjectURL(new Blob([bytes]));
            link.download = link.textContent;
            written.append(written.firstChild ? ", " : "From this tab: ", link);
        }
        end(message.status);
    }
    form.addEventListener("submit", async (event) => {
        event.preventDefault();
        if (stop) {
            stop();
            printed.append(element("span", "\nstopped", "error"));
            end("stopped");
            return;
        }
        printed.replaceChildren();
        written.replaceChildren();
        printed.hidden = false;
        curves.hidden = true;
        delete place.dataset.ended;
        button.textContent = "Stop";
        stop = () => {};
        stop = await startProgram(program, line.value.split(/\s+/).filter(Boolean), told).catch((error) => {
            told({ text: "It cannot run here: " + error.message, error: true, status: 1, files: {} });
            return null;
        });
    });
}
for (const place of document.querySelectorAll(".in-browser[data-program]")) makeRunnable(place);

// ---- a figure to move: chapter 2's four ways, each position a call of its program ---------------

// Times in seconds over bytes, both axes logarithmic. `ways`: [name, [[bytes, seconds], ..]], ..
function drawTimes(ways) {
    const x = (bytes) => 50 + 330 * Math.log2(bytes / 1024) / 16, y = (seconds) => 240 - 38 * Math.log10(seconds / 1e-5);
    const svg = [];
    for (const [seconds, name] of [[1e-5, "10 µs"], [1e-4, "0.1 ms"], [1e-3, "1 ms"], [1e-2, "10 ms"], [0.1, "0.1 s"], [1, "1 s"], [10, "10 s"]])
        svg.push(`<path d="M50 ${y(seconds)}H380" class="grid"/><text x="45" y="${y(seconds) + 4}" text-anchor="end">${name}</text>`);
    for (const [bytes, name] of [[1024, "1 KiB"], [32768, "32 KiB"], [1048576, "1 MiB"], [67108864, "64 MiB"]])
        svg.push(`<text x="${x(bytes)}" y="256" text-anchor="middle">${name}</text>`);
    const ends = ways.map(([name, points], i) => ({ name, i, at: y(points[points.length - 1][1]) })).sort((a, b) => a.at - b.at);
    ends.forEach((end, n) => { end.at = Math.max(end.at, n ? ends[n - 1].at + 11 : 0); });
    ways.forEach(([, points], i) => svg.push(`<polyline class="curve-${i}" points="${points.map(([b, s]) => x(b) + "," + y(s)).join(" ")}"/>`));
    for (const { name, i, at } of ends) svg.push(`<text class="curve-${i}" x="384" y="${at + 4}">${name}</text>`);
    return `<svg viewBox="0 0 470 262" role="img" aria-label="Times of the four ways over bytes">${svg.join("")}</svg>`;
}

function makeFourWays(still) {
    const LINKS = [1, 2, 4, 8, 12, 16, 25, 32, 50, 64, 100, 150, 300, 450];
    const place = element("div", "", "in-browser"), chart = element("figure", "", "curves"), said = element("p", "");
    const given = new URLSearchParams(location.hash.split("?")[1] || "");
    const slider = (name, most, value, shown) => {
        const label = element("label", ""), input = element("input", ""), output = element("output", "");
        Object.assign(input, { type: "range", min: name === "k" ? 2 : 0, max: most, name });
        input.value = value;
        label.append(name === "k" ? "devices " : "link, each way ", input, output);
        input.show = () => { output.textContent = shown(input.value); };
        return [label, input];
    };
    const [kLabel, k] = slider("k", 16, given.get("k") || 4, (value) => value);
    const [linkLabel, link] = slider("link", LINKS.length - 1, given.get("link") || 5, (value) => LINKS[value] + " GB/s");
    const sliders = element("div", "", "sliders");
    sliders.append(kLabel, linkLabel);
    place.append(element("p", "Move it: times modelled in this tab, on hosts like dgx-a100 with other links."), sliders, chart, said);
    still.after(place);

    let machine = null, busy = false, waiting = false, worker = null, printed = "";
    function told(message) {
        if (message.text && !message.error) printed += message.text;
        if (!("status" in message)) return;
        busy = false;
        if (!machine) machine = printed;
        else if (message.files["c.csv"]) show(new TextDecoder().decode(message.files["c.csv"]));
        else said.textContent = "It cannot be computed: " + printed;
        if (waiting || !chart.firstChild) compute();
    }
    function show(csv) {
        const ways = new Map();
        for (const line of csv.trim().split("\n").slice(1)) {
            const [, , way, , bytes, seconds] = line.split(",");
            if (!ways.has(way)) ways.set(way, []);
            ways.get(way).push([Number(bytes), Number(seconds)]);
        }
        chart.innerHTML = drawTimes([...ways]);
        const star = ways.get("star in pieces"), ring = ways.get("ring"), first = ring.findIndex(([, seconds], i) => seconds < star[i][1]);
        const size = (bytes) => bytes >= 1048576 ? bytes / 1048576 + " MiB" : bytes / 1024 + " KiB";
        said.textContent = first < 0 ? "Here the star in pieces is faster than the ring at every size." :
            `From ${size(ring[first][0])} on, the ring is faster than the star in pieces.`;
        place.dataset.shown = k.value + "," + link.value;
    }
    function compute() {
        waiting = busy;
        if (busy) return;
        busy = true;
        printed = "";
        if (!machine) {
            worker.run(["--machine", "print:dgx-a100"], {});
            return;
        }
        const text = machine.replace(/^devices .*/m, "devices 16").replace(/^link .*/m, `link switch ${LINKS[link.value]} GB/s 3 us`);
        worker.run(["--curves", "--devices", k.value, "--backend", "model", "--machine", "./this.machine", "--csv", "c.csv"],
            { "this.machine": new TextEncoder().encode(text) });
    }
    async function moved() {
        k.show();
        link.show();
        worker = worker || await workerOf("02_get_params_and_allreduce", told);
        compute();
    }
    for (const input of [k, link]) {
        input.addEventListener("input", moved);
        input.addEventListener("change", () => history.replaceState(null, "", `#four-ways?k=${k.value}&link=${link.value}`));
    }
    new IntersectionObserver((seen, observer) => {
        if (!seen.some(({ isIntersecting }) => isIntersecting)) return;
        observer.disconnect();
        moved();
    }, { rootMargin: "400px" }).observe(place);
    if (given.has("k")) still.scrollIntoView();
}
for (const image of document.querySelectorAll('figure img[src$="/02_get_params_and_allreduce.png"]')) makeFourWays(image.closest("figure"));
