// check.js: looks at each page of the book as a reader's browser shows it. check.sh makes a page of it
// that defines BOOK (the address of its folder, with a / at the end) and FILES (all files in there), opens
// that page in a browser, and reads what it says below: a line "fault PAGE: WHAT" for each fault, and last
// "checked N pages". Errors of scripts go to the console, whose lines check.sh reads, too.
"use strict";

const WIDTHS = [390, 1280]; // a phone, a screen
const lines = [];
const idsOf = {};  // of each page
const links = [];  // {page, href, target}: an address in this folder, or with file: out of it
function fault(page, what) { lines.push("fault " + page + ": " + what); }

// Resolves to the window of the page, `width` pixels wide.
function load(page, width) {
    const frame = document.createElement("iframe");
    frame.width = width;
    frame.height = 800;
    frame.style.border = 0;
    return new Promise((resolve, reject) => {
        setTimeout(() => reject(new Error("does not load")), 60000);
        frame.onload = () => resolve(frame.contentWindow);
        console.log("page " + page); // says whose the errors behind it are
        frame.src = BOOK + page;
        document.body.append(frame);
    });
}

async function checkPictures(page, view) {
    for (const image of view.document.images) {
        image.loading = "eager";
        await image.decode().catch(() => {});
        if (image.naturalWidth === 0) fault(page, "a picture without pixels: " + image.getAttribute("src"));
        for (const needed of ["width", "height", "alt"])
            if (!image.hasAttribute(needed)) fault(page, "a picture without " + needed + ": " + image.getAttribute("src"));
    }
}

// What is in something that scrolls by itself may be as wide as it likes.
function scrollsByItself(view, element) {
    for (let at = element.parentElement; at && at !== view.document.body; at = at.parentElement)
        if (view.getComputedStyle(at).overflowX !== "visible") return true;
    return false;
}

function checkWidth(page, view, width) {
    for (const pre of view.document.querySelectorAll(".commands"))
        if (pre.scrollWidth > pre.clientWidth)
            fault(page, "commands are cut off in a window of " + width + ": " + pre.textContent.trim().slice(0, 40));
    const across = view.document.documentElement.scrollWidth;
    if (across <= view.innerWidth) return;
    let widest = view.document.body, right = 0;
    for (const element of view.document.body.querySelectorAll("*")) {
        const end = element.getBoundingClientRect().right;
        if (end > right && !scrollsByItself(view, element)) [widest, right] = [element, end];
    }
    const tag = widest.cloneNode(false).outerHTML.replace(/<\/.*/, "");
    fault(page, across + " pixels across in a window of " + width + "; widest: " + tag + " " +
        widest.textContent.trim().replace(/\s+/g, " ").slice(0, 40));
}

function isInBook(url) {
    return url.startsWith(BOOK) && FILES.includes(decodeURIComponent(url.slice(BOOK.length)));
}

// Everything that a page loads comes from the book, and it has one of what belongs there once.
function checkOutline(page, view) {
    for (const element of view.document.querySelectorAll("[src], link[href]")) {
        const url = element.src || element.href;
        if (!isInBook(url) && !url.startsWith("data:")) fault(page, "loads what is not in the book: " + url);
    }
    for (const part of ["main", "body > header", "h1", "head > title"]) {
        const number = view.document.querySelectorAll(part).length;
        if (number !== 1) fault(page, number + " elements " + part + ", where one belongs");
    }
    const seen = idsOf[page] = new Set();
    for (const { id } of view.document.querySelectorAll("[id]")) {
        if (seen.has(id)) fault(page, "two elements have the id " + id);
        seen.add(id);
    }
    for (const link of view.document.querySelectorAll("a[href]"))
        if (link.protocol === "file:") links.push({ page, href: link.getAttribute("href"), target: link.href });
}

// What one sees who points at names that headers declare.
function checkDeclarations(page, view) {
    const box = view.document.getElementById("declaration");
    const tried = new Set();
    for (const link of view.document.querySelectorAll("a.d")) {
        const name = link.textContent;
        if (tried.has(name)) continue;
        tried.add(name);
        link.dispatchEvent(new view.MouseEvent("mouseenter"));
        if (!box || box.hidden || !box.textContent.includes(name.replace(/\(\)$/, "").replace(/^.*:/, "")))
            fault(page, "pointing at " + name + " does not show its declaration");
        link.dispatchEvent(new view.MouseEvent("mouseleave"));
        if (box && !box.hidden) fault(page, "the declaration of " + name + " stays");
    }
}

// A bar says what it is, and the keys below it zoom.
async function checkTimelines(page, view) {
    for (const figure of view.document.querySelectorAll("figure.timeline")) {
        const frame = figure.querySelector(".zoom");
        if (!frame.querySelector("svg")) await view.loadTimeline(figure);
        const svg = frame.querySelector("svg[viewBox][aria-label]"), bar = frame.querySelector("[data-says]");
        if (!svg || !bar) {
            fault(page, bar ? "a timeline that cannot be zoomed" : "a timeline whose bars say nothing");
            continue;
        }
        bar.dispatchEvent(new view.PointerEvent("pointermove", { bubbles: true, clientX: 5, clientY: 5 }));
        const value = view.document.getElementById("value");
        if (value.hidden || value.textContent !== bar.dataset.says)
            fault(page, "pointing at a timeline's bar does not show " + bar.dataset.says);
        const [larger, , all] = figure.querySelectorAll(".zoom-keys button");
        const width = () => svg.getBoundingClientRect().width, whole = width();
        larger.click();
        if (width() <= whole) fault(page, "a timeline does not zoom");
        all.click();
        if (width() !== whole) fault(page, "a timeline does not zoom out again");
    }
}

// A question hides the output that answers it and what follows, until it is answered or until one wants none; the page
// remembers that.
async function checkQuestions(page, view) {
    const boxes = [...view.document.querySelectorAll(".predict[data-answer]")], later = () => view.document.querySelector(".later");
    if (!boxes.length) return;
    if (!later()) fault(page, "its questions hide nothing");
    for (const first of boxes.map((box) => view.behind(box)[0]))
        if (first && !first.matches(".output, figure") && !first.querySelector(".output, figure"))
            fault(page, "a question hides more than what answers it: " + first.textContent.trim().slice(0, 40));
    const { answer } = boxes[0].dataset, [button] = boxes[0].querySelectorAll("button"), input = boxes[0].querySelector("input");
    if (input) input.value = 2 * answer + 1;
    button.click();
    const says = boxes[0].querySelector(".answer").textContent;
    if (view.behind(boxes[0]).some((element) => element.matches(".later")) || !says.includes("You said ") ||
        !says.includes("The answer is " + view.rounded(answer)))
        fault(page, "a question is answered by " + says);
    view.askNoMore();
    if (later()) fault(page, "it asks although one wants no questions");
    const again = await load(page, WIDTHS[0]);
    if (again.document.querySelector(".later")) fault(page, "it forgets that one wants no questions");
    again.document.querySelector(".skip-answer").click();
    if (!again.document.querySelector(".later")) fault(page, "it does not ask again");
    again.frameElement.remove();
}

// The program runs and prints what it does; it says what is wrong with its flags, and can be stopped.
// (What it computes: tests/wasm_test.sh.)
async function checkRun(page, place) {
    const form = place.querySelector("form"), line = form.querySelector("textarea"), button = form.querySelector("button");
    let told = ""; // how long a training still takes
    async function run(flags) {
        line.value = flags;
        button.click();
        for (let tenths = 0; !form.dataset.ended && tenths < 600; tenths++) {
            await new Promise((done) => setTimeout(done, 100));
            told = form.querySelector(".doing").textContent || told;
        }
        return form.dataset.ended + ": " + form.querySelector(".printed").textContent;
    }
    const { flags } = place.dataset, trains = flags.includes("--train-size"); // the others end too soon to be stopped
    const good = await run(trains ? "--train-size 256 --test-size 100 --epochs 1 --batch-size 64" : flags);
    if (!/^0: [^]*\n[^]*came out: /.test(good)) fault(page, "its program does not run: " + good.slice(-300));
    const bad = await run("--wrong");
    if (!/^2: [^]*error: .*wrong[^]*hint: /.test(bad)) fault(page, "a wrong flag is not refused: " + bad.slice(0, 200));
    if (!trains) return;
    setTimeout(() => button.click(), 2000);
    const stopped = await run(flags);
    if (!stopped.startsWith("stopped: ")) fault(page, "its program does not stop: " + stopped.slice(0, 100));
    if (!/^epoch \d+\/20, loss .*: about \d+ s left$/.test(told)) fault(page, "it tells not how long it takes: " + told);
}

// Waits until a figure shows these places of its sliders, or for five seconds.
async function showsPlaces(place, wanted) {
    for (let turns = 0; place.dataset.shown !== wanted && turns < 500; turns++) await new Promise((done) => setTimeout(done, 10));
    return place.dataset.shown === wanted && place.querySelector("svg");
}

// A figure is there before one moves it, and shows each place of its sliders, soon: as many as no browser has memory for,
// should what they computed stay there.
async function checkFigure(page, place) {
    const sliders = [...place.querySelectorAll("input")], places = () => sliders.map((slider) => slider.chosen()).join();
    const untouched = places();
    place.scrollIntoView();
    if (!await showsPlaces(place, untouched)) return fault(page, "a figure that nobody has moved shows " + place.dataset.shown);
    const begin = performance.now();
    for (let i = 0; i < 130; i++) {
        for (const slider of sliders) slider.value = i % (Number(slider.max) + 1);
        sliders[0].dispatchEvent(new Event("input"));
        if (!await showsPlaces(place, places()))
            return fault(page, "a figure stays at " + place.dataset.shown + ", not " + places() + ": " + place.textContent.slice(-200));
    }
    const each = Math.round((performance.now() - begin) / 130);
    if (each > 300) fault(page, each + " ms for a place of a figure's sliders");

    // A link to it opens what a question hides.
    const settings = new URLSearchParams(sliders.map((slider) => [slider.name, slider.chosen()]));
    for (const [address, wanted] of [[place.id, untouched], [place.id + "?" + settings, places()]]) {
        const again = await load(page + "#" + address, WIDTHS[0]);
        for (let turns = 0; !again.document.getElementById(place.id) && turns < 500; turns++) await new Promise((done) => setTimeout(done, 10));
        const linked = again.document.getElementById(place.id);
        if (!await showsPlaces(linked, wanted)) fault(page, "its address ends with #" + address + ", and the figure shows " + linked.dataset.shown);
        again.frameElement.remove();
    }
}

// Each page is found by its title, and each question by its own words and by others (paraphrases.js).
async function checkSearch(page, view) {
    const box = view.document.getElementById("search"), found = view.document.getElementById("found");
    async function addressesFor(words) {
        box.value = words;
        await view.search();
        return Array.from(found.querySelectorAll("a"), (link) => link.href);
    }
    const title = view.document.querySelector("h1").lastChild.textContent.trim();
    if (!(await addressesFor(title)).some((url) => url.split("#")[0] === BOOK + page)) fault(page, "the search does not find " + title);
    if (page !== "questions.html") return;
    for (const { id } of view.document.querySelectorAll("h3[id]"))
        if (!PARAPHRASES[id]) fault(page, "no other words for the question " + id);
    for (const [id, others] of Object.entries(PARAPHRASES)) {
        const heading = view.document.getElementById(id);
        for (const words of [heading ? heading.textContent.replace(/#$/, "") : id, ...others])
            if (!(await addressesFor(words)).slice(0, 3).includes(BOOK + page + "#" + id))
                fault(page, "the search does not find " + id + " by " + words);
    }
}

function checkLinks() {
    const told = new Set();
    for (const { page, href, target } of links) {
        const [file, id] = target.split("#");
        const ids = idsOf[decodeURIComponent(file.slice(BOOK.length))];
        const isThere = isInBook(file) && (!id || !ids || ids.has(decodeURIComponent(id)));
        if (isThere || told.has(page + href)) continue;
        told.add(page + href);
        fault(page, "a link that leads nowhere: " + href);
    }
}

async function checkPage(page) {
    for (const width of WIDTHS) {
        const view = await load(page, width);
        if (width === WIDTHS[0]) await checkQuestions(page, view);
        view.askNoMore();
        view.keep("predict", "on"); // for the next page
        for (const fold of view.document.querySelectorAll("details")) fold.open = true;
        await checkPictures(page, view);
        checkWidth(page, view, width);
        if (width === WIDTHS[0]) {
            checkOutline(page, view);
            checkDeclarations(page, view);
            await checkTimelines(page, view);
            await checkSearch(page, view);
            for (const place of view.document.querySelectorAll("div.in-browser")) await checkFigure(page, place);
            for (const program of view.document.querySelectorAll("[data-program]")) await checkRun(page, program);
        }
        view.frameElement.remove();
    }
}

// The browser ends when this page is loaded: when this document in it is closed.
async function checkAll() {
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    frame.contentDocument.open();
    const pages = FILES.filter((name) => name.endsWith(".html"));
    for (const page of pages) await checkPage(page).catch((error) => fault(page, error.message));
    checkLinks();
    lines.push("checked " + pages.length + " pages");
    for (const line of lines) console.log(line);
    frame.contentDocument.close();
}
checkAll();
