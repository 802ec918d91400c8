// book.js: light and dark, search, copies of code, declarations of the names that one points at, questions whose answer
// is hidden until one has guessed, and timelines to zoom.
// A page can be read without it.
"use strict";

function element(name, text, className) {
    const made = document.createElement(name);
    made.textContent = text;
    if (className) made.className = className;
    return made;
}

function keep(name, text) {
    try { localStorage.setItem(name, text); } catch (e) { /* not kept */ }
}
function kept(name) {
    try { return localStorage.getItem(name); } catch (e) { return null; }
}

// ---- light and dark -----------------------------------------------------------------------------

const page = document.documentElement;

document.getElementById("theme").addEventListener("click", () => {
    page.dataset.theme = page.dataset.theme === "dark" ? "light" : "dark";
    keep("theme", page.dataset.theme);
});

// ---- sections -----------------------------------------------------------------------------------

for (const heading of document.querySelectorAll("main :is(h2, h3, h4)[id]")) {
    const anchor = element("a", "#", "anchor");
    anchor.href = "#" + heading.id;
    anchor.setAttribute("aria-label", "Link to this section");
    heading.append(anchor);
}

// The contents show which section is being read: the last whose heading came to the top.
const entryOf = (heading) => document.querySelector('.contents a[href="#' + CSS.escape(heading.id) + '"]');
const reading = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) {
        if (!isIntersecting || !entryOf(target)) continue;
        for (const old of document.querySelectorAll(".contents [aria-current]")) old.removeAttribute("aria-current");
        entryOf(target).setAttribute("aria-current", "true");
        if (innerWidth >= 1120) entryOf(target).scrollIntoView({ block: "nearest" });
    }
}, { rootMargin: "0px 0px -85% 0px" });
for (const heading of document.querySelectorAll("main :is(h2, h3)[id]")) reading.observe(heading);

// ---- search, and copies of code -----------------------------------------------------------------

const root = document.querySelector(".home").getAttribute("href").replace("index.html", "");
const box = document.getElementById("search"), found = document.getElementById("found");

function load(name) {
    return new Promise((done, fail) => {
        const script = element("script", "");
        script.src = root + name;
        script.onload = done;
        script.onerror = fail;
        document.head.append(script);
    });
}

// Sections, and what headers declare, are indexed when one begins to search: [url, title, page, text, other words for it].
let indexed = [], searchable = null;
async function makeSearchable() {
    await load("lunr.js");
    await load("sections.js");
    lunr.tokenizer.separator = /[\s\-,()\/:;?!"“”]+|\.(?!\d)/;
    const declared = Object.entries(DECLARATIONS).map(([url, [header, text, about]]) =>
        [url, url.replace(/.*#n-/, ""), header, about + " " + text]);
    indexed = SECTIONS.concat(declared);
    return lunr(function () {
        this.field("title", { boost: 4 });
        this.field("page", { boost: 2 });
        this.field("text");
        this.field("words", { boost: 4 });
        indexed.forEach(([, title, page, text, words], id) => {
            this.add({ id, title: title + " " + title.replace(/_/g, " "), page, text, words }, { boost: words ? 1.5 : id < SECTIONS.length ? 1 : 0.3 });
        });
    });
}

// The words around the first that was looked for.
function context(text, words) {
    const lower = text.toLowerCase();
    const at = Math.min(...words.filter((word) => /\d|.{4}/.test(word)).map((word) => lower.indexOf(word)).filter((i) => i >= 0), text.length);
    const from = at < text.length ? Math.max(0, text.lastIndexOf(" ", at - 40)) : 0;
    return (from ? "…" : "") + text.slice(from, from + 140) + "…";
}

async function search() {
    const words = box.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
    found.hidden = !words.length;
    if (!words.length) return;
    const index = await (searchable = searchable || makeSearchable());
    const stems = lunr.tokenizer(words.join(" ")).filter(lunr.stopWordFilter).map((token) => String(lunr.stemmer(token)));
    const { REQUIRED, OPTIONAL } = lunr.Query.presence;
    const hitsWith = (presence) => index.query((query) => {
        for (const stem of stems) {
            const wildcard = stem.length < 3 ? lunr.Query.wildcard.NONE : lunr.Query.wildcard.TRAILING;
            query.term(stem, { presence, wildcard, usePipeline: false });
            query.term(stem, { boost: 5, usePipeline: false });
        }
    });
    const all = stems.length ? hitsWith(REQUIRED) : [], have = new Set(all.map(({ ref }) => ref));
    const hits = all.concat(stems.length ? hitsWith(OPTIONAL).filter(({ ref }) => !have.has(ref)) : []).slice(0, 12);
    found.replaceChildren(...hits.map(({ ref }) => {
        const [url, title, page, text] = indexed[ref], hit = element("li", ""), link = element("a", title);
        link.href = root + url;
        hit.append(link, element("small", page), element("p", context(text, words)));
        return hit;
    }));
    if (!hits.length) found.append(element("li", "Nothing. Try another word."));
}
box.addEventListener("input", search);
box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") found.hidden = true;
    if (event.key === "Enter" && found.querySelector("a")) found.querySelector("a").click();
});
addEventListener("pointerdown", (event) => { found.hidden = found.hidden || !event.target.closest("search"); });
found.addEventListener("click", () => { found.hidden = true; });

for (const pre of document.querySelectorAll(".code pre, .pytorch pre, main > pre, main details > pre")) {
    const button = element("button", "Copy", "copy");
    button.type = "button";
    button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(pre.textContent);
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    pre.before(button);
}

// ---- declarations -------------------------------------------------------------------------------

// A box that is shown when one points at something.
function hiddenBox(id) {
    const made = element("div", "");
    made.id = id;
    made.setAttribute("role", "tooltip");
    made.hidden = true;
    document.body.append(made);
    return made;
}
const declaration = hiddenBox("declaration"), value = hiddenBox("value");

function showDeclaration(link) {
    const key = link.getAttribute("href").replace(/^(\.\.\/)+/, "");
    const entry = DECLARATIONS[key];
    if (!entry) return;
    const [header, text, about] = entry;
    const code = document.createElement("pre");
    code.append(element("code", text));
    declaration.replaceChildren(element("div", header, "from"), code, element("p", about));
    declaration.hidden = false;
    const at = link.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, innerWidth - declaration.offsetWidth - 16));
    const below = at.bottom + 6, above = at.top - declaration.offsetHeight - 6;
    const top = below + declaration.offsetHeight > innerHeight && above > 0 ? above : below;
    declaration.style.left = left + scrollX + "px";
    declaration.style.top = top + scrollY + "px";
}

function hideDeclaration() { declaration.hidden = true; }

for (const link of document.querySelectorAll("a.d")) {
    for (const begins of ["mouseenter", "focus"]) link.addEventListener(begins, () => showDeclaration(link));
    for (const ends of ["mouseleave", "blur"]) link.addEventListener(ends, hideDeclaration);
}
addEventListener("keydown", (event) => { if (event.key === "Escape") hideDeclaration(); });

// ---- predict first ------------------------------------------------------------------------------

// The output that answers a question, and what speaks of it to the end of the section or to the next question, comes later:
// when one has answered. The argument and the code stand before that output.
function behind(box) {
    const list = [], shows = (element) => element.matches(".output, figure") || element.querySelector(".output, figure");
    for (let at = box.nextElementSibling; at && !at.matches("h2, h3, .predict[data-answer], .turn"); at = at.nextElementSibling)
        if (list.length || shows(at)) list.push(at);
    return list;
}
const reveal = (box) => behind(box).forEach((element) => element.classList.remove("later"));
const questions = [...document.querySelectorAll("main > .predict[data-answer]")];

// As one would say it: 1.3981 is 1.4.
function rounded(answer) {
    return isNaN(answer) ? answer : Number(answer).toLocaleString("en", { maximumSignificantDigits: 3 });
}
function sayAnswer(box, said) {
    const { answer, unit } = box.dataset, with_unit = (number) => (number + " " + unit).trim(), shown = with_unit(rounded(answer));
    const off = Math.abs(said - answer) / Math.abs(answer);
    const verdict = said === answer || off <= 0.005 ? ": right." : off <= 0.2 ? ", which is close." : ".";
    const text = element("p", said === "" ? `The answer is ${shown}.` : `You said ${with_unit(said)}${verdict} The answer is ${shown}.`, "answer");
    text.tabIndex = -1;
    box.querySelector("form").replaceWith(text);
    reveal(box);
    return text;
}

function ask(box) {
    const { answer, unit } = box.dataset, form = element("form", ""), number = element("input", "");
    const buttons = /^(yes|no)$/.test(answer) ? ["yes", "no"] : ["Answer"];
    Object.assign(number, { type: "number", step: "any", required: true });
    number.setAttribute("aria-label", "Your answer, in " + (unit || "figures"));
    form.append(...(buttons.length > 1 ? [] : [number, unit + " "]), ...buttons.map((text) => element("button", text)));
    for (const [text, act] of [["Show the answer", () => sayAnswer(box, "")], ["Do not ask me again", askNoMore]]) {
        const skip = element("button", text, "skip-answer");
        skip.type = "button";
        skip.addEventListener("click", act);
        form.append(skip);
    }
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        sayAnswer(box, buttons.length > 1 ? event.submitter.textContent : number.value).focus();
    });
    const later = behind(box);
    if (later.length) form.append(element("small", "The rest of this section appears when you have answered."));
    box.append(form);
    later.forEach((element) => element.classList.add("later"));
}
function askNoMore() {
    keep("predict", "off");
    for (const box of questions.filter((box) => box.querySelector("form"))) sayAnswer(box, "");
    offerToAsk();
}
function offerToAsk() {
    const again = element("button", "Ask me first", "skip-answer");
    again.type = "button";
    again.addEventListener("click", () => {
        keep("predict", "on");
        again.remove();
        questions.forEach(ask);
    });
    if (questions.length) questions[0].append(again);
}
if (kept("predict") === "off") offerToAsk();
else questions.forEach(ask);

// A link to something that is folded away, or comes later, opens it.
function showTarget(target) {
    for (let at = target; at; at = at.parentElement)
        if (at.tagName === "DETAILS") at.open = true;
    for (const box of questions)
        if (behind(box).some((element) => element.contains(target))) reveal(box);
    target.scrollIntoView();
}
function openTarget() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) showTarget(target);
}
addEventListener("hashchange", openTarget);
openTarget();

// ---- timelines ----------------------------------------------------------------------------------

// What a bar is stands in its <title>; browsers show that late, and on a phone never. So it is taken
// from there, or it would be shown twice.
function takeTitles(svg) {
    for (const title of svg.querySelectorAll("rect > title")) {
        title.parentElement.dataset.says = title.textContent;
        title.remove();
    }
}

function showValue(event) {
    const says = event.target.dataset && event.target.dataset.says;
    value.hidden = !says;
    if (!says) return;
    value.textContent = says;
    value.style.left = Math.min(event.clientX + 12, innerWidth - value.offsetWidth - 8) + "px";
    value.style.top = event.clientY + 16 + "px";
}

// A timeline takes the place of the one in its frame. What is larger than the frame scrolls in it.
function showZoomable(frame, text) {
    frame.innerHTML = text;
    const svg = frame.querySelector("svg");
    if (!svg) return;
    takeTitles(svg);
    svg.style.width = frame.dataset.width;
    if (!frame.hasAttribute("role")) makeZoomable(frame);
}
function makeZoomable(frame) {
    let times = 1;
    function zoom(by) {
        const x = (frame.scrollLeft + frame.clientWidth / 2) / frame.scrollWidth;
        const y = (frame.scrollTop + frame.clientHeight / 2) / frame.scrollHeight;
        times = Math.max(1, Math.min(30, times * by));
        frame.dataset.width = frame.querySelector("svg").style.width = 100 * times + "%";
        frame.scrollTo(x * frame.scrollWidth - frame.clientWidth / 2, y * frame.scrollHeight - frame.clientHeight / 2);
    }
    for (const moved of ["pointermove", "pointerdown"]) frame.addEventListener(moved, showValue);
    // A finger leaves as soon as it has tapped.
    frame.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") value.hidden = true; });
    frame.tabIndex = 0; // arrow keys move what is in it
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", "Timeline");
    const keys = element("div", "", "zoom-keys");
    for (const [text, label, by] of [["+", "Larger", 1.6], ["−", "Smaller", 1 / 1.6], ["All of it", "All of it", 0]]) {
        const button = element("button", text);
        button.type = "button";
        button.setAttribute("aria-label", label);
        button.addEventListener("click", () => zoom(by));
        keys.append(button);
    }
    keys.append(element("span", "Point at a bar, or tap it, to read it."));
    frame.after(keys);
}

// Timelines are large, so each is loaded, as a script that calls showTimeline(), when it is near; until then there is
// its PNG.
function showTimeline(name, svg) {
    showZoomable(document.querySelector('figure[data-timeline="' + name + '"] .zoom'), svg);
}
const loading = new Map();
function loadTimeline({ dataset: { timeline } }) {
    if (!loading.has(timeline)) loading.set(timeline, load(timeline + ".js").catch(() => {}));
    return loading.get(timeline);
}
const near = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen)
        if (isIntersecting) loadTimeline(target);
}, { rootMargin: "800px" });
for (const figure of document.querySelectorAll("figure.timeline")) near.observe(figure);

addEventListener("pointerdown", (event) => { if (!event.target.closest(".zoom")) value.hidden = true; });
addEventListener("scroll", () => { value.hidden = true; }, { passive: true });

// ---- programs that run here ---------------------------------------------------------------------

if (document.querySelector("[data-program]")) load("wasi.js").then(() => load("run.js"));
