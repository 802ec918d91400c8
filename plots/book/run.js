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

const shipped = () => Object.fromEntries(Object.entries(files).filter(([name]) => name.startsWith("images/")));

// Runs a program once; returns a function that stops it.
async function startProgram(name, flags, told) {
    if (name[1] > "2") await loadFiles("images.js", "images/t10k-labels-idx1-ubyte");
    const worker = await workerOf(name, (message) => {
        if ("status" in message) worker.stop();
        told(message);
    });
    worker.run(flags, shipped());
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
        let stopped = false; // while it was being loaded
        stop = () => { stopped = true; };
        try {
            const started = await startProgram(program, line.value.split(/\s+/).filter(Boolean), told);
            if (stopped) started();
            else stop = started;
        } catch (error) {
            told({ text: "It cannot run here: " + error.message, error: true, status: 1, files: {} });
        }
    });
}
for (const place of document.querySelectorAll(".in-browser[data-program]")) makeRunnable(place);

// ---- figures to move: each place of the sliders is a call of the chapter's program --------------

// Both axes logarithmic. `curves`: [name, [[x, y], ..]], ..; marks: [number, text], ..
function drawLines(label, xMarks, yMarks, curves) {
    const [left, right] = [xMarks[0][0], xMarks[xMarks.length - 1][0]], [low, high] = [yMarks[0][0], yMarks[yMarks.length - 1][0]];
    const x = (value) => 50 + 330 * Math.log(value / left) / Math.log(right / left);
    const y = (value) => 240 - 228 * Math.log(value / low) / Math.log(high / low), svg = [];
    for (const [value, name] of yMarks)
        svg.push(`<path d="M50 ${y(value)}H380" class="grid"/><text x="45" y="${y(value) + 4}" text-anchor="end">${name}</text>`);
    for (const [value, name] of xMarks) svg.push(`<text x="${x(value)}" y="256" text-anchor="middle">${name}</text>`);
    const ends = curves.map(([name, points], i) => ({ name, i, at: y(points[points.length - 1][1]) })).sort((a, b) => a.at - b.at);
    ends.forEach((end, n) => { end.at = Math.max(end.at, n ? ends[n - 1].at + 11 : 0); });
    curves.forEach(([, points], i) => svg.push(`<polyline class="curve-${i}" points="${points.map(([a, b]) => x(a) + "," + y(b)).join(" ")}"/>`));
    for (const { name, i, at } of ends) svg.push(`<text class="curve-${i}" x="384" y="${at + 4}">${name}</text>`);
    return `<svg viewBox="0 0 480 262" role="img" aria-label="${label}">${svg.join("")}</svg>`;
}
const rowsOf = (csv) => csv.trim().split("\n").slice(1).map((line) => line.split(","));
const SECONDS = [[1e-5, "10 µs"], [1e-4, "0.1 ms"], [1e-3, "1 ms"], [1e-2, "10 ms"], [0.1, "0.1 s"], [1, "1 s"], [10, "10 s"]];
const LINK = { name: "link", label: "link, each way", values: [1, 2, 4, 8, 12, 16, 25, 32, 50, 64, 100, 150, 300, 450], at: 5, unit: " GB/s" };

// Behind the picture whose name ends with `still`. `change`: lines of dgx-a100's file that become others.
const FIGURES = [{
    program: "02_get_params_and_allreduce", still: "/02_get_params_and_allreduce.png",
    sliders: [{ name: "k", label: "devices", values: [...Array(15).keys()].map((i) => i + 2), at: 2, unit: "" }, LINK],
    change: ({ link }) => [["devices", "16"], ["link", `switch ${link} GB/s 3 us`]],
    flags: ({ k }) => ["--devices", k, "--csv", "figure.csv"], csv: "figure.csv",
    show(csv) {
        const rows = rowsOf(csv);
        const ways = new Map(rows.map(([, , way]) => [way, []]));
        for (const [, , way, , bytes, seconds] of rows) ways.get(way).push([Number(bytes), Number(seconds)]);
        const star = ways.get("star in pieces"), ring = ways.get("ring"), first = ring.findIndex(([, seconds], i) => seconds < star[i][1]);
        const size = (bytes) => bytes >= 1048576 ? bytes / 1048576 + " MiB" : bytes / 1024 + " KiB";
        return [drawLines("Times of the ways to sum, over bytes", [[1024, "1 KiB"], [32768, "32 KiB"], [1048576, "1 MiB"], [67108864, "64 MiB"]], SECONDS, [...ways]),
            first < 0 ? "Here the star in pieces is faster than the ring at every size." :
                `From ${size(ring[first][0])} on, the ring is faster than the star in pieces.`];
    },
}, {
    program: "03_split_batch", still: "/03_split_batch.png", images: true,
    sliders: [{ name: "n", label: "rows", values: [...Array(48).keys()].map((i) => i + 1), at: 9, unit: "" },
        { name: "k", label: "devices", values: [1, 2, 3, 4, 5, 6, 7, 8], at: 2, unit: "" }],
    change: () => [], flags: ({ n, k }) => ["--rows", n, "--devices", k],
    show(printed) {
        const sizes = printed.match(/shards\n +\d+ +\d+ +(.*)\n/)[1].trim().split(" ").map(Number);
        const [sum, average] = printed.match(/averages\n +\d+ +\d+ +(\S+) +(\S+)\n/).slice(1).map(Number), squares = [];
        sizes.forEach((size, device) => {
            for (let i = 0; i < size; i++) {
                const at = squares.length, x = 10 + 19 * (at % 24), y = 4 + 22 * Math.floor(at / 24);
                squares.push(`<rect x="${x}" y="${y}" width="16" height="16" fill="hsl(${45 * device} 55% 55%)"/>` +
                    `<text x="${x + 8}" y="${y + 12}" text-anchor="middle" fill="#fff">${device}</text>`);
            }
        });
        const how = isNaN(average) ? "is no number (a device without rows computes 0/0)" : average < 1e-5 ? "is right, too: all shards are equal" :
            `is off by ${(100 * average).toPrecision(2)} %`;
        return [`<svg viewBox="0 0 480 48" role="img" aria-label="Rows, by device">${squares.join("")}</svg>`,
            `Shards of ${sizes.join(", ")} rows. The sum divided by n is ${sum < 1e-5 ? "right" : "off by " + sum}; the average of averages ${how}.`];
    },
}, {
    program: "04_lenet_multi_gpu", still: "/04_lenet_multi_gpu_modelled.png",
    sliders: [{ name: "launch", label: "a launch", values: [0.2, 0.5, 1, 2, 4, 8, 16, 32], at: 3, unit: " µs" }, LINK],
    change: ({ launch, link }) => [["launch", launch + " us"], ["link", `switch ${link} GB/s 3 us`]],
    flags: () => [], csv: "plots/04_lenet_multi_gpu_modelled.csv",
    show(csv) {
        const rows = rowsOf(csv);
        const column = (way, at) => rows.filter((row) => row[1] === way).map((row) => [Number(row[2]), Number(row[at])]);
        const program = column("program", 3), graph = column("graph", 3), times = (epochs) => (epochs[3][1] / epochs[0][1]).toPrecision(2);
        return [drawLines("Seconds of an epoch over devices", [[1, "1 device"], [2, "2"], [4, "4"], [8, "8"]],
            [[0.01, "10 ms"], [0.1, "0.1 s"], [1, "1 s"], [10, "10 s"]],
            [["one by one", program], ["as a CUDA graph", graph], ["launches alone", column("program", 5)]]),
        `An epoch on eight devices takes ${times(program)} times as long as on one if the host launches one by one, ${times(graph)} times with a CUDA graph.`];
    },
}];

function makeSlider({ name, label, values, at, unit }, given) {
    const text = element("label", label + " "), input = element("input", ""), output = element("output", "");
    Object.assign(input, { type: "range", min: 0, max: values.length - 1, name });
    input.value = given.get(name) || at;
    input.chosen = () => values[input.value];
    input.show = () => { output.textContent = input.chosen() + unit; };
    text.append(input, output);
    return [text, input];
}

function makeFigure({ program, sliders, change, flags, csv, images, show }, still) {
    const place = element("div", "", "in-browser"), chart = element("figure", "", "curves"), said = element("p", "");
    const id = "move-" + program.slice(0, 2), [where, settings] = location.hash.slice(1).split("?");
    const given = new URLSearchParams(where === id ? settings : ""), controls = element("div", "", "sliders");
    const inputs = sliders.map((slider) => {
        const [label, input] = makeSlider(slider, given);
        controls.append(label);
        return input;
    });
    place.id = id;
    place.append(element("p", images ? "Move it: computed in this tab, of real images." :
        "Move it: modelled in this tab, on a machine like dgx-a100 but for these:"), controls, chart, said);
    still.after(place);

    let machine = null, starting = null, worker = null, busy = false, again = false, asked = "", printed = "";
    function compute() {
        again = busy;
        if (busy) return;
        busy = true;
        printed = "";
        if (!machine) return worker.run(["--machine", "print:dgx-a100"], {});
        asked = inputs.map((input) => input.value).join();
        const values = Object.fromEntries(inputs.map((input) => [input.name, input.chosen()]));
        const text = change(values).reduce((all, [field, line]) => all.replace(new RegExp(`^${field} .*`, "m"), field + " " + line), machine);
        const how = images ? [] : ["--curves", "--backend", "model"];
        worker.run([...how, "--machine", "./this.machine", ...flags(values).map(String)],
            { "this.machine": new TextEncoder().encode(text), "images/none": new Uint8Array(0), ...(images ? shipped() : {}) });
    }
    function told(message) {
        if (message.text) printed += message.text;
        if (!("status" in message)) return;
        busy = false;
        const first = !machine, result = message.status === 0 && (images ? printed : message.files[csv]);
        if (first) machine = printed;
        else if (result) [chart.innerHTML, said.textContent] = show(images ? result : new TextDecoder().decode(result));
        else said.textContent = "It cannot be computed: " + printed;
        if (!first) place.dataset.shown = asked;
        if (again || first) compute();
    }
    async function moved() {
        for (const input of inputs) input.show();
        if (images) await loadFiles("images.js", "images/t10k-labels-idx1-ubyte");
        starting = starting || workerOf(program, told); // once, however soon one moves again
        worker = await starting;
        compute();
    }
    for (const input of inputs) {
        input.addEventListener("input", moved);
        input.addEventListener("change", () => history.replaceState(null, "", `#${id}?` + inputs.map((one) => one.name + "=" + one.value).join("&")));
    }
    new IntersectionObserver((seen, observer) => {
        if (!seen.some(({ isIntersecting }) => isIntersecting)) return;
        observer.disconnect();
        moved();
    }, { rootMargin: "400px" }).observe(place);
    if (where === id) place.scrollIntoView();
}
for (const figure of FIGURES)
    for (const image of document.querySelectorAll(`figure img[src$="${figure.still}"]`)) makeFigure(figure, image.closest("figure"));
