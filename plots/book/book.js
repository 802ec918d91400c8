// book.js: light and dark, declarations of the names that one points at, and timelines to zoom.
// A page can be read without it.
"use strict";

function element(name, text, className) {
    const made = document.createElement(name);
    made.textContent = text;
    if (className) made.className = className;
    return made;
}

// ---- light and dark -----------------------------------------------------------------------------

const page = document.documentElement;

function isDark() {
    return page.dataset.theme ? page.dataset.theme === "dark"
        : matchMedia("(prefers-color-scheme: dark)").matches;
}

document.getElementById("theme").addEventListener("click", () => {
    page.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("theme", page.dataset.theme); } catch (e) { /* not kept */ }
});

// ---- sections -----------------------------------------------------------------------------------

for (const heading of document.querySelectorAll("main :is(h2, h3, h4)[id]")) {
    const anchor = element("a", "#", "anchor");
    anchor.href = "#" + heading.id;
    anchor.setAttribute("aria-label", "Link to this section");
    heading.append(anchor);
}

// The contents show which section is being read.
const entries = new Map();
for (const entry of document.querySelectorAll(".contents a")) {
    const heading = document.getElementById(decodeURIComponent(entry.hash.slice(1)));
    if (heading) entries.set(heading, entry);
}
let current = null;
function showCurrent() {
    let last = null;
    for (const heading of entries.keys())
        if (heading.getBoundingClientRect().top < 120) last = heading;
    if (last === current) return;
    if (current) entries.get(current).removeAttribute("aria-current");
    if (last) {
        entries.get(last).setAttribute("aria-current", "true");
        if (innerWidth >= 1120) entries.get(last).scrollIntoView({ block: "nearest" });
    }
    current = last;
}
let asked = false;
function askForCurrent() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; showCurrent(); });
}
if (entries.size) addEventListener("scroll", askForCurrent, { passive: true });

// ---- declarations -------------------------------------------------------------------------------

const declaration = document.createElement("div");
declaration.id = "declaration";
declaration.setAttribute("role", "tooltip");
declaration.hidden = true;
document.body.append(declaration);

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
    link.addEventListener("mouseenter", () => showDeclaration(link));
    link.addEventListener("focus", () => showDeclaration(link));
    link.addEventListener("mouseleave", hideDeclaration);
    link.addEventListener("blur", hideDeclaration);
}
addEventListener("keydown", (event) => { if (event.key === "Escape") hideDeclaration(); });

// A link to something that is folded away opens it.
function openTarget() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement)
        if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
}
addEventListener("hashchange", openTarget);
openTarget();

// ---- timelines ----------------------------------------------------------------------------------

const value = document.createElement("div");
value.id = "value";
value.hidden = true;
document.body.append(value);

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

function makeZoomable(frame) {
    const svg = frame.querySelector("svg");
    if (!svg || !svg.viewBox.baseVal) return;
    takeTitles(svg);
    const whole = pick(svg.viewBox.baseVal);
    let view = { ...whole }, held = null;
    function show() {
        view.width = Math.min(view.width, whole.width);
        view.height = whole.height * view.width / whole.width;
        view.x = Math.max(whole.x, Math.min(view.x, whole.x + whole.width - view.width));
        view.y = Math.max(whole.y, Math.min(view.y, whole.y + whole.height - view.height));
        svg.setAttribute("viewBox", [view.x, view.y, view.width, view.height].join(" "));
    }
    function zoom(times, clientX, clientY) {
        const at = svg.getBoundingClientRect();
        const fx = (clientX - at.left) / at.width, fy = (clientY - at.top) / at.height;
        const width = Math.max(whole.width / 60, Math.min(whole.width, view.width / times));
        const height = whole.height * width / whole.width;
        view.x += (view.width - width) * fx;
        view.y += (view.height - height) * fy;
        view.width = width;
        show();
    }
    function zoomMiddle(times) {
        const at = svg.getBoundingClientRect();
        zoom(times, at.left + at.width / 2, at.top + at.height / 2);
    }
    svg.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
        event.preventDefault();
        zoom(event.deltaY < 0 ? 1.25 : 0.8, event.clientX, event.clientY);
    }, { passive: false });
    svg.addEventListener("dblclick", (event) => zoom(2, event.clientX, event.clientY));
    svg.addEventListener("pointerdown", (event) => { held = { x: event.clientX, y: event.clientY }; });
    addEventListener("pointerup", () => { held = null; });
    svg.addEventListener("pointermove", (event) => {
        showValue(event);
        if (!held) return;
        const at = svg.getBoundingClientRect();
        view.x -= (event.clientX - held.x) * view.width / at.width;
        view.y -= (event.clientY - held.y) * view.height / at.height;
        held = { x: event.clientX, y: event.clientY };
        show();
    });
    svg.addEventListener("pointerdown", showValue);
    // A finger leaves as soon as it has tapped.
    svg.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") value.hidden = true; });
    const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", "Timeline: + and - zoom, arrows move");
    frame.addEventListener("keydown", (event) => {
        const step = STEPS[event.key];
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.key === "+" || event.key === "-") zoomMiddle(event.key === "+" ? 1.6 : 1 / 1.6);
        else if (step && view.width < whole.width) {
            event.preventDefault();
            view.x += step[0] * view.width / 8;
            view.y += step[1] * view.height / 8;
            show();
        }
    });
    const keys = element("div", "", "zoom-keys");
    for (const [text, label, act] of [
        ["+", "Larger", () => zoomMiddle(1.6)], ["−", "Smaller", () => zoomMiddle(1 / 1.6)],
        ["All of it", "All of it", () => { view = { ...whole }; show(); }]]) {
        const button = element("button", text);
        button.type = "button";
        button.setAttribute("aria-label", label);
        button.addEventListener("click", act);
        keys.append(button);
    }
    keys.append(element("span", "Point at a bar to read it; drag to move."));
    frame.after(keys);
}

function pick(box) { return { x: box.x, y: box.y, width: box.width, height: box.height }; }

// Timelines are large, so each is loaded, as a script that calls showTimeline(), when it is near.
const loading = new Map(); // name -> { figure, done, promise }

function showTimeline(name, svg) {
    const { figure, done } = loading.get(name);
    const frame = figure.querySelector(".zoom");
    frame.innerHTML = svg;
    makeZoomable(frame);
    done();
}

function loadTimeline(figure) {
    const name = figure.dataset.timeline;
    if (!loading.has(name)) {
        const script = element("script", ""), entry = { figure };
        entry.promise = new Promise((done) => { entry.done = done; });
        loading.set(name, entry);
        script.src = name + ".js";
        script.onerror = entry.done; // the PNG stays
        document.head.append(script);
    }
    return loading.get(name).promise;
}

const near = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen)
        if (isIntersecting) loadTimeline(target);
}, { rootMargin: "800px" });
for (const figure of document.querySelectorAll("figure.timeline")) near.observe(figure);

addEventListener("pointerdown", (event) => { if (!event.target.closest(".zoom")) value.hidden = true; });
addEventListener("scroll", () => { value.hidden = true; }, { passive: true });
