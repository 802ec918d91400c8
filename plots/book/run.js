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

// Calls told(message) with what wasi.js sends; returns a function that stops the program.
async function startProgram(name, flags, told) {
    await loadFiles("run-" + name.slice(0, 2) + ".js", name);
    const module = await WebAssembly.compile(files[name]), images = {};
    if (name[1] > "2") await loadFiles("images.js", "images/t10k-labels-idx1-ubyte");
    for (const file of Object.keys(files)) if (file.startsWith("images/")) images[file] = files[file];
    const source = new Blob([wasiWorker + "; wasiWorker(self);"], { type: "text/javascript" });
    const address = URL.createObjectURL(source), worker = new Worker(address);
    worker.onmessage = ({ data }) => {
        told(data);
        if ("status" in data) worker.terminate();
    };
    worker.postMessage({ module, args: [name, ...flags], files: images });
    URL.revokeObjectURL(address);
    return () => worker.terminate();
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
for (const place of document.querySelectorAll(".in-browser")) makeRunnable(place);
