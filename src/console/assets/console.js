// Keeps the page that is open up to date. Without this script, every page works and is loaded again by hand.
"use strict";

const offline = document.getElementById("offline");
let loading = false;
let again = false;

// Times are shown as the reader's clock shows them; their exact form is in the title.
function times(root) {
  for (const time of root.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    if (time.title || Number.isNaN(at.getTime())) continue;
    time.title = time.dateTime;
    const today = at.toDateString() === new Date().toDateString();
    time.textContent = today ? at.toLocaleTimeString() : at.toLocaleString();
  }
}

// What a person opened or closed stays so.
function keepOpen(live, next) {
  const known = new Map();
  for (const one of live.querySelectorAll("details[data-key]")) known.set(one.dataset.key, one.open);
  for (const one of next.querySelectorAll("details[data-key]")) {
    if (known.has(one.dataset.key)) one.open = known.get(one.dataset.key);
  }
}

const keyOf = (node) => node.id || node.dataset?.key;

// Changes only what differs, so that the focus and what is being written stay. A form is kept or replaced as a whole: the
// button that has the focus never comes to do something else.
function merge(old, next) {
  let at = old.firstChild;
  const wanted = [...next.childNodes];
  wanted.forEach((child, place) => {
    const rest = [];
    for (let node = at; node; node = node.nextSibling) rest.push(node);
    const equal = (node) => node.isEqualNode(child);
    // A row that only moved down is not made another one.
    const alike = (node) => child.nodeType === 1 && child.nodeName !== "FORM" && node.nodeName === child.nodeName &&
      keyOf(node) === keyOf(child) && !wanted.slice(place + 1).some((later) => later.isEqualNode(node));
    const same = rest.find(equal) || rest.find(alike);
    if (!same) { old.insertBefore(child, at); return; }
    while (at !== same) { const gone = at; at = at.nextSibling; gone.remove(); }
    at = same.nextSibling;
    if (equal(same)) return;
    for (const { name } of [...same.attributes]) if (!child.hasAttribute(name)) same.removeAttribute(name);
    for (const { name, value } of child.attributes) if (same.getAttribute(name) !== value) same.setAttribute(name, value);
    merge(same, child);
  });
  while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
}

// Shows another state of the page.
function show(page) {
  const live = document.getElementById("live");
  const next = page.getElementById("live");
  if (!live || !next) return;
  times(next);
  keepOpen(live, next);
  const down = atEnd();
  const had = live.contains(document.activeElement);
  const height = live.scrollHeight;
  for (const kind of ["data-working", "data-polls"]) live.toggleAttribute(kind, next.hasAttribute(kind));
  merge(live, next);
  // What had the focus is gone: a keyboard goes on from the page.
  if (had && !live.contains(document.activeElement)) document.getElementById("main").focus({ preventScroll: true });
  if (down && live.scrollHeight !== height) toEnd();
}

async function refresh() {
  if (!document.getElementById("live")) return;
  if (loading) { again = true; return; }
  loading = true;
  try {
    const query = new URLSearchParams(location.search);
    query.set("update", "1");
    const answer = await fetch(`${location.pathname}?${query}`, { headers: { accept: "text/html" }, cache: "no-store" });
    if (answer.status === 401) { location.reload(); return; }
    if (!answer.ok) throw new Error(String(answer.status));
    show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    if (offline) offline.hidden = true;
  } catch {
    if (offline) offline.hidden = false;
  } finally {
    loading = false;
    if (again) { again = false; setTimeout(refresh, 50); }
  }
}

function atEnd() {
  const root = document.documentElement;
  return Boolean(document.getElementById("say")) && root.scrollHeight - root.scrollTop - root.clientHeight < 160;
}

function toEnd() {
  if (document.getElementById("say")) window.scrollTo(0, document.documentElement.scrollHeight);
}

// Whether the page is told of changes. A browser without a session gets no events.
const follows = Boolean(offline && document.querySelector("#live:not([data-polls])"));
let events;

// Browsers open six connections to a host, and a stream keeps one of them: with a stream for each tab, the seventh would wait
// forever. So only pages that are seen have one. A page that is shown again first catches up.
function follow() {
  events?.close();
  events = undefined;
  if (document.hidden) return;
  const stream = new EventSource("/events");
  events = stream;
  stream.addEventListener("changed", refresh);
  stream.onopen = refresh;
  stream.onerror = () => {
    // Says that Hearth does not answer, unless the stream has only ended.
    setTimeout(refresh, 200);
    // The browser opens it again by itself, unless the answer was no stream.
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => { if (events === stream) follow(); }, 2000);
  };
}

// What an agent writes is no change of the store, so a page that shows it looks by itself.
function watch() {
  const live = document.getElementById("live");
  if (live && live.hasAttribute("data-working") && !document.hidden) refresh();
  setTimeout(watch, 700);
}

function compose() {
  const form = document.getElementById("say");
  if (!form) return;
  const text = form.elements.text;
  // On a touch keyboard, Enter is the only way to a new line.
  const touches = matchMedia("(pointer: coarse)").matches;
  text.addEventListener("keydown", (key) => {
    if (!touches && key.key === "Enter" && !key.shiftKey && !key.isComposing) { key.preventDefault(); form.requestSubmit(); }
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const sent = text.value;
    const files = form.elements.file;
    if ((!sent.trim() && !files.files.length) || form.dataset.sending) return;
    const trouble = document.getElementById("trouble");
    form.dataset.sending = "1";
    try {
      const data = new FormData(form);
      if (!files.files.length) data.delete("file");
      const body = files.files.length ? data : new URLSearchParams(data);
      const answer = await fetch(form.action, { method: "POST", body });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("say");
      if (!answer.ok || !next) {
        // What was written stays in the field.
        trouble.textContent = (page.querySelector(".problem") || page.body).textContent;
        trouble.hidden = false;
        return;
      }
      trouble.hidden = true;
      // Old messages are shown here, and not the new one.
      if (location.search) { location.assign(location.pathname); return; }
      // The id of a message that was taken is not used again, so it cannot be sent twice.
      form.elements.id.value = next.elements.id.value;
      if (text.value === sent) text.value = "";
      files.value = "";
      show(page);
      const note = page.querySelector(".note");
      document.querySelector(".note")?.remove();
      if (note) document.querySelector("h1").after(note);
      toEnd();
    } catch {
      // It is still in the field, with the same id: sending it again is safe.
      offline.hidden = false;
    } finally {
      delete form.dataset.sending;
    }
  });
}

// A page that the browser kept while others were open shows what holds now.
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  if (follows) follow(); else location.reload();
});

times(document);
// The page of a browser without a session looks by itself.
function poll() {
  const live = document.getElementById("live");
  if (!live.hasAttribute("data-polls")) return;
  setTimeout(async () => { await refresh(); poll(); }, 1500);
}

if (document.querySelector("#live[data-polls]")) poll();
else if (follows) { follow(); watch(); document.addEventListener("visibilitychange", follow); }
compose();
if (!location.hash) toEnd();
