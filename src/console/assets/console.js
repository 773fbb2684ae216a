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

// A form that a person fills in is not taken away.
function busy(live) {
  const field = document.activeElement;
  return live.contains(field) && /^(INPUT|TEXTAREA|BUTTON|SELECT|SUMMARY)$/.test(field.tagName);
}

// What a person opened or closed stays so.
function keepOpen(live, next) {
  const known = new Map();
  for (const one of live.querySelectorAll("details[data-key]")) known.set(one.dataset.key, one.open);
  for (const one of next.querySelectorAll("details[data-key]")) {
    if (known.has(one.dataset.key)) one.open = known.get(one.dataset.key);
  }
}

async function refresh() {
  const live = document.getElementById("live");
  if (!live) return;
  if (loading) { again = true; return; }
  loading = true;
  try {
    const answer = await fetch(`${location.pathname}?update=1`, { headers: { accept: "text/html" }, cache: "no-store" });
    if (answer.status === 401) { location.reload(); return; }
    if (!answer.ok) throw new Error(String(answer.status));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.getElementById("live");
    if (next && !busy(live)) {
      times(next);
      keepOpen(live, next);
      if (next.innerHTML !== live.innerHTML) {
        const down = atEnd();
        live.replaceChildren(...next.childNodes);
        if (down) toEnd();
      }
      for (const kind of ["data-working", "data-polls"]) live.toggleAttribute(kind, next.hasAttribute(kind));
    }
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

function follow() {
  const events = new EventSource("/events");
  events.addEventListener("changed", refresh);
  events.onopen = refresh;
  events.onerror = () => {
    // Says that Hearth does not answer, unless the stream has only ended.
    setTimeout(refresh, 200);
    // The browser opens it again by itself, unless the answer was no stream.
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, 2000);
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
  text.addEventListener("keydown", (key) => {
    if (key.key === "Enter" && !key.shiftKey && !key.isComposing) { key.preventDefault(); form.requestSubmit(); }
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const sent = text.value;
    const files = form.elements.file;
    if ((!sent.trim() && !files.files.length) || form.dataset.sending) return;
    const trouble = document.getElementById("trouble");
    form.dataset.sending = "1";
    try {
      const answer = await fetch(form.action, { method: "POST", body: new FormData(form) });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("say");
      if (!answer.ok || !next) {
        // What was written stays in the field.
        trouble.textContent = (page.querySelector(".problem") || page.body).textContent;
        trouble.hidden = false;
        return;
      }
      trouble.hidden = true;
      // The id of a message that was taken is not used again, so it cannot be sent twice.
      form.elements.id.value = next.elements.id.value;
      if (text.value === sent) text.value = "";
      files.value = "";
      const live = page.getElementById("live");
      times(live);
      document.getElementById("live").replaceWith(live);
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

times(document);
// A browser without a session gets no events.
function poll() {
  const live = document.getElementById("live");
  if (!live.hasAttribute("data-polls")) return;
  setTimeout(async () => { await refresh(); poll(); }, 1500);
}

if (document.querySelector("#live[data-polls]")) poll();
else if (offline && document.getElementById("live")) { follow(); watch(); }
compose();
toEnd();
